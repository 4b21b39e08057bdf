"""Blobs that come in chunks, pure: the frames of `chunked-v1` -> the bytes of each blob (BLB-5)."""

from __future__ import annotations

from hashlib import sha256
from mmap import mmap

from octonode_sdk.errors import shorten

from ..errors import BlobTransferError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..responses import BlobChunk, BlobEnd, BlobStart, Response, Result

__all__ = ["Assembly"]

#: Blobs of this size and more get memory that takes room only as it fills, so that a size alone costs nothing.
_MAPPED_BYTES = 1 << 20


class _Blob:
    """One blob on its way: its memory, how much of it is filled, and the digest so far."""

    __slots__ = ("digest", "filled", "size", "view")

    def __init__(self, size: int) -> None:
        self.size, self.filled = size, 0
        memory: Any = mmap(-1, size) if size >= _MAPPED_BYTES else bytearray(size)
        self.view = memoryview(memory)
        self.digest = sha256()


class Assembly:
    """The blobs of one request.

    Each is read into memory that is taken once, at its start. Blobs may be interleaved; a name comes once.

    Args:
        limit: Most bytes of one blob.
    """

    __slots__ = ("_done", "_limit", "_open")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[str, _Blob] = {}
        self._done: dict[str, bytes | memoryview] = {}

    def start(self, frame: BlobStart) -> None:
        """Take memory for a blob.

        Raises:
            BlobTransferError: It is over the limit, there is no memory for it, or its name has come before.
        """
        name, size = frame.name, frame.size
        if name in self._open or name in self._done:
            raise _fault(frame, "was started before; a name comes once a result")
        if size > self._limit:
            raise _fault(
                frame,
                f"has the size {size}, which is over the limit of {self._limit} bytes; "
                f"return less, or raise NODETOOL_PYTHON_MAX_RESULT_BLOB_BYTES",
            )
        try:
            self._open[name] = _Blob(size)
        except (MemoryError, OSError, OverflowError) as error:
            raise _fault(frame, f"has {size} bytes, for which there is no memory ({error})") from error

    def add(self, frame: BlobChunk) -> None:
        """Take some bytes of a blob.

        Raises:
            BlobTransferError: The blob was not started, the offset is not where it stands, or it is more than its size.
        """
        blob = self._open_blob(frame)
        if frame.offset != blob.filled:
            raise _fault(frame, f"has a chunk with the offset {frame.offset}; expected {blob.filled}")
        end = blob.filled + len(frame.bytes)
        if end > blob.size:
            raise _fault(
                frame, f"has a chunk of {len(frame.bytes)} bytes at {blob.filled}, which passes its size {blob.size}"
            )
        blob.view[blob.filled : end] = frame.bytes
        blob.filled = end
        blob.digest.update(frame.bytes)

    def end(self, frame: BlobEnd) -> None:
        """Close a blob.

        Raises:
            BlobTransferError: It was not started, has another size, or another digest.
        """
        blob = self._open_blob(frame)
        if blob.filled != blob.size:
            raise _fault(frame, f"has ended after {blob.filled} of its {blob.size} bytes")
        if frame.size != blob.size:
            raise _fault(frame, f"has the size {frame.size} at its end and {blob.size} at its start")
        found = blob.digest.hexdigest()
        if frame.sha256 != found:
            hint = " (in lower case)" if frame.sha256.lower() == found else ""
            raise _fault(
                frame, f"has the SHA-256 {shorten(frame.sha256, 70)} at its end, and its bytes have {found}{hint}"
            )
        del self._open[frame.name]
        self._done[frame.name] = blob.view.toreadonly()

    def _open_blob(self, frame: BlobChunk | BlobEnd) -> _Blob:
        blob = self._open.get(frame.name)
        if blob is None:
            raise _fault(frame, "has ended before" if frame.name in self._done else "was not started")
        return blob

    def take(self, frame: Result) -> None:
        """Put the complete blobs into the result or chunk that follows them, and forget them.

        Raises:
            BlobTransferError: A blob has not ended, or has come inline as well.
        """
        for name, blob in self._open.items():
            raise _fault(frame, f"has not ended: {blob.filled} of its {blob.size} bytes have come", name)
        for name in self._done.keys() & frame.blobs.keys():
            raise _fault(frame, "has come in chunks and inline as well", name)
        frame.blobs, self._done = {**self._done, **frame.blobs}, {}


def _fault(frame: Response, problem: str, name: str | None = None) -> BlobTransferError:
    shown = shorten(frame.data.get("name") if name is None else name)
    return BlobTransferError(f"the blob {shown} {problem}", type=frame.type, request_id=frame.request_id)
