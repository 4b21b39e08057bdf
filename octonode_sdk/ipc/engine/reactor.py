"""One thread that waits for everything an engine waits for: pipes, ends of processes, times. It knows nothing of calls.

A call costs no thread, and neither does an idle worker. Where the system has no `poll` for pipes, each pipe has a
thread of its own beside it (see `process`), and this one waits for what they bring.
"""

from __future__ import annotations

import heapq
import select
import threading
from collections import deque
from itertools import count
from time import monotonic

from ...process.bell import Bell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["POLLIN", "POLLOUT", "Reactor", "Timer", "Timers", "has_poll"]

#: Windows has no `poll`.
has_poll = hasattr(select, "poll")
POLLIN: int = getattr(select, "POLLIN", 1)
POLLOUT: int = getattr(select, "POLLOUT", 4)

#: Longest wait at once, in seconds: `poll` takes milliseconds in a C int.
_LONGEST_WAIT = 86_400.0

#: Cancelled timers that are kept before the others are sorted anew: each call with a deadline leaves one.
_DEAD_TIMERS = 256


class Timer:
    """A function to be called at a time, unless it is cancelled before."""

    __slots__ = ("function", "when")

    def __init__(self, when: float, function: Callable[[], None]) -> None:
        self.when = when
        self.function: Callable[[], None] | None = function


class Timers:
    """Pure: functions by their time. Cancelled ones hold nothing of their call, and do not pile up."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._dead = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, when: float, function: Callable[[], None]) -> Timer:
        """Note a function; those of one time are called in the order in which they were noted."""
        timer = Timer(when, function)
        heapq.heappush(self._heap, (when, next(self._numbers), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget a timer; one that has been called or cancelled may be cancelled again."""
        if timer.function is None:
            return
        timer.function = None
        self._dead += 1
        if self._dead > _DEAD_TIMERS and self._dead > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].function is not None]
            heapq.heapify(self._heap)
            self._dead = 0

    def next_time(self) -> float | None:
        """Return when the next one is due, or None."""
        heap = self._heap
        while heap and heap[0][2].function is None:
            heapq.heappop(heap)
            self._dead -= 1
        return heap[0][0] if heap else None

    def take_due(self, now: float) -> list[Callable[[], None]]:
        """Remove and return the functions that are due, oldest first."""
        due: list[Callable[[], None]] = []
        while (when := self.next_time()) is not None and when <= now:
            timer = heapq.heappop(self._heap)[2]
            assert timer.function is not None
            due.append(timer.function)
            timer.function = None
        return due


class Reactor:
    """The thread. It starts with the first thing it is to do.

    Everything it calls is called on it, and returns soon. What raises there is a defect of ours: it is logged, and the
    others go on.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._timers = Timers()
        self._jobs: deque[Callable[[], None]] = deque()
        self._is_rung = False
        # Until when the thread waits; while it does not, no new time has to wake it.
        self._waits_until = float("-inf")
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self._handlers: dict[int, Callable[[int], object]] = {}
        self._uses_poll = has_poll
        if self._uses_poll:
            self._bell = Bell()
            self._poll = select.poll()
            self._poll.register(self._bell.read_fd, POLLIN)
        else:
            self._event = threading.Event()

    # From any thread

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call a function on the thread."""
        self._jobs.append(function)
        if threading.current_thread() is not self._thread:
            self._wake()

    def call_at(self, when: float, function: Callable[[], None]) -> Timer:
        """Call a function on the thread at a time of the monotonic clock."""
        with self._lock:
            timer = self._timers.add(when, function)
            is_news = when < self._waits_until
        if is_news or self._thread is None:
            self._wake()
        return timer

    def cancel(self, timer: Timer) -> None:
        """Do not call it."""
        with self._lock:
            self._timers.cancel(timer)

    @property
    def is_current(self) -> bool:
        """Whether the caller is on the thread."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the thread, once it has done what it has been given."""
        self.call_soon(self._stop)

    def join(self, timeout: float) -> None:
        """Wait for the thread's end."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _stop(self) -> None:
        self._is_stopped = True

    def _wake(self) -> None:
        if self._thread is None:
            self._start()
        if self._is_rung:  # it has not looked since
            return
        self._is_rung = True
        if self._uses_poll:
            self._bell.ring()
        else:
            self._event.set()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopped:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread = thread
                thread.start()

    # On the thread

    def watch(self, fd: int, events: int, handler: Callable[[int], object]) -> None:
        """Call `handler(events)` as long as a descriptor is ready, or has ended."""
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        """Stop that, before the descriptor is closed; one that is not watched may be named."""
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _run(self) -> None:
        while True:
            # What is noted from here on either is seen below or rings.
            self._is_rung = False
            while self._jobs:
                self._call(self._jobs.popleft())
            if self._is_stopped:  # nobody may ring for that
                return
            with self._lock:
                due = self._timers.take_due(monotonic())
            for function in due:
                self._call(function)
            if due:
                continue
            with self._lock:
                next_time = self._timers.next_time()
                self._waits_until = float("inf") if next_time is None else next_time
            self._wait(0.0 if self._jobs else next_time)
            self._waits_until = float("-inf")

    def _wait(self, until: float | None) -> None:
        wait = None if until is None else min(max(0.0, until - monotonic()), _LONGEST_WAIT)
        if not self._uses_poll:
            self._event.wait(wait)
            self._event.clear()
            return
        for fd, events in self._poll.poll(None if wait is None else wait * 1000 + 0.999):
            handler = self._handlers.get(fd)
            if handler is not None:
                self._call(handler, events)
            elif fd == self._bell.read_fd:
                self._bell.still()

    def _call(self, function: Callable[..., object], *arguments: int) -> None:
        try:
            function(*arguments)
        except Exception:  # whoever else waits must not suffer from a defect of ours
            import logging

            logging.getLogger(__name__).exception("a defect of the engine")
