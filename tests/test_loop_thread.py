"""The one event loop of async nodes: results and errors come back, and a call can be cancelled at any time."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

import pytest

from octonode_sdk import Context
from octonode_sdk.errors import CallCancelledError
from octonode_sdk.lanes import LoopThread

#: Bound of each wait, in seconds.
PATIENCE = 30.0

LOOP = LoopThread()


def in_thread(fn: Callable[[], Any]) -> "Future[Any]":
    """Run a function on a thread of its own and return its result to come."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(fn())
        except BaseException as error:  # noqa: BLE001  # the test gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def run(coroutine: Coroutine[Any, Any, Any], context: Context | None = None) -> "Future[Any]":
    """Run a coroutine on the loop, as the thread of a call does."""
    return in_thread(lambda: LOOP.run(coroutine, context))


class Waiting:
    """A coroutine that says when it waits, and notes how it ended."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self.seen: list[str] = []

    async def run(self) -> None:
        self.seen.append("began")
        try:
            self.waits.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            self.seen.append("ended")


@pytest.mark.parametrize("context", [None, Context()], ids=["without", "with"])
def test_results_come_back_as_they_are(context: Context | None) -> None:
    """Our own choice: with and without a context."""
    value = object()

    async def soon() -> object:
        return value

    async def late() -> object:
        await asyncio.sleep(0)
        return value

    for make in (soon, late):
        assert LOOP.run(make(), context) is value


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a"),
        SystemExit(3),
        KeyboardInterrupt(),
        TimeoutError(),
        StopAsyncIteration(),
        CallCancelledError("own"),
    ],
    ids=repr,
)
def test_errors_come_back_as_they_are_and_the_loop_goes_on(error: BaseException) -> None:
    """ERR-14, ERR-22: also those that asyncio lets out of the loop, and the one that its futures make anew."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    async def after() -> int:
        await asyncio.sleep(0)
        return 1

    for context in (None, Context()):
        with pytest.raises(type(error)) as caught:
            run(fail(), context).result(PATIENCE)
        assert caught.value is error
        assert caught.traceback[-1].name == "fail"
        assert run(after()).result(PATIENCE) == 1


def test_cancelling_that_nobody_asked_for_is_an_error_like_others() -> None:
    """Our own choice: the host has not told the call to stop, so it is not told that it did."""

    async def fail() -> None:
        raise asyncio.CancelledError

    for context in (None, Context()):
        with pytest.raises(asyncio.CancelledError):
            run(fail(), context).result(PATIENCE)


def test_a_loop_that_a_node_stops_goes_on() -> None:
    """Our own choice: it is everybody's."""

    async def stop() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "stopped"

    assert run(stop()).result(PATIENCE) == "stopped"
    assert run(stop()).result(PATIENCE) == "stopped"


def test_all_calls_share_one_loop_and_run_at_the_same_time() -> None:
    """Our own choice (C058): whichever of them comes first starts it."""
    loop, together = LoopThread(), threading.Barrier(8)
    before = set(threading.enumerate())
    met: list[asyncio.Event] = []

    async def meet() -> asyncio.AbstractEventLoop:
        met.append(asyncio.Event())
        if len(met) == 8:
            for event in met:
                event.set()
        await met[-1].wait()
        return asyncio.get_running_loop()

    def call() -> Any:
        together.wait(PATIENCE)
        return loop.run(meet(), None)

    calls = [in_thread(call) for _ in range(8)]
    assert len({future.result(PATIENCE) for future in calls}) == 1
    started = set(threading.enumerate()) - before
    assert len([thread for thread in started if thread.name == "octonode-loop"]) == 1


def test_a_call_that_is_cancelled_while_it_waits_ends_behind_its_clean_up() -> None:
    """RES-10."""
    waiting, context = Waiting(), Context()
    call = run(waiting.run(), context)
    assert waiting.waits.wait(PATIENCE)
    context.cancel()
    context.cancel()
    with pytest.raises(CallCancelledError):
        call.result(PATIENCE)
    assert waiting.seen == ["began", "cancelled", "ended"]


def test_a_call_that_was_cancelled_before_it_came_to_the_loop_ends_where_it_would_wait() -> None:
    """Our own choice (C058)."""
    waiting, context = Waiting(), Context()
    context.cancel()
    with pytest.raises(CallCancelledError):
        run(waiting.run(), context).result(PATIENCE)
    assert waiting.seen == ["began", "cancelled", "ended"]


def test_a_call_that_is_cancelled_between_the_hand_over_and_its_start_ends_where_it_would_wait() -> None:
    """Our own choice (C058): the loop is busy, and there is no task yet."""
    waiting, context = Waiting(), Context()
    busy, go_on = threading.Event(), threading.Event()

    async def block() -> None:
        busy.set()
        assert go_on.wait(PATIENCE)

    blocked = run(block())
    assert busy.wait(PATIENCE)
    handed_over = threading.Event()

    class Told(Context):
        """Says when the way to cancel is there, which is just before the hand-over."""

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "on_cancel" and value is not None:
                handed_over.set()

    context = Told()
    call = run(waiting.run(), context)
    assert handed_over.wait(PATIENCE)
    context.cancel()
    go_on.set()
    blocked.result(PATIENCE)
    with pytest.raises(CallCancelledError):
        call.result(PATIENCE)
    assert waiting.seen == ["began", "cancelled", "ended"]


def test_a_call_that_is_cancelled_behind_its_end_changes_nothing() -> None:
    """Our own choice: a host that says it too late."""
    context = Context()

    async def ready() -> str:
        return "ready"

    assert run(ready(), context).result(PATIENCE) == "ready"
    assert context.on_cancel is None
    context.cancel()
    assert run(ready()).result(PATIENCE) == "ready"


def test_a_call_that_does_not_mind_being_cancelled_has_its_result() -> None:
    """Our own choice: the node has finished what it was at."""
    context, waiting = Context(), threading.Event()

    async def stubborn() -> str:
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return "finished"

    call = run(stubborn(), context)
    assert waiting.wait(PATIENCE)
    context.cancel()
    assert call.result(PATIENCE) == "finished"


def test_an_error_in_the_clean_up_of_a_cancelled_call_is_a_cancelled_call() -> None:
    """Our own choice: the host asked for the end, and that is what it is told."""
    context, waiting = Context(), threading.Event()

    async def fails() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            raise ValueError("in the clean-up")

    call = run(fails(), context)
    assert waiting.wait(PATIENCE)
    context.cancel()
    with pytest.raises(CallCancelledError):
        call.result(PATIENCE)
