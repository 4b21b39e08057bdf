"""The pool of threads, step by step: a thread may lose the interpreter before any bytecode, and each is tried."""

import sys
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from octonode_sdk import lanes as lanes_module
from octonode_sdk.lanes import LOOK_SECONDS
from tests.lanekit import MANY_LOOKS, PATIENCE, Interruption, Pool, at_each_step, pool


def traced(hook: Callable[[], None], fn: Callable[[], Any]) -> Any:
    """Call a function on this thread, with a hook before each of its steps."""
    before = sys.gettrace()
    sys.settrace(at_each_step(hook))
    try:
        return fn()
    finally:
        sys.settrace(before)


def number_of_steps(try_step: Callable[[int], bool]) -> int:
    """Try each step from the first on, until there is none of that number."""
    return next(step for step in count() if not try_step(step))


def test_what_is_read_at_any_step_of_a_look_is_seen_or_wakes() -> None:
    """RES-11: the look that would be the last one must not miss an item that then holds up everything."""
    with pool() as made:
        made.wait(lambda: made.reads == 1)
        looks = next(number for number in range(1, MANY_LOOKS) if not made.lanes.look())

    def read(made: Pool) -> None:
        made.feed([b"slow"])
        made.wait(made.has_started(b"slow"))

    def try_step(step: int) -> bool:
        interruption = Interruption(step, read)
        with pool() as made:
            made.hold(b"slow")
            made.wait(lambda: made.reads == 1)
            for _ in range(looks - 1):
                assert made.lanes.look()
            goes_on = traced(lambda: interruption(made), made.lanes.look)
            if interruption.came:
                assert goes_on or made.woken, f"at step {step}"
                made.feed([b"quick"])
                made.watch(made.has_delivered(1))
        return interruption.came

    assert number_of_steps(try_step) > 10


def test_looks_that_end_at_any_step_of_a_lane_leave_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """RES-11: the watch falls asleep there, and is woken or not needed."""
    monkeypatch.setattr(lanes_module, "_QUIET_LOOKS", 3)

    asleep: list[bool] = []

    def look_until_quiet(made: Pool) -> None:
        made.woken = False
        for _ in range(100):
            if made.lanes._lock.locked():  # perhaps by this lane itself
                return
            if not made.lanes.look():
                asleep.append(True)
                return
            with made._told:
                made._told.wait(LOOK_SECONDS)

    def try_step(step: int) -> bool:
        interruption = Interruption(step, look_until_quiet)
        with pool(interruption) as made:
            made.hold(b"slow")
            made.feed([b"first"], [b"slow"], [b"quick"])
            made.wait(made.has_started(b"slow"))
            if interruption.came:
                made.poll(lambda: interruption.is_over)
                if asleep:
                    asleep.clear()
                    made.wait(lambda: made.woken or len(made.delivered) == 2)
                made.watch(made.has_delivered(2))
                assert made.answers() == [b"first", b"quick"]
        return interruption.came

    assert number_of_steps(try_step) > 10


def test_items_abandoned_at_any_step_of_a_lane_are_neither_lost_nor_answered_twice() -> None:
    """LIFE-12, RES-10: a chunk that is not in line yet is as if it had stayed in the pipe."""
    abandoning: list[threading.Thread] = []
    rest: list[bytes] = []
    in_line: list[bool] = []

    def abandon(made: Pool) -> None:
        in_line[:] = [bool(made.started or made.lanes._queue)]
        thread = threading.Thread(target=lambda: rest.extend(made.lanes.abandon()), daemon=True)
        thread.start()
        thread.join(0.05)  # it may have to wait for this very lane
        abandoning.append(thread)

    def try_step(step: int) -> bool:
        rest.clear()
        interruption = Interruption(step, abandon)
        with pool(interruption, limit=1) as made:
            made.hold(b"b")
            made.feed([b"a", b"b"], None)
            made.poll(lambda: made.has_started(b"b")() or made.is_idle())
            if interruption.came:
                made.poll(lambda: interruption.is_over)
                abandoning.pop().join(PATIENCE)
                for _ in range(2):
                    if in_line == [True]:
                        assert sorted(rest + made.answers()) == [b"a", b"b"], f"at step {step}"
                    else:
                        assert rest == [], f"at step {step}"
                    made.release(b"b")
                    made.poll(made.is_idle)
        return interruption.came

    assert number_of_steps(try_step) > 10


def test_items_taken_at_any_step_of_abandoning_are_neither_lost_nor_answered_twice() -> None:
    """LIFE-12, RES-10: a lane that ends one call takes the next, which blocks."""

    def go_on(made: Pool) -> None:
        made.release(b"a")
        made.poll(lambda: made.has_started(b"b")() or made.reads == 2)

    def try_step(step: int) -> bool:
        interruption = Interruption(step, go_on)
        with pool(limit=1) as made:
            made.hold(b"a", b"b")
            made.feed([b"a", b"b", b"c"])
            made.wait(made.has_started(b"a"))
            rest = traced(lambda: interruption(made), made.lanes.abandon)
            if interruption.came:
                assert sorted(rest + made.answers()) == [b"a", b"b", b"c"], f"at step {step}"
                made.release(b"b")
                made.feed(None)
                made.wait(lambda: made.lanes.ended)
                made.poll(made.is_idle)
                assert sorted(rest + made.answers()) == [b"a", b"b", b"c"], f"at step {step}"
        return interruption.came

    assert number_of_steps(try_step) > 10
