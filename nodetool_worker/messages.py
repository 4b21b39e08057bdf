"""Messages, pure: decoded maps -> typed requests, and the maps that answer them (docs/nodetool-wire.md, RID, EXE, UPD).

Each message has one function or class here; what is done about it is the worker's business.
"""

from __future__ import annotations

from octonode_sdk.errors import shorten

from .errors import BadRequestError, UnanswerableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Request: TypeAlias = "Cancel | Discover | Execute | ProviderList | Status"

__all__ = [
    "CHUNKED",
    "PROTOCOL_VERSION",
    "Cancel",
    "Discover",
    "Execute",
    "ProviderList",
    "Request",
    "Status",
    "chunk",
    "error",
    "parse_request",
    "progress",
    "result",
    "update",
]

#: What `discover` and `worker.status` report (DSC-2).
PROTOCOL_VERSION = 6

#: The one value of `blob_transfer` that means something (BLB-1).
CHUNKED = "chunked-v1"


class Discover:
    """Asks for the inventory of nodes (DSC-1)."""

    __slots__ = ("request_id",)

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id


class Status:
    """Asks how the worker is (DSC-8)."""

    __slots__ = ("request_id",)

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id


class ProviderList:
    """Asks for the providers of models."""

    __slots__ = ("request_id",)

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id


class Cancel:
    """Tells a request to stop; `request_id` is the id of that request (CAN-1)."""

    __slots__ = ("request_id",)

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id


class Execute:
    """Asks for one call of a node (EXE-2, EXE-4, EXE-5).

    Attributes:
        request_id: Echoed in each frame of the answer.
        streams: Whether it is `execute.stream`: partial outputs go out as chunks.
        node_type: As in `discover`.
        inputs: A value for each input that the host knows; a blob is the value of its field.
        secrets: Values by name, those that the host was told the node needs.
        chunked: Whether the host takes large blobs in chunks.
        node_id, job_id, workflow_id, user_id: Run identity; None where the host does not say.
        requires_vram_gb: The hint of `discover`, echoed; None where there is none.
    """

    __slots__ = (
        "chunked",
        "inputs",
        "job_id",
        "node_id",
        "node_type",
        "request_id",
        "requires_vram_gb",
        "secrets",
        "streams",
        "user_id",
        "workflow_id",
    )

    def __init__(self, request_id: str, data: dict[str, Any], *, streams: bool) -> None:
        self.request_id, self.streams = request_id, streams
        node_type = data.get("node_type")
        if type(node_type) is not str or not node_type:
            raise _missing(request_id, "execute", "node_type", "a text such as 'text.Join'", node_type)
        self.node_type: str = node_type
        inputs: dict[str, Any] | None = data.get("fields")
        if inputs is None:
            inputs = {}
        elif type(inputs) is not dict:
            raise _missing(request_id, "execute", "fields", "a map of values by name", inputs)
        blobs = data.get("blobs")
        if blobs is not None:
            if type(blobs) is not dict:
                raise _missing(request_id, "execute", "blobs", "a map of bytes by name", blobs)
            inputs = {**inputs, **blobs}  # BLB-2
        inputs.pop("_control_context", None)  # the graph's own; a dynamic node would take it for an input
        self.inputs = inputs
        secrets = data.get("secrets")
        self.secrets: dict[str, str] = {}
        if secrets is not None:
            if type(secrets) is not dict:  # its text may be a secret itself
                raise BadRequestError("execute needs `secrets`, a map of texts by name", request_id=request_id)
            self.secrets = {name: value for name, value in secrets.items() if type(value) is str}
        self.chunked = data.get("blob_transfer") == CHUNKED
        self.node_id, self.job_id = _text(data, "node_id"), _text(data, "job_id")
        self.workflow_id, self.user_id = _text(data, "workflow_id"), _text(data, "user_id")
        vram: Any = data.get("requires_vram_gb")  # EXE-32
        self.requires_vram_gb: float | None = vram if type(vram) in (int, float) and vram > 0 else None


