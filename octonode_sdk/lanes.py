"""Where calls run: a pool of threads, and one event loop for all async nodes.

Each call has a pool thread from its validation to its answer. An async node's coroutine runs on the loop while that
thread waits for it, so neither a busy node nor a host that reads slowly ever holds up the loop or the reader.
"""

from __future__ import annotations

import os
import sys
import threading
from _contextvars import copy_context  # the module around it only re-exports it
from _thread import get_ident
from collections import deque
from time import sleep

from .call import Collector
from .errors import CallCancelledError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from .call import Plan
    from .context import Context

__all__ = ["LANE_NAME", "LOOK_SECONDS", "Lanes", "LoopThread", "inherit_context", "run_call"]


class Lanes:
    """A pool of threads that read items, serve them and deliver the answers.

    The lane that has read an item serves it itself, which costs no hand-over; only one lane reads at a time. If the
    reading lane is held up by the item that it serves, `look` gives the reading to another lane, and lanes to whatever
    else waits. So a quick call never leaves its thread, and a slow one holds nobody up for longer than the time between
    two looks (RES-11).

    Args:
        limit: Items that are served at once.
        read: Blocks for the next items; None at their end. Called by one lane at a time.
        serve: item -> answer. Must not raise.
        deliver: Takes (answer, whether more items wait), on the thread that made it.
        read_ahead: Items that may wait in line before reading stops.
        read_ahead_bytes: Bytes of items, those that are being served included, before reading stops.
        wake: Wakes the thread that calls `look`.
    """

    def __init__(
        self,
        *,
        limit: int,
        read: Callable[[], list[Any] | None],
        serve: Callable[[Any], Any],
        deliver: Callable[[Any, bool], None],
        read_ahead: int,
        read_ahead_bytes: int,
        wake: Callable[[], None],
    ) -> None:
        self._limit, self._read, self._serve, self._deliver = limit, read, serve, deliver
        self._read_ahead, self._read_ahead_bytes, self._wake = read_ahead, read_ahead_bytes, wake
        self._queue: deque[Any] = deque()
        self._slots: deque[None] = deque([None] * limit)
        self._lock = threading.Lock()
        self._lanes: list[_Lane] = []
        self._parked: list[_Lane] = []
        self._leader: _Lane | None = None
        self._seen: tuple[_Lane, int] | None = None
        self._taken = self._taken_bytes = 0
        self._looks = 0
        self._watched = False
        self.ended = False
        self.closed = False
        self.loop = LoopThread()

    def start(self) -> None:
        """Start reading."""
        self._watched = True
        self._activate(1)

    @property
    def outstanding(self) -> int:
        """How many items have been read and not been answered."""
        return self._taken - sum(lane.done for lane in self._lanes)

    def look(self) -> bool:
        """Give held-up work to further lanes; to be called every `LOOK_SECONDS` for as long as it returns True.

        False means that nothing can be held up before something is read, and then the thread is woken.
        """
        with self._lock:
            self._watched = False  # first of all: a lane that stops reading behind the lines below wakes the thread
            leader = self._leader
            busy_with = (leader, leader.done) if leader is not None and not leader.reading else None
            if busy_with is not None and busy_with == self._seen:
                self._leader = leader = busy_with = None  # held up since the last look: it goes on as an ordinary lane
            self._seen = busy_with
            waiting = min(len(self._queue), len(self._slots))
            # Where reading has stopped for want of room, whoever makes some may be held up next: look until it goes on.
            reading_stopped = leader is None and not self.ended
            if leader is None and (waiting or reading_stopped):
                self._activate(waiting + (reading_stopped and self._has_room()))
            self._looks = 0 if waiting or reading_stopped or busy_with is not None else self._looks + 1
            # Requests that come one after the other find the watch still on: waking it costs more than a few looks.
            goes_on = self._looks < _QUIET_LOOKS
            if goes_on:
                self._watched = True
            return goes_on

    def abandon(self) -> list[Any]:
        """Take every item that is not answered yet away and return them; answers that come later are dropped."""
        self.closed = True
        rest = []
        while self._queue:  # before the claims, so that no lane can take one from here behind them
            try:
                rest.append(self._queue.popleft())
            except IndexError:  # a lane was quicker
                continue
        for _ in range(_CLAIM_TRIES):
            if self._limit - len(self._slots) <= sum(len(lane.claim) for lane in self._lanes):
                break
            sleep(0)  # a lane with a slot has yet to note what it took from the line: a few steps
        for lane in self._lanes:
            try:
                rest.append(lane.claim.pop())
            except IndexError:  # answered meanwhile, or idle
                continue
        return rest

    def _has_room(self) -> bool:
        held = self._taken_bytes - sum(lane.done_bytes for lane in self._lanes)
        return len(self._queue) < self._read_ahead and held <= self._read_ahead_bytes

    def _activate(self, count: int) -> None:
        """Let `count` more lanes run: parked ones first, then new ones; one beyond the limit, which only reads."""
        for _ in range(count):
            if self._parked:
                self._parked.pop().go.release()
            elif len(self._lanes) <= self._limit:
                lane = _Lane()
                self._lanes.append(lane)
                # Daemon: a node that never ends must not keep the process once its host has gone.
                try:
                    threading.Thread(target=self._work, args=(lane,), name=LANE_NAME, daemon=True).start()
                except RuntimeError:  # the system has no more threads: those that there are serve what waits
                    self._lanes.remove(lane)
                    if not self._lanes:
                        raise
                    return

    def _work(self, lane: _Lane) -> None:
        # Threads inherit it from the one that starts them: those of node code are no daemons, as in a plain program.
        threading.current_thread()._daemonic = False  # type: ignore[attr-defined]  # `daemon` can't be set any more
        queue, slots, serve, deliver, claim = self._queue, self._slots, self._serve, self._deliver, lane.claim
        while True:
            if not queue or not slots:
                self._lead_or_park(lane)
                continue
            try:
                slots.pop()
            except IndexError:  # another lane has taken the last slot
                continue
            try:
                item = queue.popleft()
            except IndexError:  # another lane was quicker
                slots.append(None)
                continue
            claim.append(item)
            # A fresh copy: what one call sets in a context variable is not seen by the next.
            answer = copy_context().run(serve, item)
            slots.append(None)
            try:
                claim.pop()  # RES-10; atomic: either this thread answers, or whoever has abandoned the item
            except IndexError:
                continue
            deliver(answer, bool(queue))
            lane.done += 1
            lane.done_bytes += len(item)
            del item, answer  # else they stay in memory until the next one
            if self.ended or self.closed:
                self._wake()

    def _lead_or_park(self, lane: _Lane) -> None:
        """Read, if nobody else does and there is room; else wait to be activated."""
        with self._lock:
            room = not self.ended and self._has_room()
            leads = room and self._leader in (lane, None)
            if leads:
                self._leader = lane
                lane.reading = True
            else:
                if self._leader is lane:
                    self._leader = None
                if self._queue and self._slots:
                    return
                self._parked.append(lane)
        if not leads:
            lane.go.acquire()
            return
        try:
            items = self._read()
        except BaseException:  # noqa: BLE001  # node code has sent it to this thread, as timeouts by force do
            items = None  # what was read is lost, and the stream with it
            sys.excepthook(*sys.exc_info())
        if items is None or self.closed:
            self.ended = True
            lane.reading = False
            self._wake()
            return
        self._taken += len(items)
        self._taken_bytes += sum(map(len, items))
        self._queue.extend(items)
        lane.reading = False  # before the check: `look` sees the one, or this the other
        if not self._watched:
            self._watched = True
            self._wake()


