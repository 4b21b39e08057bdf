"""A worker as its host sees it: frames over pipes, READY on the standard error. Measures, judges nothing."""

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final

from contenders import ContenderError
from driver import ANSWER_BYTES, READ_BYTES, Child
from worker_frames import HEADER, count_whole, is_whole, message

READY: Final = b"NODETOOL_STDIO_READY"

STDERR_PIECES: Final = 50
"""How many of the last reads from a worker's standard error are kept, for the text of an error."""

JOIN_SECONDS: Final = 5.0
"""Longest wait for the end of the standard error of a worker that is gone; only a child that it left keeps it open."""


class Worker(Child):
    """A contender that answers frames with frames."""

    def __init__(
        self,
        contender: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        cores: frozenset[int] | None = None,
        announces: bool = True,
    ) -> None:
        """Start the worker and wait for its READY.

        Args:
            announces: Whether it says READY at all.

        Raises:
            ContenderError: It can't be started, ended or hung before READY.
        """
        self.ready_ms: float | None = None
        self._said: deque[bytes] = deque(maxlen=STDERR_PIECES)
        self._heard = threading.Event()
        self._listening, speaking = os.pipe()
        try:
            super().__init__(
                contender, command, environment=environment, directory=directory, cores=cores, stderr=speaking
            )
        except ContenderError:
            os.close(self._listening)
            raise
        finally:
            os.close(speaking)
        # It reads on after READY: a worker that writes much would block. While that one is quiet, it costs nothing.
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        if announces:
            with self._bounded():
                self._heard.wait()
            if self.ready_ms is None:
                ended = self._ended()
                self.__exit__(ContenderError, ended, None)
                raise ended

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._listener.join(JOIN_SECONDS)
            os.close(self._listening)

    def one_at_a_time(self, requests: Sequence[bytes]) -> tuple[float, bytes]:
        """Send each request once the answer to the one before is in.

        Returns:
            The seconds that all of it took, and the answers as they came.

        Raises:
            ContenderError: The worker ended or hung.
        """
        source, sink = self._output.fileno(), self._input.fileno()
        read, write = os.read, os.write
        answers: list[bytes] = []
        with self._bounded():
            started = perf_counter()
            for request in requests:
                write(sink, request)
                answer = read(source, ANSWER_BYTES)
                while not is_whole(answer):
                    piece = read(source, ANSWER_BYTES)
                    if not piece:
                        raise self._ended()
                    answer += piece
                answers.append(answer)
            seconds = perf_counter() - started
        return seconds, b"".join(answers)

    def pipelined(self, requests: bytes, *, count: int) -> tuple[float, bytes]:
        """Send all `requests` as fast as the pipe takes them, and read answers meanwhile.

        Args:
            requests: All frames in one block.
            count: How many frames these are.

        Returns:
            The seconds until answer number `count` was in, and the answers as they came.

        Raises:
            ContenderError: The worker ended or hung.
        """
        source = self._output.fileno()
        pieces: list[bytes] = []
        missing, rest = count, b""
        with self._bounded():
            writer = threading.Thread(target=self._write_all, args=(requests,), daemon=True)
            started = perf_counter()
            writer.start()
            while missing > 0:
                piece = os.read(source, READ_BYTES)
                if not piece:
                    raise self._ended()
                pieces.append(piece)
                rest += piece
                whole, size = count_whole(rest)
                missing, rest = missing - whole, rest[size:]
            seconds = perf_counter() - started
            writer.join()
        return seconds, b"".join(pieces)

    def ask(self, request: bytes) -> dict[str, Any]:
        """Send one request and return the `data` of the next message.

        Raises:
            ContenderError: The worker ended or hung, or the message is malformed or an error.
        """
        with self._bounded():
            self._write_all(request)
            answer = self._receive()
        data = answer.get("data")
        if answer.get("type") == "error" or not isinstance(data, dict):
            raise ContenderError(self.contender, f"answered {answer!r:.500}", self._stderr_text())
        return data

    def follow(self, request: bytes, seen: Callable[[str], None]) -> dict[str, Any]:
        """Send one request, call `seen` with the type of each message to it, and return the last message.

        Raises:
            ContenderError: The worker ended or hung, a message is malformed, or the last one is no result.
        """
        with self._bounded():
            self._write_all(request)
            while True:
                answer = self._receive()
                kind = answer.get("type")
                seen(str(kind))
                if kind == "error":
                    raise ContenderError(self.contender, f"answered {answer!r:.500}", self._stderr_text())
                if kind == "result":
                    return answer

    def _receive(self) -> dict[str, Any]:
        size: int = HEADER.unpack(self._read_exactly(HEADER.size))[0]
        return message(self.contender, self._read_exactly(size))

    def _read_exactly(self, size: int) -> bytes:
        source = self._output.fileno()
        data = os.read(source, size) if size else b""
        while len(data) < size:
            piece = os.read(source, min(size - len(data), READ_BYTES))
            if not piece:
                raise self._ended()
            data += piece
        return data

    def _listen(self) -> None:
        text = b""
        while piece := os.read(self._listening, ANSWER_BYTES):
            self._said.append(piece)
            if self.ready_ms is None:
                text += piece
                if READY in text:
                    self.ready_ms = (perf_counter() - self.started) * 1e3
                    self._heard.set()
        self._heard.set()

    def _stderr_text(self) -> str:
        if self._process.poll() is not None:
            self._listener.join(JOIN_SECONDS)
        return b"".join(self._said).decode(errors="backslashreplace")
