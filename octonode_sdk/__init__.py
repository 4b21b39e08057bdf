"""Write a typed Python function once, put `@node` on it, and run it under Octonode and NodeTool.

Every name is loaded on first use, so that importing this package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .context import Context
    from .errors import CallCancelledError, DefinitionError, NodeError, OctonodeError
    from .field import Field
    from .ipc.runner import run
    from .nodes import node
    from .secrets import Secret

__version__ = "0.1.0"

__all__ = [
    "CallCancelledError",
    "Context",
    "DefinitionError",
    "Field",
    "NodeError",
    "OctonodeError",
    "Secret",
    "node",
    "run",
]

_HOMES = {
    "CallCancelledError": "errors",
    "Context": "context",
    "DefinitionError": "errors",
    "Field": "field",
    "NodeError": "errors",
    "OctonodeError": "errors",
    "Secret": "secrets",
    "node": "nodes",
    "run": "ipc.runner",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
