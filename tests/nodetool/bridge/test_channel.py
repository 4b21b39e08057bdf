"""The streams to a worker: nothing is torn, nobody is held up, and nothing stays open."""

import os
import signal
import threading

import pytest

from nodetool_worker.bridge.channel import ByteReader, FrameWriter
from tests.nodetool.bridge.support import PATIENCE, in_thread


def read_all(fd: int, piece: int) -> bytes:
    """Read a descriptor to its end, so much at a time."""
    data = bytearray()
    while more := os.read(fd, piece):
        data += more
    os.close(fd)
    return bytes(data)


def nothing() -> None:
    """Do nothing."""


def test_frames_of_many_threads_come_whole_whatever_their_size_and_however_slowly_they_are_read() -> None:
    """FRM-19, C043."""
    read_fd, write_fd = os.pipe()
    reading = in_thread(lambda: read_all(read_fd, 1024))
    writer = FrameWriter(write_fd, on_failure=nothing)

    def send(number: int) -> None:
        mark = bytes([number])
        for size in (1, 5000, 300_000, 70_000):
            writer.send([mark * 3, memoryview(mark * size), b"", mark * 4] if size > 1 else mark * 8)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    writer.close(PATIENCE)
    data = reading.result(PATIENCE)
    assert len(data) == 6 * (8 + 3 * 7 + 5000 + 300_000 + 70_000)
    place = 0
    order: dict[int, list[int]] = {number: [] for number in range(6)}
    while place < len(data):
        number = data[place]
        run = len(data) - place - len(data[place:].lstrip(bytes([number])))
        order[number].append(run)
        place += run
    assert all(sum(runs) == 8 + 3 * 7 + 375_000 for runs in order.values())
    whole = {0, 8, 5007, 300_007, 70_007}
    assert all(
        run in {a + b + c + d for a in whole for b in whole for c in whole for d in whole}
        for runs in order.values()
        for run in runs
    )


def test_a_signal_tears_no_frame() -> None:
    """FRM-19, C043: the write is interrupted, and goes on."""
    read_fd, write_fd = os.pipe()
    kept = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        writer = FrameWriter(write_fd, on_failure=nothing)
        frame = os.urandom(8 << 20)
        writer.send([b"head", memoryview(frame)])
        for _ in range(50):
            os.kill(os.getpid(), signal.SIGUSR1)
        reading = in_thread(lambda: read_all(read_fd, 1024))
        for _ in range(50):
            os.kill(os.getpid(), signal.SIGUSR1)
        writer.close(PATIENCE)
        assert reading.result(PATIENCE) == b"head" + frame
    finally:
        signal.signal(signal.SIGUSR1, kept)


def test_sending_does_not_wait_for_a_reader() -> None:
    """BRG-8: the thread of the caller keeps its own time."""
    read_fd, write_fd = os.pipe()
    writer = FrameWriter(write_fd, on_failure=nothing)
    for _ in range(100):
        writer.send([b"x" * 100, memoryview(bytes(1 << 20))])
    writer.close(0)  # returns, although nobody has read
    assert len(read_all(read_fd, 1 << 20)) < 100 << 20


@pytest.mark.parametrize("size", [10, 10_000_000])
def test_a_reader_that_is_gone_is_told_once(size: int) -> None:
    """BRG-16."""
    read_fd, write_fd = os.pipe()
    told = threading.Semaphore(0)
    writer = FrameWriter(write_fd, on_failure=told.release)
    if size > 10:
        writer.send(bytes(size))
    os.close(read_fd)
    for _ in range(3):
        writer.send(bytes(size))
    assert told.acquire(timeout=PATIENCE)
    writer.close(0)
    assert not told.acquire(blocking=False)


def test_a_reader_that_is_stopped_returns() -> None:
    """BRG-20: also where the other side stays open."""
    read_fd, write_fd = os.pipe()
    woken = threading.Semaphore(0)
    reader = ByteReader(read_fd, on_wake=woken.release)
    reading = in_thread(reader.read)
    reader.wake()
    assert woken.acquire(timeout=PATIENCE)
    os.write(write_fd, b"abc")
    assert reading.result(PATIENCE) == b"abc"
    reading = in_thread(lambda: reader.read_into(memoryview(bytearray(5))))
    os.write(write_fd, b"ab")
    assert reading.result(PATIENCE) == 2
    reading = in_thread(reader.read)
    reader.stop()
    assert reading.result(PATIENCE) == b""
    reader.close()
    reader.close()
    reader.wake()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read_fd)
    os.close(write_fd)
