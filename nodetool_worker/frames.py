"""Frames, pure: bytes <-> messages. Shared by the worker and the client (docs/nodetool-wire.md, FRM, RID and VAL).

A frame is a 4-byte big-endian length and that many bytes of MessagePack, which hold one map
`{type: str, request_id: str, data: map}` (FRM-1, FRM-18). WebSocket carries the same payload without the length.
"""

from __future__ import annotations

from collections import deque
from struct import Struct

from msgpack import Packer, unpackb

from .errors import FrameTooLargeError, MalformedFrameError, OutgoingTooLargeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

#: One frame, ready to be written: bytes, or several pieces of memory that are written one after the other.
Frame: TypeAlias = "bytes | list[bytes | memoryview]"

__all__ = [
    "DEFAULT_LIMIT_BYTES",
    "HEADER_BYTES",
    "LARGE_BYTES",
    "Frame",
    "FrameSplitter",
    "Large",
    "decode",
    "encode",
    "encode_data",
    "frame_size",
    "framed",
    "large_or_copied",
    "large_or_same",
    "recover_request_id",
    "type_of",
    "wrap_data",
]

HEADER_BYTES = 4

#: Most bytes of a payload, unless NODETOOL_BRIDGE_MAX_FRAME_SIZE says otherwise; the protocol page's default (FRM-3).
DEFAULT_LIMIT_BYTES = 256 << 20

#: Bytes values of this size and more are not copied into their frame. Below it a copy costs less than a system call.
LARGE_BYTES = 64 << 10

#: A payload that is not here yet and has this many bytes gets memory of its own, into which it is read.
_OWN_MEMORY_BYTES = 1 << 20

#: Where the id is looked for in a payload that can't be decoded; hosts put it right behind the type.
_RECOVERY_BYTES = 64 << 10

#: Longest id that is recovered; a host's is a UUID.
_ID_BYTES = 1024

_LENGTH = Struct(">I")
_BIN32 = Struct(">BI")


