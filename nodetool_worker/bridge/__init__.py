"""The host side of the NodeTool bridge: clients for any worker that speaks it, sync and async over one core.

Every name is loaded on first use. docs/nodetool-wire.md has the rules (BRG).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..errors import (
        BlobTransferError,
        BridgeClosedError,
        BridgeError,
        BridgeTimeoutError,
        FrameRejectedError,
        IncompatibleWorkerError,
        LocalProtocolError,
        RequestCancelledError,
        RequestFailedError,
        StreamLostError,
        WorkerDiedError,
        WorkerStartError,
    )
    from .aio import AsyncBridge
    from .client import Bridge
    from .limits import Limits

__all__ = [
    "AsyncBridge",
    "BlobTransferError",
    "Bridge",
    "BridgeClosedError",
    "BridgeError",
    "BridgeTimeoutError",
    "FrameRejectedError",
    "IncompatibleWorkerError",
    "Limits",
    "LocalProtocolError",
    "RequestCancelledError",
    "RequestFailedError",
    "StreamLostError",
    "WorkerDiedError",
    "WorkerStartError",
]

_HOMES = {"AsyncBridge": ".aio", "Bridge": ".client", "Limits": ".limits"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES.get(name, "..errors"), __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
