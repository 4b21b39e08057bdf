"""Pure: what comes from a process -> what becomes of the calls that it was given, in either mode.

Bytes go in; answers and troubles come out. Whoever reads the pipe makes envelopes of troubles: he knows how the process
has ended and what it wrote to stderr.
"""

from __future__ import annotations

from ...errors import shorten
from ...process.outcomes import outcome_text
from ..envelope import recover_id
from ..lines import LineSplitter
from .answers import MalformedAnswerError, fitting_answer, parse_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from ..lines import Line
    from .answers import Answer

    Outcome: TypeAlias = "tuple[Any, Answer | Trouble]"

__all__ = ["Flight", "SingleAnswer", "Trouble"]

#: Answered ids that a worker's flight remembers, to tell a second answer from one to a request that never was.
_RECENT_IDS = 1024

#: Cancelled calls that a worker may still have before it counts as stuck: each may hold a thread of its own there.
_FORGOTTEN_IDS = 256


class Trouble:
    """Why a call has no answer: `fault` is a key of `answers.FAULTS`, `problem` the text for people."""

    __slots__ = ("fault", "problem")

    def __init__(self, fault: str, problem: str) -> None:
        self.fault, self.problem = fault, problem

    def __repr__(self) -> str:
        return f"Trouble({self.fault!r}, {self.problem!r})"


def _too_long(limit: int) -> Trouble:
    return Trouble(
        "too-long",
        f"stdout holds more than {limit} bytes without an end; raise Limits.max_answer_bytes, or hand over large data "
        "as a file",
    )


def _wrong_id(envelope: dict[str, Any], expected: str) -> Trouble:
    got = envelope["invocationId"]
    problem = f"the answer has the id {shorten(got)}; expected {expected}"
    if (
        envelope["status"] == "error"
    ):  # a runner that can't read a line can't know its id (RES-3), and says what ails it
        problem += f"; it says: {shorten(envelope['error']['message'], 300)}"
    return Trouble("wrong-id", problem)


class SingleAnswer:
    """What a process in one-shot mode writes to stdout: one answer and nothing else.

    Args:
        request_id, type_: Of the request.
        limit: Most bytes on stdout, the line end not counted.

    Attributes:
        is_over: Whether there is more than `limit`, so that nothing more is worth reading (ENG-17).
    """

    __slots__ = ("_limit", "_lines", "_request_id", "_size", "_splitter", "_type", "is_over")

    def __init__(self, request_id: str, type_: str, limit: int) -> None:
        self._request_id, self._type, self._limit = request_id, type_, limit
        self._splitter = LineSplitter(limit)
        self._lines: list[Line] = []
        self._size = 0
        self.is_over = False

    @property
    def has_line(self) -> bool:
        """Whether a whole line has come."""
        return bool(self._lines)

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._size += len(data)
        if len(self._lines) < 2:  # the verdict on what has more lines is known; the rest is counted alone
            self._lines += self._splitter.feed(data)
            del self._lines[2:]
        if self._size > self._limit + 4:  # a mark at the start and a line end belong to no line
            self.is_over = True

    def verdict(self, status: int | None) -> Answer | Trouble:
        """Return what stdout comes to, once it has ended or `is_over`.

        Args:
            status: How the process has ended; None where it has not, or nobody knows.
        """
        lines = self._lines
        has_end = bool(lines)
        if not lines or (len(lines) == 1 and self._splitter.unfinished):
            lines = [*lines, *self._splitter.finish()]  # LINE-5
        if self.is_over:
            return _too_long(self._limit)
        if not lines:
            return Trouble("no-output", f"the process {outcome_text(status)} without an answer")
        line = lines[0]
        if len(lines) > 1:
            shown = shorten(_text(lines[1]), 200)
            return Trouble(
                "extra-lines",
                f"stdout holds more than one line; expected one answer and nothing else, and logs on stderr. The first "
                f"is {shorten(_text(line), 200)}, the second {shown}",
            )
        if not isinstance(line, bytes):
            return _too_long(self._limit)
        try:
            envelope = parse_answer(line)
            if envelope["invocationId"] != self._request_id:
                return _wrong_id(envelope, shorten(self._request_id))
            return fitting_answer(envelope, self._type)
        except MalformedAnswerError as error:
            if error.fault == "not-json" and not has_end and status != 0:
                head = shorten(_text(line), 200)
                return Trouble("cut-off", f"the process {outcome_text(status)} in the middle of its answer: {head}")
            return Trouble(error.fault, error.problem)


def _text(line: Line) -> str:
    return (line if isinstance(line, bytes) else line.head).decode("utf-8", "backslashreplace")


