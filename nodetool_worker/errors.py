"""What goes wrong on the NodeTool wire. All of them are errors of the SDK's tree (`octonode_sdk.errors`).

::

    RemoteProtocolError            the other side sent what the protocol does not grant
    ├── FrameTooLargeError         a length prefix over the limit: the stream can't be followed any more
    ├── MalformedFrameError        a payload that is no MessagePack map
    └── BadRequestError            a map that asks for nothing that this worker can do
    LocalProtocolError             we were about to send what the protocol does not grant
    └── OutgoingTooLargeError      a frame over the limit
    UnanswerableError              a request without an id: nothing can be sent for it

    BridgeError                    what the client of a worker may meet (`nodetool_worker.bridge`)
    ├── WorkerStartError           the worker can't be started, or does not get ready
    ├── IncompatibleWorkerError    it speaks a version of the protocol that is too old
    ├── WorkerDiedError            it has ended, or has stopped reading
    ├── StreamLostError            what it sent can't be followed any more; it was ended
    ├── BridgeClosedError          the client was closed
    ├── FrameRejectedError         a frame that does not fit, which fails its own request alone
    │   └── BlobTransferError      a blob whose chunks do not fit together
    ├── BridgeTimeoutError         nothing came for a request for too long; also a TimeoutError
    └── RequestFailedError         the worker answered with an error
        └── RequestCancelledError  it did so after the request was cancelled
"""

from __future__ import annotations

from octonode_sdk.errors import OctonodeError, RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BadRequestError",
    "BlobTransferError",
    "BridgeClosedError",
    "BridgeError",
    "BridgeTimeoutError",
    "FrameRejectedError",
    "FrameTooLargeError",
    "IncompatibleWorkerError",
    "LocalProtocolError",
    "MalformedFrameError",
    "OutgoingTooLargeError",
    "RequestCancelledError",
    "RequestFailedError",
    "StreamLostError",
    "UnanswerableError",
    "WorkerDiedError",
    "WorkerStartError",
]


class FrameTooLargeError(RemoteProtocolError):
    """A length prefix names more bytes than the limit (FRM-4). What was read before it is untouched.

    Attributes:
        size, limit: Bytes of payload.
    """

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"Incoming bridge frame exceeds max size ({size} > {limit})")


class MalformedFrameError(RemoteProtocolError):
    """A payload that can't be decoded, or is no map; `request_id` is set where it can be found in the bytes."""


class BadRequestError(RemoteProtocolError):
    """A message that this worker can't do anything with: its type is unknown, or something in it is missing."""


class UnanswerableError(OctonodeError):
    """A request whose id is missing, empty or no text, so that no host could match an answer to it."""


class LocalProtocolError(OctonodeError):
    """What we were about to send breaks the protocol."""


class OutgoingTooLargeError(LocalProtocolError):
    """A frame is larger than the limit.

    Attributes:
        size, limit: Bytes of payload.
    """

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"Outgoing bridge frame exceeds max size ({size} > {limit}); let the host ask for chunks "
            f"(blob_transfer: 'chunked-v1'), return less, or raise NODETOOL_BRIDGE_MAX_FRAME_SIZE on both sides"
        )


# The client's side

#: Lines of stderr that a text shows; the attribute has all that were kept.
_SHOWN_LINES = 10


def _with_tail(text: str, stderr_tail: Sequence[str]) -> str:
    if not stderr_tail:
        return text
    shown = "\n".join(f"  {line}" for line in stderr_tail[-_SHOWN_LINES:])
    return f"{text}; the last lines on its stderr:\n{shown}"


class BridgeError(OctonodeError):
    """Base of all that the client of a worker raises about the worker and its requests."""


class WorkerStartError(BridgeError):
    """The worker can't be started, or ended or stayed silent before it was ready (BRG-2, BRG-15).

    Attributes:
        command: What was started.
        status: Exit status, -N for signal N; None where it did not end by itself.
        stderr_tail: Its last lines on stderr.
    """

    def __init__(
        self,
        problem: str,
        *,
        command: Sequence[str],
        status: int | None = None,
        stderr_tail: Sequence[str] = (),
        way_out: str = "",
    ) -> None:
        self.command, self.status, self.stderr_tail = list(command), status, list(stderr_tail)
        text = f"the worker `{' '.join(command)}` {problem}" + (f"; {way_out}" if way_out else "")
        super().__init__(_with_tail(text, stderr_tail))


