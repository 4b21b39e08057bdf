"""One call: its attempts, its deadline, and its one answer, whatever carries it.

What happens to a call happens on the reactor's thread, but for an answer that the caller's thread has read itself (see
`lane`). Its lock guards which comes first.
"""

from __future__ import annotations

import threading
from math import ceil
from time import monotonic

from .answers import fault_answer, request_parts
from .core import Trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from .answers import Answer
    from .lane import Lane
    from .process import NodeProcess
    from .reactor import Reactor, Timer
    from .retry import RetryPolicy

    class Transport(Protocol):
        """What carries attempts. It calls `Call.settle` once for each, on the reactor's thread."""

        def start(self, call: Call) -> None:
            """Begin an attempt; from any thread."""

        def stop(self, call: Call, trouble: Trouble) -> None:
            """End the attempt that is under way: by a deadline or by its caller."""


__all__ = ["Call", "settle_trouble"]

#: Milliseconds that `deadlineMs` says at most: about a century, beyond which a runner may not count.
_MOST_MS = 1 << 42


class Call:
    """One call.

    Args:
        type_, request_id, node, inputs_json, config_json, env, run_id: Of the request, as `request_parts` takes them.
        seconds: Its deadline from now on, or None.
        policy: Whether and when it is tried again.
        random: As `RetryPolicy.wait_after` takes it.
        reactor: Whose thread it lives on.
        calls: The calls without an answer, by id; it leaves them when it has one.
        on_done: Called once, with the call, when `answer` is there.

    Attributes:
        is_direct: Whether its caller's thread reads for it, if it can.
        lane: Where it does.
        attempt: The number of the attempt that is under way, from 1 on.
        answer: The answer, once there is one. Nothing changes it any more (ENG-22).
    """

    __slots__ = (
        "_alarm",
        "_begin",
        "_calls",
        "_lock",
        "_on_done",
        "_pause",
        "_policy",
        "_random",
        "_reactor",
        "_request",
        "_transport",
        "_trouble",
        "answer",
        "attempt",
        "deadline",
        "is_direct",
        "is_under_way",
        "lane",
        "request_id",
        "type",
    )

    def __init__(
        self,
        type_: str,
        request_id: str,
        *,
        node: str | None,
        inputs_json: str,
        config_json: str,
        env: str | None,
        run_id: str | None,
        seconds: float | None,
        policy: RetryPolicy,
        random: Callable[[], float],
        reactor: Reactor,
        calls: dict[str, Call],
        on_done: Callable[[Call], None],
    ) -> None:
        self.type, self.request_id = type_, request_id
        self._request = request_parts(
            type_, request_id, node=node, inputs_json=inputs_json, config_json=config_json, env=env, run_id=run_id
        )
        self._policy, self._random, self._reactor, self._on_done = policy, random, reactor, on_done
        self._calls = calls
        self._transport: Transport | None = None
        self._begin = monotonic()
        self.deadline = None if seconds is None else self._begin + seconds
        self.attempt = 1
        self.answer: Answer | None = None
        self.is_under_way = self.is_direct = False
        self.lane: Lane | None = None
        self._trouble: Trouble | None = None
        self._lock = threading.Lock()
        self._alarm: Timer | None = None
        self._pause: Timer | None = None

    def start(self, transport: Transport) -> None:
        """Begin the first attempt; from any thread, once."""
        self._transport = transport
        if self.deadline is not None:
            self._alarm = self._reactor.call_at(self.deadline, self._expire)
        self.is_under_way = True
        transport.start(self)

    def request(self) -> bytes:
        """Return the request of the attempt, with what is left of the time (ENG-15, ENG-16)."""
        head, tail = self._request
        if not tail:
            return head.encode()
        if self.deadline is None:
            return f"{head}{self.attempt}{tail}".encode()
        left_ms = min(max(1, ceil((self.deadline - monotonic()) * 1000)), _MOST_MS)
        return f'{head}{self.attempt},"deadlineMs":{left_ms}{tail}'.encode()

    def settle(self, answer: Answer) -> None:
        """Take what the attempt has come to: try again, or be done with it. Once for each attempt."""
        with self._lock:
            if self.answer is not None or not self.is_under_way:
                return
            self.is_under_way = False
            left = None if self.deadline is None else self.deadline - monotonic()
            wait = self._policy.wait_after(answer, self.attempt, left=left, random=self._random)
            if wait is not None and self._trouble is None:
                self._pause = self._reactor.call_at(monotonic() + wait, self._try_again)
                return
            if self._trouble is not None and not answer.ok:
                answer = _made(self, self._trouble, None)
            self._seal(answer)
        self.tell()

    def _try_again(self) -> None:
        with self._lock:
            if self.answer is not None or self._trouble is not None:
                return
            self._pause = None
            self.attempt += 1
            self.is_direct = False
            self.is_under_way = True
        assert self._transport is not None
        self._transport.start(self)

    def end(self, trouble: Trouble) -> None:
        """End the call with no further attempt; on the reactor's thread."""
        with self._lock:
            if self.answer is not None or self._trouble is not None:
                return
            self._trouble = trouble
            is_under_way = self.is_under_way
        if is_under_way:
            assert self._transport is not None
            self._transport.stop(self, trouble)
        else:
            self.finish_with(trouble)

    def _expire(self) -> None:
        assert self.deadline is not None
        seconds = self.deadline - self._begin
        self.end(Trouble("deadline", f"the call took longer than its deadline of {seconds:g} s"))

    def finish_with(self, trouble: Trouble, process: NodeProcess | None = None) -> None:
        """Take the answer that the engine makes of a trouble after which nothing is tried any more."""
        with self._lock:
            if self.answer is not None:
                return
            self.is_under_way = False
            self._seal(_made(self, trouble, process))
        self.tell()

    def _seal(self, answer: Answer) -> None:
        answer.attempts = self.attempt
        answer.seconds = monotonic() - self._begin
        for timer in (self._alarm, self._pause):
            if timer is not None:
                self._reactor.cancel(timer)
        self._alarm = self._pause = None
        self.answer = answer

    def tell(self) -> None:
        """Tell whoever waits that the answer is there; more than once does no harm."""
        if self._calls.get(self.request_id) is self:
            del self._calls[self.request_id]
        self._on_done(self)
        lane = self.lane
        if lane is not None and self._reactor.is_current:
            lane.interrupt()


def settle_trouble(call: Call, trouble: Trouble, process: NodeProcess | None = None) -> None:
    """Settle an attempt with the answer that the engine makes of a trouble (ENG-1)."""
    call.settle(_made(call, trouble, process))


def _made(call: Call, trouble: Trouble, process: NodeProcess | None) -> Answer:
    has_exited = process is not None and process.has_exited and not process.is_killed
    return fault_answer(
        trouble.fault,
        trouble.problem,
        request_id=call.request_id,
        type_=call.type,
        status=process.status if process is not None and has_exited else None,
        has_status=has_exited,
        stderr=None if process is None else process.tail(),
    )
