"""Secrets: what a node may read, and how their values are kept out of everything that people see."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MASK", "Secret", "forget_secrets", "mask", "remember_secrets"]

MASK = "***"


class Secret:
    """A credential that a node declares: `@node(secrets=["API_KEY", Secret("PROXY", required=False)])`.

    Args:
        name: The environment variable (Octonode) or setting (NodeTool) that holds it.
        required: Whether a call without it fails before the node runs.
        label, description: For the person who fills it in.
    """

    __slots__ = ("description", "label", "name", "required")

    def __init__(
        self, name: str, *, required: bool = True, label: str | None = None, description: str | None = None
    ) -> None:
        self.name, self.required, self.label, self.description = name, required, label, description

    def __repr__(self) -> str:
        return f"Secret({self.name!r}, required={self.required})"


#: Every spelling of every secret value known to this process, the longest first.
_known: list[str] = []


def remember_secrets(values: Iterable[str]) -> None:
    """Mask these values from now on, for as long as the process lives: a log line may come long after the call."""
    fresh = set()
    for value in values:
        if value:
            fresh |= {value, repr(value)[1:-1], value.encode("unicode_escape").decode("ascii")}
    if fresh - set(_known):
        _known[:] = sorted(fresh | set(_known), key=len, reverse=True)


def forget_secrets() -> None:
    """Forget all values; for tests."""
    _known.clear()


def mask(text: str) -> str:
    """Return `text` with every known secret value replaced by `***` (ERR-21)."""
    for value in _known:
        if value in text:
            text = text.replace(value, MASK)
    return text
