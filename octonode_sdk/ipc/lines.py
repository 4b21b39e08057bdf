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
        self._parts: list[bytes] = []
        self._size = 0
        self._draining = False
        self._at_start = True
        self.saw_bytes = False

    def feed(self, data: bytes) -> list[Line]:
        """Take the next bytes; return the lines that they complete, oldest first."""
        if not data:
            return []
        self.saw_bytes = True
        *ended, rest = data.split(b"\n")
        lines: list[Line] = []
        for piece in ended:
            if self._parts or self._draining or len(piece) > self._limit:
                self._keep(piece)
                line = self._take()
            else:
                line = self._clean(piece)
            if line is not None:
                lines.append(line)
        if rest:
            self._keep(rest)
        return lines

    def finish(self) -> list[Line]:
        """Return the last line, which may lack its LF (LINE-5)."""
        line = self._take() if self._parts else None
        return [] if line is None else [line]

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._draining:
            return
        self._parts.append(piece)
        # One byte more is the CR of a line that may still end in LF.
        if self._size > self._limit + 1:
            self._parts = [b"".join(self._parts)[:_HEAD_BYTES]]
            self._draining = True

    def _take(self) -> Line | None:
        size, draining = self._size, self._draining
        whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size, self._draining = [], 0, False
        if draining:
            self._at_start = False
            return OverlongLine(whole, size)
        line = self._clean(whole)
        return OverlongLine(line[:_HEAD_BYTES], size) if line is not None and len(line) > self._limit else line

    def _clean(self, line: bytes) -> bytes | None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)  # LINE-3
        if line[-1:] == b"\r":
            line = line[:-1]
        return line if line.strip(b" \t\r") else None
