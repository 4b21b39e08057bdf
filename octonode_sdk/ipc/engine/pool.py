"""Processes that are kept for many calls (ENG-11): which one gets a call, when one is started, replaced and let go.

The lock guards who has which call. Any thread hands out calls; everything else happens on the reactor's thread.
"""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic

from ...process.outcomes import outcome_text
from .answers import Answer
from .calls import settle_trouble
from .core import Flight, Trouble
from .lane import Lane
from .oneshot import spawn_trouble
from .process import NodeProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .calls import Call
    from .core import Outcome
    from .process import Program
    from .reactor import Reactor, Timer

__all__ = ["Pool", "restart_wait"]

#: The wait before a worker is started again: none after its first death, then this, doubling to the longest. Answers
#: begin the count anew.
_RESTART_SECONDS = 0.1
_LONGEST_RESTART = 10.0


def restart_wait(deaths: int) -> float:
    """Return how many seconds to wait before a worker is started, after so many deaths without an answer between."""
    return 0.0 if deaths < 2 else min(_LONGEST_RESTART, _RESTART_SECONDS * 2.0 ** min(deaths - 2, 20))


class Pool:
    """Up to `size` workers, started as calls come.

    Args:
        program: What is started.
        reactor: Whose thread everything happens on.
        size: How many workers take calls at once.
        idle_seconds: How long a worker stays without a call; None for ever.
        recycle_after: After how many calls a worker is replaced; None for never.
    """

    def __init__(
        self, program: Program, reactor: Reactor, *, size: int, idle_seconds: float | None, recycle_after: int | None
    ) -> None:
        self.program, self.reactor = program, reactor
        self._size, self._recycle_after = size, recycle_after
        self.idle_seconds = idle_seconds
        self.lock = threading.Lock()
        #: Those that take calls.
        self._workers: list[_Worker] = []
        #: Those that only end what they have, and those that are being killed.
        self._leaving: set[_Worker] = set()
        self._homes: dict[Call, _Worker] = {}
        self._deaths = 0
        #: Called when a process is no more.
        self.on_end: Callable[[], None] | None = None

    def start(self, call: Call) -> None:
        """Hand an attempt to the worker that is the least busy (ENG-23); from any thread."""
        with self.lock:
            worker = self._choose(call.request_id)
            self._homes[call] = worker
            worker.take(call)
            if self._recycle_after is not None and worker.taken >= self._recycle_after:
                self._retire(worker)  # ENG-25

    def lane_of(self, call: Call) -> Lane | None:
        """Return where the caller's thread may read for its call: it is alone with a worker that runs."""
        with self.lock:
            worker = self._homes.get(call)
            return None if worker is None or len(worker.flight.open) > 1 else worker.lane

    def _choose(self, request_id: str) -> _Worker:
        best: _Worker | None = None
        for worker in self._workers:
            if request_id in worker.flight.forgotten:
                continue
            if not worker.is_waiting and not worker.busy:
                return worker
            if best is None or (worker.is_waiting, worker.busy) < (best.is_waiting, best.busy):
                best = worker
        if len(self._workers) < self._size and (best is None or best.is_waiting or not restart_wait(self._deaths)):
            best = self._add()
        if best is None:  # each has an answer of the same id still to come
            self._retire(self._workers[0])
            best = self._add()
        return best

    def _add(self) -> _Worker:
        worker = _Worker(self)
        self._workers.append(worker)
        wait = restart_wait(self._deaths)  # ENG-24
        if wait:
            worker.is_waiting = True
            worker.timer = self.reactor.call_at(monotonic() + wait, worker.begin)
        else:
            self.reactor.call_soon(worker.begin)
        return worker

    def _retire(self, worker: _Worker) -> None:
        """Give a worker no more calls, and let it go once it has answered those that it has (ENG-25)."""
        if worker in self._workers:
            self._workers.remove(worker)
            self._leaving.add(worker)
            if not worker.flight.open:
                self.reactor.call_soon(worker.let_go)

    # What the workers tell, on the reactor's thread

    def claim(self, outcomes: list[Outcome]) -> None:
        """Note that calls are being settled, with the lock held: nobody else ends them from now on."""
        for call, _ in outcomes:
            self._homes.pop(call, None)

    def take_outcomes(self, worker: _Worker, outcomes: list[Outcome]) -> None:
        """Settle what was claimed; perhaps on a caller's thread."""
        for call, outcome in outcomes:
            if isinstance(outcome, Answer):
                self._deaths = 0
                call.settle(outcome)
            else:
                settle_trouble(call, outcome, worker.process)

    def note_failure(self, worker: _Worker, *, is_death: bool) -> None:
        """Take a worker out, with the lock held."""
        if worker in self._workers:
            self._workers.remove(worker)
            self._leaving.add(worker)
        if is_death:
            self._deaths += 1

    def note_end(self, worker: _Worker) -> None:
        """Forget a worker whose process is no more."""
        with self.lock:
            self._leaving.discard(worker)
        if self.on_end is not None:
            self.on_end()

    def stop(self, call: Call, trouble: Trouble) -> None:
        """End one call: at its deadline with its worker, which is replaced (ENG-20); else it is forgotten (ENG-26)."""
        with self.lock:
            worker = self._homes.pop(call, None)
            if worker is None:  # its answer is being settled by another thread
                return
            others: list[Outcome] = []
            if call in worker.backlog:  # it was never sent
                worker.backlog.remove(call)
                worker.flight.open.pop(call.request_id, None)
                worker = None
            elif trouble.fault == "deadline":
                worker.flight.open.pop(call.request_id, None)
                others = worker.flight.end(trouble, is_of_others=True)
                self.claim(others)
                worker.is_over = True
                self.note_failure(worker, is_death=False)
            else:
                worker.flight.forget(call.request_id)
                if worker.flight.is_stuck:
                    self._retire(worker)
                if worker in self._leaving and not worker.flight.open:
                    self.reactor.call_soon(worker.let_go)
        process = None
        if worker is not None and trouble.fault == "deadline":
            process = worker.process
            worker.kill()  # ENG-4
        call.finish_with(trouble, process)
        if worker is not None:
            self.take_outcomes(worker, others)

    def retire_if_idle(self, worker: _Worker, since: float) -> float | None:
        """Let a worker go that has had no call since a time; return when to look again, or None."""
        assert self.idle_seconds is not None
        with self.lock:
            if worker not in self._workers:
                return None
            if worker.flight.open:
                return monotonic() + self.idle_seconds
            if worker.used_at > since:
                return worker.used_at + self.idle_seconds
            self._retire(worker)
            return None

    def close(self, grace: float) -> None:
        """Let all workers go; they have `grace` seconds to end."""
        with self.lock:
            workers = [*self._workers, *self._leaving]
            for worker in self._workers:
                self._leaving.add(worker)
            self._workers.clear()
        for worker in workers:
            worker.let_go(grace)

    @property
    def is_quiet(self) -> bool:
        """Whether no process is left."""
        return not self._workers and not self._leaving

    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        with self.lock:
            workers = [*self._workers, *self._leaving]
        return [one.process.pid for one in workers if one.process is not None and not one.process.has_exited]