#: Name of each lane's thread.
LANE_NAME = "octonode-call"

#: Seconds between two looks while calls are served: how long a call that blocks can hold up the next one. Shorter costs
#: more than it gives, since a look takes the interpreter from the call that runs.
LOOK_SECONDS = 0.001

#: Looks that find nothing to do before the watch sleeps.
_QUIET_LOOKS = 100

#: Times that `abandon` lets other threads run until each item is in the line or claimed. One or two do.
_CLAIM_TRIES = 1000


class _Lane:
    """One thread's books: the item that it serves, how many it has done, and the lock that it waits on."""

    __slots__ = ("claim", "done", "done_bytes", "go", "reading")

    def __init__(self) -> None:
        self.claim: list[Any] = []
        self.reading = False
        self.done = self.done_bytes = 0  # written by the thread itself only
        self.go = threading.Lock()
        self.go.acquire()


class LoopThread:
    """The one event loop that async nodes share; it starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is the loop's."""
        return self._thread is not None and self._thread.ident == get_ident()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                import asyncio

                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_keep_running, args=(loop,), name="octonode-loop", daemon=True)
                thread.start()
                self._thread, self._loop = thread, loop
            return self._loop

    def run(self, coroutine: Coroutine[Any, Any, Any], context: Context | None) -> Any:
        """Run a coroutine on the loop and return its result; a call that is cancelled cancels the task.

        Returns when the task has ended, its clean-up included: nothing of a call goes on behind its answer (CAN-15).
        """
        import asyncio

        loop = self._started()
        tasks: list[asyncio.Task[Any]] = []
        lost: list[BaseException] = []
        if context is not None:
            # The task and not the future, which would be done at once. Set before the task runs and may be cancelled.
            context.on_cancel = lambda: loop.call_soon_threadsafe(_cancel_once, tasks, context)
        future = asyncio.run_coroutine_threadsafe(_noted(coroutine, tasks, lost, context), loop)
        try:
            value = future.result()
            if lost:
                raise lost.pop()
            return value
        except BaseException:
            if context is not None and context.cancelled:
                raise CallCancelledError("the call was told to stop") from None
            raise
        finally:
            if context is not None:
                context.on_cancel = None


