"""One process a call: one request, the end of stdin, one answer (ENG-10)."""

from __future__ import annotations

from functools import partial
from time import monotonic

from ...errors import shorten
from .answers import Answer
from .calls import settle_trouble
from .core import SingleAnswer, Trouble
from .process import NodeProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .calls import Call
    from .process import Program
    from .reactor import Reactor, Timer

__all__ = ["OneShots", "spawn_trouble"]


class OneShots:
    """The processes of calls in one-shot mode.

    Args:
        program: What is started.
        reactor: Whose thread everything happens on.
    """

    def __init__(self, program: Program, reactor: Reactor) -> None:
        self.program, self.reactor = program, reactor
        self.runs: dict[Call, _Run] = {}
        #: Ended ones that are only waited for.
        self.ending: set[_Run] = set()
        #: Called when a process is no more.
        self.on_end: Callable[[], None] | None = None

    def start(self, call: Call) -> None:
        """Begin an attempt; from any thread."""
        self.reactor.call_soon(partial(self._spawn, call))

    def _spawn(self, call: Call) -> None:
        if call.answer is not None or not call.is_under_way:
            return
        run = _Run(self, call)
        try:
            run.begin()
        except (OSError, ValueError, RuntimeError) as error:
            settle_trouble(call, spawn_trouble(self.program, error))

    def stop(self, call: Call, trouble: Trouble) -> None:
        """End the attempt that is under way, with its process."""
        run = self.runs.get(call)
        if run is None:  # it has not begun
            call.finish_with(trouble)
        else:
            run.stop(trouble)

    def close(self, _grace: float) -> None:
        """Nothing: calls that are ended have ended their processes."""

    @property
    def is_quiet(self) -> bool:
        """Whether no process is left."""
        return not self.runs and not self.ending

    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        runs = [*self.runs.values(), *self.ending]
        return [run.process.pid for run in runs if run.process is not None and not run.process.has_exited]


def spawn_trouble(program: Program, error: Exception) -> Trouble:
    """Return what a process that can't be started means for its call (ENG-2)."""
    place = "" if program.cwd is None else f" in the folder {program.cwd!r}"
    return Trouble(
        "spawn",
        f"the process can't be started{place}: {error}; look at the command {shorten(' '.join(program.command), 300)}",
    )


class _Run:
    """One process and its call."""

    def __init__(self, home: OneShots, call: Call) -> None:
        self._home, self._call = home, call
        self._limits = home.program.limits
        self._output = SingleAnswer(call.request_id, call.type, self._limits.max_answer_bytes)
        self.process: NodeProcess | None = None
        self._timer: Timer | None = None
        self._verdict: Answer | Trouble | None = None
        self._is_final = False

    def begin(self) -> None:
        """Start it.

        Raises:
            OSError, ValueError, RuntimeError: The system can't.
        """
        process = self.process = NodeProcess(self._home.program, self._home.reactor, self)
        self._home.runs[self._call] = self
        process.send(self._call.request())
        process.end_input()

    def take_output(self, data: bytes) -> None:
        """Take bytes of stdout; b"" is its end."""
        if self._verdict is not None:
            return
        if data:
            had_line = self._output.has_line
            self._output.feed(data)
            if self._output.is_over:  # ENG-17
                self._end(self._output.verdict(None))
            elif self._output.has_line and not had_line:
                self._wait(self._limits.exit_seconds)
            return
        assert self.process is not None
        if self.process.has_exited:  # something that it left behind held stdout open
            self._conclude()
        elif not self._output.has_line:
            self._wait(self._limits.exit_seconds)

    def take_exit(self) -> None:
        """Note that the process has ended: what it has written is all there is (ENG-18)."""
        process = self.process
        assert process is not None
        if self._verdict is not None or not process.has_output or (process.is_drained and self._output.has_line):
            self._conclude()
        else:
            self._wait(self._limits.drain_seconds)

    def take_defect(self, error: Exception) -> None:
        """Fail the call: nobody else will."""
        self._end(Trouble("internal", f"a defect of the engine: {type(error).__name__}: {error}"))

    def _wait(self, seconds: float) -> None:
        reactor = self._home.reactor
        if self._timer is not None:
            reactor.cancel(self._timer)
        self._timer = reactor.call_at(monotonic() + seconds, self._run_out)

    def _run_out(self) -> None:
        """Be done with a process that has ended, or that does not end after its answer (ENG-19)."""
        process = self.process
        assert process is not None
        if process.has_exited:
            self._conclude()
        elif self._verdict is not None:
            self._deliver()  # it was killed, and takes its time
        elif self._output.has_line:
            self._end(self._output.verdict(None))
        else:
            self._end(Trouble("no-output", "the process closed its stdout without an answer, and did not end"))

    def stop(self, trouble: Trouble) -> None:
        """End the process because of a deadline, or of whoever called; an answer that is whole counts in time."""
        self._is_final = True
        if self._verdict is not None:  # it is being killed already
            if trouble.fault != "deadline":
                self._verdict = trouble
            return
        if trouble.fault == "deadline" and self._output.has_line:
            verdict = self._output.verdict(None)
            self._end(verdict)
        else:
            self._end(trouble)

    def _end(self, verdict: Answer | Trouble) -> None:
        """Kill what is left, and answer once it is gone, or a moment later."""
        self._verdict = verdict
        process = self.process
        assert process is not None
        process.kill()
        if not process.has_exited:
            self._wait(self._limits.drain_seconds)
        else:
            self._conclude()

    def _conclude(self) -> None:
        process = self.process
        assert process is not None
        if self._timer is not None:
            self._home.reactor.cancel(self._timer)
            self._timer = None
        if self._verdict is None:
            self._verdict = self._output.verdict(process.status)
        process.release()
        self._deliver()
        self._home.ending.discard(self)
        if self._home.on_end is not None:
            self._home.on_end()

    def _deliver(self) -> None:
        if self._home.runs.get(self._call) is not self:
            return
        del self._home.runs[self._call]
        assert self.process is not None
        if not self.process.is_released:
            self._home.ending.add(self)
        verdict = self._verdict
        assert verdict is not None
        if isinstance(verdict, Answer):
            self._call.settle(verdict)
        elif self._is_final:
            self._call.finish_with(verdict, self.process)
        else:
            settle_trouble(self._call, verdict, self.process)
