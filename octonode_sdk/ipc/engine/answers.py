"""Pure: a call -> its request line, a line -> an answer, and a fault -> the envelope that stands for an answer.

The engine's counterpart of `envelope`, which has the runner's side; versions, codes and JSON are the same for both.
"""

from __future__ import annotations

from ..._quick import loads, quote_ascii, to_ascii_json, to_json
from ...errors import CODES, RUNTIME_ERROR, TIMEOUT, shorten
from ...faults import json_kind
from ..envelope import PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "DESCRIBE",
    "FAULTS",
    "INVOKE",
    "Answer",
    "MalformedAnswerError",
    "fault_answer",
    "fitting_answer",
    "json_text",
    "parse_answer",
    "request_parts",
]

INVOKE, DESCRIBE = "invoke", "describe"

#: What the answer to each kind of request is called.
_ANSWER_TYPES = {INVOKE: "result", DESCRIBE: "manifest"}

#: What can go wrong with a process: the code and whether another try may help. None: it may if a signal ended it.
FAULTS: dict[str, tuple[str, bool | None]] = {
    "spawn": (RUNTIME_ERROR, True),  # ENG-2
    "deadline": (TIMEOUT, True),  # ENG-3
    "no-output": (RUNTIME_ERROR, None),  # ENG-5, ENG-6
    "cut-off": (RUNTIME_ERROR, None),  # ENG-6
    "not-json": (RUNTIME_ERROR, False),  # ENG-7
    "no-envelope": (RUNTIME_ERROR, False),  # ENG-7
    "extra-lines": (RUNTIME_ERROR, False),  # ENG-8
    "wrong-id": (RUNTIME_ERROR, False),  # ENG-9
    "too-long": (RUNTIME_ERROR, False),  # ENG-17
    "beside": (RUNTIME_ERROR, True),  # ENG-20
    "cancelled": (RUNTIME_ERROR, False),
    "closed": (RUNTIME_ERROR, True),
    "internal": (RUNTIME_ERROR, False),
}


class MalformedAnswerError(ValueError):
    """A line that is no answer to the request: `fault` is a key of FAULTS, `request_id` what can be read of its id."""

    def __init__(self, fault: str, problem: str, request_id: str | None = None) -> None:
        self.fault, self.problem, self.request_id = fault, problem, request_id
        super().__init__(problem)


class Answer:
    """What a call has come to.

    Attributes:
        envelope: The answer as on the wire: the node's own, or the one that the engine made (ENG-1).
        attempts: How many times the call was tried.
        seconds: How long it took, waits between attempts included.
        fault: A key of FAULTS where the engine made the answer, else None.
    """

    __slots__ = ("attempts", "envelope", "fault", "seconds")

    def __init__(self, envelope: dict[str, Any], *, fault: str | None = None) -> None:
        self.envelope, self.fault = envelope, fault
        self.attempts, self.seconds = 1, 0.0

    def __repr__(self) -> str:
        return f"Answer({shorten(self.envelope, 200)}, attempts={self.attempts}, seconds={self.seconds:.3f})"

    @property
    def ok(self) -> bool:
        """Whether the call has succeeded."""
        return bool(self.envelope["status"] == "ok")

    @property
    def outputs(self) -> Any:
        """The outputs; None where there are none."""
        return self.envelope.get("outputs") if self.ok else None

    @property
    def manifest(self) -> dict[str, Any] | None:
        """The manifest that a describe was answered with."""
        return self.envelope.get("manifest") if self.ok else None

    @property
    def error(self) -> dict[str, Any] | None:
        """The error: `code`, `message`, `retryable`, and perhaps `details` and `stack`. None where `ok`."""
        if self.ok:
            return None
        error: dict[str, Any] = self.envelope["error"]
        return error if "retryable" in error else {**error, "retryable": False}  # ERR-3


def request_parts(
    type_: str,
    request_id: str,
    *,
    node: str | None = None,
    inputs_json: str = "{}",
    config_json: str = "{}",
    env: str | None = None,
    run_id: str | None = None,
) -> tuple[str, str]:
    """Return a request as its line, with its LF (LINE-1): what stands before `attempt`'s number, and what behind it.

    Behind the number, `,"deadlineMs":N` may follow (ENG-15, ENG-16). A describe has no context; its second part is "".

    Args:
        type_: INVOKE or DESCRIBE; the latter has neither inputs nor a context.
        request_id: Its `invocationId`. It stands before anything nested, where a runner finds it in any line (RES-19).
        node: Which node.
        inputs_json, config_json: JSON already.
        env, run_id: Of the context.
    """
    head = f'{{"octonode":"{PROTOCOL}","type":"{type_}","invocationId":{quote_ascii(request_id)}'
    if node is not None:
        head += f',"node":{quote_ascii(node)}'
    if type_ != INVOKE:
        return f"{head}}}\n", ""
    head += f',"context":{{"config":{config_json}'
    if env is not None:
        head += f',"env":{quote_ascii(env)}'
    if run_id is not None:
        head += f',"runId":{quote_ascii(run_id)}'
    return f'{head},"attempt":', f'}},"inputs":{inputs_json}}}\n'


