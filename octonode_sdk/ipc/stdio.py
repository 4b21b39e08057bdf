"""The process's own streams: private descriptors for the protocol, harmless ones for everybody else.

Transport without policy: it moves bytes and says when a side has ended. It knows nothing of envelopes.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections import deque

from ..secrets import mask

try:
    from select import POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, poll

    _has_poll = True
except ImportError:  # Windows has no poll: there a read blocks, and a reader's end shows at the next write
    _has_poll = False

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

__all__ = ["LineWriter", "LogStream", "Wire", "take_wire"]

#: A pipe that poll calls writable takes this much without blocking (PIPE_BUF: at least 512, on Linux 4096).
_SURE_BYTES = 512 if sys.platform not in ("linux", "android") else 4096

#: How long a log line waits for a full stderr before it is dropped. Long enough for a busy host, short for a node.
_LOG_PATIENCE_MS = 500

#: Answers kept for a slow reader before the calls that make them have to wait.
_PENDING_BYTES = 1 << 20

_READ_BYTES = 1 << 18


class Wire:
    """The protocol's private descriptors, and what can be waited for on them.

    `wake` makes a waiting `wait` return; it may be called from any thread and from a signal handler.
    """

    def __init__(self, in_fd: int, out_fd: int) -> None:
        self._in, self._out = in_fd, out_fd
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poll = poll() if _has_poll else None
        if self._poll is not None:
            self._poll.register(self._wake_read, POLLIN)
            self._poll.register(in_fd, POLLIN)
            self._poll.register(out_fd, 0)  # errors and hang-up are always told: nobody reads any more
        self._reading = True

    @property
    def out_fd(self) -> int:
        """The private stdout."""
        return self._out

    @property
    def wake_fd(self) -> int:
        """The end of the wake pipe that signals are written to (`signal.set_wakeup_fd`)."""
        return self._wake_write

    def listen(self, wanted: bool) -> None:
        """Say whether `wait` should look for input."""
        if wanted != self._reading:
            self._reading = wanted
            if self._poll is not None:
                self._poll.register(self._in, POLLIN) if wanted else self._poll.unregister(self._in)

    def wait(self, timeout: float | None) -> tuple[bool, bool, bytes]:
        """Wait for input, for the end of the reader, or for a wake-up.

        Args:
            timeout: Seconds, or None for no bound: an idle worker waits for its host (LIFE-9).

        Returns:
            (whether input can be read without blocking, whether nobody reads stdout any more, what woke it: the number
            of each signal as a byte, 0 for a plain `wake`).
        """
        if self._poll is None:
            return self._reading, False, b""
        readable = gone = False
        woken = b""
        for fd, event in self._poll.poll(None if timeout is None else max(0, int(timeout * 1000) + 1)):
            if fd == self._out:
                gone = bool(event & (POLLERR | POLLHUP | POLLNVAL))
            elif fd == self._wake_read:
                woken = self._drain()
            else:
                readable = True
        return readable, gone, woken

    def _drain(self) -> bytes:
        try:
            return os.read(self._wake_read, 4096)
        except BlockingIOError:
            return b""

    def read(self) -> bytes:
        """Return the next bytes; b"" at the end of input, also when the descriptor has died."""
        try:
            return os.read(self._in, _READ_BYTES)
        except OSError:
            return b""

    def stop_reading(self) -> None:
        """Forget the input, after its end."""
        self.listen(False)

    def wake(self) -> None:
        """Make `wait` return."""
        try:
            os.write(self._wake_write, b"\0")
        except (BlockingIOError, OSError):  # a full pipe wakes as well
            return

    def close_in_child(self) -> None:
        """Close everything in a forked child, which must not hold the protocol open (LIFE-15)."""
        for fd in (self._in, self._out, self._wake_read, self._wake_write):
            try:
                os.close(fd)
            except OSError:  # already closed
                continue


def take_wire() -> Wire:
    """Make the protocol's descriptors private, and 0, 1, `sys.stdin`, `sys.stdout`, `sys.stderr` harmless.

    From here on descriptor 0 is the null device and 1 goes where 2 goes, child processes included (LIFE-15, LIFE-16).
    Text that `print` had buffered for stdout ends up on stderr.

    Raises:
        OSError: There is no stdout to answer on.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            if fd == 1:
                raise
            # The lowest free descriptor is this one: a private copy must not land there.
            os.open(os.devnull, os.O_RDWR)
    in_fd, out_fd = _copy(0), _copy(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()  # what a module printed before run() was called
    except (OSError, ValueError):  # a closed or broken stderr takes no text
        pass
    log = LogStream()
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = log  # type: ignore[misc]  # the purpose
    if sys.stdin is None:
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115  # for the whole life
    wire = Wire(in_fd, out_fd)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=wire.close_in_child)
    return wire