async def _noted(
    coroutine: Coroutine[Any, Any, Any], tasks: list[Any], lost: list[BaseException], context: Context | None
) -> Any:
    """Run a coroutine in a task that is noted, so that it can be cancelled.

    A TimeoutError or CancelledError is noted too: on its way through a future it is made anew, without its traceback
    and cause.
    """
    import asyncio

    tasks.append(asyncio.current_task())
    if context is not None and context.cancelled:  # before the task was there
        _cancel_once(tasks, context)
    process = os.getpid()
    try:
        return await coroutine
    except (TimeoutError, asyncio.CancelledError) as error:
        lost.append(error)
    finally:
        if os.getpid() != process:  # node code has forked, and its child would run this loop on the parent's selector
            os._exit(0)


def _cancel_once(tasks: list[Any], context: Context) -> None:
    """Cancel a noted task (CAN-7); a second time, or once it has heard of it elsewhere, would hit its clean-up."""
    while tasks:
        task = tasks.pop()
        if not context.was_told_on_loop:
            task.cancel()


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop for as long as the process lives, whatever nodes do to it."""
    while not loop.is_closed():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # asyncio lets these two out; the task that raised one keeps it as well
            continue


def run_call(
    plan: Plan,
    inputs: dict[str, Any],
    context: Context | None,
    loop: LoopThread,
    emit: Callable[[dict[str, Any]], Awaitable[None] | None] | None = None,
) -> dict[str, Any]:
    """Run one call on this thread and return its outputs, a value for each port.

    A generator is run to its end; between two of its values a cancelled call stops, and it is closed (CAN-8).

    Args:
        plan: The node.
        inputs: A value for each input that the host gave.
        context: The call's surroundings; None for a node that does not ask for them, on a host that can't cancel.
        loop: Where coroutines run.
        emit: Takes the partial outputs of a generator, which are then not returned. It is called on this thread, or
            for an async generator on the loop, where it may return what is to be awaited before the next part.

    Raises:
        InputsError, OutputsError: Values do not fit their ports.
        BaseException: Whatever the node raised.
    """
    places, arguments = plan.bind(inputs, context)
    if context is not None:
        context.check_cancelled()
    value = plan.fn(*places, **arguments)
    if hasattr(value, "__await__"):
        value = loop.run(_awaited(value), context)
    if not plan.streams:
        return plan.outputs(value)
    collector = Collector(plan)
    take = collector.take if emit is None else plan.partial
    if hasattr(value, "__aiter__"):
        loop.run(_drained(value, take, emit, context), context)
    else:
        try:
            for part in value:
                made = take(part)
                if emit is not None:
                    emit(made)
                if context is not None:
                    context.check_cancelled()
        finally:
            close = getattr(value, "close", None)
            if close is not None:
                close()
    return collector.outputs() if emit is None else {}


async def _awaited(value: Any) -> Any:
    return await value


async def _drained(
    value: Any,
    take: Callable[[Any], dict[str, Any]],
    emit: Callable[[dict[str, Any]], Awaitable[None] | None] | None,
    context: Context | None,
) -> None:
    import asyncio

    try:
        async for part in value:
            made = take(part)
            waiting = None if emit is None else emit(made)
            if waiting is not None:
                await waiting
            if context is not None and context.cancelled:
                await asyncio.sleep(0)  # the cancellation of the task lands here and not in the clean-up of the node
                context.check_cancelled()
    finally:
        close = getattr(value, "aclose", None)
        if close is not None:
            await close()


def inherit_context() -> None:
    """Let threads that node code starts see the context variables of the call that starts them.

    Python 3.14 can do this itself (`sys.flags.thread_inherit_context`); elsewhere `Thread.start` is wrapped, and
    `ThreadPoolExecutor.submit` too, since a pool's threads outlive the call that happened to start them.
    """
    if getattr(sys.flags, "thread_inherit_context", False) or getattr(threading.Thread.start, "_octonode", False):
        return
    start = threading.Thread.start

    def start_in_context(thread: threading.Thread) -> None:
        run, context = thread.run, copy_context()
        _carry_submissions()

        def run_in_context() -> None:
            del thread.run  # back to the class's own: no cycle keeps the thread object alive
            context.run(run)

        thread.run = run_in_context  # type: ignore[method-assign]  # the instance's own, for this start
        start(thread)

    start_in_context._octonode = True  # type: ignore[attr-defined]  # marks the wrapper
    threading.Thread.start = start_in_context  # type: ignore[method-assign, assignment]  # the purpose of this function


def _carry_submissions() -> None:
    module = sys.modules.get("concurrent.futures.thread")
    if module is None or getattr(module.ThreadPoolExecutor.submit, "_octonode", False):
        return
    submit = module.ThreadPoolExecutor.submit

    def submit_in_context(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, copy_context().run, fn, *args, **kwargs)

    submit_in_context._octonode = True  # type: ignore[attr-defined]  # marks the wrapper
    module.ThreadPoolExecutor.submit = submit_in_context
