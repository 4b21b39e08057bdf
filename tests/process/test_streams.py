"""The writers, inside one process: whole lines on the wire, and a log that holds nobody up."""

import io
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from octonode_sdk.process.streams import LogStream
from octonode_sdk.process.writer import LineWriter
from tests.ipc.support import PATIENCE


@contextmanager
def pipe() -> Iterator[list[int]]:
    """Make a pipe; a test that closes an end takes it out of the list."""
    ends = list(os.pipe())
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def run_all(*works: object) -> None:
    """Run functions on threads of their own and wait for them."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]  # type: ignore[arg-type]  # callables
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


# The wire's writer


def test_lines_of_many_threads_come_out_whole_and_each_once() -> None:
    """LINE-16, C019: 50 threads, long and short lines, a reader that takes small pieces."""
    with pipe() as ends:
        writer = LineWriter(ends[1], lambda: None)
        got = bytearray()

        def read() -> None:
            while piece := os.read(ends[0], 10_000):
                got.extend(piece)
                if got.endswith(b"end\n"):
                    return

        def send(number: int) -> None:
            for place in range(20):
                length = 1 if place % 2 else 40_000 + number
                writer.send(f"{number} {place} ".encode() + b"x" * length + b"\n", more_to_come=place % 3 == 1)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        run_all(*(lambda number=number: send(number) for number in range(50)))
        assert writer.flush(PATIENCE)
        writer.send(b"end\n")
        reader.join(PATIENCE)
        assert not reader.is_alive()
    *lines, last = bytes(got).splitlines()
    assert last == b"end"
    assert len(lines) == 1000
    seen = set()
    for line in lines:
        number, place, rest = line.split(b" ")
        seen.add((int(number), int(place)))
        assert rest == b"x" * (1 if int(place) % 2 else 40_000 + int(number))
    assert len(seen) == 1000
    assert writer._bytes == 0


def test_what_waits_for_a_slow_reader_is_bounded() -> None:
    """LIFE-19: beyond about 1 MB the threads that send have to wait."""
    with pipe() as ends:
        writer = LineWriter(ends[1], lambda: None)
        sent = threading.Semaphore(0)

        def send() -> None:
            for _ in range(100):
                writer.send(b"x" * 99_999 + b"\n")
                sent.release()

        threads = [threading.Thread(target=send, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        # One thread is stuck in the write; the others get rid of theirs until so much waits that they stop as well.
        for _ in range(5):
            assert sent.acquire(timeout=PATIENCE)
        total = 0
        while total < 4 * 100 * 100_000:
            assert writer._bytes <= (1 << 20) + 5 * 100_000
            total += len(os.read(ends[0], 1 << 16))
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    assert writer._bytes == 0


def test_a_line_that_is_left_for_later_is_written_by_settle() -> None:
    """LIFE-2: an answer does not wait for the next one."""
    with pipe() as ends:
        woken: list[int] = []
        writer = LineWriter(ends[1], lambda: woken.append(1))
        writer.send(b"one\n", more_to_come=True)
        assert woken == [1]
        assert writer.is_dirty
        writer.settle()
        assert os.read(ends[0], 100) == b"one\n"
        assert [writer.is_dirty] == [False]
        writer.send(b"two\n", more_to_come=True)
        assert woken == [1, 1], "else the second would wait for whatever the thread does next"
        writer.settle()
        assert os.read(ends[0], 100) == b"two\n"


def test_a_writer_whose_reader_has_gone_says_so_and_drops_the_rest() -> None:
    """LIFE-8."""
    with pipe() as ends:
        woken: list[int] = []
        writer = LineWriter(ends[1], lambda: woken.append(1))
        os.close(ends.pop(0))
        writer.send(b"one\n")
        assert writer.dead
        assert woken
        writer.send(b"two\n" * 1_000_000)
        assert writer.flush(0) is False


def test_a_short_write_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """LINE-16, C043: the system may take a part of a line, as when a signal comes."""
    write = os.write
    with pipe() as ends:
        writer = LineWriter(ends[1], lambda: None)
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
        writer.send(b"first line of all\n")
        writer.send(b"x\n")
        monkeypatch.undo()
        assert os.read(ends[0], 1000) == b"first line of all\nx\n"


# The log


@contextmanager
def stderr_at(fd: int | None) -> Iterator[None]:
    """Let descriptor 2 be another one for a while, or closed."""
    kept = os.dup(2)
    try:
        if fd is None:
            os.close(2)
        else:
            os.dup2(fd, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_a_full_stderr_drops_lines_counts_them_and_goes_on() -> None:
    """LINE-18, C023: the number of bytes is told as soon as somebody reads again."""
    with pipe() as ends, stderr_at(ends[1]):
        log = LogStream()
        for _ in range(300):
            print("x" * 999, file=log)
        got = b""
        while select.select([ends[0]], [], [], 0)[0]:
            got += os.read(ends[0], 1 << 16)
        print("after", file=log)
        note = os.read(ends[0], 4096).decode()
    whole = got.decode()
    assert set(whole) == {"x", "\n"}
    assert f"[octonode_sdk: {300_000 - len(whole)} bytes of log lost" in note
    assert note.endswith(("\nafter\n", "]\nafter"))


@pytest.mark.parametrize("closed", ["reader", "descriptor"])
def test_a_closed_stderr_swallows_text(closed: str) -> None:
    """LINE-18."""
    with pipe() as ends:
        if closed == "reader":
            os.close(ends.pop(0))
        with stderr_at(ends[-1] if closed == "reader" else None):
            log = LogStream()
            for _ in range(3):
                assert log.write("text\n") == 5
            log.flush()


def test_a_log_takes_every_character_and_every_way_of_writing(tmp_path: Path) -> None:
    """LINE-17, C031: in the order of the writes."""
    with open(tmp_path / "log", "wb") as file, stderr_at(file.fileno()):
        log = LogStream()
        log.write("é😀\u2028\n")
        log.write("\ud800\udcff\n")
        log.buffer.write(b"\xff bytes\n")
        log.writelines(["a", "b\n"])
        print("c", 1, sep="-", file=log)
        assert log.write("") == 0
        assert (log.encoding, log.writable(), log.isatty(), log.fileno()) == ("utf-8", True, False, 2)
    expected = "é😀\u2028\n\\ud800\\udcff\n".encode() + b"\xff bytes\nab\nc-1\n"
    assert (tmp_path / "log").read_bytes() == expected


def test_a_log_cannot_be_closed(tmp_path: Path) -> None:
    """LINE-18: a library that closes stdout, or a text stream around it that goes away, takes it from nobody."""
    with open(tmp_path / "log", "wb") as file, stderr_at(file.fileno()):
        log = LogStream()
        log.close()
        with log:
            log.write("1 ")
        wrapper = io.TextIOWrapper(log.buffer, encoding="utf-8")
        wrapper.write("2 ")
        wrapper.close()
        log.buffer.close()
        log.write("3 ")
        other = io.TextIOWrapper(log.detach(), encoding="utf-8")
        other.write("4 ")
        other.close()
        log.write("5")
        del log, wrapper, other
    assert (tmp_path / "log").read_bytes() == b"1 2 3 4 5"


def test_threads_write_whole_texts_to_the_log(tmp_path: Path) -> None:
    """LINE-17: one write is one piece, also where it is long."""
    with open(tmp_path / "log", "wb") as file, stderr_at(file.fileno()):
        log = LogStream()
        run_all(*(lambda n=n: [log.write(f"{n:02d}" * 3000 + "\n") for _ in range(20)] for n in range(8)))
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 160
    assert set(lines) == {f"{n:02d}" * 3000 for n in range(8)}


def test_prints_of_many_threads_stay_apart(tmp_path: Path) -> None:
    """LINE-17: a line of one is not inside the line of another."""
    with open(tmp_path / "log", "wb") as file, stderr_at(file.fileno()):
        log = LogStream()
        run_all(*(lambda n=n: [print(f"{n} " * 50, n, file=log) for _ in range(100)] for n in range(8)))
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 800
    assert set(lines) == {f"{n} " * 50 + f" {n}" for n in range(8)}


def test_text_without_a_line_end_comes_when_it_is_flushed_or_ended(tmp_path: Path) -> None:
    """LINE-17: as with any stderr."""
    with open(tmp_path / "log", "wb") as file, stderr_at(file.fileno()):
        log = LogStream()
        print("50%", end="", flush=True, file=log)
        assert (tmp_path / "log").read_bytes() == b"50%"
        print("...", end="", file=log)
        print("100%", file=log)
        assert (tmp_path / "log").read_bytes() == b"50%...100%\n"


def test_stdout_of_the_tests_is_their_own() -> None:
    """Our own choice: none of this leaves a trace in the process of the tests."""
    assert not isinstance(sys.stdout, LogStream)
