"""Responses, pure: decoded maps -> what a worker has answered. The client's half of `messages`.

By default what is missing is forgiven. With `validate`, every frame is held to the protocol (BRG-12).
"""

from __future__ import annotations

from math import isfinite

from octonode_sdk.errors import shorten

from .errors import FrameRejectedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "BlobChunk",
    "BlobEnd",
    "BlobStart",
    "Chunk",
    "Discovery",
    "Error",
    "Event",
    "Progress",
    "Response",
    "Result",
    "Unknown",
    "Update",
    "WorkerStatus",
    "check_call",
    "parse_response",
]


class Response:
    """Base of all responses.

    Attributes:
        request_id: Whose it is; None where the frame has no usable id (BRG-11).
        type: The frame's type, as the wire spells it.
        data: The frame's data, as it came.
    """

    __slots__ = ("data", "request_id", "type")

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        self.type, self.request_id, self.data = type, request_id, data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.request_id!r}, {shorten(self.data)})"


class Discovery(Response):
    """The worker's inventory.

    Attributes:
        protocol_version: 1 where the worker does not give one (BRG-4).
        nodes: One map a node, as the worker sends it; `node_type` is in each.
        load_errors: What could not be loaded: maps with `module`, `phase`, `error_type`, `error`.
    """

    __slots__ = ("_by_type", "load_errors", "nodes", "protocol_version")

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        self.protocol_version = _version(data)
        nodes, errors = data.get("nodes"), data.get("load_errors")
        self.nodes: list[dict[str, Any]] = [one for one in _list(nodes) if _type_of_node(one) is not None]
        self.load_errors: list[dict[str, Any]] = [one for one in _list(errors) if _is_map(one)]
        self._by_type = {entry["node_type"]: entry for entry in self.nodes}

    def node(self, node_type: str) -> dict[str, Any] | None:
        """Return the entry of a node type, or None."""
        return self._by_type.get(node_type)


class Result(Response):
    """The terminal frame of a request that has succeeded.

    Attributes:
        outputs: Value by slot; empty where the request is no call of a node.
        blobs: Bytes by slot: `bytes`, or a read-only `memoryview` of those that came in chunks (BLB-5).
    """

    __slots__ = ("blobs", "outputs")

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        self.outputs: dict[str, Any] = _map(data.get("outputs"))
        self.blobs: dict[str, bytes | memoryview] = _map(data.get("blobs"))


class Chunk(Result):
    """Partial outputs of a stream; the same attributes as a result's."""

    __slots__ = ()


class Error(Response):
    """The terminal frame of a request that has failed.

    Attributes:
        text: Why, for people.
        traceback: The worker's traceback, or None.
    """

    __slots__ = ("text", "traceback")

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        text, trace = data.get("error"), data.get("traceback")
        self.text = text if isinstance(text, str) else "" if text is None else shorten(text)
        self.traceback = trace if isinstance(trace, str) else None


class Progress(Response):
    """How far a request is. Downloads have other keys, which are in `data`.

    Attributes:
        done, total: Numbers; 0 where they are not given.
        message: A text, or None.
    """

    __slots__ = ("done", "message", "total")

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        message = data.get("message")
        self.done, self.total = _number(data.get("progress")), _number(data.get("total"))
        self.message = message if isinstance(message, str) else None


class Update(Response):
    """A log line, a preview or binary data of a node that is running.

    Attributes:
        kind: `log_update`, `preview_update`, `binary_update`, or another word.
    """

    __slots__ = ("kind",)

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        kind = data.get("type")
        self.kind = kind if isinstance(kind, str) else ""


class Event(Response):
    """An event of a ComfyUI or Blender job: `comfy.event`, `blender.event`.

    Attributes:
        name: What has happened, such as `executing`.
    """

    __slots__ = ("name",)

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        name = data.get("event")
        self.name = name if isinstance(name, str) else ""


class BlobStart(Response):
    """A blob follows in chunks: `name`, and `size` in bytes."""

    __slots__ = ("name", "size")

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        self.name: str = data["name"]
        self.size: int = data["size"]


class BlobChunk(Response):
    """Some bytes of a blob: `name`, `offset` in bytes, and `bytes`."""

    __slots__ = ("bytes", "name", "offset")

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        self.name: str = data["name"]
        self.offset: int = data["offset"]
        self.bytes: bytes = data["bytes"]


class BlobEnd(Response):
    """A blob is complete: `name`, `size` in bytes, and `sha256` in hex."""

    __slots__ = ("name", "sha256", "size")

    def __init__(self, type: str, request_id: str | None, data: dict[str, Any]) -> None:
        super().__init__(type, request_id, data)
        self.name: str = data["name"]
        self.size: int = data["size"]
        self.sha256: str = data["sha256"]


