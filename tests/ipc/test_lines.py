"""Bytes as they come, cut into lines."""

import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octonode_sdk.ipc.lines import DEFAULT_LIMIT_BYTES, LineSplitter, OverlongLine

LIMIT = 8
BOM = b"\xef\xbb\xbf"


def split(*pieces: bytes, limit: int = LIMIT) -> list[bytes | tuple[bytes, int]]:
    """Return the lines of a whole stream; an over-long one as its head and its size."""
    splitter = LineSplitter(limit)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    lines += splitter.finish()
    return [(line.head, line.size) if isinstance(line, OverlongLine) else line for line in lines]


def bytewise(wire: bytes) -> list[bytes]:
    return [wire[place : place + 1] for place in range(len(wire))]


# Short lines of the bytes that matter, around a limit that some of them reach.
WIRES = st.lists(st.sampled_from([b"a", b"bcd", b"\r", b"\n", b" ", b"\t", BOM, b"\xef", b"123456", b"1234567"])).map(
    b"".join
)


@given(wire=WIRES, cuts=st.lists(st.integers(0, 60)))
def test_lines_are_the_same_whatever_pieces_they_come_in(wire: bytes, cuts: list[int]) -> None:
    """LINE-1: a pipe hands over any number of bytes at a time."""
    places = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    pieces = [wire[start:end] for start, end in pairwise(places)]
    assert b"".join(pieces) == wire
    assert split(*pieces) == split(wire) == split(*bytewise(wire))


@given(wire=WIRES)
def test_lines_hold_what_a_plain_reading_of_the_rules_says(wire: bytes) -> None:
    """LINE-1 to LINE-5, LINE-8: a second, slow reading of the same rules."""
    expected: list[bytes | None] = []
    pieces = wire.split(b"\n")
    for number, piece in enumerate(pieces):
        line = piece.removeprefix(BOM) if number == 0 else piece
        line = line.removesuffix(b"\r")
        if len(line) > LIMIT + 4:  # well over the limit: blank or not, it was not kept
            expected.append(None)
        elif line.strip(b" \t\r"):
            expected.append(line if len(line) <= LIMIT else None)
    found = [None if isinstance(line, tuple) else line for line in split(wire)]
    if any(len(piece) > LIMIT and not piece.strip(b" \t\r" + BOM) for piece in pieces):
        return  # a blank line around the limit may be either
    assert found == expected


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_comes_out_with_its_end_and_not_before(end: bytes) -> None:
    """LINE-1, LINE-2, LINE-5: LF, CR LF or the end of the stream ends a line; its end is no part of it."""
    splitter = LineSplitter()
    wire = b'{"a":1}' + end
    early = [line for byte in bytewise(wire[:-1] if end else wire) for line in splitter.feed(byte)]
    assert early == []
    assert (splitter.feed(wire[-1:]) if end else splitter.finish()) == [b'{"a":1}']
    assert splitter.finish() == []


def test_bytes_behind_a_line_stay_for_the_next_one() -> None:
    """LINE-1."""
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == [b"one"]
    assert splitter.feed(b"o\nthree\nfo") == [b"two", b"three"]
    assert splitter.feed(b"") == []
    assert splitter.finish() == [b"fo"]


