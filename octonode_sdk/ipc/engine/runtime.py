"""What the sync and the async engine have in common: all but how one waits for an answer."""

from __future__ import annotations

import os
import threading
from itertools import count
from random import random
from types import EllipsisType

from .answers import DESCRIBE, INVOKE, Answer, json_text
from .calls import Call
from .core import Trouble
from .limits import Limits, checked_number
from .manifests import shared, stamp_of
from .oneshot import OneShots
from .pool import Pool
from .process import Program, checked_command
from .reactor import Reactor
from .retry import ONCE, RetryPolicy
from .stderr import LineSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias, TypedDict

    from .calls import Transport
    from .manifests import Stamp

    Seconds: TypeAlias = "float | EllipsisType | None"

    class EngineOptions(TypedDict, total=False):
        """What an engine may be told beside its command; see `Engine`."""

        mode: str
        workers: int
        deadline: float | None
        retry: RetryPolicy | None
        cwd: str | os.PathLike[str] | None
        env: Mapping[str, str | None] | None
        limits: Limits | None
        on_stderr: Callable[[str], object] | None
        idle_seconds: float | None
        recycle_after: int | None

    class CallOptions(TypedDict, total=False):
        """What a call may say beside its inputs; see `Engine.invoke`."""

        node: str | None
        config: Mapping[str, Any] | None
        env: str | None
        run_id: str | None
        deadline: Seconds
        invocation_id: str | None


__all__ = ["CLOSE_SECONDS", "Runtime"]

#: How long workers may take to end by themselves once their engine is closed.
CLOSE_SECONDS = 5.0

#: How long the end of killed processes is waited for.
_KILL_SECONDS = 2.0

_MODES = ("one-shot", "worker")


