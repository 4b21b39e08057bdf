"""The client's side of the bridge, pure: bytes and calls -> frames to write, and what has happened to each request.

No input or output, no clock, no thread: the time and the ids come in as arguments. `link` puts it between a worker
and those who call.
"""

from __future__ import annotations

from octonode_sdk.errors import shorten

from .. import responses as r
from ..errors import (
    BridgeError,
    BridgeTimeoutError,
    FrameRejectedError,
    FrameTooLargeError,
    IncompatibleWorkerError,
    LocalProtocolError,
    MalformedFrameError,
    OutgoingTooLargeError,
    RequestCancelledError,
    RequestFailedError,
)
from ..frames import FrameSplitter, decode, encode
from .assembly import Assembly
from .gates import Gates
from .limits import Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..frames import Frame

    Happening: TypeAlias = "Answered | Failed | Part | Fault | Warned | Send | Lost"

__all__ = [
    "CALL",
    "DISCOVER",
    "PLAIN",
    "STATUS",
    "STREAM",
    "Answered",
    "Core",
    "Failed",
    "Fault",
    "Lost",
    "Part",
    "Request",
    "Send",
    "Warned",
]

# Kinds of requests: which frames may answer them, and what their result has.
DISCOVER = "discover"
STATUS = "worker.status"
CALL = "execute"
STREAM = "execute.stream"
#: Any other request: its frames and its result may be anything that the wire has.
PLAIN = "plain"

#: Ids of requests that are over, kept to tell a late frame from one that never had a request.
_PAST_LIMIT = 4096

# What a frame is to a request of each kind.
_TERMINAL, _PART, _BLOB, _WRONG, _UNKNOWN = "terminal", "part", "blob", "wrong", "unknown"

_BLOBS = {"blob.start": _BLOB, "blob.chunk": _BLOB, "blob.end": _BLOB}
_EVENTS = {"progress": _PART, "update": _PART}

_SORTS: dict[str, dict[str, str]] = {
    DISCOVER: {"discover": _TERMINAL, "error": _TERMINAL},
    STATUS: {"result": _TERMINAL, "error": _TERMINAL},
    CALL: {"result": _TERMINAL, "error": _TERMINAL, **_EVENTS, **_BLOBS},
    STREAM: {"result": _TERMINAL, "error": _TERMINAL, "chunk": _PART, **_EVENTS, **_BLOBS},
    PLAIN: {
        "result": _TERMINAL,
        "error": _TERMINAL,
        "chunk": _PART,
        "comfy.event": _PART,
        "blender.event": _PART,
        **_EVENTS,
        **_BLOBS,
    },
}

# States of a request. One that is over is only an id.
_OPEN, _CANCELLED, _GIVEN_UP, _ENDED, _NEVER = "open", "cancelled", "given up", "ended", "never"

# What is done about a frame.
_FINISH, _PASS, _GATHER, _REJECT, _IGNORE, _FORGET, _BLAME = (
    "finish",
    "pass",
    "gather",
    "reject",
    "ignore",
    "forget",
    "blame",
)

#: The state of a request and what the frame is to it -> what is done.
_ACTIONS: dict[str, dict[str, str]] = {
    _OPEN: {_TERMINAL: _FINISH, _PART: _PASS, _BLOB: _GATHER, _WRONG: _REJECT, _UNKNOWN: _IGNORE},
    _CANCELLED: {_TERMINAL: _FINISH, _PART: _PASS, _BLOB: _GATHER, _WRONG: _REJECT, _UNKNOWN: _IGNORE},
    # Timed out, rejected or left by its caller: the worker may still send what is on its way (BRG-8).
    _GIVEN_UP: {_TERMINAL: _FORGET, _PART: _IGNORE, _BLOB: _IGNORE, _WRONG: _IGNORE, _UNKNOWN: _IGNORE},
    _ENDED: {_TERMINAL: _BLAME, _PART: _BLAME, _BLOB: _BLAME, _WRONG: _BLAME, _UNKNOWN: _IGNORE},
    _NEVER: {_TERMINAL: _BLAME, _PART: _BLAME, _BLOB: _BLAME, _WRONG: _BLAME, _UNKNOWN: _IGNORE},
}

#: Frame types of any request; another type is unknown to this client.
_KNOWN_TYPES = {type_ for sorts in _SORTS.values() for type_ in sorts}


class Answered:
    """The request has its result; nothing more comes for it."""

    __slots__ = ("owner", "response")

    def __init__(self, owner: Any, response: r.Response) -> None:
        self.owner, self.response = owner, response


class Failed:
    """The request has failed; nothing more comes for it."""

    __slots__ = ("error", "owner")

    def __init__(self, owner: Any, error: BridgeError) -> None:
        self.owner, self.error = owner, error