class IncompatibleWorkerError(BridgeError):
    """The worker's version of the protocol is below the floor (BRG-4).

    Attributes:
        version, floor: Versions of the protocol.
    """

    def __init__(self, version: int, floor: int) -> None:
        self.version, self.floor = version, floor
        super().__init__(
            f"the worker speaks bridge protocol {version}, and {floor} is the oldest that can be used; "
            f"install the worker's Python environment again, with a current octonode-sdk or nodetool-core"
        )


class WorkerDiedError(BridgeError):
    """The worker has ended, or has stopped reading, with requests open (BRG-16).

    Attributes:
        status: Exit status, -N for signal N; None where the worker is no process of ours.
        stderr_tail: Its last lines on stderr.
        request_id: Whose error this is, if it is one request's.
    """

    def __init__(
        self, problem: str, *, status: int | None = None, stderr_tail: Sequence[str] = (), request_id: str | None = None
    ) -> None:
        self.status, self.stderr_tail, self.request_id = status, list(stderr_tail), request_id
        super().__init__(_with_tail(f"the worker {problem}", stderr_tail))


class StreamLostError(BridgeError):
    """A frame can't be decoded, or is over the limit, so nothing behind it can be understood (BRG-13).

    Attributes:
        stderr_tail: The worker's last lines on stderr.
        request_id: Whose error this is, if it is one request's.
    """

    def __init__(self, problem: str, *, stderr_tail: Sequence[str] = (), request_id: str | None = None) -> None:
        self.stderr_tail, self.request_id = list(stderr_tail), request_id
        super().__init__(_with_tail(f"lost track of the worker's frames: {problem}; it was ended", stderr_tail))


class BridgeClosedError(BridgeError):
    """The client was closed, before the request or while it was open."""

    def __init__(self) -> None:
        super().__init__("the bridge is closed; make a new one with Bridge.spawn() or Bridge.attach()")


class FrameRejectedError(BridgeError):
    """A frame does not fit the protocol; only its own request fails (BRG-12).

    Attributes:
        problem: What is wrong with it.
        type: The frame's type, as far as it has one.
        request_id: Its request, as far as it names one.
    """

    def __init__(self, problem: str, *, type: object = None, request_id: str | None = None) -> None:
        self.problem, self.type, self.request_id = problem, type, request_id
        frame = f"a frame of type {type!r}" if isinstance(type, str) else "a frame without a type"
        whose = f" for the request {request_id!r}" if request_id else ""
        super().__init__(f"the worker sent {frame}{whose} that does not fit: {problem}")


class BlobTransferError(FrameRejectedError):
    """A chunked blob breaks its offsets, its size, its digest or the limit (BLB-5)."""


class BridgeTimeoutError(BridgeError, TimeoutError):
    """Nothing came for a request for too long; it was cancelled at the worker (BRG-8).

    Attributes:
        seconds: The timeout.
        type: The request's type.
        request_id: Its id.
    """

    def __init__(self, type: str, seconds: float, *, request_id: str, way_out: str) -> None:
        self.type, self.seconds, self.request_id, self._way_out = type, seconds, request_id, way_out
        super().__init__(
            f"the request {request_id!r} ({type}) got no frame for {seconds:g} s and was cancelled; {way_out}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        # An OSError, which this is too, takes its text in `__init__` alone.
        return _remake_timeout, (self.type, self.seconds, self.request_id, self._way_out)


def _remake_timeout(type: str, seconds: float, request_id: str, way_out: str) -> BridgeTimeoutError:
    return BridgeTimeoutError(type, seconds, request_id=request_id, way_out=way_out)


class RequestFailedError(BridgeError):
    """The worker answered a request with an error; the text is the worker's (BRG-17).

    Attributes:
        error: The worker's text.
        traceback: The worker's traceback, or None.
        request_id: The request.
    """

    def __init__(self, error: str, traceback: str | None = None, *, request_id: str | None = None) -> None:
        self.error, self.traceback, self.request_id = error, traceback, request_id
        super().__init__(error or "the worker gave no reason")


class RequestCancelledError(RequestFailedError):
    """The same, after the request was cancelled from here."""
