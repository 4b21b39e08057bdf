"""Descriptors, over real pipes: payloads in, pieces of frames out."""

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from nodetool_worker.frames import FrameSplitter
from nodetool_worker.pipes import FramePipe, read_payloads
from tests.nodetool.sessionkit import PATIENCE

#: What a pipe of ours holds.
PIPE_BYTES = 1 << 16


@pytest.fixture
def ends() -> Iterator[list[int]]:
    """The reading and the writing end of a pipe; whoever closes one takes it out of the list."""
    made = list(os.pipe())
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(made[1], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield made
    for fd in made:
        os.close(fd)


def prefixed(payload: bytes) -> bytes:
    return pack(">I", len(payload)) + payload


def read_all(fd: int, count: int) -> bytes:
    """Read so many bytes."""
    data = b""
    while len(data) < count:
        piece = os.read(fd, count - len(data))
        assert piece
        data += piece
    return data


def on_thread(fd: int, data: bytes) -> threading.Thread:
    """Write to a descriptor on a thread."""
    thread = threading.Thread(target=lambda: [os.write(fd, data[at : at + 9999]) for at in range(0, len(data), 9999)])
    thread.start()
    return thread


def test_payloads_are_read_as_they_come(ends: list[int]) -> None:
    """FRM-1, FRM-2."""
    splitter = FrameSplitter()
    os.write(ends[1], prefixed(b"one") + prefixed(b"two") + b"\0\0")
    assert read_payloads(ends[0], splitter) == [b"one", b"two"]
    os.write(ends[1], b"\0\3")
    assert read_payloads(ends[0], splitter) == []
    os.write(ends[1], b"ab")
    assert read_payloads(ends[0], splitter) == []
    os.write(ends[1], b"c")
    assert read_payloads(ends[0], splitter) == [b"abc"]


@pytest.mark.parametrize("has_readv", [True, False])
def test_a_large_payload_is_read_whole(ends: list[int], monkeypatch: pytest.MonkeyPatch, has_readv: bool) -> None:
    """FRM-2: into its own memory, or where the system can't, by pieces; with small ones on both sides."""
    if not has_readv:
        monkeypatch.delattr(os, "readv")
    large = b"0123456789abcde!" * 200_000
    thread = on_thread(ends[1], prefixed(b"before") + prefixed(large) + prefixed(b"behind"))
    splitter = FrameSplitter()
    found: list[Any] = []
    while len(found) < 3:
        payloads = read_payloads(ends[0], splitter)
        assert payloads is not None
        found += payloads
    thread.join(PATIENCE)
    assert [bytes(one[:]) for one in found] == [b"before", large, b"behind"]


@pytest.mark.parametrize("inside", [b"", b"\0\0", prefixed(b"abc")[:-1], prefixed(bytes(2_000_000))[:10_000]])
def test_the_end_of_the_stream_is_the_end_wherever_it_comes(ends: list[int], inside: bytes) -> None:
    """FRM-6: inside a length or a payload too."""
    splitter = FrameSplitter()
    os.write(ends[1], prefixed(b"one") + inside)
    assert read_payloads(ends[0], splitter) == [b"one"]
    os.close(ends.pop())
    assert read_payloads(ends[0], splitter) is None


def test_a_descriptor_that_is_no_more_is_an_end() -> None:
    """FRM-6: node code may have closed it."""
    reading, writing = os.pipe()
    os.close(writing)
    os.close(reading)
    assert read_payloads(reading, FrameSplitter()) is None


def test_pieces_are_written_whole_however_slowly_they_are_read(ends: list[int]) -> None:
    """FRM-19: more of them than one call of the system takes, and larger than the pipe."""
    pieces: list[bytes | memoryview] = [bytes([number]) * (number * 3_001) for number in range(60)]
    pieces[30] = memoryview(b"x" * 500_000)
    pieces.insert(7, b"")
    wire = b"".join(pieces)
    left = list(pieces)
    thread = threading.Thread(target=FramePipe(ends[1], lambda: None).write, args=(left,), kwargs={"block": True})
    thread.start()
    assert read_all(ends[0], len(wire)) == wire
    thread.join(PATIENCE)
    assert left == []


def test_without_waiting_as_much_is_written_as_there_is_room_for(ends: list[int]) -> None:
    """FRM-19, UPD-19: what is left is what has not been written."""
    pipe = FramePipe(ends[1], lambda: None)
    wire = bytes(range(256)) * 1000
    pieces: list[bytes | memoryview] = [wire[:100], memoryview(wire)[100:200_000], wire[200_000:]]
    assert not pipe.write(pieces, block=False)
    assert not pipe.write(pieces, block=False)  # nothing is read meanwhile
    found = b""
    while pieces:
        found += os.read(ends[0], 5000)
        pipe.write(pieces, block=False)
    found += read_all(ends[0], len(wire) - len(found))
    assert found == wire
    assert pipe.write([], block=False)


@pytest.mark.parametrize("block", [True, False])
def test_a_pipe_that_nobody_reads_takes_everything_and_says_so(ends: list[int], block: bool) -> None:
    """END-9: no thread waits for it."""
    dead: list[bool] = []
    pipe = FramePipe(ends[1], lambda: dead.append(True))
    os.close(ends.pop(0))
    pieces: list[bytes | memoryview] = [b"a" * 100_000, b"b"]
    assert pipe.write(pieces, block=block)
    assert (pieces, pipe.is_dead, dead) == ([], True, [True])


def test_a_reader_that_goes_in_the_middle_ends_the_wait(ends: list[int]) -> None:
    """END-9, FRM-19."""
    gone = threading.Event()
    pipe = FramePipe(ends[1], gone.set)
    pieces: list[bytes | memoryview] = [b"a" * 1_000_000]
    thread = threading.Thread(target=pipe.write, args=(pieces,), kwargs={"block": True})
    thread.start()
    read_all(ends[0], 100_000)
    os.close(ends.pop(0))
    assert gone.wait(PATIENCE)
    thread.join(PATIENCE)
    assert pieces == []


def test_a_file_is_written_like_a_pipe(tmp_path: Path) -> None:
    """FRM-19: a host may let stdout go to a file."""
    with (tmp_path / "frames").open("wb") as file:
        assert FramePipe(file.fileno(), lambda: None).write([b"a", memoryview(b"b" * 10_000)], block=False)
    assert (tmp_path / "frames").read_bytes() == b"a" + b"b" * 10_000