class Part:
    """A chunk, a progress, an update or an event of a request; `size` is that of its payload in bytes."""

    __slots__ = ("owner", "response", "size")

    def __init__(self, owner: Any, response: r.Response, size: int) -> None:
        self.owner, self.response, self.size = owner, response, size


class Fault:
    """The worker has sent what it must not, and no request has failed by it."""

    __slots__ = ("error",)

    def __init__(self, error: FrameRejectedError) -> None:
        self.error = error


class Warned:
    """Something that people should know."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Send:
    """A frame that has to be written."""

    __slots__ = ("frame",)

    def __init__(self, frame: Frame) -> None:
        self.frame = frame


class Lost:
    """Nothing more can be understood: the worker has to be ended, and then `end` to be called (BRG-13)."""

    __slots__ = ("problem",)

    def __init__(self, problem: str) -> None:
        self.problem = problem


class Request:
    """One request, from its making to its end.

    Attributes:
        request_id, type: As on the wire.
        kind: DISCOVER, STATUS, CALL, STREAM or PLAIN.
        frame: What has to be written.
        owner: Whose it is; handed back with everything that happens to it.
        seconds: How long it may stay without a frame; None for ever.
        deadline: When it is given up, on the caller's clock; None for never.
    """

    __slots__ = ("blobs", "deadline", "frame", "kind", "owner", "request_id", "seconds", "state", "type")

    def __init__(self, request_id: str, type_: str, kind: str, frame: Frame, owner: Any, seconds: float | None) -> None:
        self.request_id, self.type, self.kind = request_id, type_, kind
        self.frame, self.owner, self.seconds = frame, owner, seconds
        self.deadline: float | None = None
        self.state = _OPEN
        self.blobs: Assembly | None = None


class Core:
    """One connection to a worker.

    Args:
        new_id: Makes ids; each must be new (BRG-10).
        limits: Of frames and blobs.
        validate: Whether each frame is checked (BRG-12).

    Attributes:
        gates: What is known of the worker.
        complaint: The text of the last error frame without an id: the worker could not tell whose it was.
    """

    def __init__(self, *, new_id: Callable[[], str], limits: Limits | None = None, validate: bool = False) -> None:
        self._new_id = new_id
        self._limits = Limits() if limits is None else limits
        self._validate = validate
        self._splitter = FrameSplitter(self._limits.frame_bytes)
        self._pending: dict[str, Request] = {}
        self._past: dict[str, str] = {}
        self._is_lost = False
        self.gates = Gates()
        self.complaint: str | None = None

    # Calls

    def prepare(
        self, type_: str, data: dict[str, Any], owner: Any, *, kind: str = PLAIN, seconds: float | None = None
    ) -> Request:
        """Make a request, which `open` starts. Changes nothing, so it needs no lock.

        Raises:
            LocalProtocolError: The wire can't carry it, or it is over the frame limit; nothing is sent (BRG-14).
        """
        request_id = self._new_id()
        if not request_id or request_id in self._pending or request_id in self._past:
            raise LocalProtocolError(f"the request id {request_id!r} is not new; ids are texts that come once")
        return Request(request_id, type_, kind, self._encode(type_, request_id, data), owner, seconds)

    def _encode(self, type_: str, request_id: str, data: dict[str, Any]) -> Frame:
        status = self.gates.worker_status
        limit = self._limits.frame_bytes
        if status is not None and status.max_frame_size is not None:
            limit = min(limit, status.max_frame_size)
        try:
            return encode({"type": type_, "request_id": request_id, "data": data}, limit=limit)
        except OutgoingTooLargeError as error:
            raise LocalProtocolError(
                f"the {type_} request has {error.size} bytes, and a frame takes at most {error.limit}; send less, or "
                f"raise NODETOOL_BRIDGE_MAX_FRAME_SIZE on both sides"
            ) from None
        except (TypeError, ValueError, OverflowError, UnicodeEncodeError, RecursionError) as error:
            raise LocalProtocolError(
                f"the {type_} request can't be sent: {error}; MessagePack carries None, bool, int of 64 bits, float, "
                f"str, bytes, and lists and dicts of these"
            ) from error

    def open(self, request: Request, now: float) -> None:
        """Start a request: its frame has to be written from now on, and its time runs."""
        if request.seconds is not None:
            request.deadline = now + request.seconds
        self._pending[request.request_id] = request

    def cancel(self, request_id: str) -> Frame | None:
        """Cancel a request, which still gets its end from the worker; return the frame to write, if there is one."""
        request = self._pending.get(request_id)
        if request is None or request.state is not _OPEN:
            return None
        request.state = _CANCELLED
        return _cancel_frame(request_id)

    def give_up(self, request_id: str) -> Frame | None:
        """Forget a request: nothing that comes for it matters any more. Return the frame to write, if there is one."""
        request = self._pending.get(request_id)
        if request is None:
            return None
        return self._give_up(request)

    def _give_up(self, request: Request) -> Frame | None:
        self._leave(request, _GIVEN_UP)
        return _cancel_frame(request.request_id) if request.state is _OPEN else None

    def _leave(self, request: Request, state: str) -> None:
        del self._pending[request.request_id]
        self._note_past(request.request_id, state)

    def _note_past(self, request_id: str, state: str) -> None:
        self._past[request_id] = state
        if len(self._past) > _PAST_LIMIT:
            del self._past[next(iter(self._past))]

    @property
    def pending(self) -> list[Request]:
        """The requests that have not ended."""
        return list(self._pending.values())

    # Time

    def next_deadline(self) -> float | None:
        """Return when `expire` has something to do, or None."""
        times = [one.deadline for one in self._pending.values() if one.deadline is not None]
        return min(times) if times else None

    def expire(self, now: float) -> list[Happening]:
        """Give up the requests whose time is over (BRG-8)."""
        happenings: list[Happening] = []
        for request in self.pending:
            if request.deadline is None or request.deadline > now:
                continue
            assert request.seconds is not None
            way_out = _WAYS_OUT.get(request.kind, "pass a longer timeout, or timeout=None for none")
            frame = self._give_up(request)
            if frame is not None:
                happenings.append(Send(frame))
            error = BridgeTimeoutError(request.type, request.seconds, request_id=request.request_id, way_out=way_out)
            happenings.append(Failed(request.owner, error))
        return happenings

    def renew(self, now: float) -> None:
        """Start the time of each request anew: nobody has read meanwhile, so silence means nothing."""
        for request in self._pending.values():
            if request.seconds is not None:
                request.deadline = now + request.seconds

    # Bytes

    def room(self) -> memoryview | None:
        """Return where the next bytes are to be read into, or None where `feed` takes them (see FrameSplitter).

        After the end, what is read is passed over.
        """
        return self._splitter.room()

    def filled(self, count: int, now: float) -> list[Happening]:
        """Note that `count` bytes came into `room`."""
        payload = self._splitter.filled(count)
        return [] if payload is None or self._is_lost else self._take_all([payload], now)

    def feed(self, data: bytes, now: float) -> list[Happening]:
        """Take bytes of the worker, in pieces of any size (FRM-2)."""
        return [] if self._is_lost else self._take_all(self._splitter.feed(data), now)

    def _take_all(self, payloads: list[Any], now: float) -> list[Happening]:
        happenings: list[Happening] = []
        for payload in payloads:
            try:
                message = decode(payload)
            except MalformedFrameError as error:  # BRG-13
                if error.__cause__ is None:  # it was decoded, and is no map: it names no request, and is one frame
                    happenings.append(Fault(FrameRejectedError(str(error))))
                    continue
                self._is_lost = True
                problem = f"{error} (the frame begins with {bytes(payload[:24])!r})"
                happenings.append(Lost(problem))
                return happenings
            self._take(message, len(payload), now, happenings)
        failure = self._splitter.failure
        if failure is not None and not self._is_lost:
            self._is_lost = True
            happenings.append(Lost(_oversize_problem(failure)))
        return happenings

    def _take(self, message: dict[str, Any], size: int, now: float, happenings: list[Happening]) -> None:
        try:
            response = r.parse_response(message, validate=self._validate)
        except FrameRejectedError as error:
            self._reject(error, error.request_id, happenings, is_terminal=self._ends(error))
            return
        request_id = response.request_id
        if request_id is None:
            self._take_nameless(response, happenings)
            return
        request = self._pending.get(request_id)
        state = self._past.get(request_id, _NEVER) if request is None else request.state
        known = _UNKNOWN if response.type not in _KNOWN_TYPES else _WRONG
        # The past has no kind left: there a frame ends what it can end anywhere.
        sort = _SORTS[PLAIN if request is None else request.kind].get(response.type, known)
        action = _ACTIONS[state][sort]
        if request is None:
            if action is _FORGET or (state is _GIVEN_UP and response.type == "discover"):
                self._note_past(request_id, _ENDED)
            elif action is _BLAME:
                why = "the request has had its terminal frame" if state is _ENDED else "no request has this id"
                happenings.append(Fault(FrameRejectedError(why, type=response.type, request_id=request_id)))
            return
        if request.kind in (CALL, STREAM, PLAIN) and request.seconds is not None:
            request.deadline = now + request.seconds
        if action is _PASS or action is _FINISH or action is _GATHER:
            try:
                self._accept(request, response, action, size, happenings)
            except FrameRejectedError as error:
                self._reject(error, request_id, happenings, is_terminal=action is _FINISH)
        elif action is _REJECT:
            problem = f"it is no answer to {request.type}"
            wrong = FrameRejectedError(problem, type=response.type, request_id=request_id)
            self._reject(wrong, request_id, happenings, is_terminal=False)

    def _accept(
        self, request: Request, response: r.Response, action: str, size: int, happenings: list[Happening]
    ) -> None:
        if action is _GATHER:
            self._gather(request, response)
            return
        if isinstance(response, r.Result):
            if request.kind in (CALL, STREAM):
                r.check_call(response, validate=self._validate)
            if request.blobs is not None:
                request.blobs.take(response)
        if action is _PASS:
            happenings.append(Part(request.owner, response, size))
            return
        self._leave(request, _ENDED)
        if isinstance(response, r.Error):
            cls = RequestCancelledError if request.state is _CANCELLED else RequestFailedError
            error: BridgeError = cls(response.text, response.traceback, request_id=request.request_id)
            happenings.append(Failed(request.owner, error))
            return
        try:
            if isinstance(response, r.Discovery):
                warning = self.gates.learn_discovery(response)
                if warning is not None:
                    happenings.append(Warned(warning))
            elif request.kind == STATUS:
                self.gates.learn_status(r.WorkerStatus(response.data))
        except IncompatibleWorkerError as error:
            happenings.append(Failed(request.owner, error))
            return
        happenings.append(Answered(request.owner, response))

    def _gather(self, request: Request, response: r.Response) -> None:
        if request.blobs is None:
            request.blobs = Assembly(self._limits.blob_bytes)
        if isinstance(response, r.BlobStart):
            request.blobs.start(response)
        elif isinstance(response, r.BlobChunk):
            request.blobs.add(response)
        elif isinstance(response, r.BlobEnd):
            request.blobs.end(response)

    def _take_nameless(self, response: r.Response, happenings: list[Happening]) -> None:
        """Take a frame that names no request: it is ignored, but people should hear of an error (BRG-11)."""
        if isinstance(response, r.Error):
            self.complaint = response.text
            why = f"it names no request; its text is {shorten(response.text, 300)}"
        else:
            why = "it names no request"
        happenings.append(Fault(FrameRejectedError(why, type=response.type)))

    def _ends(self, error: FrameRejectedError) -> bool:
        """Tell whether the worker takes the request of a rejected frame for ended."""
        request = self._pending.get(error.request_id or "")
        return request is not None and _SORTS[request.kind].get(str(error.type)) is _TERMINAL

    def _reject(
        self, error: FrameRejectedError, request_id: str | None, happenings: list[Happening], *, is_terminal: bool
    ) -> None:
        """Fail the one request of a frame that does not fit, and cancel it where the worker goes on with it."""
        request = self._pending.get(request_id or "")
        if request is None:
            if self._past.get(request_id or "") is not _GIVEN_UP:
                happenings.append(Fault(error))
            return
        if is_terminal:
            self._leave(request, _ENDED)
        else:
            frame = self._give_up(request)
            if frame is not None:
                happenings.append(Send(frame))
        happenings.append(Failed(request.owner, error))

    # The end

    @property
    def is_inside_frame(self) -> bool:
        """Whether the bytes so far end in the middle of a frame."""
        return self._splitter.is_inside_frame

    def end(self, error_of: Callable[[Request], BridgeError]) -> list[Happening]:
        """Fail every request that has not ended (BRG-16).

        Args:
            error_of: Makes the error of a request; each gets its own.
        """
        self._is_lost = True
        happenings: list[Happening] = []
        for request in self.pending:
            self._leave(request, _ENDED)
            happenings.append(Failed(request.owner, error_of(request)))
        return happenings


_WAYS_OUT = {
    DISCOVER: "raise NODETOOL_PYTHON_STATUS_TIMEOUT_MS, or look at what the worker does",
    STATUS: "raise NODETOOL_PYTHON_STATUS_TIMEOUT_MS, or look at what the worker does",
    CALL: "let the node report progress, pass a longer timeout, or raise NODETOOL_PYTHON_EXECUTE_TIMEOUT_MS",
    STREAM: "let the node report progress, pass a longer timeout, or raise NODETOOL_PYTHON_EXECUTE_TIMEOUT_MS",
}


def _cancel_frame(request_id: str) -> Frame:
    return encode({"type": "cancel", "request_id": request_id, "data": {}})


def _oversize_problem(failure: FrameTooLargeError) -> str:
    """Return the reason; a length that reads as text is text, which was printed where only frames may be."""
    text = failure.size.to_bytes(4, "big")
    if text.isascii() and text.decode("ascii").isprintable():
        return (
            f"instead of a frame came the text {text.decode('ascii')!r}...; something in the worker prints to stdout, "
            f"where it must send frames only"
        )
    return f"{failure}; raise NODETOOL_BRIDGE_MAX_FRAME_SIZE on both sides, or let it send blobs in chunks"
