"""Both wires from the host's side, as plainly as they can be written: for `demo.py`, which shows what goes over them.

A program that drives a NodeTool worker in earnest uses `nodetool_worker.bridge`.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

import msgpack

from docs.examples.demo_paper import ROOT, WIDTH, DemoError, Paper, shorten_text

LIMIT_BYTES = 1 << 20  # the longest message here has 12 KB
LOG_LIMIT_BYTES = 1 << 18  # what is kept of stderr; the rest is read and dropped

Message = dict[str, Any]  # wire data, checked field by field where it is used


class Form(Protocol):
    """How messages look on a wire.

    Attributes:
        id_key: where a message has the id of its request.
    """

    id_key: str

    def pack(self, message: Message) -> bytes:
        """Return a message as it is written."""

    async def take(self, stream: asyncio.StreamReader) -> tuple[int, Any] | None:
        """Return the next message and its size in bytes, or None at the end; a DemoError where it is none."""

    def size_text(self, size: int) -> str:
        """Return the size of a message, for people."""


class Lines:
    """Octonode: a message is a line of JSON."""

    id_key = "invocationId"

    def pack(self, message: Message) -> bytes:
        """Return a message as it is written."""
        return json.dumps(message, ensure_ascii=False).encode() + b"\n"

    async def take(self, stream: asyncio.StreamReader) -> tuple[int, Any] | None:
        """Return the next message and its size in bytes, or None at the end."""
        try:
            line = await stream.readline()
        except ValueError:
            raise DemoError(f"a line of over {LIMIT_BYTES:,} bytes came") from None
        try:
            return (len(line), json.loads(line)) if line else None
        except ValueError:
            raise DemoError(f"stdout carries a line that is not JSON: {shorten_text(repr(line), WIDTH)}") from None

    def size_text(self, size: int) -> str:
        """Return the size of a message, for people."""
        return f"{size} B"


class Frames:
    """NodeTool: a message is four bytes with its length, and then MessagePack."""

    id_key = "request_id"

    def pack(self, message: Message) -> bytes:
        """Return a message as it is written."""
        body: bytes = msgpack.packb(message)
        return len(body).to_bytes(4, "big") + body

    async def take(self, stream: asyncio.StreamReader) -> tuple[int, Any] | None:
        """Return the next message and its size in bytes, or None at the end."""
        try:
            length = await stream.readexactly(4)
            size = int.from_bytes(length, "big")
            if size > LIMIT_BYTES:
                raise DemoError(f"a frame of over {LIMIT_BYTES:,} bytes came, or no frame: {length!r}")
            return 4 + size, msgpack.unpackb(await stream.readexactly(size))
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                return None
            raise DemoError(f"stdout ended inside a frame: {shorten_text(repr(error.partial), WIDTH)}") from None
        except (ValueError, msgpack.UnpackException) as error:
            raise DemoError(f"stdout carries a frame that is not MessagePack: {error}") from None

    def size_text(self, size: int) -> str:
        """Return the size of a message, for people."""
        return f"4 + {size - 4} B"


class NodeProcess:
    """A started process that serves nodes; leaving the block ends it, whatever it is doing.

    Args:
        runner: the command, as it is started.
        arguments: what follows it.
        form: its wire.
        paper: where messages are shown as they pass.
        timeout_s: bound of each single wait.
        whole: ids of requests whose messages are shown whole.
    """

    def __init__(
        self,
        runner: Sequence[str],
        arguments: Sequence[str],
        form: Form,
        paper: Paper,
        timeout_s: float,
        *,
        whole: Sequence[str] = (),
    ) -> None:
        self._command = [*runner, *arguments]
        self._form = form
        self._paper = paper
        self._timeout_s = timeout_s
        self._whole = whole
        self._log = bytearray()
        self._has_log = False  # whole
        self._news = asyncio.Event()

    async def __aenter__(self) -> "NodeProcess":
        self._paper.command(["python", *self._command[1:]])
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
            limit=LIMIT_BYTES,
        )
        # All three are pipes, as asked for above.
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        # Read from the start: a process whose stderr nobody reads blocks as soon as that pipe is full.
        self._reading_log = asyncio.create_task(self._read_log())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            with contextlib.suppress(TimeoutError):  # the process is dead; a child of its may still hold a pipe
                await asyncio.wait_for(self._process.wait(), self._timeout_s)
        self._reading_log.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading_log

    @property
    def log(self) -> str:
        """What the process has written to stderr so far."""
        return self._log.decode("utf-8", "backslashreplace")

    async def ready(self, text: str) -> None:
        """Wait until `text` stands on stderr."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while text not in self.log:
                    if self._has_log:
                        status = await self._process.wait()
                        raise DemoError(f"not ready: the process ended with status {status}{self._tail()}")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise DemoError(f"not ready within {self._timeout_s:g} s{self._tail()}") from None

    async def send(self, message: Message) -> None:
        """Write one message."""
        data = self._form.pack(message)
        is_whole = message[self._form.id_key] in self._whole
        self._paper.sent(message, self._form.size_text(len(data)), whole=is_whole)
        try:
            self._stdin.write(data)
            async with asyncio.timeout(self._timeout_s):
                await self._stdin.drain()
        except TimeoutError:
            raise DemoError(f"{self._timeout_s:g} s after it was sent, a request is still unread") from None
        except ConnectionError:
            pass  # The process is gone; the wait for its answer tells how it ended.

    def close(self) -> None:
        """Close stdin: there are no more requests."""
        self._stdin.close()

    async def receive(self, waiting_for: Sequence[str]) -> Message:
        """Return the next message.

        Args:
            waiting_for: the ids of the requests that are not answered yet.

        Raises:
            DemoError: There is none within the bound, or it is for none of these requests.
        """
        ids = ", ".join(map(repr, waiting_for))
        try:
            async with asyncio.timeout(self._timeout_s):
                taken = await self._form.take(self._stdout)
                if taken is None:
                    status = await self._process.wait()
                    await self._reading_log
                    raise DemoError(f"no answer to {ids}: the process ended with status {status}{self._tail()}")
        except TimeoutError:
            raise DemoError(f"no answer to {ids} within {self._timeout_s:g} s{self._tail()}") from None
        size, message = taken
        request_id = message.get(self._form.id_key) if isinstance(message, dict) else None
        self._paper.received(message, self._form.size_text(size), whole=request_id in self._whole)
        if not isinstance(message, dict) or request_id not in waiting_for:
            raise DemoError(f"the answer carries the id of no open request; open are {ids}")
        return message

    async def finish(self) -> None:
        """Check that nothing more comes, and that the process ends well.

        Raises:
            DemoError: It writes another byte, goes on after the bound, or ends with another status than 0.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                rest = await self._stdout.read(WIDTH)
                status = await self._process.wait()
                await self._reading_log
        except TimeoutError:
            raise DemoError(f"{self._timeout_s:g} s after its stdin was closed, the process still runs") from None
        self._paper.verify("nothing else came on stdout", not rest, rest)
        self._paper.verify("after the end of its stdin the process left with status 0", status == 0, status)

    async def _read_log(self) -> None:
        while data := await self._stderr.read(1 << 16):
            self._log += data[: LOG_LIMIT_BYTES - len(self._log)]
            self._news.set()
        self._has_log = True
        self._news.set()

    def _tail(self) -> str:
        last = [shorten_text(line, WIDTH) for line in self.log.strip().splitlines()[-3:]]
        return "; the end of its stderr:\n  " + "\n  ".join(last) if last else "; its stderr is empty"
