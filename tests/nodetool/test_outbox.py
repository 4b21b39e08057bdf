"""Frames on their way out, in memory: the pipe is one that the test opens and shuts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodetool_worker.frames import Frame
from nodetool_worker.outbox import Outbox
from tests.nodetool.sessionkit import PATIENCE, PaperPipe

#: More than may wait before whoever adds to it is held up.
MUCH = 1 << 20


def make() -> tuple[Outbox, PaperPipe, list[bool]]:
    """Return an outbox, its pipe, and a list that grows with each wake."""
    woken: list[bool] = []
    pipe = PaperPipe()
    return Outbox(pipe, lambda: woken.append(True)), pipe, woken


def in_thread(function: Callable[[], object]) -> tuple[threading.Thread, threading.Event]:
    """Run a function on a thread; return that and the event of its end."""
    ended = threading.Event()

    def run() -> None:
        function()
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, ended


class TellingLock:
    """A lock that tells when somebody is about to wait for it."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.is_waited_for = threading.Event()

    def acquire(self, blocking: bool = True) -> bool:
        if blocking:
            self.is_waited_for.set()
        return bool(self._lock.acquire(blocking))

    def release(self) -> None:
        self._lock.release()


class Late:
    """A frame that is made when its turn comes."""

    def __init__(self, frame: Frame | None, size: int = 100) -> None:
        self.frame, self.size = frame, size
        self.taken = 0

    def take(self) -> Frame | None:
        self.taken += 1
        return self.frame


def test_frames_are_written_in_the_order_in_which_they_were_put() -> None:
    """UPD-10, FRM-19: those of several pieces too."""
    outbox, pipe, _ = make()
    frames: list[Frame] = [b"a", [b"b", memoryview(b"c" * 70_000), b"d"], b"e", [memoryview(b"f")], b"g"]
    for frame in frames:
        outbox.put(frame)
    outbox.pump()
    assert pipe.written == b"ab" + b"c" * 70_000 + b"defg"
    assert outbox.is_empty


def test_urgent_frames_overtake_all_that_are_not_and_not_each_other() -> None:
    """DSC-6: the answer to a status does not wait behind what nodes have made."""
    outbox, pipe, _ = make()
    for frame in (b"a", b"b"):
        outbox.put(frame)
    for frame in (b"1", b"2"):
        outbox.put(frame, urgent=True)
    outbox.put(b"c")
    outbox.pump()
    assert pipe.written == b"12abc"


def test_an_urgent_frame_does_not_land_in_the_middle_of_another() -> None:
    """FRM-19: a large frame that is half written is written to its end first."""
    outbox, pipe, _ = make()
    pipe.room = 10_000
    outbox.put([b"a", memoryview(b"b" * 100_000), b"c"])
    outbox.nudge()
    assert pipe.written == b"a" + b"b" * 9_999
    outbox.put(b"1", urgent=True)
    pipe.room = None
    outbox.pump()
    assert pipe.written == b"a" + b"b" * 100_000 + b"c1"


def test_a_nudge_writes_as_much_as_there_is_room_for_and_leaves_the_rest() -> None:
    """UPD-19: it never waits; the thread that settles is woken once."""
    outbox, pipe, woken = make()
    pipe.room = 2
    for frame in (b"ab", b"cd"):
        outbox.put(frame)
        outbox.nudge()
    assert pipe.written == b"ab"
    assert (outbox.is_dirty, outbox.needs_room, outbox.is_empty) == (True, True, False)
    assert woken == [True]
    pipe.room = 1
    outbox.settle()
    assert pipe.written == b"abc"
    assert outbox.is_dirty
    pipe.room = None
    outbox.settle()
    assert pipe.written == b"abcd"
    assert (outbox.is_dirty, outbox.needs_room, outbox.is_empty) == (False, False, True)
    assert pipe.waits == 0


def test_a_nudge_does_not_wait_for_a_thread_that_writes() -> None:
    """UPD-19: that one writes what was put meanwhile."""
    outbox, pipe, _ = make()
    pipe.shut()
    outbox.put(b"a")
    _, ended = in_thread(outbox.pump)
    assert pipe.is_waited_for.wait(PATIENCE)
    outbox.put(b"b", urgent=True)
    outbox.nudge()
    outbox.pump()  # nor does this, as long as there is room
    assert not ended.is_set()
    pipe.open()
    assert ended.wait(PATIENCE)
    assert pipe.written == b"ab"


