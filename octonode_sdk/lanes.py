"""Where calls run: a pool of threads, and one event loop for all async nodes.

Each call has a pool thread from its validation to its answer. An async node's coroutine runs on the loop while that
thread waits for it, so neither a busy node nor a host that reads slowly ever holds up the loop or the reader.
"""

from __future__ import annotations

import sys
import threading
from _queue import SimpleQueue  # `queue` would import heapq and types beside it
from contextvars import copy_context

from .call import Collector
from .errors import CallCancelledError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any

    from .call import Plan
    from .context import Context

__all__ = ["Lanes", "LoopThread", "inherit_context", "run_call"]


class Lanes:
    """A pool of at most `concurrency` threads, each started when it is first needed.

    A job that finds no free thread waits in line, in the order of `submit`.
    """

    def __init__(self, concurrency: int) -> None:
        self._limit = concurrency
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self.loop = LoopThread()

    def submit(self, job: Callable[[], None]) -> None:
        """Run `job` on a pool thread. It must not raise."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self._limit:
                self._threads += 1
                # Daemon: a node that never ends must not keep the process once its host has gone.
                threading.Thread(target=self._work, name=f"octonode-call-{self._threads}", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        take, lock = self._jobs.get, self._lock
        while True:
            job = take()
            # A fresh copy: what one call sets in a context variable is not seen by the next.
            copy_context().run(job)
            del job  # else the finished call's values stay in memory until the next one
            with lock:
                self._idle += 1


class LoopThread:
    """The one event loop that async nodes share; it starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                import asyncio

                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="octonode-loop", daemon=True).start()
                self._loop = loop
            return self._loop

    def run(self, coroutine: Coroutine[Any, Any, Any], context: Context | None) -> Any:
        """Run a coroutine on the loop and return its result; a call that is cancelled cancels the task."""
        import asyncio

        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        if context is not None:
            context.on_cancel = future.cancel
            if context.cancelled:
                future.cancel()
        try:
            return future.result()
        except BaseException:
            if context is not None and context.cancelled:
                raise CallCancelledError("the call was told to stop") from None
            raise
        finally:
            if context is not None:
                context.on_cancel = None


def run_call(plan: Plan, inputs: dict[str, Any], context: Context | None, loop: LoopThread) -> dict[str, Any]:
    """Run one call on this thread and return its outputs, a value for each port.

    A generator is run to its end; between two of its values a cancelled call stops.

    Raises:
        InputsError, OutputsError: Values do not fit their ports.
        BaseException: Whatever the node raised.
    """
    places, arguments = plan.bind(inputs, context)
    value = plan.fn(*places, **arguments)
    if hasattr(value, "__await__"):
        value = loop.run(_awaited(value), context)
    if not plan.streams:
        return plan.outputs(value)
    collector = Collector(plan)
    if hasattr(value, "__aiter__"):
        loop.run(_drained(value, collector, context), context)
    else:
        try:
            for part in value:
                collector.take(part)
                if context is not None:
                    context.check_cancelled()
        finally:
            close = getattr(value, "close", None)
            if close is not None:
                close()
    return collector.outputs()


async def _awaited(value: Any) -> Any:
    return await value


async def _drained(value: Any, collector: Collector, context: Context | None) -> None:
    try:
        async for part in value:
            collector.take(part)
            if context is not None:
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
