"""The two streams to a worker: reading that can be woken, and writing that holds nobody up.

Transport without policy: it moves bytes and says when a side has ended. It knows nothing of requests.
"""

from __future__ import annotations

import os
import threading
from collections import deque

try:
    from select import POLLIN, POLLOUT, poll

    _has_poll = True
except ImportError:  # Windows: reads and writes block there, each on a thread of its own
    _has_poll = False

from octonode_sdk.process.bell import Bell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

    from ..frames import Frame

__all__ = ["ByteReader", "FrameWriter"]

#: Most to take at once: what a pipe holds. A larger buffer is got from the system and given back at each read.
_READ_BYTES = 1 << 16

#: Most that the thread of a caller writes itself; the writer's own thread goes on with the rest.
_DIRECT_BYTES = 1 << 18

#: Pieces of memory for one write; systems take at least 16, Linux 1024.
_PIECES = 16

#: How long the writer's thread has at least, to end what does not block.
_SETTLE_SECONDS = 0.2

#: What one blocking write takes where there is no poll.
_BLOCKING_BYTES = 1 << 20


def _descriptor(stream: Any) -> int | None:
    """Return the descriptor of a stream without a buffer of its own, or None."""
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "read1") or hasattr(stream, "getbuffer"):  # it may hold bytes back
        return None
    try:
        return int(stream.fileno())
    except (AttributeError, OSError):
        return None


class ByteReader:
    """Reads from a descriptor, or a file object, which belongs to it from now on.

    Args:
        stream: Where from.
        on_wake: Called on the thread that reads, after `wake`.
    """

    def __init__(self, stream: int | BinaryIO, *, on_wake: Callable[[], None]) -> None:
        self._stream: Any = stream
        self._on_wake = on_wake
        self._fd = _descriptor(stream)
        self._bell: Bell | None = None
        self._is_stopped = self._is_closed = False
        if self._fd is not None and _has_poll:
            self._bell = Bell()
            self._poll = poll()
            self._poll.register(self._fd, POLLIN)
            self._poll.register(self._bell.read_fd, POLLIN)

    def _is_readable(self) -> bool:
        """Wait for bytes or the end; return False where the reader was stopped."""
        bell = self._bell
        while bell is not None and not self._is_stopped:
            ready = [fd for fd, _ in self._poll.poll()]
            if bell.read_fd in ready:
                bell.still()
                self._on_wake()
            if self._fd in ready:
                break
        return not self._is_stopped

    def read(self) -> bytes:
        """Wait for bytes and return them; b"" at the end, or when stopped."""
        while self._is_readable():
            try:
                if self._fd is not None:
                    return os.read(self._fd, _READ_BYTES)
                read = getattr(self._stream, "read1", None) or self._stream.read
                return read(_READ_BYTES) or b""
            except BlockingIOError:
                continue
            except (OSError, ValueError):  # the other side is gone; or the file was closed under us
                return b""
        return b""

    def read_into(self, room: memoryview) -> int:
        """Wait for bytes and put them into `room`; return how many, 0 at the end, or when stopped."""
        while self._is_readable():
            try:
                if self._fd is not None and hasattr(os, "readv"):
                    return os.readv(self._fd, [room])
                if self._fd is not None:
                    data = os.read(self._fd, min(len(room), _BLOCKING_BYTES))
                    room[: len(data)] = data
                    return len(data)
                read = getattr(self._stream, "readinto1", None) or self._stream.readinto
                return read(room) or 0
            except BlockingIOError:
                continue
            except (OSError, ValueError):
                return 0
        return 0

    def wake(self) -> None:
        """Have `on_wake` called; takes no lock. Where there is no poll, nothing happens."""
        if self._bell is not None:
            self._bell.ring()

    def stop(self) -> None:
        """Make a waiting `read` return, from any thread; where there is no poll, only the end of the stream does."""
        self._is_stopped = True
        self.wake()

    def close(self) -> None:
        """Close the stream; by the thread that reads, when it is done."""
        if not self._is_closed:
            self._is_closed = True
            self._on_wake = _nothing  # whoever gave it has this one too: a circle that only the collector would break
            _close(self._stream)