class FrameSplitter:
    """Takes the bytes of a stream as they come, and gives the payloads of the frames in it (FRM-1, FRM-2).

    Args:
        limit: Most bytes of a payload; checked as soon as the length is there (FRM-4).

    Attributes:
        failure: Set once a length is over the limit. Nothing behind it can be understood, and nothing is taken (FRM-7).
    """

    def __init__(self, limit: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit = limit
        self._rest = b""
        self._large: Any = None
        self._filled = 0
        self.failure: FrameTooLargeError | None = None

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun and not ended (FRM-6)."""
        return bool(self._rest) or self._large is not None

    def feed(self, data: bytes) -> list[Any]:
        """Take bytes and return the payloads that they complete, in order: bytes, or other memory for large ones."""
        payloads: list[Any] = []
        if self._large is not None:
            room = self.room()
            assert room is not None
            count = min(len(room), len(data))
            room[:count] = data[:count]
            room.release()
            whole = self.filled(count)
            if whole is None:
                return payloads
            payloads.append(whole)
            data = data[count:]
        if self._rest:
            data = self._rest + data
            self._rest = b""
        start, end, limit = 0, len(data), self._limit
        while self.failure is None and end - start >= HEADER_BYTES:
            (size,) = _LENGTH.unpack_from(data, start)
            if size > limit:
                self.failure = FrameTooLargeError(size, limit)
                return payloads
            stop = start + HEADER_BYTES + size
            if stop > end:
                if size >= _OWN_MEMORY_BYTES:
                    self._start_large(size, data[start + HEADER_BYTES :])
                    return payloads
                break
            payloads.append(data[start + HEADER_BYTES : stop])
            start = stop
        if self.failure is None and start < end:
            self._rest = data[start:] if start else data
        return payloads

    def _start_large(self, size: int, head: bytes) -> None:
        # Anonymous memory takes room only as it fills: a length alone costs nothing.
        from mmap import mmap

        self._large = mmap(-1, size)
        self._large[: len(head)] = head
        self._filled = len(head)

    def room(self) -> memoryview | None:
        """Return where the rest of a large payload is to be read into, or None where `feed` takes what comes.

        Whoever fills it says so to `filled`, and releases the view before.
        """
        return None if self._large is None else memoryview(self._large)[self._filled :]

    def filled(self, count: int) -> Any:
        """Note that `count` bytes came into `room`; return the payload if that was the rest of it, else None."""
        self._filled += count
        if self._filled < len(self._large):
            return None
        payload, self._large, self._filled = self._large, None, 0
        return payload


# Payloads: MessagePack -> message


class _Absent:
    """What stands for a value that the host did not give: `undefined`, which its encoder writes as ext 0 (VAL-1)."""


_ABSENT = _Absent()

#: Renewed with each value of a private ext type, by any thread: another one only means that a walk is due.
_last_ext = object()


def _note_ext(_code: int, _data: bytes) -> _Absent:
    global _last_ext
    _last_ext = object()
    return _ABSENT


#: How the three forms of a timestamp begin: fixext 4, fixext 8, and ext 8 with 12 bytes, each of type -1.
_TIMESTAMPS = (b"\xd6\xff", b"\xd7\xff", b"\xc7\x0c\xff")

#: How bytes begin, which may be a key: the decoder lets those pass, and tells of every other key that is no text.
_BYTES = (b"\xc4", b"\xc5", b"\xc6")

#: In a payload of this size and more, a walk is quicker than three searches: most of it is in few large values.
_WALK_BYTES = 1 << 20


def decode(payload: Any) -> dict[str, Any]:
    """Return the map that a payload holds, in plain values.

    What a host did not give (ext 0 and any other private ext type) is left out of maps, and None in lists (VAL-1,
    VAL-2). A timestamp is its ISO 8601 text (VAL-4). A key that is no text becomes one, as JavaScript writes it
    (VAL-5), and of two equal ones the last wins (FRM-15).

    Raises:
        MalformedFrameError: It is not one MessagePack map (FRM-9 to FRM-14). `request_id` is what `recover_request_id`
            finds.
    """
    before, is_plain = _last_ext, True
    try:
        try:
            message = unpackb(payload, ext_hook=_note_ext, timestamp=3)
        except ValueError as error:
            if "not allowed for map key" not in str(error):
                raise
            # As pairs: in a dict the keys 1, 1.0 and true would be one, and a list would be none.
            message = unpackb(
                payload, ext_hook=_note_ext, timestamp=3, strict_map_key=False, object_pairs_hook=_with_text_keys
            )
            is_plain = False
        if not is_plain or before is not _last_ext or _may_need_walk(payload):
            message = _plain(message)
    except Exception as error:  # whatever the decoder makes of bytes that are no message
        raise MalformedFrameError(
            f"Malformed msgpack frame: {_reason(error)}", request_id=recover_request_id(payload)
        ) from error
    if type(message) is not dict:
        name = "NoneType" if message is _ABSENT else type(message).__name__
        raise MalformedFrameError(f"Expected a msgpack map, got {name}")
    return message


def _reason(error: Exception) -> str:
    text = str(error)
    if text:
        return text
    return {"FormatError": "invalid format", "StackError": "nested too deep"}.get(
        type(error).__name__, type(error).__name__
    )


def _may_need_walk(payload: Any) -> bool:
    """Tell whether there may be timestamps, or keys that are bytes."""
    if len(payload) >= _WALK_BYTES:
        return True
    if b"\xff" in payload and any(mark in payload for mark in _TIMESTAMPS):
        return True
    return any(mark in payload for mark in _BYTES)


def _with_text_keys(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {_key_text(key): value for key, value in pairs if key is not _ABSENT}


def _plain(value: Any) -> Any:
    """Return a decoded value without what is no plain value: absent ones, timestamps, keys that are no text."""
    cls = type(value)
    if cls is dict:
        return {
            key if type(key) is str else _key_text(key): _plain(one) for key, one in value.items() if one is not _ABSENT
        }
    if cls is list:
        return [None if one is _ABSENT else _plain(one) for one in value]
    if cls is str or cls is int or cls is float or cls is bool or cls is bytes or value is None or value is _ABSENT:
        return value
    return value.isoformat()  # a timestamp; the decoder makes nothing else


def _key_text(key: Any) -> str:
    """Return a key of a JavaScript Map as the key of an object (VAL-5)."""
    if type(key) is str:
        return key
    if type(key) is bytes:
        return key.decode("utf-8")
    if type(key) is list:
        return ",".join("" if one is None or one is _ABSENT else _key_text(one) for one in key)
    if type(key) is dict:
        return "[object Object]"
    if hasattr(key, "isoformat"):
        text: str = key.isoformat()
        return text
    from octonode_sdk.shapes import key_text

    return str(key_text(key))


def recover_request_id(payload: Any) -> str | None:
    """Return the id in the bytes of a payload that can't be decoded, or None (RID-4, RID-5).

    The key's text is looked for, and the text behind it taken, whatever header it has.
    """
    data = bytes(payload[:_RECOVERY_BYTES])
    at = data.find(b"request_id")
    if at < 0:
        return None
    at += len(b"request_id")
    head = data[at] if at < len(data) else 0
    if 0xA0 <= head <= 0xBF:
        start, size = at + 1, head & 0x1F
    elif 0xD9 <= head <= 0xDB:  # str 8, 16, 32
        width = 1 << (head - 0xD9)
        start, size = at + 1 + width, int.from_bytes(data[at + 1 : at + 1 + width], "big")
    else:
        return None
    text = data[start : start + size]
    if not 0 < size <= _ID_BYTES or len(text) < size:
        return None
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return None


# Messages -> frames


class Large:
    """Bytes that go into a frame from their own memory, without a copy (VAL-14)."""

    __slots__ = ("view",)

    def __init__(self, view: memoryview) -> None:
        self.view = view


def large_or_same(value: bytes | bytearray | memoryview) -> Any:
    """Return bytes for a message: as they are, or as `Large` from `LARGE_BYTES` on."""
    view = memoryview(value)
    return Large(view) if view.nbytes >= LARGE_BYTES else value


def large_or_copied(value: bytes | bytearray | memoryview) -> Any:
    """Return the same, but a copy of large ones that can be written to.

    For bytes whose owner goes on: a node that fills one buffer again and again must not change what waits to be sent,
    nor find that it can't resize the buffer meanwhile.
    """
    view = memoryview(value)
    if view.nbytes < LARGE_BYTES:
        return value
    return Large(view if view.readonly else memoryview(bytes(view)))


class _Encoder:
    """A packer, and the places at which it left out the memory of large values."""

    __slots__ = ("_packer", "packed_bytes", "places")

    def __init__(self) -> None:
        self._packer = Packer(default=self._leave_out, buf_size=4096)  # type: ignore[call-arg]  # the stub knows an older one
        self.places: list[tuple[int, memoryview]] = []
        self.packed_bytes = 0

    def _leave_out(self, value: Any) -> None:
        """Note where the value belongs, and let nil stand there: one byte, which is cut out afterwards."""
        if type(value) is not Large:
            raise TypeError(f"a {type(value).__qualname__} can't be sent")
        with self._packer.getbuffer() as buffer:
            self.places.append((len(buffer), value.view))

    def pack(self, value: Any) -> list[bytes | memoryview]:
        """Return the pieces of a packed value."""
        self.places.clear()
        data: bytes = self._packer.pack(value)
        self.packed_bytes = len(data)
        if not self.places:
            return [data]
        pieces: list[bytes | memoryview] = []
        start = 0
        for place, view in self.places:
            pieces += (data[start:place] + _BIN32.pack(0xC6, view.nbytes), view)
            start = place + 1
        pieces.append(data[start:])
        return pieces


#: An encoder that has packed more than this is let go with the memory that it has taken.
_KEPT_BYTES = 1 << 20

#: Encoders that are free. One is not shared between threads while it packs; taking and giving back is atomic.
_encoders: deque[_Encoder] = deque()


def encode_data(value: Any) -> list[bytes | memoryview]:
    """Return the pieces of a value in MessagePack; what is `Large` in it is a piece of its own.

    Raises:
        TypeError, ValueError, OverflowError, UnicodeEncodeError: It holds what MessagePack has no form for.
    """
    try:
        encoder = _encoders.pop()
    except IndexError:
        encoder = _Encoder()
    pieces = encoder.pack(value)  # an encoder that has failed in the middle is not used again
    encoder.places.clear()
    if encoder.packed_bytes <= _KEPT_BYTES:
        _encoders.append(encoder)
    return pieces


def encode(message: dict[str, Any], *, limit: int = DEFAULT_LIMIT_BYTES) -> Frame:
    """Return the frame of a message.

    Raises:
        OutgoingTooLargeError: Its payload is over the limit (FRM-5).
        TypeError, ValueError, OverflowError, UnicodeEncodeError: As `encode_data`.
    """
    return _framed(encode_data(message), limit)


def wrap_data(
    type_: str, request_id: str, data: list[bytes | memoryview], *, limit: int = DEFAULT_LIMIT_BYTES
) -> Frame:
    """Return the frame of a message whose data is packed already, as `encode_data` returns it.

    Raises:
        OutgoingTooLargeError: Its payload is over the limit.
    """
    head = encode_data({"type": type_, "request_id": request_id})[0]
    assert isinstance(head, bytes)
    return _framed([b"\x83" + head[1:] + b"\xa4data", *data], limit)  # a map of three instead of two


def _framed(pieces: list[bytes | memoryview], limit: int) -> Frame:
    size = sum(map(_bytes_of, pieces)) if len(pieces) > 1 else len(pieces[0])
    if size > limit:
        raise OutgoingTooLargeError(size, limit)
    if len(pieces) == 1:
        return _LENGTH.pack(size) + pieces[0]
    return [_LENGTH.pack(size) + pieces[0], *pieces[1:]]


def _bytes_of(piece: Any) -> int:
    return piece.nbytes if type(piece) is memoryview else len(piece)


def framed(payload: Any) -> Frame:
    """Return the frame of a payload that is packed already; a large one is not copied."""
    size = len(payload)
    if size < LARGE_BYTES:
        return _LENGTH.pack(size) + bytes(payload)
    return [_LENGTH.pack(size), memoryview(payload)]


def type_of(payload: Any) -> str:
    """Return the type of a message without decoding the rest of it; "" where the type does not come first.

    `encode` puts it first, so this serves for the payloads of this package.
    """
    head = bytes(payload[1:40])
    size = head[5] & 0x1F if head[:5] == b"\xa4type" and b"\xa0" <= head[5:6] <= b"\xbf" else 0
    return head[6 : 6 + size].decode("ascii", "replace")


def frame_size(frame: Frame) -> int:
    """Return how many bytes a frame has on the wire, its length included."""
    return len(frame) if isinstance(frame, bytes) else sum(map(_bytes_of, frame))
