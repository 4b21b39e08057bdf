"""A module with postponed annotations: every hint of its nodes is a text, some of names that come further down."""

from __future__ import annotations

import typing
from typing import Literal, Optional, TypedDict

from octonode_sdk import Context, node

__all__ = ["Later", "choose", "describe_later", "triple"]

if typing.TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


@node
def choose(given: Context, mode: Optional[Literal["a", "b"]] = None, *, count: int = 1) -> list[str]:
    """Choose a mode.

    >>> choose(Context(), "a", count=2)
    ['a', 'a']
    """
    return [mode or given.env or "none"] * count


@node
def describe_later(later: Later) -> Later:
    """Take a type that is defined below."""
    return later


@node
def broken(amount: OnlyForCheckers) -> None:
    """Take a type that no run sees."""


@node(retry_on=[ConnectionError])
async def triple(x: int) -> int:
    """Multiply by three."""
    return x * 3


class Later(TypedDict):
    text: str