class Unknown(Response):
    """A frame of a type that this client does not know; it is ignored (BRG-11)."""

    __slots__ = ()


class WorkerStatus:
    """How a worker is, from the result of `worker.status`.

    Attributes:
        protocol_version: 1 where the worker does not give one.
        node_count, provider_count: Numbers.
        namespaces: Which are served.
        load_errors: As in `Discovery`.
        transport: `stdio` or `websocket`.
        max_frame_size: Most bytes of a payload that the worker takes, or None.
        comfy, blender: Maps with `enabled`.
        model_prepare_backends: What `models.prepare` accepts.
        data: All of it, as it came.
    """

    __slots__ = (
        "blender",
        "comfy",
        "data",
        "load_errors",
        "max_frame_size",
        "model_prepare_backends",
        "namespaces",
        "node_count",
        "protocol_version",
        "provider_count",
        "transport",
    )

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.protocol_version = _version(data)
        self.node_count, self.provider_count = _count(data, "node_count"), _count(data, "provider_count")
        self.namespaces: list[str] = [one for one in _list(data.get("namespaces")) if isinstance(one, str)]
        self.load_errors: list[dict[str, Any]] = [one for one in _list(data.get("load_errors")) if _is_map(one)]
        transport = data.get("transport")
        self.transport = transport if isinstance(transport, str) else ""
        self.max_frame_size: int | None = _count(data, "max_frame_size") or None
        self.comfy, self.blender = _map(data.get("comfy")), _map(data.get("blender"))
        backends = _list(data.get("model_prepare_backends"))
        self.model_prepare_backends: list[str] = [one for one in backends if isinstance(one, str)]


# What is in a map


def _is_map(value: object) -> bool:
    return type(value) is dict