class Flight:
    """The requests that one worker has, and what its stdout says of them (ENG-11).

    An owner is whatever the caller likes; it comes back with the answer, or with the trouble, exactly once.

    Args:
        limit: Longest answer in bytes.

    Attributes:
        broken: Why the worker can't be followed any more, once that is so: it is to be ended, and `end` called.
        open: The owner and the type of each request without an answer, by id.
        is_cut_off: Whether stdout has ended in the middle of a line.
        forgotten: Ids of requests that nobody waits for any more, and that the worker still works on.
    """

    __slots__ = ("_limit", "_recent", "_splitter", "broken", "forgotten", "is_cut_off", "open")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._splitter = LineSplitter(limit)
        self._recent: dict[str, None] = {}
        self.open: dict[str, tuple[Any, str]] = {}
        self.forgotten: set[str] = set()
        self.broken: Trouble | None = None
        self.is_cut_off = False

    @property
    def is_stuck(self) -> bool:
        """Whether the worker has so many cancelled calls that it had better be replaced."""
        return len(self.forgotten) >= _FORGOTTEN_IDS

    def add(self, request_id: str, type_: str, owner: Any) -> None:
        """Note a request that is sent; its id is neither open nor forgotten."""
        self._recent.pop(request_id, None)  # the next attempt of the same call
        self.open[request_id] = (owner, type_)

    def forget(self, request_id: str) -> None:
        """Have the answer to a request dropped when it comes; nothing is told to its owner."""
        if self.open.pop(request_id, None) is not None:
            self.forgotten.add(request_id)

    def feed(self, data: bytes) -> list[Outcome]:
        """Take the next bytes; return what has become of which owners. Look at `broken` afterwards."""
        outcomes: list[Outcome] = []
        if self.broken is not None:
            return outcomes
        for line in self._splitter.feed(data):
            if not isinstance(line, bytes):
                self._break_too_long(line.head, outcomes)
                return outcomes
            if not self._take(line, outcomes):
                return outcomes
        if self._splitter.unfinished > self._limit + 4:
            self._break_too_long(self._splitter.unfinished_head, outcomes)
        return outcomes

    def finish(self) -> list[Outcome]:
        """Take the last line, which may lack its end (LINE-5); as `feed`. `is_cut_off` says whether it is half one."""
        outcomes: list[Outcome] = []
        if self.broken is not None:
            return outcomes
        for line in self._splitter.finish():
            try:
                parse_answer(line if isinstance(line, bytes) else line.head)
            except MalformedAnswerError as error:
                self.is_cut_off = error.fault == "not-json"
            if not self.is_cut_off and isinstance(line, bytes):
                self._take(line, outcomes)
        return outcomes

    def _break_too_long(self, head: bytes, outcomes: list[Outcome]) -> None:
        self.broken = _too_long(self._limit)
        request_id = recover_id(head)
        if request_id is not None and request_id in self.open:
            outcomes.append((self.open.pop(request_id)[0], self.broken))

    def _take(self, line: bytes, outcomes: list[Outcome]) -> bool:
        """Take a line; return whether the worker can be followed any further."""
        try:
            envelope = parse_answer(line)
        except MalformedAnswerError as error:
            request_id = error.request_id or recover_id(line)
            trouble = Trouble(error.fault, error.problem)
            if request_id is not None and self._settle(request_id, trouble, outcomes):
                return True
            self.broken = trouble
            return False
        request_id = envelope["invocationId"]
        entry = self.open.get(request_id)
        if entry is None:
            if self._settle(request_id, None, outcomes):
                return True
            self.broken = _wrong_id(envelope, "that of a call in flight")
            return False
        del self.open[request_id]
        self._remember(request_id)
        try:
            outcomes.append((entry[0], fitting_answer(envelope, entry[1])))
        except MalformedAnswerError as error:
            outcomes.append((entry[0], Trouble(error.fault, error.problem)))
        return True

    def _settle(self, request_id: str, trouble: Trouble | None, outcomes: list[Outcome]) -> bool:
        """Lay a line to the request with its id; return whether there is one, or was one lately."""
        entry = self.open.pop(request_id, None)
        if entry is not None:
            assert trouble is not None
            outcomes.append((entry[0], trouble))
        elif request_id in self.forgotten:
            self.forgotten.discard(request_id)
        else:
            return request_id in self._recent  # a second answer: the first one counted (ENG-22)
        self._remember(request_id)
        return True

    def _remember(self, request_id: str) -> None:
        recent = self._recent
        recent[request_id] = None
        if len(recent) > _RECENT_IDS:
            del recent[next(iter(recent))]

    def end(self, trouble: Trouble, *, is_of_others: bool = False, is_of_each: bool = False) -> list[Outcome]:
        """Return what becomes of the owners that are left when the worker ends (ENG-20).

        Args:
            trouble: Why it ends. It is that of the one call in flight; of several, nobody knows whose it is, so each
                may be tried again.
            is_of_others: Whether the call that it is the trouble of is out already.
            is_of_each: Whether it is that of each call, however many there are.
        """
        owners = [owner for owner, _ in self.open.values()]
        self.open.clear()
        self.forgotten.clear()
        if is_of_others or (len(owners) > 1 and not is_of_each):
            what = f"the worker was ended while the call was in flight, for another one: {trouble.problem}"
            if not is_of_others:
                what = f"the worker had {len(owners)} calls in flight, and which one did it is not known: " + (
                    trouble.problem
                )
            trouble = Trouble("beside", what)
        return [(owner, trouble) for owner in owners]
