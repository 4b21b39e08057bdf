"""The pool of threads, in memory: items are texts, and the test says what is read and how long each is served."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from queue import SimpleQueue
from time import monotonic
from types import FrameType
from typing import Any

import pytest

from octonode_sdk import lanes as lanes_module
from octonode_sdk.lanes import LOOK_SECONDS, Lanes

#: Bound of each wait, in seconds.
PATIENCE = 30.0

#: More looks than any watch goes on for when it sees nothing.
MANY_LOOKS = 1000

#: What is a step: a bytecode; Python 3.12 crashes where several threads trace those, so there it is a line.
STEP = "line" if sys.version_info[:2] == (3, 12) else "opcode"

who: ContextVar[bytes] = ContextVar("who", default=b"nobody")


class StopLaneError(Exception):
    """Ends the thread of a lane, which otherwise lives for as long as the process."""


class TracedLanes(Lanes):
    """Lanes whose threads end with the test, and run a hook before each step of the interpreter."""

    stopped = False
    hook: Callable[[], None] | None = None

    def _work(self, lane: Any) -> None:
        if self.hook is not None:
            sys.settrace(at_each_step(self.hook))
        try:
            super()._work(lane)
        except StopLaneError:
            return

    def _lead_or_park(self, lane: Any) -> None:
        if self.stopped:
            raise StopLaneError
        super()._lead_or_park(lane)


def at_each_step(hook: Callable[[], None]) -> Any:
    """Return a trace function that calls `hook` before each step of the pool's own functions."""

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename != lanes_module.__file__:
            return None
        if STEP == "opcode":
            frame.f_trace_opcodes = True
        if event == STEP:
            hook()
        return trace

    return trace