def test_a_thread_that_is_watched_is_not_woken() -> None:
    """Our own choice: it looks by itself soon."""
    outbox, pipe, woken = make()
    outbox.is_watched = True
    pipe.room = 0
    outbox.put(b"a")
    outbox.nudge()
    assert outbox.is_dirty
    assert woken == []


def test_small_frames_are_written_together_where_more_are_to_come() -> None:
    """Our own choice: `settle` sees to it that none waits for long."""
    outbox, pipe, woken = make()
    for _ in range(3):
        outbox.put(b"a")
        outbox.pump(more_to_come=True)
    assert (pipe.writes, outbox.is_dirty, len(woken)) == (0, True, 1)
    outbox.settle()
    assert (pipe.written, pipe.writes) == (b"aaa", 1)
    outbox.put(b"b" * 40_000)
    outbox.pump(more_to_come=True)
    assert outbox.is_empty


def test_a_full_outbox_holds_up_who_adds_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """UPD-19, EXE-36: pump waits while another thread writes, and goes on once that is done."""
    outbox, pipe, _ = make()
    pipe.shut()
    outbox.put(b"a")
    _, writer = in_thread(outbox.pump)
    assert pipe.is_waited_for.wait(PATIENCE)
    before = outbox.is_full
    outbox.put(b"b" * MUCH)
    assert (before, outbox.is_full) == (False, True)
    lock = TellingLock(outbox._writing)
    monkeypatch.setattr(outbox, "_writing", lock)
    written: list[int] = []

    def pump() -> None:
        outbox.pump()
        written.append(len(pipe.written))

    _, held = in_thread(pump)
    assert lock.is_waited_for.wait(PATIENCE)
    pipe.open()
    assert writer.wait(PATIENCE)
    assert held.wait(PATIENCE)
    assert pipe.written == b"a" + b"b" * MUCH
    assert written == [MUCH + 1]


def test_who_waits_for_room_goes_on_once_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """UPD-19."""
    outbox, pipe, _ = make()
    outbox.wait_for_room()  # there is
    pipe.room = 0
    outbox.put(b"a" * (MUCH + 1))
    told: list[str] = []
    outbox.call_with_room(lambda: told.append("first"))
    outbox.call_with_room(lambda: told.append("second"))
    asked = threading.Event()
    call_with_room = outbox.call_with_room

    def note(callback: Callable[[], object]) -> None:
        call_with_room(callback)
        asked.set()

    def wait() -> None:
        outbox.wait_for_room()
        told.append("third")

    monkeypatch.setattr(outbox, "call_with_room", note)
    _, ended = in_thread(wait)
    assert asked.wait(PATIENCE)
    outbox.nudge()
    assert told == []
    pipe.room = None
    outbox.settle()
    assert ended.wait(PATIENCE)
    assert told == ["first", "second", "third"]
    outbox.call_with_room(lambda: told.append("at once"))
    assert told[3:] == ["at once"]


def test_too_many_urgent_frames_are_noticed() -> None:
    """EXE-36: a host that asks for more than it reads."""
    outbox, pipe, _ = make()
    seen = []
    outbox.put(b"a" * (MUCH + 1))
    seen.append(outbox.has_too_many_urgent)
    outbox.put(b"b" * (MUCH + 1), urgent=True)
    seen.append(outbox.has_too_many_urgent)
    outbox.pump()
    seen.append(outbox.has_too_many_urgent)
    assert seen == [False, True, False]
    assert pipe.written[:1] == b"b"


def test_a_late_frame_is_made_when_its_turn_comes_and_once() -> None:
    """UPD-12, CAN-13: one that has become nothing is left out, and so is its size."""
    outbox, pipe, _ = make()
    late, nothing, whole = Late(b"old"), Late(None), Late([b"c", memoryview(b"d" * 10)])
    entries: list[Any] = [b"a", late, nothing, whole, b"z"]
    for entry in entries:
        outbox.put(entry)
    late.frame = b"new"  # it is not made before
    outbox.pump()
    assert pipe.written == b"anewc" + b"d" * 10 + b"z"
    assert (late.taken, nothing.taken, whole.taken) == (1, 1, 1)
    assert (outbox.is_empty, outbox._bytes, outbox._urgent_bytes) == (True, 0, 0)


