"""Pure: a line -> a request, and answers -> lines: the runner's side of the wire's spelling.

`engine.answers` has the engine's. No other module knows the spelling.
"""

from __future__ import annotations

from .._quick import loads, quote_ascii, to_ascii_json, to_json
from ..errors import Fault, OutputsError, RemoteProtocolError, shorten
from ..faults import json_kind, path_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..failures import Failure
    from .lines import OverlongLine

__all__ = [
    "PROTOCOL",
    "UNKNOWN_ID",
    "Request",
    "failure_line",
    "manifest_line",
    "overlong_error",
    "parse_request",
    "recover_id",
    "result_line",
]

PROTOCOL = "1"

#: Stands for the id of a line whose own can't be read (RES-3).
UNKNOWN_ID = "unknown"

_HEAD = '{"octonode":"1","type":"'  # RES-1

#: A deadline further away (31,000 years) is this one, so that it can be counted in seconds as a float.
_FOREVER_MS = 10**15


class Request:
    """A request of the engine's.

    Attributes:
        type: "invoke" or "describe".
        request_id: Its `invocationId`. Nothing here goes by it: several requests may have the same one (RES-12).
        node: Which node, or None.
        inputs: The inputs, {} where there are none.
        context: Its context as it came, every known field checked (CTX-1, CTX-7).
    """

    __slots__ = ("context", "inputs", "node", "request_id", "type")

    def __init__(
        self, type_: str, request_id: str, node: str | None, inputs: dict[str, Any], context: dict[str, Any]
    ) -> None:
        self.type, self.request_id, self.node, self.inputs, self.context = type_, request_id, node, inputs, context

    @property
    def config(self) -> dict[str, Any]:
        """The node's configuration (CTX-4)."""
        config: dict[str, Any] = self.context.get("config", {})
        return config

    @property
    def attempt(self) -> int:
        """Which try of the call this is (CTX-5)."""
        return int(self.context.get("attempt", 1))

    @property
    def env(self) -> str | None:
        """The environment, such as "prod" (CTX-3)."""
        return self.context.get("env")

    @property
    def run_id(self) -> str | None:
        """The workflow run (CTX-2)."""
        return self.context.get("runId")

    @property
    def deadline_ms(self) -> int | None:
        """Milliseconds that the call may take (CTX-6)."""
        deadline = self.context.get("deadlineMs")
        return None if deadline is None else min(int(deadline), _FOREVER_MS)