class Pool:
    """Lanes on which items are texts. What is read comes from `feed`, and a held item waits for `release`."""

    def __init__(self, *, limit: int = 4, read_ahead: int = 1000, read_ahead_bytes: int = 1_000_000) -> None:
        self._chunks: SimpleQueue[list[bytes] | None] = SimpleQueue()
        self._told = threading.Condition()
        self._gates: dict[bytes, threading.Event] = {}
        self._late: set[bytes] = set()
        self._read_ahead, self._read_ahead_bytes = read_ahead, read_ahead_bytes
        self._serving = 0
        self._is_reading = False
        self.most_served = self.reads = self.bytes_read = 0
        self.woken = False
        self.readers: list[int] = []
        self.started: list[tuple[bytes, int]] = []
        self.delivered: list[tuple[bytes, bool, int]] = []
        self.faults: list[str] = []
        self.lanes = TracedLanes(
            limit=limit,
            read=self._read,
            serve=self._serve,
            deliver=self._deliver,
            read_ahead=read_ahead,
            read_ahead_bytes=read_ahead_bytes,
            wake=self._wake,
        )

    def _read(self) -> list[bytes] | None:
        with self._told:
            if self._is_reading:
                self.faults.append("two lanes read at once")
            if len(self.lanes._queue) >= self._read_ahead:
                self.faults.append("read with a full line")
            if self.bytes_read - sum(len(item) for item, _, _ in self.delivered) > self._read_ahead_bytes:
                self.faults.append("read with too many bytes in memory")
            self._is_reading = True
            self.reads += 1
            self.readers.append(threading.get_ident())
            self._told.notify_all()
        chunk = self._chunks.get(timeout=2 * PATIENCE)
        with self._told:
            self._is_reading = False
            self.bytes_read += sum(map(len, chunk or ()))
        return chunk

    def _serve(self, item: bytes) -> bytes:
        if who.get() != b"nobody":
            self.faults.append(f"{item!r} sees the variables of {who.get()!r}")
        who.set(item)
        with self._told:
            self._serving += 1
            self.most_served = max(self.most_served, self._serving)
            self.started.append((item, threading.get_ident()))
            self._told.notify_all()
        if item in self._gates and item not in self._late and not self._gates[item].wait(2 * PATIENCE):
            self.faults.append(f"{item!r} was never released")
        with self._told:
            self._serving -= 1
        return item

    def _deliver(self, answer: bytes, more: bool) -> None:
        if answer in self._late and not self._gates[answer].wait(2 * PATIENCE):
            self.faults.append(f"the answer {answer!r} was never released")
        with self._told:
            self.delivered.append((answer, more, threading.get_ident()))
            self._told.notify_all()

    def _wake(self) -> None:
        with self._told:
            self.woken = True
            self._told.notify_all()

    def hold(self, *items: bytes) -> None:
        """Let these items wait when they are served."""
        self._gates.update((item, threading.Event()) for item in items)

    def hold_answer(self, item: bytes) -> None:
        """Let this one wait when it is delivered, and not before."""
        self._late.add(item)
        self.hold(item)

    def release(self, *items: bytes) -> None:
        """Let these go on."""
        for item in items:
            self._gates[item].set()

    def feed(self, *chunks: list[bytes] | None) -> None:
        """Let the reading lane read these, one a time."""
        for chunk in chunks:
            self._chunks.put(chunk)

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Wait for something without looking."""
        with self._told:
            assert self._told.wait_for(is_so, PATIENCE), self

    def watch(self, is_so: Callable[[], bool]) -> None:
        """Wait for something as the runner does: look again for as long as `look` says so, and when it is woken."""
        end = monotonic() + PATIENCE
        while not is_so():
            goes_on = self.lanes.look()
            with self._told:
                told = self._told.wait_for(lambda: self.woken or is_so(), LOOK_SECONDS if goes_on else PATIENCE)
                self.woken = False
            assert told or goes_on, f"not woken: {self}"
            assert monotonic() < end, self

    def sleep(self) -> None:
        """Look until there is nothing more to look for; only `wake` ends that."""
        self.woken = False
        for _ in range(MANY_LOOKS):
            if not self.lanes.look():
                return
        pytest.fail(f"never quiet: {self}")

    def hold_up(self) -> None:
        """Look until the leader has lost the reading, and wait until another lane reads."""
        reads = self.reads
        assert self.lanes.look()
        assert self.lanes.look()
        self.wait(lambda: self.reads > reads)

    def poll(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that nobody tells of, without looking."""
        end = monotonic() + PATIENCE
        while not is_so():
            with self._told:
                self._told.wait(LOOK_SECONDS)
            assert monotonic() < end, self

    def is_idle(self) -> bool:
        """Return whether every lane is parked."""
        return len(self.lanes._parked) == len(self.lanes._lanes)

    def has_started(self, *items: bytes) -> Callable[[], bool]:
        """Return whether these have been started, as a condition."""
        return lambda: {item for item, _ in self.started}.issuperset(items)

    def has_delivered(self, number: int) -> Callable[[], bool]:
        """Return whether so many were delivered, as a condition."""
        return lambda: len(self.delivered) >= number

    def answers(self) -> list[bytes]:
        """Return what was delivered, in order of its bytes."""
        return sorted(answer for answer, _, _ in self.delivered)

    def __repr__(self) -> str:
        return f"reads {self.reads}, started {self.started}, delivered {self.delivered}, faults {self.faults}"


def threads() -> list[threading.Thread]:
    """Return the threads of lanes."""
    return [thread for thread in threading.enumerate() if thread.name == "octonode-call"]


class Interruption:
    """Does something to a pool once, before the step of a given number."""

    def __init__(self, step: int, action: Callable[[Pool], None]) -> None:
        self._steps, self._step, self._action = count(), step, action
        self.came = self.is_over = False

    def __call__(self, made: Pool) -> None:
        if next(self._steps) == self._step and not made.lanes.stopped:
            self.came = True
            self._action(made)
            self.is_over = True


@contextmanager
def pool(interruption: Interruption | None = None, **limits: int) -> Iterator[Pool]:
    """Start a pool, its lanes interrupted on request, and end its threads behind it."""
    made = Pool(**limits)
    if interruption is not None:
        made.lanes.hook = lambda: interruption(made)
    made.lanes.start()
    try:
        yield made
    finally:
        made.lanes.stopped = True
        made.release(*made._gates)
        made.feed(*[None] * (len(made.lanes._lanes) + 1))
        for lane in made.lanes._lanes:
            if lane.go.locked():
                lane.go.release()
        for thread in threads():
            thread.join(PATIENCE)
        assert threads() == []
    assert made.faults == []
