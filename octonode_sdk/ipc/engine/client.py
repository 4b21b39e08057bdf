"""The engine for threads: runs a command that speaks the protocol, and answers each call with an envelope."""

from __future__ import annotations

import threading

from .runtime import CLOSE_SECONDS, Runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Self, Unpack

    from .answers import Answer
    from .calls import Call
    from .runtime import CallOptions, EngineOptions, Seconds

__all__ = ["Engine", "Handle"]


class _Bell:
    """What the waiting threads of one call wait on."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self, _call: Call | None = None) -> None:
        try:
            self._lock.release()
        except RuntimeError:  # two threads have passed it on at once
            return

    def wait(self, timeout: float) -> bool:
        if not self._lock.acquire(timeout=timeout):
            return False
        self.ring()  # for whoever else waits
        return True


class Handle:
    """A call that goes on while its caller does something else."""

    def __init__(self, runtime: Runtime, call: Call, bell: _Bell) -> None:
        self._runtime, self._call, self._bell = runtime, call, bell

    @property
    def invocation_id(self) -> str:
        """Its id on the wire."""
        return self._call.request_id

    def done(self) -> bool:
        """Whether it has its answer."""
        return self._call.answer is not None

    def result(self, timeout: float | None = None) -> Answer:
        """Wait for the answer.

        Raises:
            TimeoutError: `timeout` seconds have passed; the call goes on.
        """
        if not self._bell.wait(-1 if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX))):
            raise TimeoutError(f"the call {self.invocation_id!r} has no answer yet; ask again, or cancel it")
        assert self._call.answer is not None
        return self._call.answer

    def cancel(self) -> bool:
        """End the call: its process in one-shot mode, while a worker is not told and its answer is dropped.

        Returns:
            Whether it had no answer yet. It soon has one, whose `fault` is "cancelled".
        """
        return self._runtime.cancel(self._call)


class Engine:
    """Runs a command that speaks Octonode IPC. It may be used from any thread; processes are started as calls come.

    Args:
        command: The program and its arguments, texts or paths.
        mode: "one-shot", a process for each call, or "worker", processes that are kept.
        workers: How many, in worker mode. A call goes to the one that has the fewest.
        deadline: Seconds that a call may take, attempts and waits between them included; None for no bound.
        retry: When a failed call is tried again; None for never.
        cwd: The folder of the processes.
        env: Variables to add to our own; None as a value takes one away.
        limits: What is borne of a process.
        on_stderr: Called with each line of their stderr, on a thread of its own.
        idle_seconds: After how long without a call a worker is let go; None for never.
        recycle_after: After how many calls a worker is replaced by a new one; None for never.

    Raises:
        TypeError, ValueError: An argument can't be.

    Example:
        >>> import sys
        >>> reply = '''
        ... import json, sys
        ... request = json.loads(sys.stdin.readline())
        ... greeting = f"Hello, {request['inputs']['name']}"
        ... print(json.dumps({"octonode": "1", "type": "result", "invocationId": request["invocationId"],
        ...                   "status": "ok", "outputs": {"greeting": greeting}}))
        ... '''
        >>> with Engine([sys.executable, "-c", reply], deadline=30) as engine:
        ...     engine.invoke({"name": "Ada"}).outputs
        {'greeting': 'Hello, Ada'}
    """

    def __init__(self, command: Sequence[str | os.PathLike[str]], **options: Unpack[EngineOptions]) -> None:
        self._runtime = Runtime(command, **options)

    def invoke(self, inputs: Any = None, **options: Unpack[CallOptions]) -> Answer:
        """Run a node and wait for the answer. No fault of the node raises (ENG-1).

        Args:
            inputs: Its inputs, JSON; None for none.
            options: `node`, which one, where the command has several; `config`, a mapping; `env`, such as "prod";
                `run_id`, the workflow run; `deadline`, in seconds, in place of the engine's; `invocation_id`, in place
                of one that the engine makes.

        Raises:
            TypeError, ValueError: An argument can't be, inputs that are no JSON included.
            RuntimeError: The engine is closed.
        """
        bell = _Bell()
        call = self._runtime.open(inputs, bell.ring, True, **options)
        return self._wait(call, bell)

    def _wait(self, call: Call, bell: _Bell) -> Answer:
        try:
            if call.is_direct:
                self._runtime.read_for(call)
            bell.wait(-1)
        except BaseException:  # Ctrl-C: nobody waits for it any more
            self._runtime.cancel(call)
            raise
        assert call.answer is not None
        return call.answer

    def submit(self, inputs: Any = None, **options: Unpack[CallOptions]) -> Handle:
        """Run a node and return at once; as `invoke`."""
        bell = _Bell()
        return Handle(self._runtime, self._runtime.open(inputs, bell.ring, **options), bell)

    def describe(self, node: str | None = None, *, deadline: Seconds = ..., fresh: bool = False) -> Answer:
        """Ask for a manifest, by a process of its own in either mode.

        A manifest is kept until a file that the command names has changed; the answer's `attempts` are then 0.

        Args:
            node: Which one, where the command has several.
            deadline: As in `invoke`.
            fresh: Whether to ask anew in any case.
        """
        stamp = self._runtime.stamp(node)
        known = None if fresh else self._runtime.known_manifest(node, stamp)
        if known is not None:
            return known
        bell = _Bell()
        return self._wait(self._runtime.open_describe(node, stamp, deadline, bell.ring), bell)

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that run now."""
        return self._runtime.pids

    def close(self, grace: float = CLOSE_SECONDS) -> None:
        """End what is open and all processes, and wait for their end; twice does no harm.

        Calls that are open get an answer whose `fault` is "closed".

        Args:
            grace: Seconds that workers may take to end by themselves after the end of their input.
        """
        self._runtime.close(grace)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        runtime = getattr(self, "_runtime", None)
        if runtime is not None:
            runtime.abandon()
