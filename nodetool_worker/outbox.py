"""Frames on their way out: their order, who goes first, and who waits while the host reads slowly.

Any thread puts frames in; whoever finds the pipe free writes what waits, frame by frame and each of them whole
(FRM-19). No thread is there for that alone.
"""

from __future__ import annotations

import threading
from _thread import get_ident
from collections import deque

from .frames import frame_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypeAlias

    from .frames import Frame

    class Pipe(Protocol):
        """Where the bytes go."""

        def write(self, pieces: list[bytes | memoryview], *, block: bool) -> bool:
            """Write pieces and take out of the list what is written; return False if the rest would block.

            What can't be written any more, since nobody reads, counts as written.
            """

    class Late(Protocol):
        """A frame that is made when its turn comes; `size` is about how many bytes it will have."""

        size: int

        def take(self) -> Frame | None:
            """Return the frame; it is taken once. None where there is nothing to send any more."""

    Entry: TypeAlias = "Frame | Late"

__all__ = ["Outbox"]

#: Bytes that may wait before whoever adds to them is held up (UPD-19).
_PENDING_BYTES = 1 << 20

#: Frames that are written together: about what a pipe holds.
_BATCH_BYTES = 1 << 15


class Outbox:
    """The frames of one connection, first in, first out; urgent ones first of all.

    Args:
        pipe: Where to.
        wake: Wakes the thread that calls `settle`.

    Attributes:
        is_dirty: Whether something waits that nobody is writing: `settle` is due.
        needs_room: Whether it waits for room in the pipe.
        is_watched: Whether the thread that calls `settle` is about to do so anyway. It sets this, and looks at
            `is_dirty` afterwards.
    """

    def __init__(self, pipe: Pipe, wake: Callable[[], None]) -> None:
        self._pipe, self._wake = pipe, wake
        self._frames: deque[Entry] = deque()
        self._urgent: deque[Entry] = deque()
        self._left: list[bytes | memoryview] = []
        self._bytes = self._urgent_bytes = self._batch_bytes = 0
        # Again by its own thread: the collector may run a finaliser that prints while one of them is held.
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._writer = 0
        self._waiting_for_room: deque[Callable[[], object]] = deque()
        self.is_dirty = self.is_watched = self.needs_room = False

    @property
    def is_full(self) -> bool:
        """Whether so much waits that nothing should be added."""
        return self._bytes > _PENDING_BYTES

    @property
    def has_too_many_urgent(self) -> bool:
        """Whether the host asks for more urgent frames than it reads."""
        return self._urgent_bytes > _PENDING_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether everything that was put in has been written."""
        return not (self._frames or self._urgent or self._batch_bytes)

    def put(self, entry: Entry, *, urgent: bool = False) -> None:
        """Add a frame, without writing it.

        Args:
            entry: A frame, or what makes one when its turn comes.
            urgent: Whether it overtakes all that are not: an answer that no other frame of its request precedes.
        """
        size = frame_size(entry) if isinstance(entry, (bytes, list)) else entry.size
        with self._lock:
            self._bytes += size
            if urgent:
                self._urgent_bytes += size
                self._urgent.append(entry)
            else:
                self._frames.append(entry)

    def pump(self, more_to_come: bool = False) -> None:
        """Write what waits, unless another thread is at it; wait while too much does (UPD-19).

        Args:
            more_to_come: Whether this thread has another frame soon, so that they may be written together. Whoever
                calls `settle` sees to it that the frame does not wait for a call that takes longer.
        """
        if more_to_come and self._bytes < _BATCH_BYTES:
            self._leave()
            return
        while not self.is_empty and self._writer != get_ident():
            if not self._writing.acquire(blocking=self.is_full):
                return  # whoever writes looks again before it leaves
            try:
                self._writer = get_ident()
                self._write(block=True)
            finally:
                self._writer = 0
                self._writing.release()

    def nudge(self) -> None:
        """Write what waits as far as the pipe has room, and leave the rest to `settle`. Never waits."""
        if self._writing.acquire(blocking=False):
            try:
                self._writer = get_ident()
                self._write(block=False)
            finally:
                self._writer = 0
                self._writing.release()
            if not self.is_empty:
                self.needs_room = True
                self._leave()

    def settle(self) -> None:
        """Write what was left, as far as the pipe has room."""
        if self.is_dirty:
            self.is_dirty = self.needs_room = False  # first: whoever leaves something from now on says so
            self.nudge()

    def call_with_room(self, callback: Callable[[], object]) -> None:
        """Call back once there is room again, on whatever thread makes it; at once if there is."""
        self._waiting_for_room.append(callback)
        if not self.is_full:
            self._tell_room()

    def wait_for_room(self) -> None:
        """Wait while it is full."""
        if self.is_full and self._writer != get_ident():
            gate = threading.Lock()
            gate.acquire()
            self.call_with_room(gate.release)
            gate.acquire()

    def _leave(self) -> None:
        if not self.is_dirty:
            self.is_dirty = True
            if not self.is_watched:
                self._wake()

    def _tell_room(self) -> None:
        while self._waiting_for_room:
            try:
                callback = self._waiting_for_room.popleft()
            except IndexError:  # another thread was quicker
                return
            callback()

    def _write(self, *, block: bool) -> bool:
        """Write what waits; return whether that was all."""
        while True:
            if not self._left:
                with self._lock:
                    self._bytes -= self._batch_bytes
                    self._batch_bytes = 0
                    batch = self._take_batch()
                self._left = _pieces_of(batch)
                if self._waiting_for_room and not self.is_full:
                    self._tell_room()
                if not batch:
                    return True
            if not self._pipe.write(self._left, block=block):
                return False

    def _take_batch(self) -> list[Entry]:
        """Take frames for one write, with the lock held; a large one goes alone or last."""
        batch: list[Entry] = []
        size = 0
        while size < _BATCH_BYTES:
            queue = self._urgent or self._frames
            if not queue:
                break
            entry = queue[0]
            own = frame_size(entry) if isinstance(entry, (bytes, list)) else entry.size
            if queue is self._urgent:
                self._urgent_bytes -= own
            size += own
            self._batch_bytes = size  # before it leaves the queue: `is_empty` is asked without the lock
            batch.append(queue.popleft())
        return batch


def _pieces_of(batch: list[Entry]) -> list[bytes | memoryview]:
    """Return the memory of frames, small pieces joined."""
    pieces: list[bytes | memoryview] = []
    small: list[bytes] = []
    for entry in batch:
        frame = entry if isinstance(entry, (bytes, list)) else entry.take()
        if isinstance(frame, bytes):
            small.append(frame)
        elif frame is not None:
            for piece in frame:
                if isinstance(piece, bytes):
                    small.append(piece)
                else:
                    pieces += (b"".join(small), piece)
                    small.clear()
    if small:
        pieces.append(b"".join(small) if len(small) > 1 else small[0])
    return pieces