def _map(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _number(value: Any) -> float:
    return value if type(value) in (int, float) else 0


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 0


def _count(data: dict[str, Any], key: str) -> int:
    value = data.get(key)
    return value if type(value) is int and value >= 0 else 0


def _version(data: dict[str, Any]) -> int:
    value = data.get("protocol_version")
    return value if type(value) is int else 1


def _type_of_node(entry: Any) -> str | None:
    """Return the node type of an entry of `discover`, or None where it has none."""
    value = entry.get("node_type") if _is_map(entry) else None
    return value if isinstance(value, str) and value else None


# Checks: each returns what is wrong, or None


def _check_load_errors(data: dict[str, Any]) -> str | None:
    errors = data.get("load_errors", [])
    if type(errors) is not list:
        return f"`load_errors` is {shorten(errors)}; expected a list"
    for place, entry in enumerate(errors):
        if not _is_map(entry) or type(entry.get("error")) is not str:
            return f"`load_errors[{place}].error` is no text"
    version = data.get("protocol_version", 1)
    return None if type(version) is int else f"`protocol_version` is {shorten(version)}; expected a whole number"


def _check_discover(data: dict[str, Any]) -> str | None:
    nodes = data.get("nodes")
    if type(nodes) is not list:
        return f"`nodes` is {shorten(nodes)}; expected a list"
    for place, entry in enumerate(nodes):
        if _type_of_node(entry) is None:
            return f"`nodes[{place}].node_type` is no text"
    return _check_load_errors(data)


def _check_error(data: dict[str, Any]) -> str | None:
    if type(data.get("error")) is not str:
        return f"`error` is {shorten(data.get('error'))}; expected a text"
    if type(data.get("traceback", "")) is not str:
        return f"`traceback` is {shorten(data['traceback'])}; expected a text, or no such key"
    return None


def _check_result(data: dict[str, Any]) -> str | None:
    outputs = data.get("outputs", {})
    return _check_blobs(data) if _is_map(outputs) else f"`outputs` is {shorten(outputs)}; expected a map"


def _check_blobs(data: dict[str, Any]) -> str | None:
    blobs = data.get("blobs", {})
    if not _is_map(blobs):
        return f"`blobs` is {shorten(blobs)}; expected a map"
    for name, value in blobs.items():
        if type(value) is not bytes:
            return f"`blobs[{name!r}]` is {shorten(value)}; expected bytes"
    return None


def _check_progress(data: dict[str, Any]) -> str | None:
    if "progress" not in data and "status" not in data:
        return "neither `progress` nor `status` is there"
    for key in ("progress", "total"):
        value = data.get(key, 0)
        if not _is_number(value) or not isfinite(value):
            return f"`{key}` is {shorten(value)}; expected a number"
    message = data.get("message")
    return None if message is None or type(message) is str else f"`message` is {shorten(message)}; expected a text"


def _check_update(data: dict[str, Any]) -> str | None:
    kind = data.get("type")
    return None if type(kind) is str and kind else f"`data.type` is {shorten(kind)}; expected a text"


_COMFY_EVENTS = frozenset(
    ("queued", "queue", "started", "cached", "executing", "progress", "node_output", "preview", "completed")
) | {"cancelled"}


def _check_comfy(data: dict[str, Any]) -> str | None:
    name = data.get("event")
    return None if type(name) is str and name in _COMFY_EVENTS else f"`event` is {shorten(name)}, which is none"


def _check_blender(data: dict[str, Any]) -> str | None:
    name = data.get("event")
    return None if type(name) is str and name else f"`event` is {shorten(name)}; expected a text"


def _check_blob(data: dict[str, Any]) -> str | None:
    name = data.get("name")
    return None if type(name) is str else f"`name` is {shorten(name)}; expected a text"


def _check_blob_start(data: dict[str, Any]) -> str | None:
    size = data.get("size")
    wrong = None if _is_size(size) else f"`size` is {shorten(size)}; expected a whole number of bytes"
    return _check_blob(data) or wrong


def _check_blob_chunk(data: dict[str, Any]) -> str | None:
    offset, content = data.get("offset"), data.get("bytes")
    if not _is_size(offset):
        return f"`offset` is {shorten(offset)}; expected a whole number of bytes"
    wrong = None if type(content) is bytes else f"`bytes` is {shorten(content)}; expected bytes"
    return _check_blob(data) or wrong


def _check_blob_end(data: dict[str, Any]) -> str | None:
    digest = data.get("sha256")
    wrong = None if type(digest) is str else f"`sha256` is {shorten(digest)}; expected a text"
    return _check_blob_start(data) or wrong


#: For each type of frame: its class, its check, and whether the check holds without `validate` too. That is so where
#: a value of the wrong kind would be used; what is merely missing has a default. For calls there is `check_call`.
_KINDS: dict[str, tuple[type[Response], Callable[[dict[str, Any]], str | None] | None, bool]] = {
    "discover": (Discovery, _check_discover, False),
    "result": (Result, None, False),
    "error": (Error, _check_error, False),
    "chunk": (Chunk, None, False),
    "progress": (Progress, _check_progress, False),
    "update": (Update, _check_update, False),
    "comfy.event": (Event, _check_comfy, False),
    "blender.event": (Event, _check_blender, False),
    "blob.start": (BlobStart, _check_blob_start, True),
    "blob.chunk": (BlobChunk, _check_blob_chunk, True),
    "blob.end": (BlobEnd, _check_blob_end, True),
}


def check_call(response: Result, *, validate: bool = False) -> None:
    """Hold the result of a call of a node, or a chunk of it, to what a call has: the maps `outputs` and `blobs`.

    A result of another request may have anything in their place.

    Raises:
        FrameRejectedError: One of them is no map, a blob is no bytes, or, with `validate`, one is missing.
    """
    data = response.data
    problem = _check_result(data)
    if problem is None and validate:
        missing = [key for key in ("outputs", "blobs") if key not in data]
        problem = f"`{missing[0]}` is missing; expected a map" if missing else None
    if problem is not None:
        raise FrameRejectedError(problem, type=response.type, request_id=response.request_id)


def parse_response(message: dict[str, Any], *, validate: bool = False) -> Response:
    """Return the response that a decoded map is.

    Args:
        message: As `frames.decode` returns it.
        validate: Whether to hold it to the protocol (BRG-12).

    Raises:
        FrameRejectedError: It does not fit; `request_id` says whose it is, where that can be told.
    """
    given_id, type_, data = message.get("request_id"), message.get("type"), message.get("data")
    request_id = given_id if type(given_id) is str and given_id else None  # BRG-11
    if validate and request_id is None:
        shown = "missing" if given_id is None else shorten(given_id)
        raise FrameRejectedError(f"`request_id` is {shown}; expected a text that is not empty", type=type_)
    if type(type_) is not str:
        if validate:
            raise FrameRejectedError(f"`type` is {shorten(type_)}; expected a text", request_id=request_id)
        type_ = ""
    if type(data) is not dict:
        if validate or data is not None:
            shown = "missing" if data is None else shorten(data)
            raise FrameRejectedError(f"`data` is {shown}; expected a map", type=type_, request_id=request_id)
        data = {}
    cls, check, is_always = _KINDS.get(type_, (Unknown, None, False))
    if check is not None and (validate or is_always):
        problem = check(data)
        if problem is not None:
            raise FrameRejectedError(problem, type=type_, request_id=request_id)
    return cls(type_, request_id, data)