class _Worker:
    """One process and its calls."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._limits = pool.program.limits
        self.flight = Flight(self._limits.max_answer_bytes)
        self.process: NodeProcess | None = None
        self.lane: Lane | None = None
        #: Calls that wait for the process to be started.
        self.backlog: deque[Call] = deque()
        #: What is being settled.
        self._claimed: list[Outcome] = []
        self.taken = 0
        self.used_at = monotonic()
        #: Whether it is to be started later only.
        self.is_waiting = False
        self.timer: Timer | None = None
        self._kill_timer: Timer | None = None
        #: Whether its calls are settled, and nothing that it says counts any more.
        self.is_over = self._is_let_go = False

    @property
    def busy(self) -> int:
        """How many calls it works on."""
        return len(self.flight.open) + len(self.flight.forgotten)

    def take(self, call: Call) -> None:
        """Take a call, with the lock held."""
        self.taken += 1
        self.used_at = monotonic()
        self.flight.add(call.request_id, call.type, call)
        if self.process is None:
            self.backlog.append(call)
        else:
            self.process.send(call.request())
            if self.lane is not None and not call.is_direct:
                self.lane.expect()

    # On the reactor's thread

    def begin(self) -> None:
        """Start the process, and send what waits for it."""
        pool = self._pool
        if self.is_over:
            return
        self.timer = None
        try:
            process = NodeProcess(pool.program, pool.reactor, self)
        except (OSError, ValueError, RuntimeError) as error:
            self._end(spawn_trouble(pool.program, error), each=True)
            return
        lane = Lane(
            process,
            pool.reactor,
            take=self._take_answers,
            is_needed=lambda: bool(self.flight.open),
            attend=self._attend,
            give_up=self._give_up,
        )
        with pool.lock:
            self.is_waiting = False
            self.process, self.lane = process, lane
            while self.backlog:
                process.send(self.backlog.popleft().request())
        if self._is_let_go:
            process.end_input()
        if pool.idle_seconds is not None:
            self._look_later(self.used_at, self.used_at + pool.idle_seconds)

    def _look_later(self, since: float, when: float) -> None:
        def look() -> None:
            self.timer = None
            again = self._pool.retire_if_idle(self, since)
            if again is not None:
                self._look_later(self.used_at, again)

        self.timer = self._pool.reactor.call_at(when, look)

    def take_output(self, data: bytes) -> None:
        """Take bytes of stdout; b"" is its end."""
        process = self.process
        assert process is not None
        if not data:
            if process.has_exited:
                self._conclude()
            else:
                self._kill_later(self._limits.exit_seconds if self._is_let_go else self._limits.drain_seconds)
            return
        if self._take_answers(data):
            self._attend()

    def _take_answers(self, data: bytes) -> bool:
        """Take bytes of stdout, perhaps on a caller's thread; return whether the rest is to be attended to."""
        pool, flight = self._pool, self.flight
        if self.is_over:
            return False
        with pool.lock:
            outcomes = self._claimed = flight.feed(data)
            pool.claim(outcomes)
            self.used_at = monotonic()
        if outcomes:
            pool.take_outcomes(self, outcomes)
            self._claimed = []
        return flight.broken is not None or (not flight.open and self in pool._leaving)

    def _attend(self) -> None:
        """End a worker that can't be followed, and let one go that is not needed."""
        if self.is_over:
            return
        if self.flight.broken is not None:
            self.kill()
            self._end(self.flight.broken)
        elif not self.flight.open and self in self._pool._leaving:
            self.let_go()

    def _give_up(self) -> None:
        """End a worker whose bytes may be lost: a signal handler has raised into the thread that read them."""
        self.kill()
        pool = self._pool
        with pool.lock:
            calls = [call for call, worker in pool._homes.items() if worker is self]
            calls += [call for call, _ in self._claimed]  # the interrupted thread has claimed and perhaps not told them
            self._claimed = []
        trouble = Trouble("beside", "the worker was ended while the call was in flight: its reader was interrupted")
        self._end(trouble, each=True)
        pool.take_outcomes(self, [(call, trouble) for call in calls])
        for call in calls:
            if call.answer is not None:
                call.tell()

    def take_exit(self) -> None:
        """Note that the process has ended: what it has written is all there is (ENG-18)."""
        process = self.process
        assert process is not None
        if process.is_drained or not process.has_output:
            self._conclude()
        else:
            self._later(self._limits.drain_seconds, self._conclude)

    def take_defect(self, error: Exception) -> None:
        """Fail the calls: nobody else will."""
        self.kill()
        self._end(Trouble("internal", f"a defect of the engine: {type(error).__name__}: {error}"), each=True)

    def let_go(self, grace: float | None = None) -> None:
        """End the input of a worker that gets no more calls; it has some seconds to end by itself."""
        if self.is_over:
            return
        if self.process is None:
            if not self.backlog:
                self._end(Trouble("closed", "the worker was not needed any more"))
            return
        if self._is_let_go and grace is None:
            return
        self._is_let_go = True
        self.process.end_input()
        self._kill_later(self._limits.exit_seconds if grace is None else grace)

    def kill(self) -> None:
        """End the process and everything below it."""
        if self.process is not None:
            self.process.kill()

    def _kill_later(self, seconds: float) -> None:
        self._later(seconds, self._kill_late)

    def _kill_late(self) -> None:
        process = self.process
        assert process is not None
        process.kill()
        if not process.has_output and not process.has_exited:
            self._end(Trouble("no-output", "the worker closed its stdout, and did not end"))

    def _later(self, seconds: float, function: Callable[[], None]) -> None:
        reactor = self._pool.reactor
        if self._kill_timer is not None:
            reactor.cancel(self._kill_timer)
        self._kill_timer = reactor.call_at(monotonic() + seconds, function)

    def _conclude(self) -> None:
        """Be done with the process, which has ended."""
        process = self.process
        assert process is not None
        status, pool, flight = process.status, self._pool, self.flight
        if not self.is_over:
            with pool.lock:
                outcomes = flight.finish()
                pool.claim(outcomes)
            pool.take_outcomes(self, outcomes)
        if flight.is_cut_off:
            trouble = Trouble("cut-off", f"the worker {outcome_text(status)} in the middle of an answer")
        else:
            trouble = flight.broken or Trouble("no-output", f"the worker {outcome_text(status)} before it had answered")
        process.release()
        self._end(trouble)

    def _end(self, trouble: Trouble, *, each: bool = False) -> None:
        """Fail what it has left, and take no more.

        Args:
            trouble: Why.
            each: Whether that is why for each call, however many there are.
        """
        pool, reactor = self._pool, self._pool.reactor
        process = self.process
        is_gone = process is None or process.is_released
        outcomes: list[Outcome] = []
        with pool.lock:
            if not self.is_over:
                was_needed = bool(self.flight.open)
                outcomes = self.flight.end(trouble, is_of_each=each)
                pool.claim(outcomes)
                self.backlog.clear()
                pool.note_failure(self, is_death=was_needed)
            self.is_over = True
        if self.timer is not None:
            reactor.cancel(self.timer)
            self.timer = None
        if is_gone:
            if self._kill_timer is not None:
                reactor.cancel(self._kill_timer)
            pool.note_end(self)
        pool.take_outcomes(self, outcomes)
