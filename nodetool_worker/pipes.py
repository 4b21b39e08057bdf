"""Descriptors: payloads in, pieces of frames out. Transport without policy."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .frames import FrameSplitter

__all__ = ["FramePipe", "read_payloads"]

_READ_BYTES = 1 << 17

#: Most bytes of a large payload that one read takes.
_LARGE_READ_BYTES = 1 << 20

#: A pipe that poll calls writable takes this much without blocking (PIPE_BUF: at least 512, on Linux 4096).
_SURE_BYTES = 512 if sys.platform not in ("linux", "android") else 4096

#: Pieces that one system call takes (IOV_MAX is at least 16, on Linux 1024).
_PIECES = 16


def read_payloads(fd: int, splitter: FrameSplitter) -> list[Any] | None:
    """Wait for bytes and return the payloads that they complete; None at the end, also when the descriptor has died.

    A large payload is read into its own memory.
    """
    room = splitter.room() if hasattr(os, "readv") else None
    try:
        if room is None:
            data = os.read(fd, _READ_BYTES)
            return splitter.feed(data) if data else None
        with room, room[:_LARGE_READ_BYTES] as part:
            count = os.readv(fd, [part])
    except OSError as error:
        if error.errno is None:  # no failed read: node code has raised it in this thread, as timeouts by force do
            raise
        return None
    if not count:
        return None
    payload = splitter.filled(count)
    return [] if payload is None else [payload]


class FramePipe:
    """Writes to a descriptor, from one thread at a time.

    Args:
        fd: Where to.
        on_death: Called when nobody reads any more.

    Attributes:
        is_dead: Whether nobody reads any more; what is written then is dropped.
    """

    def __init__(self, fd: int, on_death: Callable[[], object]) -> None:
        self._fd, self._on_death = fd, on_death
        self.is_dead = False
        try:
            from select import POLLOUT, poll

            self._poll: Any = poll()
            self._poll.register(self._fd, POLLOUT)
        except ImportError:  # Windows has no poll: there a write may wait
            self._poll = None

    def write(self, pieces: list[bytes | memoryview], *, block: bool) -> bool:
        """Write pieces and take out of the list what is written; return False if the rest would block."""
        try:
            while pieces:
                if not block and self._poll is not None and not self._poll.poll(0):
                    return False
                self._write_some(pieces, block=block)
        except OSError:
            self.is_dead = True
            pieces.clear()
            self._on_death()
        return True

    def _write_some(self, pieces: list[bytes | memoryview], *, block: bool) -> None:
        piece = pieces[0]
        if not block:
            written = os.write(self._fd, memoryview(piece)[:_SURE_BYTES])
        elif len(pieces) == 1 or not hasattr(os, "writev"):
            written = os.write(self._fd, piece)
        else:
            written = os.writev(self._fd, pieces[:_PIECES])
        if written == len(piece):  # nearly always: one piece of bytes, written whole
            del pieces[0]
            return
        while pieces and written >= memoryview(pieces[0]).nbytes:
            written -= memoryview(pieces.pop(0)).nbytes
        if written:
            pieces[0] = memoryview(pieces[0]).cast("B")[written:]