def _copy(fd: int) -> int:
    """Return a private copy of a descriptor, out of the way of code that closes or reuses the low ones."""
    try:
        from fcntl import F_DUPFD_CLOEXEC, fcntl
    except ImportError:
        return os.dup(fd)
    return fcntl(fd, F_DUPFD_CLOEXEC, 64)


class _LogPipe(io.RawIOBase):
    """Descriptor 2, never waited for longer than `_LOG_PATIENCE_MS`: what does not fit is dropped and counted."""

    name = "<stderr>"
    mode = "wb"

    def __init__(self) -> None:
        super().__init__()
        self._poll = poll() if _has_poll else None
        if self._poll is not None:
            self._poll.register(2, POLLOUT)
        self._stalled = False
        self._lost = 0

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def isatty(self) -> bool:
        return os.isatty(2)

    def write(self, data: Buffer, /) -> int:
        raw = bytes(data)
        text = mask(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        view = memoryview(text)
        while view:
            if not self._takes():
                self._lost += len(view)
                break
            if self._lost:
                note = f"\n[octonode_sdk: {self._lost} bytes of log lost, since nobody read stderr]\n".encode()
                self._lost = 0
                view = memoryview(note + bytes(view))
            try:
                view = view[os.write(2, view[:_SURE_BYTES]) :]
            except OSError:  # closed on the other side: there is nobody to tell
                break
        return len(raw)

    def _takes(self) -> bool:
        if self._poll is None:
            return True
        ready = bool(self._poll.poll(0 if self._stalled else _LOG_PATIENCE_MS))
        self._stalled = not ready
        return ready


class LogStream(io.TextIOWrapper):
    """`sys.stdout` and `sys.stderr` of node code: text for stderr, whatever it is made of (LINE-17, LINE-18).

    Secrets are masked, every character is accepted, and a full or closed stderr holds nobody up.
    """

    def __init__(self) -> None:
        raw = io.BufferedWriter(_LogPipe(), 1 << 16)
        super().__init__(raw, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)

    def write(self, text: str) -> int:
        """Write text at once, so that lines keep the order in which they were printed."""
        count = super().write(text)
        self.buffer.flush()
        return count

    def close(self) -> None:
        """Do nothing: a library that closes stdout must not take the log from everybody else."""

    def detach(self) -> io.BufferedWriter:
        """Return a binary stream to the same place."""
        return io.BufferedWriter(_LogPipe(), 1 << 16)


class LineWriter:
    """Writes whole lines from many threads (LINE-16), without a thread of its own.

    Whoever finds the descriptor free writes everything that waits; the others leave their line and go on, unless so
    much waits that the reader is too slow: then they wait, which bounds the memory (LIFE-19).
    """

    def __init__(self, out_fd: int, on_dead: Callable[[], None]) -> None:
        self._fd, self._on_dead = out_fd, on_dead
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._writing = threading.Lock()
        self.dead = False

    def send(self, line: bytes) -> None:
        """Write a line, now or by the thread that writes at the moment."""
        self._lines.append(line)
        self._bytes += len(line)
        while self._lines:
            if not self._writing.acquire(blocking=self._bytes > _PENDING_BYTES):
                return
            try:
                self._write_all()
            finally:
                self._writing.release()

    def flush(self, timeout: float = -1) -> bool:
        """Wait until everything is written; return whether it is."""
        if not self._writing.acquire(timeout=timeout):
            return False
        try:
            self._write_all()
        finally:
            self._writing.release()
        return not self.dead

    def _write_all(self) -> None:
        lines = self._lines
        while lines:
            batch = [lines.popleft()]
            size = len(batch[0])
            while lines and size < _PENDING_BYTES:
                batch.append(lines.popleft())
                size += len(batch[-1])
            self._write(batch[0] if len(batch) == 1 else b"".join(batch))
            self._bytes -= size

    def _write(self, data: bytes) -> None:
        if self.dead:
            return
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                view = memoryview(data)[written:]
                while view:
                    view = view[os.write(self._fd, view) :]
        except OSError:
            self.dead = True
            self._on_dead()
