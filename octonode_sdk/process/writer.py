"""Writing whole messages to one descriptor from many threads."""

from __future__ import annotations

import os
import threading
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LineWriter"]

#: Answers kept for a slow reader before the calls that make them have to wait.
_PENDING_BYTES = 1 << 20

#: Answers that are written together while more calls wait to be served: about what a pipe holds.
_BATCH_BYTES = 1 << 15


class LineWriter:
    """Writes whole lines from many threads (LINE-16), without a thread of its own.

    Whoever finds the descriptor free writes everything that waits; the others leave their line and go on, unless so
    much waits that the reader is too slow: then they wait, which bounds the memory (LIFE-19).

    Args:
        out_fd: Where to.
        wake: Wakes the thread that calls `settle`.

    Attributes:
        dead: Whether nobody reads any more.
        is_dirty: Whether a line waits that its thread has left for `settle` to write.
        is_watched: Whether the thread that calls `settle` is about to do so anyway, and need not be woken. It sets
            this, and looks at `is_dirty` afterwards.
    """

    def __init__(self, out_fd: int, wake: Callable[[], None]) -> None:
        self._fd, self._wake = out_fd, wake
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._writing = threading.Lock()
        self.dead = False
        self.is_dirty = self.is_watched = False

    def send(self, line: bytes, more_to_come: bool = False) -> None:
        """Write a line.

        Args:
            line: With its LF.
            more_to_come: Whether this thread has another line soon, so that they may be written together. Whoever calls
                `settle` sees to it that the line does not wait for a call that takes longer.
        """
        size = len(line)
        self._lines.append(line)
        self._bytes += size  # no call in this line: another thread may run at each, and its sum would be lost
        if more_to_come and self._bytes < _BATCH_BYTES:
            if not self.is_dirty:
                self.is_dirty = True
                if not self.is_watched:
                    self._wake()
            return
        while self._lines:
            if not self._writing.acquire(blocking=self._bytes > _PENDING_BYTES):
                return  # whoever writes looks again before it leaves
            try:
                self._write_all()
            finally:
                self._writing.release()

    def settle(self) -> None:
        """Write what was left to be written together, unless another thread is at it."""
        if not self.is_dirty:
            return
        self.is_dirty = False  # first: a line that comes from now on says so itself
        if self._lines and self._writing.acquire(blocking=False):
            try:
                self._write_all()
            finally:
                self._writing.release()
        if self._lines:  # one that came just before the release; its thread has left it to this one
            self.is_dirty = True

    def flush(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds until everything is written; return whether it is."""
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
            # Small lines together, for one write; large ones one by one, for no copy.
            count = len(lines) if self._bytes <= _PENDING_BYTES else 1
            batch = [lines.popleft() for _ in range(count)]
            data = batch[0] if count == 1 else b"".join(batch)
            self._write(data)
            self._bytes -= len(data)
        self._bytes = 0  # two threads that add at once may count one line only: start anew with each empty queue

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
            self._wake()