@pytest.mark.parametrize("text", ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg", "a\rb"])
def test_nothing_but_lf_ends_a_line(text: str) -> None:
    """LINE-1: what other tools call a line break is plain text inside a JSON string."""
    assert split(text.encode() + b"\nnext", limit=100) == [text.encode(), b"next"]


def test_one_cr_belongs_to_the_line_end_and_a_second_one_does_not() -> None:
    """LINE-2, C007."""
    assert split(b"a\r\r\nb\r\n\rc\n") == [b"a\r", b"b", b"\rc"]


def test_the_mark_is_skipped_at_the_start_of_the_stream_alone() -> None:
    """LINE-3, C008."""
    assert split(BOM + b"a\n" + BOM + b"b") == [b"a", BOM + b"b"]
    assert split(b"\n" + BOM + b"b") == [BOM + b"b"]
    assert split(BOM + BOM + b"b") == [BOM + b"b"]
    assert split(*bytewise(BOM + b"a\n")) == [b"a"]


@pytest.mark.parametrize("blank", [b"", b"\r", b"   ", b"\t", b" \t \r", BOM, BOM + b" "])
def test_a_blank_line_is_left_out(blank: bytes) -> None:
    """LINE-4, C011: an empty line, spaces, tabs, a lone mark."""
    assert split(blank + b"\na\n\n \n") == [b"a"]
    assert split(blank) == []


def test_other_white_space_makes_no_blank_line() -> None:
    """LINE-4: it is no JSON either, and its sender is told so."""
    assert split(b"\x0b\n\x0c\n\x00\n") == [b"\x0b", b"\x0c", b"\x00"]


def test_whether_anything_came_is_remembered() -> None:
    """LIFE-5, LIFE-6: no byte at all is another thing than a blank line."""
    splitter = LineSplitter()
    assert splitter.feed(b"") == []
    assert not splitter.saw_bytes
    assert splitter.feed(b"\n") == []
    assert splitter.saw_bytes


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("start", [b"", BOM])
@pytest.mark.parametrize("pieces", [lambda wire: [wire], bytewise], ids=["whole", "bytewise"])
def test_the_limit_counts_neither_the_line_end_nor_the_mark(start: bytes, end: bytes, pieces: object) -> None:
    """LINE-8: one byte less than the limit and exactly the limit are served, one byte more is not."""
    assert callable(pieces)
    for size in (LIMIT - 1, LIMIT):
        assert split(*pieces(start + b"x" * size + end + (b"y" if end else b"")))[:1] == [b"x" * size]
    ((head, size), *rest) = split(*pieces(start + b"x" * (LIMIT + 1) + end + (b"y" if end else b"")))
    assert isinstance(head, bytes)
    assert head in (b"x" * LIMIT, BOM + b"x" * (LIMIT - 3))
    assert isinstance(size, int)
    assert size >= LIMIT + 1
    assert rest == ([b"y"] if end else [])


def test_an_overlong_line_tells_its_head_and_its_size_and_the_next_line_is_whole() -> None:
    """LINE-8."""
    wire = b"x" * 10_000 + b"\nnext\n" + b"y" * 9
    assert split(*bytewise(wire)) == split(wire)
    assert split(wire) == [(b"x" * LIMIT, 10_000), b"next", (b"y" * LIMIT, 9)]
    assert split(wire, limit=9_999) == [(b"x" * 4096, 10_000), b"next", b"y" * 9]


def test_a_line_over_the_limit_is_counted_and_not_kept() -> None:
    """LINE-8: draining stores nothing, however long the line gets."""
    splitter = LineSplitter(limit=1000)
    piece = b"x" * 100_000
    for _ in range(1000):
        assert splitter.feed(piece) == []
    assert sum(sys.getsizeof(value) for value in vars(splitter).values()) < 20_000
    (line,) = splitter.feed(b"\n")
    assert isinstance(line, OverlongLine)
    assert (line.size, line.head) == (100_000_000, b"x" * 1000)


def test_a_line_in_tiny_pieces_costs_no_object_for_each() -> None:
    """LINE-10: memory is a small multiple of the line, also where the host writes byte by byte."""
    splitter = LineSplitter()
    for _ in range(50_000):
        splitter.feed(b"xy")
    assert sum(sys.getsizeof(value) for value in vars(splitter).values()) < 200_000
    assert splitter.finish() == [b"xy" * 50_000]


def test_the_limit_is_64_mib_unless_told_otherwise() -> None:
    """LINE-9."""
    assert DEFAULT_LIMIT_BYTES == 67_108_864