class Runtime:
    """An engine without its interface. The arguments are those of `Engine`."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        mode: str = "one-shot",
        workers: int = 1,
        deadline: float | None = None,
        retry: RetryPolicy | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        limits: Limits | None = None,
        on_stderr: Callable[[str], object] | None = None,
        idle_seconds: float | None = None,
        recycle_after: int | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode is {mode!r}; expected 'one-shot' or 'worker'")
        checked_number("workers", workers, least=1, whole=True)
        if idle_seconds is not None:
            checked_number("idle_seconds", idle_seconds, least=0)
        if recycle_after is not None:
            checked_number("recycle_after", recycle_after, least=1, whole=True)
        for name, value, cls in (("retry", retry, RetryPolicy), ("limits", limits, Limits)):
            if not isinstance(value, (cls, type(None))):
                raise TypeError(f"{name} is {value!r}; expected a {cls.__name__}")
        if on_stderr is not None and not callable(on_stderr):
            raise TypeError(f"on_stderr is {on_stderr!r}; expected a function that takes a line")
        self._deadline = _checked_deadline(deadline)
        self._policy = retry or ONCE
        self._sink = None if on_stderr is None else LineSink(on_stderr)
        self.program = Program(checked_command(command), limits=limits or Limits(), cwd=cwd, env=env, sink=self._sink)
        self._reactor = Reactor("engine")
        # A describe has a process of its own in either mode: a worker that runs is as old as when it was started.
        self._oneshots = OneShots(self.program, self._reactor)
        self._pool: Pool | None = None
        if mode == "worker":
            self._pool = Pool(
                self.program, self._reactor, size=workers, idle_seconds=idle_seconds, recycle_after=recycle_after
            )
        self._transport: Transport = self._pool or self._oneshots
        self._prefix, self._numbers = os.urandom(8).hex(), count(1)
        self._lock = threading.Lock()
        self._calls: dict[str, Call] = {}
        self._is_closed = False
        self._is_quiet = threading.Event()

    def open(
        self,
        inputs: Any,
        on_done: Callable[[Call], None],
        is_direct: bool = False,
        *,
        node: str | None = None,
        config: Mapping[str, Any] | None = None,
        env: str | None = None,
        run_id: str | None = None,
        deadline: Seconds = ...,
        invocation_id: str | None = None,
    ) -> Call:
        """Begin an invoke; `on_done` is called with it, perhaps on another thread, once it has its answer.

        Who says `is_direct` calls `read_for` at once.

        Raises:
            TypeError, ValueError: An argument can't be.
            RuntimeError: The engine is closed.
        """
        for value in (node, env, run_id, invocation_id):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"got {value!r}; expected texts as node, env, run_id and invocation_id")
        config_json = "{}" if config is None else json_text("config", dict(config))
        inputs_json = "{}" if inputs is None else json_text("the inputs", inputs)
        return self._begin(
            INVOKE,
            self._transport,
            on_done,
            node=node,
            inputs_json=inputs_json,
            config_json=config_json,
            env=env,
            run_id=run_id,
            deadline=deadline,
            invocation_id=invocation_id,
            is_direct=is_direct,
        )

    def read_for(self, call: Call) -> None:
        """Read for a call on the thread that waits for it, where that is possible; then wait for it all the same."""
        lane = None if self._pool is None else self._pool.lane_of(call)
        if lane is not None:
            lane.read_for(call)

    def _begin(
        self,
        type_: str,
        transport: Transport,
        on_done: Callable[[Call], None],
        *,
        node: str | None,
        deadline: Seconds,
        inputs_json: str = "{}",
        config_json: str = "{}",
        env: str | None = None,
        run_id: str | None = None,
        invocation_id: str | None = None,
        is_direct: bool = False,
    ) -> Call:
        seconds = self._deadline if isinstance(deadline, EllipsisType) else _checked_deadline(deadline)

        call = Call(
            type_,
            invocation_id if invocation_id is not None else f"{self._prefix}-{next(self._numbers)}",
            node=node,
            inputs_json=inputs_json,
            config_json=config_json,
            env=env,
            run_id=run_id,
            seconds=seconds,
            policy=self._policy,
            random=random,
            reactor=self._reactor,
            calls=self._calls,
            on_done=on_done,
        )
        call.is_direct = is_direct
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the engine is closed; make a new one")
            if self._calls.setdefault(call.request_id, call) is not call:
                raise ValueError(
                    f"the invocation_id {call.request_id!r} is that of another call in flight; wait for it, or leave "
                    "it out"
                )
        call.start(transport)
        return call

    def cancel(self, call: Call) -> bool:
        """End a call, soon; return whether it had no answer yet."""
        if call.answer is not None:
            return False
        trouble = Trouble("cancelled", "the call was cancelled by its caller")
        self._reactor.call_soon(lambda: call.end(trouble))
        return True

    # Describes

    def known_manifest(self, node: str | None, stamp: Stamp) -> Answer | None:
        """Return the answer to a describe that is known and still holds; its `attempts` are 0."""
        envelope = shared.get(self.program, node, stamp)
        if envelope is None:
            return None
        answer = Answer(envelope)
        answer.attempts = 0
        return answer

    def stamp(self, node: str | None) -> Stamp:
        """Return the times of the program's files, for a describe."""
        if not isinstance(node, (str, type(None))):
            raise TypeError(f"node is {node!r}; expected a text")
        if self._is_closed:
            raise RuntimeError("the engine is closed; make a new one")
        return stamp_of(self.program)

    def open_describe(self, node: str | None, stamp: Stamp, deadline: Seconds, on_done: Callable[[Call], None]) -> Call:
        """Begin a describe; as `open`."""

        def keep(call: Call) -> None:
            answer = call.answer
            if answer is not None and answer.manifest is not None:
                shared.put(self.program, node, stamp, answer.envelope)
            on_done(call)

        return self._begin(DESCRIBE, self._oneshots, keep, node=node, deadline=deadline)

    # The end

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that run now."""
        return [*(self._pool.pids() if self._pool else ()), *self._oneshots.pids()]

    def abandon(self) -> None:
        """Close without waiting."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._reactor.call_soon(lambda: self._shut(0.0))

    def close(self, grace: float) -> None:
        """End what is open, let the workers go, and wait for them; twice does no harm."""
        checked_number("grace", grace, least=0)
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
        if is_first:
            self._reactor.call_soon(lambda: self._shut(grace))
        self._is_quiet.wait(grace + _KILL_SECONDS)
        self._reactor.stop()
        self._reactor.join(_KILL_SECONDS)
        if self._sink is not None:
            self._sink.close(_KILL_SECONDS)

    def _shut(self, grace: float) -> None:
        trouble = Trouble("closed", "the engine was closed before the call had its answer")
        for call in list(self._calls.values()):
            call.end(trouble)
        self._oneshots.on_end = self._note_end
        if self._pool is not None:
            self._pool.on_end = self._note_end
            self._pool.close(grace)
        self._note_end()

    def _note_end(self) -> None:
        if self._oneshots.is_quiet and (self._pool is None or self._pool.is_quiet):
            self._is_quiet.set()
            self._reactor.stop()


def _checked_deadline(deadline: Any) -> float | None:
    if deadline is None:
        return None
    checked_number("deadline", deadline, least=0)
    if not deadline:
        raise ValueError("deadline is 0; expected seconds, or None for no deadline")
    return float(deadline)
