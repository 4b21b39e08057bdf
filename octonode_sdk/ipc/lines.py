"""Pure: bytes as they come -> whole lines, with a limit on each."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Line: TypeAlias = "bytes | OverlongLine"

__all__ = ["DEFAULT_LIMIT_BYTES", "LineSplitter", "OverlongLine"]

#: Longest line accepted unless told otherwise, its LF not counted (LINE-9). Far above any request that carries data in
#: itself; large blobs belong into files.
DEFAULT_LIMIT_BYTES = 64 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"

#: Most that is kept of a line over the limit: far more than what stands before the id in the envelopes of any engine.
_HEAD_BYTES = 4096


class OverlongLine:
    """A line over the limit: its first bytes, from which an id may be read, and its size in bytes."""

    __slots__ = ("head", "size")

    def __init__(self, head: bytes, size: int) -> None:
        self.head, self.size = head, size


class LineSplitter:
    """Cuts a stream into lines (LINE-1). Blank lines are left out (LINE-4), a CR before the LF is dropped (LINE-2).

    Args:
        limit: Longest line accepted, in bytes without its end, itself included. What is longer is counted but not
            kept, and comes out as an `OverlongLine` (LINE-8).

    Attributes:
        saw_bytes: Whether anything came at all.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit = limit
        self._head_bytes = min(_HEAD_BYTES, limit)
        # One buffer, no list of pieces: a host that writes in tiny pieces must not cost an object for each (LINE-10).
        self._open = bytearray()
        self._size = 0
        # What may belong to the end or the start of a line and does not count: a CR, and the mark on the first line.
        self._slack = 1 + len(_BOM)
        self.saw_bytes = False

    def feed(self, data: bytes) -> list[Line]:
        """Take the next bytes; return the lines that they complete, oldest first."""
        if not data:
            return []
        self.saw_bytes = True
        *ended, rest = data.split(b"\n")
        lines: list[Line] = []
        at_start = not self._size and self._slack == 1 and len(data) <= self._limit
        if at_start and all([piece.endswith(b"}") for piece in ended]):  # noqa: C419  # quicker than a generator
            # As it nearly always is: whole lines, and by their last byte neither blank nor with a CR.
            if rest:
                self._keep(rest)
            return [*ended]
        for piece in ended:
            if self._size or len(piece) > self._limit:
                self._keep(piece)
                line = self._take()
            else:
                line = self._clean(piece)
            if line is not None:
                lines.append(line)
        if rest:
            self._keep(rest)
        return lines

    @property
    def unfinished(self) -> int:
        """Bytes of the line that has not come to its end."""
        return self._size

    @property
    def unfinished_head(self) -> bytes:
        """The first bytes of that line, from which an id may be read."""
        return bytes(self._open[: self._head_bytes])

    def finish(self) -> list[Line]:
        """Return the last line, which may lack its LF (LINE-5)."""
        line = self._take() if self._size else None
        return [] if line is None else [line]

    def _keep(self, piece: bytes) -> None:
        most = self._limit + self._slack
        if self._size <= most:
            self._size += len(piece)
            self._open += piece
            if self._size > most:
                del self._open[self._head_bytes :]  # from here on the line is counted and not kept (LINE-8)
        else:
            self._size += len(piece)

    def _take(self) -> Line | None:
        size, whole = self._size, bytes(self._open)
        self._open = bytearray()  # a new one: clear() would keep the memory of the longest line for good
        self._size = 0
        if size > self._limit + self._slack:
            self._slack = 1
            return OverlongLine(whole, size)
        line = self._clean(whole)
        return OverlongLine(line[: self._head_bytes], size) if line is not None and len(line) > self._limit else line

    def _clean(self, line: bytes) -> bytes | None:
        if self._slack > 1:
            self._slack = 1
            line = line.removeprefix(_BOM)  # LINE-3
        if line[-1:] == b"\r":  # LINE-2
            line = line[:-1]
        return line if line.strip(b" \t\r") else None  # LINE-4