class FrameWriter:
    """Writes whole frames to a descriptor, or a file object, which belongs to it from now on (FRM-19).

    `send` never waits: what the other side does not take at once is written by a thread, in the order of the calls.

    Args:
        stream: Where to; a descriptor is set to non-blocking.
        on_failure: Called once, from any thread, when the other side takes nothing any more.
    """

    def __init__(self, stream: int | BinaryIO, *, on_failure: Callable[[], None]) -> None:
        self._stream: Any = stream
        self._on_failure = on_failure
        self._fd = _descriptor(stream)
        self._lock = threading.Lock()
        self._pieces: deque[Any] = deque()
        self._work = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._is_busy = self._is_closing = self._is_dead = False
        self._bell: Bell | None = None
        if self._fd is not None and _has_poll:
            os.set_blocking(self._fd, False)
            self._bell = Bell()

    def send(self, frame: Frame) -> None:
        """Write a frame, or leave it to the thread. Its memory must stay as it is until it is written."""
        failed = False
        with self._lock:
            if self._is_dead or self._is_closing:
                return
            if isinstance(frame, bytes):
                self._pieces.append(frame)
            else:
                self._pieces.extend(frame)
            if self._is_busy:
                return
            if self._bell is not None:
                try:
                    done = self._push(_DIRECT_BYTES)
                except OSError:
                    failed, done = self._die(), True
            else:
                done = False
            if not done:
                self._hand_over()
        if failed:
            self._on_failure()

    def _push(self, most: int) -> bool:
        """Write what the other side takes now, up to about `most` bytes; return whether everything is written."""
        assert self._fd is not None
        pieces, written = self._pieces, 0
        while pieces:
            if written >= most:
                return False
            batch = [pieces.popleft() for _ in range(min(len(pieces), _PIECES))]
            try:
                count = os.write(self._fd, batch[0]) if len(batch) == 1 else os.writev(self._fd, batch)
            except BlockingIOError:
                count = 0
            written += count
            rest = _after(batch, count)
            if rest:
                pieces.extendleft(reversed(rest))
                return False
        return True

    def _hand_over(self) -> None:
        self._is_busy = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="bridge-writer", daemon=True)
            self._thread.start()
        else:
            self._work.notify()

    def _run(self) -> None:
        try:
            while self._write_rest():
                pass
        except (OSError, ValueError):
            with self._lock:
                failed = self._die()
            if failed:
                self._on_failure()

    def _write_rest(self) -> bool:
        """Write until nothing is left, and wait for more; return False when closed."""
        with self._lock:
            while not self._pieces:
                self._is_busy = False
                if self._is_closing or self._is_dead:
                    return False
                self._work.wait()
            if self._is_dead:
                return False
            if self._bell is not None and self._push(_BLOCKING_BYTES):
                return True
        if self._bell is not None:
            waiting = poll()
            waiting.register(self._fd or 0, POLLOUT)
            waiting.register(self._bell.read_fd, POLLIN)
            waiting.poll()
            self._bell.still()
            return True
        with self._lock:
            piece = memoryview(self._pieces.popleft())
        for start in range(0, max(1, piece.nbytes), _BLOCKING_BYTES):
            part = piece[start : start + _BLOCKING_BYTES]
            while part:
                part = part[self._write_blocking(part) :]
        return True

    def _write_blocking(self, part: memoryview) -> int:
        if self._is_dead:
            raise BrokenPipeError
        if self._fd is not None:
            return os.write(self._fd, part)
        count = self._stream.write(part)
        self._stream.flush()
        return part.nbytes if count is None else count

    def _die(self) -> bool:
        """Note that nothing can be written any more; return whether this is news."""
        is_news = not self._is_dead and not self._is_closing
        self._is_dead = True
        self._pieces.clear()
        return is_news

    def close(self, timeout: float) -> None:
        """Write what waits, for at most `timeout` seconds, and close the stream: the other side sees its end."""
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
            self._work.notify()
            thread, wait = self._thread, max(timeout, _SETTLE_SECONDS)
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait)
            if thread.is_alive():  # the other side reads nothing
                with self._lock:
                    self._is_dead = True
                    self._pieces.clear()
                if self._bell is None:
                    return  # its stream is closed by nobody: the write that hangs would go to another file
                self._bell.ring()
                thread.join()
        self._on_failure = _nothing  # as in ByteReader
        _close(self._stream)


def _nothing() -> None:
    """Do nothing."""


def _after(batch: list[Any], count: int) -> list[Any]:
    """Return what is left of pieces when their first `count` bytes are written."""
    for place, piece in enumerate(batch):
        if count < len(piece):
            return [memoryview(piece)[count:] if count else piece, *batch[place + 1 :]]
        count -= len(piece)
    return []


def _close(stream: Any) -> None:
    try:
        if isinstance(stream, int):
            os.close(stream)
        else:
            stream.close()
    except (OSError, ValueError):  # already closed, or what was never sent
        return
