"""Bytes <-> payloads <-> messages. The cases stand in tests/data/nodetool/frames."""

import math
import threading
from array import array
from itertools import pairwise
from struct import pack
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgpack import packb

from nodetool_worker import frames
from nodetool_worker.errors import FrameTooLargeError, MalformedFrameError, OutgoingTooLargeError
from nodetool_worker.frames import (
    DEFAULT_LIMIT_BYTES,
    LARGE_BYTES,
    Frame,
    FrameSplitter,
    Large,
    decode,
    encode,
    encode_data,
    frame_size,
    framed,
    large_or_copied,
    large_or_same,
    recover_request_id,
    type_of,
    wrap_data,
)
from tests.data_cases import parametrize_cases

#: What a payload needs so that it gets memory of its own.
OWN_BYTES = 1 << 20

TEXTS = st.text(max_size=20)
LARGE = st.integers(LARGE_BYTES, LARGE_BYTES + 3).map(lambda size: b"%d " % size + bytes(size - 6))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | TEXTS
    | st.binary(max_size=300)
    | LARGE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def prefixed(payload: bytes) -> bytes:
    return pack(">I", len(payload)) + payload


def joined(frame: Frame) -> bytes:
    """Return the bytes of a frame as they go over the wire."""
    return frame if isinstance(frame, bytes) else b"".join(frame)


def payload_of(frame: Frame) -> bytes:
    wire = joined(frame)
    assert pack(">I", len(wire) - 4) == wire[:4]
    return wire[4:]


def with_large(value: Any) -> Any:
    """Return a value whose large bytes are `Large`, as outputs have them."""
    if isinstance(value, bytes):
        return large_or_same(value)
    if isinstance(value, dict):
        return {key: with_large(one) for key, one in value.items()}
    return [with_large(one) for one in value] if isinstance(value, list) else value


def fed(wire: bytes, *cuts: int) -> tuple[list[bytes], FrameSplitter]:
    """Feed a stream in the pieces between the cuts; return the payloads and the splitter."""
    splitter = FrameSplitter()
    borders = [0, *cuts, len(wire)]
    found = [one for start, stop in pairwise(borders) for one in splitter.feed(wire[start:stop])]
    return [bytes(one[:]) for one in found], splitter


# The stream


def test_a_frame_comes_out_with_its_last_byte_and_not_before() -> None:
    """FRM-1, FRM-2: also with the next one behind it."""
    first, second = prefixed(b"first"), prefixed(b"second")
    splitter = FrameSplitter()
    for byte in first[:-1]:
        assert splitter.feed(bytes([byte])) == []
        assert splitter.is_inside_frame
    assert splitter.feed(first[-1:] + second[:3]) == [b"first"]
    assert splitter.is_inside_frame
    assert splitter.feed(second[3:]) == [b"second"]
    assert not splitter.is_inside_frame


def test_all_frames_of_one_piece_come_out_in_their_order() -> None:
    """FRM-2: empty ones too."""
    found, splitter = fed(prefixed(b"a") + prefixed(b"") + prefixed(b"bc") * 3)
    assert found == [b"a", b"", b"bc", b"bc", b"bc"]
    assert not splitter.is_inside_frame


@given(payloads=st.lists(st.binary(max_size=40), max_size=6), data=st.data())
def test_the_pieces_of_a_stream_make_no_difference(payloads: list[bytes], data: st.DataObject) -> None:
    """FRM-2."""
    wire = b"".join(map(prefixed, payloads))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    assert fed(wire, *cuts)[0] == payloads


