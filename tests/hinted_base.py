"""Types that other modules inherit from, under postponed annotations: each hint is a text, to be read in here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple, TypedDict

from typing_extensions import NotRequired, Required

__all__ = ["Base", "BaseDict", "BaseTuple", "Local"]


class Local(TypedDict):
    """Known by this name in this module only."""

    text: str


class BaseDict(TypedDict, total=False):
    local: Required[Local]
    maybe: Local
    never: NotRequired[Local | None]


class BaseTuple(NamedTuple):
    date: date
    local: Local | None = None


@dataclass
class Base:
    local: Local
    date: date | None = None
