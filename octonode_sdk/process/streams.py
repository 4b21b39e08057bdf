"""The process's own streams: private descriptors for the protocol, harmless ones for everybody else.

Transport without policy: it moves bytes and says when a side has ended. It knows nothing of envelopes.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from time import sleep

try:
    from select import POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, poll

    _has_poll = True
except ImportError:  # Windows has no poll: there the end of the reader shows at the next write
    _has_poll = False

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

__all__ = ["LogStream", "Wire", "announce", "log_is_wrapped", "say", "take_wire"]

#: A pipe that poll calls writable takes this much without blocking (PIPE_BUF: at least 512, on Linux 4096).
_SURE_BYTES = 512 if sys.platform not in ("linux", "android") else 4096

#: How long a log line waits for a full stderr before it is dropped. Long enough for a busy host, short for a node.
_LOG_PATIENCE_MS = 500

_READ_BYTES = 1 << 17

#: `poll` takes no more than 2**31 milliseconds.
_LONGEST_WAIT = 86_400.0

#: A socket whose other side writes no more tells of it by this; elsewhere that shows when it is closed.
_POLLRDHUP = 0x2000 if sys.platform == "linux" else 0

#: Without poll, how often a wake-up is looked for.
_NO_POLL_SECONDS = 0.02


class Wire:
    """The protocol's private descriptors, and what can be waited for beside input.

    `wake` makes a waiting `wait` return; it may be called from any thread.
    """

    def __init__(self, in_fd: int, out_fd: int) -> None:
        self.in_fd, self.out_fd = in_fd, out_fd
        self.in_child = False
        self._wake_read, self.wake_fd = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self.wake_fd, False)
        self._for_room = self.input_has_closed = False
        if _has_poll:
            self._poll = poll()
            self._poll.register(self._wake_read, POLLIN)
            self._poll.register(out_fd, 0)  # errors and hang-up are always told: nobody reads any more

    def watch_input(self) -> None:
        """Let `wait` return at the end of input as well, also while nobody reads: `input_has_closed` is set then."""
        if _has_poll:
            self._poll.register(self.in_fd, _POLLRDHUP)

    def wait(self, timeout: float | None, *, for_room: bool = False) -> tuple[bool, bytes]:
        """Wait for the end of the reader or for a wake-up.

        Args:
            timeout: Seconds, or None for no bound: an idle worker waits for its host (LIFE-9).
            for_room: Whether to return as well once something can be written.

        Returns:
            (whether nobody reads stdout any more, what woke it: the number of each signal as a byte, 0 for `wake`).
        """
        gone = False
        if not _has_poll:
            sleep(_NO_POLL_SECONDS if timeout is None else min(timeout, _NO_POLL_SECONDS))
            return False, self._drain()
        woken = b""
        if for_room != self._for_room:
            self._for_room = for_room
            self._poll.modify(self.out_fd, POLLOUT if for_room else 0)
        milliseconds = None if timeout is None else max(1, int(min(timeout, _LONGEST_WAIT) * 1000))
        for fd, event in self._poll.poll(milliseconds):
            if fd == self.in_fd:
                self.input_has_closed = True
                self._poll.unregister(fd)
            elif fd == self.out_fd:
                gone = bool(event & (POLLERR | POLLHUP | POLLNVAL))
            else:
                woken = self._drain()
        return gone, woken

    def _drain(self) -> bytes:
        try:
            return os.read(self._wake_read, 4096)
        except OSError:  # empty; or closed by node code, and then poll says that the other descriptors are as well
            return b""

    def read(self) -> bytes:
        """Wait for the next bytes and return them; b"" at the end of input, also when the descriptor has died."""
        try:
            return os.read(self.in_fd, _READ_BYTES)
        except OSError:
            return b""

    def wake(self) -> None:
        """Make `wait` return."""
        try:
            os.write(self.wake_fd, b"\0")
        except OSError:  # a full pipe wakes as well
            return

    def close_in_child(self) -> None:
        """Close everything in a forked child, which must not hold the protocol open (LIFE-15)."""
        self.in_child = True
        for fd in (self.in_fd, self.out_fd, self._wake_read, self.wake_fd):
            try:
                os.close(fd)
            except OSError:  # already closed
                continue


def take_wire(make_log: Callable[[], LogStream] | None = None) -> Wire:
    """Make the protocol's descriptors private (LINE-13, FRM-21), and 0, 1 and the streams of `sys` harmless.

    From here on descriptor 0 is the null device and 1 goes where 2 goes, child processes included (LIFE-15, LIFE-16,
    FRM-22). Text that `print` had buffered for stdout ends up on stderr.

    Args:
        make_log: Makes the stream for the text of node code; `LogStream` unless given.

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
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    in_fd, out_fd = os.dup(0), os.dup(1)  # not inheritable, as dup makes them
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    os.set_blocking(out_fd, True)  # a host may hand over its own end of a pipe; a full one is waited for, not an error
    try:
        if sys.stdout is not None:
            sys.stdout.flush()  # what a module printed before run() was called
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a module may have kept it
    except (OSError, ValueError, AttributeError):  # a closed or broken stderr takes no text; a stand-in may do less
        pass
    log = (make_log or LogStream)()
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = log  # type: ignore[misc]  # the purpose
    if sys.stdin is None:
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115  # for the whole life
    wire = Wire(in_fd, out_fd)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=wire.close_in_child)
        os.register_at_fork(after_in_child=_renew_log_lock)  # another thread may have held it
    return wire