@pytest.mark.parametrize("size", [OWN_BYTES - 1, OWN_BYTES, OWN_BYTES + 1, 3 * OWN_BYTES])
@pytest.mark.parametrize("cut", [1, 4, 5, 1000, OWN_BYTES])
def test_a_large_payload_is_put_together_in_memory_of_its_own(size: int, cut: int) -> None:
    """FRM-2: whatever the pieces, with small frames on both sides."""
    large = b"ab" * (size // 2) + b"c" * (size % 2)
    wire = prefixed(b"before") + prefixed(large) + prefixed(b"behind")
    assert fed(wire, *range(cut, len(wire), max(cut, OWN_BYTES // 7)))[0] == [b"before", large, b"behind"]


def test_the_rest_of_a_large_payload_is_read_straight_into_its_room() -> None:
    """FRM-2: in odd pieces, and in turn with pieces that are fed."""
    large = b"0123456789" * 200_000
    splitter = FrameSplitter()
    assert splitter.room() is None
    assert splitter.feed(prefixed(large)[:7]) == []
    done = 3
    payload: Any = None
    for step in [0, 1, 65_537, 0, 999_999, 2, 400_000]:
        room = splitter.room()
        assert room is not None
        assert len(room) == len(large) - done
        room[:step] = large[done : done + step]
        room.release()
        assert splitter.filled(step) is None
        done += step
        assert splitter.feed(large[done : done + 10]) == []
        done += 10
    room = splitter.room()
    assert room is not None
    room[:] = large[done:]
    room.release()
    payload = splitter.filled(len(large) - done)
    assert payload[:] == large
    assert splitter.room() is None
    assert not splitter.is_inside_frame
    assert splitter.feed(prefixed(b"next")) == [b"next"]


@pytest.mark.parametrize("size", [11, 2**32 - 1])
def test_a_length_over_the_limit_is_noticed_with_its_fourth_byte(size: int) -> None:
    """FRM-3, FRM-4, FRM-7: nothing behind it is taken, and what came before it is."""
    splitter = FrameSplitter(10)
    failures: list[FrameTooLargeError | None] = []
    head = pack(">I", size)
    for piece, found in ((prefixed(b"0123456789") + head[:3], [b"0123456789"]), (head[3:], [])):
        assert splitter.feed(piece) == found
        failures.append(splitter.failure)
    before, failure = failures
    assert before is None
    assert failure is not None
    assert (failure.size, failure.limit) == (size, 10)
    assert str(failure) == f"Incoming bridge frame exceeds max size ({size} > 10)"
    assert splitter.feed(prefixed(b"a")) == []
    assert splitter.room() is None


def test_the_limit_is_that_of_the_published_page_unless_told() -> None:
    """FRM-3: 256 MiB of payload, exactly."""
    assert DEFAULT_LIMIT_BYTES == 268_435_456
    splitter = FrameSplitter()
    splitter.feed(pack(">I", DEFAULT_LIMIT_BYTES))
    assert splitter.failure is None
    assert splitter.is_inside_frame  # FRM-6: the end of the stream would cut it
    splitter = FrameSplitter()
    splitter.feed(pack(">I", DEFAULT_LIMIT_BYTES + 1))
    assert splitter.failure is not None


# Payloads that are no message


@parametrize_cases("nodetool/frames/malformed")
def test_a_payload_that_is_no_map_is_refused_with_the_id_that_can_be_found(case: dict[str, Any]) -> None:
    """FRM-9 to FRM-14, RID-4, VAL-4: the rule stands in the case."""
    with pytest.raises(MalformedFrameError) as caught:
        decode(bytes.fromhex(case["payload"]))
    assert str(caught.value).startswith(case["error"])
    assert caught.value.request_id == case["request_id"]


@parametrize_cases("nodetool/frames/recovered_ids")
def test_the_id_of_a_broken_payload_is_the_text_behind_its_key(case: dict[str, Any]) -> None:
    """RID-4, RID-5."""
    payload = bytes.fromhex(case["payload"])
    assert recover_request_id(payload) == case["expected"]
    with pytest.raises(MalformedFrameError) as caught:
        decode(payload)
    assert caught.value.request_id == case["expected"]


@pytest.mark.parametrize(("ahead", "found"), [(65_522, "id"), (65_523, None), (70_000, None)])
def test_an_id_is_looked_for_in_the_first_64_kib(ahead: int, found: str | None) -> None:
    """RID-4, RID-5: 11 bytes are the key with the header, 3 the id with its own."""
    assert recover_request_id(b"." * ahead + b"\xaarequest_id\xa2id") == found


def test_a_broken_payload_in_memory_of_its_own_is_refused_like_any_other() -> None:
    """RID-4."""
    broken = b"\x83\xa4type\xa1x\xaarequest_id\xa2q1\xa4data\xc1" + bytes(OWN_BYTES)
    splitter = FrameSplitter()
    wire = prefixed(broken)
    assert splitter.feed(wire[:10]) == []
    [payload] = splitter.feed(wire[10:])
    assert not isinstance(payload, bytes)
    with pytest.raises(MalformedFrameError) as caught:
        decode(payload)
    assert caught.value.request_id == "q1"


@given(payload=st.binary() | st.binary().map(lambda tail: b"\x83\xa4type\xa1x\xaarequest_id\xa2q1\xa4data" + tail))
@example(b"\x91" * 100_000)
@example(b"\x81\xa1a" * 100_000)
@example(b"\x81\x91" * 1000)
@example(b"\x81\xc7\xff\xff" + bytes(300))
def test_any_bytes_give_a_map_with_text_keys_or_a_protocol_error(payload: bytes) -> None:
    """FRM-9 to FRM-14: nothing else leaves the decoder."""
    type_of(payload)
    try:
        message = decode(payload)
    except MalformedFrameError:
        return
    assert all(type(key) is str for key in message)


# Values that come in


@parametrize_cases("nodetool/frames/values")
def test_what_a_host_writes_reaches_the_node_in_plain_values(case: dict[str, Any]) -> None:
    """VAL-1 to VAL-5, FRM-1, FRM-15: the rule stands in the case."""
    made = decode(bytes.fromhex(case["payload"]))
    assert made == case["expected"]
    assert list(made) == list(case["expected"])


def test_odd_values_are_found_in_a_large_payload_too() -> None:
    """VAL-1, VAL-2, VAL-4, VAL-5: where it is not searched for them but walked."""
    payload = b"\x84\xa1a\xd4\x00\x00\xa1b\xd6\xff\x00\x00\x00\x01\xc4\x01c\x05\xa1d" + packb(bytes(OWN_BYTES))
    assert decode(payload) == {"b": "1970-01-01T00:00:01+00:00", "c": 5, "d": bytes(OWN_BYTES)}


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 2**64 - 1, -(2**63), 1e308, -0.0])
def test_numbers_are_kept_as_they_are(value: float) -> None:
    """VAL-9."""
    made = decode(payload_of(encode({"a": value})))["a"]
    assert (type(made), made, math.copysign(1, made)) == (type(value), value, math.copysign(1, value))


def test_a_value_that_is_no_number_is_kept() -> None:
    """VAL-9."""
    assert math.isnan(decode(payload_of(encode({"a": math.nan})))["a"])


def test_bytes_that_look_like_a_timestamp_stay_bytes() -> None:
    """VAL-10: the search only decides whether the values are looked at."""
    value = {"a": b"\xd6\xff\x00\x00\x00\x01", "b": "ÿ", "c": [b"\xd4\x00\x00"]}
    assert decode(packb(value)) == value


def test_undefined_in_one_payload_is_seen_however_many_threads_decode() -> None:
    """VAL-1: each thread has payloads with and without such values."""
    odd, plain = b"\x82\xa1a\xd4\x00\x00\xa1b\x01", b"\x81\xa1b\x01"
    wrong: list[Any] = []

    def work() -> None:
        for index in range(2000):
            made = decode(odd if index % 2 else plain)
            if made != {"b": 1}:
                wrong.append(made)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


# Messages that go out


@given(message=st.dictionaries(TEXTS, VALUES, max_size=5))
def test_a_message_that_was_encoded_is_decoded_to_itself(message: dict[str, Any]) -> None:
    """FRM-1, FRM-18, VAL-10, VAL-14: with large bytes at any number of places."""
    frame = encode(with_large(message))
    assert decode(payload_of(frame)) == message
    assert payload_of(frame)[:1] == packb(message)[:1]
    assert frame_size(frame) == len(joined(frame))
    splitter = FrameSplitter()
    assert [decode(payload) for payload in splitter.feed(joined(frame))] == [message]


def test_large_bytes_are_in_the_frame_with_their_own_memory() -> None:
    """VAL-14: at every place, and one value at several."""
    first, second = bytes(LARGE_BYTES), b"x" * (LARGE_BYTES + 1)
    large = Large(memoryview(first))
    frame = encode({"a": large, "b": [{"c": large_or_same(second)}, large], "d": 5})
    assert isinstance(frame, list)
    assert [piece.obj for piece in frame if isinstance(piece, memoryview)] == [first, second, first]
    assert [piece.obj is value for piece, value in zip(frame[1::2], (first, second, first), strict=True)] == [True] * 3  # type: ignore[union-attr]  # every second piece is a view
    assert decode(payload_of(frame)) == {"a": first, "b": [{"c": second}, first], "d": 5}


def test_small_bytes_are_copied_into_their_frame() -> None:
    """VAL-14: a system call would cost more than the copy."""
    small = b"x" * (LARGE_BYTES - 1)
    assert large_or_same(small) is small
    assert isinstance(encode({"a": small}), bytes)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_all_kinds_of_bytes_leave_as_bin(kind: Any) -> None:
    """VAL-10."""
    for size in (0, 1, 300, LARGE_BYTES):
        value = bytes(range(256)) * (size // 256) + bytes(size % 256)
        assert decode(payload_of(encode({"a": large_or_same(kind(value))}))) == {"a": value}
        assert decode(payload_of(encode({"a": large_or_copied(kind(value))}))) == {"a": value}


def test_bytes_that_a_node_may_go_on_filling_are_copied_once() -> None:
    """Our own choice: a buffer that is used again must not change what waits, nor be held against its owner."""
    buffer = bytearray(b"a" * LARGE_BYTES)
    frame = encode({"a": large_or_copied(buffer)})
    buffer[:] = b"b" * LARGE_BYTES
    buffer.clear()  # fails where a view is still out
    assert decode(payload_of(frame)) == {"a": b"a" * LARGE_BYTES}
    value = bytes(LARGE_BYTES)
    assert large_or_copied(value).view.obj is value
    wide = memoryview(array("d", [1.0] * LARGE_BYTES))
    assert decode(payload_of(encode({"a": large_or_copied(wide)}))) == {"a": wide.tobytes()}


def test_a_frame_over_the_limit_is_refused_before_it_is_sent() -> None:
    """FRM-3, FRM-5: with both numbers; exactly the limit passes, large values counted."""
    size = len(packb({"a": 5}))
    assert encode({"a": 5}, limit=size)
    with pytest.raises(OutgoingTooLargeError) as caught:
        encode({"a": 5}, limit=size - 1)
    assert (caught.value.size, caught.value.limit) == (size, size - 1)
    assert f"({size} > {size - 1})" in str(caught.value)
    large = large_or_same(bytes(LARGE_BYTES))
    size = frame_size(encode({"a": large})) - 4
    assert encode({"a": large}, limit=size)
    with pytest.raises(OutgoingTooLargeError):
        encode({"a": large}, limit=size - 1)


@pytest.mark.parametrize("value", [{1}, object(), 2**64, -(2**63) - 1, "\ud800"])
def test_what_has_no_form_is_refused_and_the_next_message_is_whole(value: Any) -> None:
    """VAL-17: an encoder that has failed in the middle is not used again."""
    with pytest.raises((TypeError, OverflowError, UnicodeEncodeError)):
        encode({"a": [large_or_same(bytes(LARGE_BYTES)), value]})
    assert decode(payload_of(encode({"a": 1}))) == {"a": 1}


def test_an_encoder_that_has_packed_much_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """UPD-20: the packer's buffer never shrinks."""
    frames._encoders.clear()
    encode_data("x" * 2_000_000)
    assert len(frames._encoders) == 0
    encode_data("x" * 1000)
    assert len(frames._encoders) == 1


@given(data=st.dictionaries(TEXTS, VALUES, max_size=4), id_=st.text(min_size=1, max_size=40))
def test_data_that_is_packed_already_is_wrapped_as_if_it_were_not(data: dict[str, Any], id_: str) -> None:
    """FRM-18, DSC-1."""
    packed = encode_data(with_large(data))
    message = {"type": "discover", "request_id": id_, "data": data}
    frame = wrap_data("discover", id_, packed)
    assert decode(payload_of(frame)) == message
    assert type_of(payload_of(frame)) == "discover"
    size = frame_size(frame) - 4
    assert wrap_data("discover", id_, packed, limit=size)
    with pytest.raises(OutgoingTooLargeError):
        wrap_data("discover", id_, packed, limit=size - 1)


@pytest.mark.parametrize("size", [1, LARGE_BYTES - 1, LARGE_BYTES])
def test_a_payload_that_is_packed_already_is_framed_as_it_is(size: int) -> None:
    """FRM-1: a large one is not copied (VAL-14)."""
    payload = b"a" * size
    frame = framed(payload)
    assert payload_of(frame) == payload
    assert isinstance(frame, bytes) is (size < LARGE_BYTES)
    if isinstance(frame, list):
        assert frame[1].obj is payload  # type: ignore[union-attr]  # a view


def test_the_type_of_a_message_is_read_without_decoding_it() -> None:
    """Our own choice: for what isolated processes send."""
    assert type_of(payload_of(encode({"type": "result", "request_id": "q", "data": {}}))) == "result"
    assert type_of(payload_of(encode({"request_id": "q", "type": "result"}))) == ""
    for stop in range(12):
        type_of(b"\x81\xa4type\xa6resu"[:stop])
    assert type_of(b"\x81\xa4type\xd9\x06result") == ""


def test_many_threads_encode_at_once_and_each_gets_its_own_message() -> None:
    """FRM-19: encoders are lent to one thread at a time."""
    wrong: list[Any] = []

    def work(number: int) -> None:
        large = bytes([number]) * LARGE_BYTES
        for index in range(300):
            message = {"a": [number, index], "b": large_or_same(large), "c": "x" * index}
            if decode(payload_of(encode(message))) != {**message, "b": large}:
                wrong.append(message)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