def _text(data: dict[str, Any], name: str) -> str | None:
    """Return a text that is not empty; anything else counts as not given (EXE-30)."""
    value = data.get(name)
    return value if type(value) is str and value else None


def _missing(request_id: str, message: str, name: str, wanted: str, got: Any) -> BadRequestError:
    what = "nothing" if got is None else shorten(got)
    return BadRequestError(f"{message} needs `{name}`, {wanted}; got {what}", request_id=request_id)


#: What a message is made into, by its type.
_KINDS: dict[str, Callable[[str, dict[str, Any]], Request]] = {
    "execute": lambda request_id, data: Execute(request_id, data, streams=False),
    "execute.stream": lambda request_id, data: Execute(request_id, data, streams=True),
    "cancel": lambda request_id, _data: Cancel(request_id),
    "discover": lambda request_id, _data: Discover(request_id),
    "worker.status": lambda request_id, _data: Status(request_id),
    "provider.list": lambda request_id, _data: ProviderList(request_id),  # PRV-2
}

#: Families of the protocol: an unknown member of one is answered by the family's name (PRV-1).
_FAMILIES = ("provider", "models", "job", "comfy", "blender")


def parse_request(message: dict[str, Any]) -> Request:
    """Return the request that a decoded map is.

    Keys that are not known are ignored (RID-10), and `data` that is nil is an empty map (RID-8).

    Raises:
        UnanswerableError: Its id is missing, empty or no text (RID-2, RID-3).
        BadRequestError: Its type is unknown (RID-7), its data is no map (RID-9), or it lacks what its type needs.
    """
    request_id = message.get("request_id")
    type_ = message.get("type")
    if type(request_id) is not str or not request_id:
        shown = "no request_id" if request_id is None else f"the request_id {shorten(request_id)}"
        raise UnanswerableError(f"ignored a message of type {shorten(type_)} with {shown}; an id is a text, not empty")
    data = message.get("data")
    if data is None or type_ == "cancel":  # an error would end the request that is to be cancelled
        data = {}
    elif type(data) is not dict:
        raise BadRequestError(f"`data` of {shorten(type_)} is {shorten(data)}; expected a map", request_id=request_id)
    kind = _KINDS.get(type_) if type(type_) is str else None
    if kind is None:
        raise BadRequestError(_unknown_text(type_), request_id=request_id)
    return kind(request_id, data)


def _unknown_text(type_: Any) -> str:
    shown = type_ if type(type_) is str else repr(type_) if type_ is None else shorten(type_)
    family, dot, _ = shown.partition(".")
    if dot and family in _FAMILIES:
        return f"Unknown {family} message type: {shown[:200]}"
    return f"Unknown message type: {shown[:200]}"


# Answers: the map of each frame, with the id of the request (RID-1)


def result(request_id: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """Return the terminal frame of a call that has succeeded; both maps are always there (EXE-1)."""
    return {"type": "result", "request_id": request_id, "data": {"outputs": outputs, "blobs": {}}}


def chunk(request_id: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """Return a frame of partial outputs (EXE-13)."""
    return {"type": "chunk", "request_id": request_id, "data": {"outputs": outputs, "blobs": {}}}


def error(request_id: str | None, text: str, traceback: str | None = None) -> dict[str, Any]:
    """Return the terminal frame of a request that has failed; no `traceback` where there is none (EXE-17)."""
    data = {"error": text} if traceback is None else {"error": text, "traceback": traceback}
    return {"type": "error", "request_id": request_id, "data": data}


def progress(request_id: str, done: float, total: float | None, message: str | None) -> dict[str, Any]:
    """Return a frame that says how far a call is; an unknown total is 0 (UPD-3)."""
    return {
        "type": "progress",
        "request_id": request_id,
        "data": {"progress": done, "total": 0 if total is None else total, "message": message},
    }


def update(request_id: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return a frame with a log line, a preview or binary data of a node that is running (UPD-5)."""
    return {"type": "update", "request_id": request_id, "data": data}