def json_text(what: str, value: Any) -> str:
    """Return a value of the caller's as JSON that UTF-8 can carry; `what` names it in errors.

    Raises:
        TypeError: It holds what is no JSON.
        ValueError: It holds NaN or an infinity, or is nested too deep or in a circle.
    """
    try:
        text = to_json(value)
        text.encode()
    except UnicodeEncodeError:  # lone surrogates, as in a file name that is no UTF-8, travel as escapes
        return to_ascii_json(value)
    except RecursionError:
        raise ValueError(f"{what} is nested too deep, or contains itself") from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what} is no JSON: {error}") from None
    return text


def parse_answer(line: bytes) -> dict[str, Any]:
    """Read one line of a node's stdout as an envelope; unknown keys stay in it and mean nothing (ENG-14).

    Raises:
        MalformedAnswerError: It is none (ENG-7).
    """
    try:
        envelope = loads(line.decode("utf-8"))
    except RecursionError:
        raise MalformedAnswerError("not-json", "the answer is nested too deep") from None
    except ValueError as error:  # UnicodeDecodeError is one
        raise MalformedAnswerError(
            "not-json",
            f"stdout holds a line that is no JSON: {shorten(line.decode('utf-8', 'backslashreplace'), 200)} "
            f"({_why(error)}); only answers may stand there, and logs belong on stderr",
        ) from None
    if type(envelope) is not dict:
        raise MalformedAnswerError("no-envelope", f"the answer is {json_kind(envelope)}, and no envelope")
    problem = _problem_of(envelope)
    if problem is None:
        return envelope
    request_id = envelope.get("invocationId")
    raise MalformedAnswerError(
        "no-envelope",
        f"the answer is no envelope of this protocol: {problem}",
        request_id if type(request_id) is str else None,
    )


def _why(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8"
    return shorten(str(error), 100).strip("'\"")


def _problem_of(envelope: dict[str, Any]) -> str | None:
    """Return what is wrong with an envelope, or None."""
    get = envelope.get
    if get("octonode") != PROTOCOL:  # RES-1
        return _wanted(envelope, "octonode", "the text '1', the version of the protocol")
    if type(get("invocationId")) is not str:  # RES-2
        return _wanted(envelope, "invocationId", "the id of the request")
    type_, status = get("type"), get("status")
    if type_ not in ("result", "manifest"):
        return _wanted(envelope, "type", "'result' or 'manifest'")
    if status == "ok":
        if type_ == "result":  # RES-5
            return None if "outputs" in envelope else _wanted(envelope, "outputs", "the outputs")
        return None if type(get("manifest")) is dict else _wanted(envelope, "manifest", "an object")  # RES-7
    if status != "error":
        return _wanted(envelope, "status", "'ok' or 'error'")
    error = get("error")
    if type(error) is not dict:  # RES-6, RES-8
        return _wanted(envelope, "error", "an object")
    if error.get("code") not in CODES:  # ERR-1
        return _wanted(error, "code", f"one of {', '.join(CODES)}", "$.error")
    if type(error.get("message")) is not str:
        return _wanted(error, "message", "a text", "$.error")
    if type(error.get("retryable", False)) is not bool:  # ERR-3
        return _wanted(error, "retryable", "a boolean", "$.error")
    if type(error.get("stack", "")) is not str:
        return _wanted(error, "stack", "a text", "$.error")
    return None


def _wanted(holder: dict[str, Any], key: str, expected: str, place: str = "$") -> str:
    got = json_kind(holder[key]) if key in holder else "nothing"
    return f"{place}.{key}: expected {expected}, got {got}"


def fitting_answer(envelope: dict[str, Any], type_: str) -> Answer:
    """Return the answer to a request of a type.

    Raises:
        MalformedAnswerError: It answers another type (ENG-7). An error of type "result" answers both: so are lines
            answered that a runner can't read.
    """
    if envelope["type"] == _ANSWER_TYPES[type_] or (envelope["type"] == "result" and envelope["status"] == "error"):
        return Answer(envelope)
    raise MalformedAnswerError(
        "no-envelope",
        f"the answer to a {type_!r} is of type {envelope['type']!r}; expected {_ANSWER_TYPES[type_]!r}",
        envelope["invocationId"],
    )


def fault_answer(
    fault: str,
    message: str,
    *,
    request_id: str,
    type_: str,
    status: int | None = None,
    has_status: bool = False,
    stderr: list[str] | None = None,
) -> Answer:
    """Return the answer that the engine makes where the process gave none (ENG-1).

    Args:
        fault: A key of FAULTS.
        message: For people.
        request_id, type_: Of the request.
        status: How the process has ended: negative for a signal.
        has_status: Whether the process has ended at all; `status` None means then that nobody knows how.
        stderr: The last lines of a process that has ended (ENG-21).
    """
    code, retryable = FAULTS[fault]
    if retryable is None:
        retryable = status is not None and status < 0
    details: dict[str, Any] = {"fault": fault}
    if has_status:
        details["status"] = status
    if stderr is not None:
        details["stderr"] = stderr
    return Answer(
        {
            "octonode": PROTOCOL,
            "type": _ANSWER_TYPES[type_],
            "invocationId": request_id,
            "status": "error",
            "error": {"code": code, "message": message, "retryable": retryable, "details": details},
        },
        fault=fault,
    )