#: Held while text is written to descriptor 2. A handler of a signal may print while its own thread does.
_log_lock = threading.RLock()


def _renew_log_lock() -> None:
    global _log_lock
    _log_lock = threading.RLock()


class _LogPipe(io.RawIOBase):
    """Descriptor 2, never waited for longer than `_LOG_PATIENCE_MS`: what does not fit is dropped and counted."""

    name = "<stderr>"
    mode = "wb"
    streams = 0
    is_inside_line = False

    def __init__(self) -> None:
        super().__init__()
        self._poll = poll() if _has_poll else None
        if self._poll is not None:
            self._poll.register(2, POLLOUT)
        self._stalled = False
        self._lost = 0

    def writable(self) -> bool:
        type(self).streams += 1  # each stream that is put around a pipe asks
        return True

    def fileno(self) -> int:
        return 2

    def isatty(self) -> bool:
        return os.isatty(2)

    def write(self, data: Buffer, /) -> int:
        """Write bytes, masked, as far as they go; they count as written."""
        raw = bytes(data)
        # A daemon thread that is frozen in here at the end of the process must not keep or abort it.
        if not _log_lock.acquire(timeout=2 * _LOG_PATIENCE_MS / 1000):
            self._lost += len(raw)
            return len(raw)
        try:
            self._write(memoryview(_masked(raw)))
        finally:
            _log_lock.release()
        return len(raw)

    def _write(self, view: memoryview) -> None:
        while view:
            if not self._takes():
                self._lost += len(view)
                break
            if self._lost:
                note = f"\n[octonode_sdk: {self._lost} bytes of log lost, since nobody read stderr]\n".encode()
                self._lost = 0
                view = memoryview(note + bytes(view))
            try:
                written = os.write(2, view[:_SURE_BYTES])
            except OSError:  # closed on the other side: there is nobody to tell
                break
            _LogPipe.is_inside_line = view[written - 1] != 0x0A
            view = view[written:]

    def close(self) -> None:
        """Do nothing: a text stream that is put around this one closes it when it goes."""

    def _takes(self) -> bool:
        if self._poll is None:
            return True
        ready = bool(self._poll.poll(0 if self._stalled else _LOG_PATIENCE_MS))
        self._stalled = not ready
        return ready


def log_is_wrapped() -> bool:
    """Tell whether node code has put a stream of its own around the log: it may keep text back."""
    return _LogPipe.streams > 1


def _masked(text: bytes) -> bytes:
    """Return log text without the values of secrets. Without `secrets` loaded, no node has declared one."""
    secrets = sys.modules.get("octonode_sdk.secrets")
    if secrets is None:
        return text
    masked: str = secrets.mask(text.decode("utf-8", "surrogateescape"))
    return masked.encode("utf-8", "surrogateescape")


class LogStream(io.TextIOWrapper):
    """`sys.stdout` and `sys.stderr` of node code: text for stderr, whatever it is made of (LINE-17, LINE-18, FRM-28).

    Secrets are masked, every character is accepted, and a full or closed stderr holds nobody up.
    """

    def __init__(self) -> None:
        # Whole lines go on at once, in the order in which they were printed; those of several threads stay apart.
        super().__init__(_LogPipe(), encoding="utf-8", errors="backslashreplace", newline="", line_buffering=True)

    def close(self) -> None:
        """Write what waits, and stay open: a library that closes stdout must not take the log from everybody else."""
        self.flush()

    def detach(self) -> _LogPipe:  # type: ignore[override]  # unbuffered, and a stream of bytes all the same
        """Return a binary stream to the same place."""
        self.flush()
        return _LogPipe()


def say(text: str) -> None:
    """Write to stderr, if there is one: a process may start without it, and node code may take it away (LINE-18)."""
    try:
        sys.stderr.write(text)
    except (AttributeError, OSError, ValueError):
        return


def announce(line: str) -> None:
    """Write a line to stderr that the host waits for: in one write, from the start of a line (FRM-24).

    A host that does not read yet gets it once it does; nobody is held up meanwhile.
    """
    try:
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # node code has put something else there
        pass
    with _log_lock:
        data = (("\n" if _LogPipe.is_inside_line else "") + line + "\n").encode()
        if _has_poll:
            stderr = poll()
            stderr.register(2, POLLOUT)
            if not stderr.poll(0):
                threading.Thread(target=_write_whole, args=(data,), daemon=True).start()
                return
        _write_whole(data)


def _write_whole(data: bytes) -> None:
    try:
        os.write(2, data)
    except OSError:  # closed on the other side
        return
    _LogPipe.is_inside_line = False