def test_nothing_but_frames_that_have_become_nothing_is_no_write() -> None:
    """CAN-13."""
    outbox, pipe, _ = make()
    outbox.put(Late(None))
    outbox.pump()
    assert (pipe.writes, outbox.is_empty) == (0, True)


def test_what_nobody_reads_any_more_counts_as_written() -> None:
    """END-9: nobody waits for a pipe that is dead."""
    outbox, pipe, _ = make()
    pipe.die()
    outbox.put(b"a" * (MUCH + 1))
    outbox.pump()
    outbox.wait_for_room()
    assert (outbox.is_empty, pipe.written) == (True, b"")


def test_a_callback_is_told_after_what_is_written_next_is_safe() -> None:
    """FRM-19: whatever it does, the frames that were taken are not lost."""
    outbox, pipe, _ = make()
    pipe.room = 0
    outbox.put(b"a" * (MUCH + 1))
    outbox.put(b"b")

    def fail() -> None:
        raise ZeroDivisionError

    outbox.call_with_room(fail)
    pipe.room = None
    with pytest.raises(ZeroDivisionError):
        outbox.pump()
    outbox.pump()
    assert pipe.written == b"a" * (MUCH + 1) + b"b"


@settings(max_examples=25)
@given(data=st.data())
def test_many_threads_keep_each_frame_whole_and_in_the_order_of_its_thread(data: st.DataObject) -> None:
    """FRM-19, UPD-10, UPD-19: whatever they use; and in the end nothing is left that counts."""
    plans = data.draw(
        st.lists(
            st.lists(st.tuples(st.sampled_from(["pump", "more", "nudge"]), st.integers(0, 3)), max_size=12),
            min_size=1,
            max_size=5,
        )
    )
    sizes = (3, 2_000, 90_000, 600_000)
    pipe = PaperPipe()
    pipe.room_steps = data.draw(st.lists(st.integers(0, 50_000), max_size=6))
    something = threading.Event()
    outbox = Outbox(pipe, something.set)
    ended: list[int] = []

    def work(number: int, plan: list[tuple[str, int]]) -> None:
        for index, (how, kind) in enumerate(plan):
            head, body = bytes([number, index, kind]), b"." * sizes[kind]
            outbox.put(head + body if kind < 2 else [head, memoryview(body)])
            if how == "nudge":
                outbox.nudge()
                outbox.wait_for_room()
            else:
                outbox.pump(how == "more")
        ended.append(number)
        something.set()

    threads = [threading.Thread(target=work, args=one, daemon=True) for one in enumerate(plans)]
    for thread in threads:
        thread.start()
    while len(ended) < len(threads) or not outbox.is_empty:
        assert something.wait(PATIENCE)
        something.clear()
        while outbox.is_dirty:
            outbox.settle()
    assert (outbox._bytes, outbox._urgent_bytes, outbox._batch_bytes, outbox._left) == (0, 0, 0, [])
    found: dict[int, list[int]] = {}
    rest = memoryview(bytes(pipe.written))
    while rest:
        number, index, kind = rest[:3]
        assert bytes(rest[3 : 3 + sizes[kind]]) == b"." * sizes[kind]
        found.setdefault(number, []).append(index)
        rest = rest[3 + sizes[kind] :]
    assert found == {number: list(range(len(plan))) for number, plan in enumerate(plans) if plan}


def test_an_outbox_is_not_empty_while_a_frame_is_between_queue_and_pipe() -> None:
    """FRM-19: a worker that ends asks for it without the lock, and must not leave too early."""
    seen: list[bool] = []

    class Watched(bytes):
        """A frame that looks at the outbox while it is measured, which is when it leaves the queue."""

        def __len__(self) -> int:
            seen.append(outbox.is_empty)
            return bytes.__len__(self)

    class Peeking(Outbox):
        def _take_batch(self) -> Any:
            batch = super()._take_batch()
            seen.append(self.is_empty)
            return batch

    pipe = PaperPipe()
    outbox = Peeking(pipe, lambda: None)
    frame = Watched(b"abc")
    outbox.put(frame)
    seen.clear()
    outbox.pump()
    assert seen[:2] == [False, False]
    assert seen[-1] is True
