"""The data of requests, pure: what a caller says -> the map that is sent. The sync and the async client share it."""

from __future__ import annotations

from typing import TypedDict

from octonode_sdk.errors import shorten

from ..errors import LocalProtocolError
from ..frames import large_or_same
from ..messages import CHUNKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .gates import Gates

__all__ = ["CallOptions", "execute_data", "with_large"]

#: Levels of maps and lists in which bytes are looked for, to be sent without a copy: a reference in a list is three.
_DEPTH = 4

#: Longer lists are not looked through: they hold numbers.
_LIST_LIMIT = 1000


class CallOptions(TypedDict, total=False):
    """What a call may have beside its fields.

    `blobs` is bytes, or a list of bytes, by input; large ones are not copied. `secrets` is a value by name. The ids say
    who asks. `requires_vram_gb` is how much the node's weights need; without it, what the inventory says is sent.
    """

    blobs: Mapping[str, Any] | None
    secrets: Mapping[str, str] | None
    node_id: str | None
    job_id: str | None
    workflow_id: str | None
    user_id: str | None
    requires_vram_gb: float | None


def execute_data(
    gates: Gates,
    node_type: Any,
    fields: Mapping[str, Any] | None,
    *,
    chunked: bool,
    blobs: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    node_id: str | None = None,
    job_id: str | None = None,
    workflow_id: str | None = None,
    user_id: str | None = None,
    requires_vram_gb: float | None = None,
) -> dict[str, Any]:
    """Return the data of `execute` or `execute.stream`.

    Identity that is not known is left out, never nil (BRG-19). Chunks are asked for where the worker is known to have
    them (BLB-5). Without `requires_vram_gb`, the worker gets back what its inventory says.

    Raises:
        LocalProtocolError: A part is not what the message has there.
    """
    if not isinstance(node_type, str) or not node_type:
        raise LocalProtocolError(f"node_type is {shorten(node_type)}; expected a text such as 'demo.Add'")
    data: dict[str, Any] = {
        "node_type": node_type,
        "fields": with_large(_named(fields, "fields")),
        "secrets": _named(secrets, "secrets"),
        "blobs": {name: _blob(value, name) for name, value in _named(blobs, "blobs").items()},
    }
    identity = {"node_id": node_id, "job_id": job_id, "workflow_id": workflow_id, "user_id": user_id}
    data |= {key: value for key, value in identity.items() if value}
    if requires_vram_gb is None and gates.discovery is not None:
        requires_vram_gb = (gates.discovery.node(node_type) or {}).get("requires_vram_gb")
    if requires_vram_gb is not None:
        data["requires_vram_gb"] = requires_vram_gb
    if chunked and gates.supports_chunked_blobs():
        data["blob_transfer"] = CHUNKED
    return data


def _named(values: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    if values is None:
        return {}
    try:
        made = dict(values)
    except (TypeError, ValueError):
        raise LocalProtocolError(f"{what} is {shorten(values)}; expected a mapping of values by name") from None
    for name in made:
        if not isinstance(name, str):
            raise LocalProtocolError(f"{what} has the name {shorten(name)}; names are texts")
    return made


def _blob(value: Any, name: str) -> Any:
    """Return one blob, or a list of them, for the frame."""
    if isinstance(value, (list, tuple)):
        return [_blob(one, name) for one in value]
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise LocalProtocolError(f"the blob {name!r} is {shorten(value)}; expected bytes, or a list of bytes")
    return _bytes(value)


def _bytes(value: bytes | bytearray | memoryview) -> Any:
    if isinstance(value, memoryview):
        value = value.cast("B") if value.c_contiguous else value.tobytes()
    return large_or_same(value)


def with_large(value: Any, depth: int = _DEPTH) -> Any:
    """Return a value for a frame: large bytes in it are sent from where they are (VAL-14)."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(value)
    if depth:
        if type(value) is dict:
            return {key: with_large(one, depth - 1) for key, one in value.items()}
        if type(value) is list and len(value) <= _LIST_LIMIT:
            return [with_large(one, depth - 1) for one in value]
    return value
