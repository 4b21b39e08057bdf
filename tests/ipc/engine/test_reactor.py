"""Times and jobs on the one thread, and stderr as lines."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octonode_sdk.ipc.engine import reactor as reactor_module
from octonode_sdk.ipc.engine.reactor import Reactor, Timers
from octonode_sdk.ipc.engine.stderr import LineSink, Tail
from tests.ipc.engine.support import PATIENCE, wait_until


@pytest.fixture(params=["poll", "no poll"])
def reactor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reactor]:
    """The thread, with and without what Windows lacks."""
    if request.param == "no poll":
        monkeypatch.setattr(reactor_module, "has_poll", False)
    made = Reactor("test")
    yield made
    made.stop()
    made.join(PATIENCE)


def test_jobs_run_in_their_order_on_one_thread(reactor: Reactor) -> None:
    """Our own choice: whatever thread they come from."""
    done: list[int] = []
    threads: set[int] = set()
    last = threading.Event()

    def note(number: int) -> None:
        done.append(number)
        threads.add(threading.get_ident())

    for number in range(100):
        reactor.call_soon(partial(note, number))
    reactor.call_soon(last.set)
    assert last.wait(PATIENCE)
    assert done == list(range(100))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_an_earlier_time_wakes_the_thread(reactor: Reactor) -> None:
    """ENG-3: a deadline is not missed because a later one was set first."""
    from time import monotonic

    called = threading.Event()
    late = reactor.call_at(monotonic() + 1000, called.clear)
    reactor.call_at(monotonic() + 0.01, called.set)
    assert called.wait(PATIENCE)
    reactor.cancel(late)


def test_a_defect_of_one_job_does_not_keep_the_next_from_running(
    reactor: Reactor, caplog: pytest.LogCaptureFixture
) -> None:
    """ENG-1: and it is logged."""
    last = threading.Event()
    reactor.call_soon(lambda: 1 / 0)  # type: ignore[arg-type]  # what it returns is dropped
    reactor.call_soon(last.set)
    assert last.wait(PATIENCE)
    assert "a defect of the engine" in caplog.text


def nothing() -> None:
    """Do nothing."""


def test_cancelled_times_do_not_pile_up() -> None:
    """Our own choice: each call with a deadline leaves one, and most are answered long before."""
    timers = Timers()
    first = timers.add(5, nothing)
    for _ in range(10_000):
        timers.cancel(timers.add(1000, nothing))
    assert len(timers) < 1000
    assert timers.next_time() == 5
    timers.cancel(first)
    timers.cancel(first)
    assert timers.next_time() is None


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=50), st.floats(0, 10))
def test_what_is_due_comes_by_its_time_and_nothing_else(entries: list[tuple[float, bool]], now: float) -> None:
    """Our own choice: cancelled ones never come."""
    timers, called = Timers(), []
    for number, (when, is_cancelled) in enumerate(entries):
        timer = timers.add(when, lambda when=when, number=number: called.append((when, number)))  # type: ignore[misc]  # bound now
        if is_cancelled:
            timers.cancel(timer)
    for function in timers.take_due(now):
        function()
    assert called == sorted(
        (when, number) for number, (when, is_cancelled) in enumerate(entries) if when <= now and not is_cancelled
    )


@given(st.lists(st.sampled_from([b"one", b"\n", b"two\r\n", b"\xff", b"a longer one", b""])), st.booleans())
def test_the_last_lines_of_stderr_are_kept_whatever_the_pieces(pieces: list[bytes], is_told: bool) -> None:
    """ENG-21: and each is handed on, once."""
    data, told = b"".join(pieces), list[str]()
    tail = Tail(3, 8, told.append if is_told else None)
    for piece in pieces:
        tail.feed(piece)
    tail.finish()
    *ended, rest = data.split(b"\n")
    raw = [line.removesuffix(b"\r") if len(line) <= 8 else line[:8] for line in [*ended, *([rest] if rest else [])]]
    expected = [line.decode("utf-8", "backslashreplace") for line in raw]
    assert [line.removesuffix("...") for line in tail.lines()] == expected[-3:]
    if is_told:
        assert [line.removesuffix("...") for line in told] == expected


def test_a_line_of_stderr_without_an_end_is_cut() -> None:
    """ENG-13: it must not fill the memory."""
    tail = Tail(2, 10)
    for _ in range(1000):
        tail.feed(b"x" * 1000)
    assert tail.lines() == ["x" * 10]
    tail.feed(b"\nnext\n")
    assert tail.lines() == ["x" * 10 + "...", "next"]


def test_a_function_that_raises_is_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    """Our own choice: the calls go on, and the log says why nothing is shown any more."""
    lines: list[str] = []

    def fail(line: str) -> None:
        lines.append(line)
        raise KeyError(line)

    sink = LineSink(fail)
    sink.put("one")
    wait_until(lambda: "is not called any more" in caplog.text, "the failure is logged")
    sink.put("two")
    sink.close(PATIENCE)
    assert lines == ["one"]


def test_a_slow_function_loses_lines_and_is_told_how_many() -> None:
    """ENG-13: a flood that nobody reads fast enough fills no memory."""
    lines: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def take(line: str) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        lines.append(line)

    sink = LineSink(take)
    sink.put("first")
    assert begun.wait(PATIENCE)
    for _ in range(10_500):
        sink.put("x")
    go_on.set()
    wait_until(lambda: len(lines) > 10_000, "the waiting lines are taken")
    sink.put("last")
    sink.close(PATIENCE)
    assert lines[0] == "first"
    assert lines[-2:] == ["[octonode_sdk: 500 lines of stderr lost, since on_stderr is too slow]", "last"]