def parse_request(line: bytes) -> Request:
    """Read one line.

    Raises:
        RemoteProtocolError: It is no request; the error has the id, where one can be read (RES-4), and a fault for each
            wrong place.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = f"the line is no UTF-8 (byte {error.start} is 0x{line[error.start]:02x})"
        raise RemoteProtocolError(bad, request_id=recover_id(line)) from None  # LINE-6
    try:
        envelope = loads(text)
    except RecursionError:
        raise RemoteProtocolError("the line is nested too deep", request_id=recover_id(line)) from None  # LINE-12
    except ValueError as error:
        why = _syntax_fault(text, error)
        raise RemoteProtocolError(f"the line is no JSON: {why}", request_id=recover_id(line)) from None  # LINE-7
    if not isinstance(envelope, dict):  # REQ-1
        raise RemoteProtocolError(f"expected a JSON object as request, got {json_kind(envelope)}")
    get = envelope.get
    type_, request_id, node = get("type"), get("invocationId"), get("node")
    if get("octonode") != PROTOCOL or type(request_id) is not str or type_ not in ("invoke", "describe"):
        raise _not_an_envelope(envelope)
    inputs, context = get("inputs", _NOTHING), get("context", _NOTHING)
    faults: list[Fault] = []
    if type(node) is not str and "node" in envelope:  # REQ-5
        faults.append(Fault("$.node", f"expected the id of a node, got {json_kind(node)}; leave it out or give a text"))
    if type_ == "describe":  # REQ-15
        inputs = context = _NOTHING
    elif type(inputs) is not dict:  # REQ-11
        faults.append(Fault("$.inputs", f"expected an object with a value for each input, got {json_kind(inputs)}"))
    if type(context) is dict:
        for key, value in context.items():
            kind = _CONTEXT_KINDS.get(key)  # unknown keys pass (REQ-14)
            if kind is not None and (type(value) is not kind or (kind is int and value < 1)):
                if kind is int and type(value) is float and value.is_integer() and value >= 1:  # CTX-8
                    continue
                faults.append(Fault(f"$.context.{key}", f"expected {_CONTEXT_TEXTS[key]}, got {json_kind(value)}"))
    else:
        faults.append(Fault("$.context", f"expected an object, got {json_kind(context)}"))
    if faults:
        raise RemoteProtocolError(_summary(faults), request_id=request_id, faults=faults)
    return Request(type_, request_id, node, inputs, context)


def _syntax_fault(text: str, error: ValueError) -> str:
    """Return what is wrong with a line that is no JSON, where, and what stands there."""
    place = getattr(error, "pos", None)
    if place is None:
        return str(error)
    problem = str(getattr(error, "msg", error))
    fault = f"{problem[:1].lower()}{problem[1:]} at character {place}"
    if place >= len(text.rstrip()):
        return f"{fault}, where the line ends; a request is one whole line"
    return f"{fault}, at {shorten(text[place : place + 20])}"


#: What stands for absent inputs and an absent context (REQ-10, CTX-1). Nobody writes to it: nodes get copies.
_NOTHING: dict[str, Any] = {}


#: The fields of `context` that are known, by the type that JSON's reader gives them; the integers are positive.
_CONTEXT_KINDS: dict[str, Any] = {"runId": str, "env": str, "config": dict, "attempt": int, "deadlineMs": int}
_CONTEXT_TEXTS = {
    "runId": "a text",  # CTX-2
    "env": "a text",  # CTX-3
    "config": "an object",  # CTX-4
    "attempt": "an integer of at least 1",  # CTX-5
    "deadlineMs": "a positive integer of milliseconds",  # CTX-6
}


def _not_an_envelope(envelope: dict[str, Any]) -> RemoteProtocolError:
    faults = []
    version, type_, request_id = envelope.get("octonode"), envelope.get("type"), envelope.get("invocationId")
    if version != PROTOCOL:  # REQ-2
        got = json_kind(version) if "octonode" in envelope else "nothing"
        faults.append(Fault("$.octonode", f"expected the text '1', the version of the protocol, got {got}"))
    if type_ not in ("invoke", "describe"):  # REQ-3
        got = json_kind(type_) if "type" in envelope else "nothing"
        faults.append(Fault("$.type", f"expected 'invoke' or 'describe', got {got}"))
    has_id = type(request_id) is str
    if not has_id:  # REQ-4
        got = json_kind(request_id) if "invocationId" in envelope else "nothing"
        faults.append(Fault("$.invocationId", f"expected a text, which the answer repeats, got {got}"))
    return RemoteProtocolError(_summary(faults), request_id=request_id if has_id else None, faults=faults)


def _summary(faults: list[Fault]) -> str:
    return "the request is no envelope of this protocol: " + "; ".join(f"{f.path}: {f.message}" for f in faults)


def recover_id(line: bytes) -> str | None:
    """Return the id in a line that can't be read as a whole, or None: its sender waits for an answer (RES-19).

    Only an id before the first nested value counts: one inside the inputs is somebody else's. It has to be whole and
    valid UTF-8; nothing is guessed.
    """
    start = line.find(_ID_KEY)
    if start < 0 or line[start - 1 : start] == b"\\" or line.count(b"{", 0, start) > 1 or line.count(b"[", 0, start):
        return None
    start = _skip_blanks(line, start + len(_ID_KEY))
    if line[start : start + 1] != b":":
        return None
    start = _skip_blanks(line, start + 1)
    if line[start : start + 1] != b'"':
        return None
    end = line.find(b'"', start + 1)
    while end > 0 and _is_escaped(line, end):
        end = line.find(b'"', end + 1)
    try:
        value = loads(line[start : end + 1].decode("utf-8"))
    except ValueError:  # cut off, no UTF-8, or a bad escape
        return None
    return value if isinstance(value, str) else None


_ID_KEY = b'"invocationId"'


def _skip_blanks(line: bytes, start: int) -> int:
    while line[start : start + 1] in (b" ", b"\t"):
        start += 1
    return start


def _is_escaped(line: bytes, place: int) -> bool:
    first = place
    while line[first - 1 : first] == b"\\":
        first -= 1
    return (place - first) % 2 == 1


def overlong_error(line: OverlongLine, limit: int) -> RemoteProtocolError:
    """Return the error for a line over the limit (LINE-8)."""
    return RemoteProtocolError(
        f"the line has {line.size} bytes, over the limit of {limit}; raise it with --max-line-bytes or "
        "OCTONODE_MAX_LINE_BYTES, or pass large data as a file",
        request_id=recover_id(line.head),
    )


def result_line(request_id: str, outputs: dict[str, Any], *, node: str) -> bytes:
    """Return the answer of a call that succeeded (RES-5), under the id of its request (RES-2), with its LF (LINE-14).

    Raises:
        OutputsError: A text holds a lone surrogate, which no UTF-8 can carry, or the outputs are nested too deep.
    """
    try:
        body = to_json(outputs)
    except RecursionError:
        raise OutputsError([Fault("$", "the outputs are nested too deep")], node=node) from None
    line = f'{_HEAD}result","invocationId":{quote_ascii(request_id)},"status":"ok","outputs":{body}}}\n'
    try:
        return line.encode("utf-8")
    except UnicodeEncodeError:
        from ..shapes import find_surrogate

        path = find_surrogate(outputs)
        assert not isinstance(path, bool)  # the id is ASCII here: the surrogate is in the outputs
        message = "the text holds a lone surrogate, which is no character; replace it before returning"
        raise OutputsError([Fault(path_text(path), message)], node=node) from None


def failure_line(request_id: str, failure: Failure, *, type_: str = "result") -> bytes:
    """Return the answer of a call or a describe that failed (RES-6, RES-8). What is not there is absent (RES-9)."""
    error: dict[str, Any] = {"code": failure.code, "message": failure.message, "retryable": failure.retryable}  # ERR-4
    if failure.details is not None:
        error["details"] = failure.details  # ERR-5
    if failure.stack is not None:
        error["stack"] = failure.stack  # ERR-6
    head = f'{_HEAD}{type_}","invocationId":{quote_ascii(request_id)},"status":"error","error":'
    try:
        return f"{head}{to_json(error)}}}\n".encode()
    except UnicodeEncodeError:  # lone surrogates, as in a file name that is no UTF-8, travel as escapes (ERR-20)
        return f"{head}{to_ascii_json(error)}}}\n".encode()


def manifest_line(request_id: str, manifest: dict[str, Any]) -> bytes:
    """Return the answer to a describe (RES-7)."""
    body = to_ascii_json(manifest)
    line = f'{_HEAD}manifest","invocationId":{quote_ascii(request_id)},"status":"ok","manifest":{body}}}\n'
    return line.encode("utf-8")
