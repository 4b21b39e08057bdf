"""The async client: `AsyncBridge`, for the tasks of one event loop.

It stands on the same link as the sync one, threads included: they read into the memory of a large blob, work on every
platform and loop, and have been tried once for both. The loop is woken for what has come, and nothing in it blocks.
"""

# ruff: noqa: ASYNC109  # these timeouts are the requests' own: they count from the last frame and cancel at the worker
from __future__ import annotations

import asyncio
import inspect
import os
from functools import partial

from ..errors import BridgeError, IncompatibleWorkerError, WorkerDiedError
from ..responses import Chunk, Discovery, Result, WorkerStatus
from .connection import CLOSE_SECONDS, Connection, limits_of, start_worker, warn
from .core import CALL, DISCOVER, PLAIN, STATUS, STREAM
from .inbox import Hooks, Inbox, copied, last_chunk
from .process import STARTUP_SECONDS
from .requests import execute_data, with_large

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, BinaryIO, Self, Unpack

    from ..responses import Event, Progress, Response, Update
    from .connection import Timeout
    from .limits import Limits
    from .link import Link
    from .process import WorkerProcess
    from .requests import CallOptions

__all__ = ["AsyncBridge", "AsyncHandle", "AsyncStream"]


class _AsyncInbox(Inbox):
    """An inbox whose taker is a task."""

    __slots__ = ("_is_rung", "_loop", "_waiters")

    def __init__(self, link: Link, wanted: tuple[type[Response], ...]) -> None:
        super().__init__(link, wanted)
        self._loop = asyncio.get_running_loop()
        self._waiters: set[asyncio.Future[None]] = set()
        self._is_rung = False

    def ring(self) -> None:
        """Wake who waits, from any thread."""
        if self._is_rung:  # its taker has not looked since
            return
        self._is_rung = True
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed, and nobody waits any more
            return

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def next_async(self) -> Response:
        """Wait for the next part or the result.

        Raises:
            BridgeError: The request has failed.
        """
        while True:
            self._is_rung = False  # before the look: what comes after it rings
            taken = self.take()
            if taken is not None:
                break
            await self._wait_async()
        if isinstance(taken, BridgeError):
            raise copied(taken)
        return taken

    async def _wait_async(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.add(waiter)
        self._link.begin_wait()
        try:
            await waiter
        finally:
            self._link.end_wait()
            self._waiters.discard(waiter)


async def _call(hooks: Hooks, part: Response) -> None:
    """Hand a part to its function, which may be async."""
    made = hooks.call(part)
    if inspect.isawaitable(made):
        await made


class AsyncHandle:
    """A request that goes on while its caller does something else; see `Handle`."""

    def __init__(self, link: Link, inbox: _AsyncInbox, hooks: Hooks) -> None:
        self._link, self._inbox, self._hooks = link, inbox, hooks

    @property
    def request_id(self) -> str:
        """Its id on the wire."""
        return self._inbox.request_id

    def done(self) -> bool:
        """Whether it has ended."""
        return self._inbox.outcome is not None

    def cancel(self) -> None:
        """Ask the worker to stop. The request still ends by itself: `result` says how."""
        self._link.cancel(self._inbox.request_id)

    async def result(self, timeout: float | None = None) -> Result:
        """Wait for the result; as `Handle.result`. A task that is cancelled here leaves the request running."""
        async with asyncio.timeout(timeout):
            while True:
                part = await self._inbox.next_async()
                if part is self._inbox.outcome:
                    assert isinstance(part, Result)
                    return part
                await _call(self._hooks, part)


class AsyncStream:
    """The chunks of a node that streams; see `Stream`. Iterate over it in one task.

    Attributes:
        result: The terminal frame, once the iteration has come to its end.
    """

    def __init__(self, link: Link, inbox: _AsyncInbox, hooks: Hooks) -> None:
        self._link, self._inbox, self._hooks = link, inbox, hooks
        self._is_over = self._had_chunk = False
        self.result: Result | None = None

    @property
    def request_id(self) -> str:
        """Its id on the wire."""
        return self._inbox.request_id

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        while not self._is_over:
            try:
                part = await self._inbox.next_async()
            except BridgeError:
                self._is_over = True
                raise
            except asyncio.CancelledError:
                self.close()
                raise
            if part is self._inbox.outcome:
                assert isinstance(part, Result)
                self._is_over, self.result = True, part
                last = last_chunk(part, self._had_chunk)
                if last is not None:
                    return last
            elif isinstance(part, Chunk):
                self._had_chunk = True
                return part
            else:
                await _call(self._hooks, part)
        raise StopAsyncIteration

    def cancel(self) -> None:
        """Ask the worker to stop; the iteration goes on to the end that the worker makes."""
        self._link.cancel(self._inbox.request_id)

    def close(self) -> None:
        """Leave: the request is cancelled, and nothing more comes. It does not wait."""
        if not self._is_over:
            self._is_over = True
            self._link.give_up(self._inbox)

    async def aclose(self) -> None:
        """Do the same, under the name that `contextlib.aclosing` calls."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_over:
            self._link.drop(self._inbox)


class AsyncBridge(Connection):
    """A client of one worker, for the tasks of the loop in which it was made. The arguments are those of `Bridge`.

    A task that is cancelled while it waits for `execute` or a chunk cancels the request at the worker.

    Example:
        >>> async def main() -> None:
        ...     async with await AsyncBridge.spawn(nodes=["nodes.py"]) as bridge:
        ...         print((await bridge.execute("nodes.Greet", {"name": "Ada"})).outputs)
    """

    def __init__(
        self,
        reader: int | BinaryIO,
        writer: int | BinaryIO,
        *,
        process: WorkerProcess | None = None,
        validate: bool | None = None,
        limits: Limits | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._connect(reader, writer, process=process, limits=limits_of(limits, validate), new_id=new_id)

    @classmethod
    async def spawn(
        cls,
        command: Sequence[str] | None = None,
        *,
        nodes: Sequence[str] = (),
        namespaces: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        startup_timeout: float = STARTUP_SECONDS,
        validate: bool | None = None,
        on_stderr: Callable[[str], object] | None = None,
        handshake: bool = True,
        limits: Limits | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> AsyncBridge:
        """Start a worker, wait until it is ready, and ask what it has; as `Bridge.spawn`."""
        start = partial(
            start_worker,
            command,
            nodes=nodes,
            namespaces=namespaces,
            env=env,
            cwd=cwd,
            startup_timeout=startup_timeout,
            on_stderr=on_stderr,
        )
        starting = asyncio.get_running_loop().run_in_executor(None, start)
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_end_unwanted)  # a thread can't be cancelled
            raise
        bridge = cls(process.out_fd, process.in_fd, process=process, validate=validate, limits=limits, new_id=new_id)
        await bridge._greet(handshake)
        return bridge

    @classmethod
    async def attach(
        cls,
        reader: int | BinaryIO,
        writer: int | BinaryIO,
        *,
        validate: bool | None = None,
        handshake: bool = True,
        limits: Limits | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> AsyncBridge:
        """Use the streams of a worker that runs already; as `Bridge.attach`."""
        bridge = cls(reader, writer, validate=validate, limits=limits, new_id=new_id)
        await bridge._greet(handshake)
        return bridge

    async def _greet(self, handshake: bool) -> None:
        if not handshake:
            return
        try:
            discover = self._open("discover", {}, DISCOVER, Hooks(), ...)
            status = self._open("worker.status", {}, STATUS, Hooks(), ...)
            await discover.next_async()
            try:
                await status.next_async()
            except (WorkerDiedError, IncompatibleWorkerError):
                raise
            except BridgeError as error:
                warn(f"what the worker can do is not known, so only its nodes can be used: {error}")
        except BaseException:
            await self.close(0)
            raise

    def _open(self, type_: str, data: dict[str, Any], kind: str, hooks: Hooks, timeout: Timeout) -> _AsyncInbox:
        wanted = hooks.wanted()
        inbox = _AsyncInbox(self.link, (*wanted, Chunk) if kind is STREAM else wanted)
        self.link.open(type_, data, inbox, kind=kind, seconds=self._seconds(kind, type_, timeout))
        return inbox

    async def _wait(self, inbox: _AsyncInbox, hooks: Hooks) -> Response:
        """Wait for the result; a task that is cancelled, or whose own function fails, leaves nothing running."""
        try:
            while True:
                part = await inbox.next_async()
                if part is inbox.outcome:
                    return part
                await _call(hooks, part)
        except BaseException:
            if inbox.outcome is None:
                self.link.give_up(inbox)
            raise

    async def discover(self, *, timeout: Timeout = ...) -> Discovery:
        """Ask for the inventory; as `Bridge.discover`."""
        hooks = Hooks()
        response = await self._wait(self._open("discover", {}, DISCOVER, hooks, timeout), hooks)
        assert isinstance(response, Discovery)
        return response

    async def status(self, *, timeout: Timeout = ...) -> WorkerStatus:
        """Ask how the worker is; as `Bridge.status`."""
        hooks = Hooks()
        response = await self._wait(self._open("worker.status", {}, STATUS, hooks, timeout), hooks)
        return WorkerStatus(response.data)

    async def execute(
        self,
        node_type: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: Callable[[Progress], object] | None = None,
        on_update: Callable[[Update], object] | None = None,
        chunked: bool = True,
        **options: Unpack[CallOptions],
    ) -> Result:
        """Run a node and wait for its result; as `Bridge.execute`. The functions may be async."""
        data = execute_data(self.gates, node_type, fields, chunked=chunked, **options)
        hooks = Hooks(on_progress, on_update)
        result = await self._wait(self._open("execute", data, CALL, hooks, timeout), hooks)
        assert isinstance(result, Result)
        return result

    def start(
        self,
        node_type: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: Callable[[Progress], object] | None = None,
        on_update: Callable[[Update], object] | None = None,
        chunked: bool = True,
        **options: Unpack[CallOptions],
    ) -> AsyncHandle:
        """Run a node and return at once; as `Bridge.start`."""
        data = execute_data(self.gates, node_type, fields, chunked=chunked, **options)
        hooks = Hooks(on_progress, on_update)
        return AsyncHandle(self.link, self._open("execute", data, CALL, hooks, timeout), hooks)

    def stream(
        self,
        node_type: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: Callable[[Progress], object] | None = None,
        on_update: Callable[[Update], object] | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncStream:
        """Run a node and return its chunks as they come; as `Bridge.stream`."""
        data = execute_data(self.gates, node_type, fields, chunked=False, **options)
        hooks = Hooks(on_progress, on_update)
        return AsyncStream(self.link, self._open("execute.stream", data, STREAM, hooks, timeout), hooks)

    async def request(
        self,
        type_: str,
        data: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: Callable[[Progress], object] | None = None,
        on_event: Callable[[Chunk | Event], object] | None = None,
    ) -> Result:
        """Send any other message and wait for its result; as `Bridge.request`."""
        hooks = Hooks(on_progress, None, on_event)
        result = await self._wait(self._open(type_, with_large(dict(data or {})), PLAIN, hooks, timeout), hooks)
        assert isinstance(result, Result)
        return result

    async def close(self, grace: float = CLOSE_SECONDS) -> int | None:
        """Cancel what is open and end the worker; as `Bridge.close`."""
        closing = asyncio.get_running_loop().run_in_executor(None, self.link.close, grace)
        return await asyncio.shield(closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _end_unwanted(starting: asyncio.Future[WorkerProcess]) -> None:
    """End a worker that nobody waits for any more."""
    if starting.cancelled() or starting.exception() is not None:
        return
    process = starting.result()
    for fd in (process.in_fd, process.out_fd):
        os.close(fd)
    process.kill()
