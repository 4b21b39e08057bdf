"""What the metadata of a hint says: `Annotated[int, Field(ge=1), "pixels"]`, ours, annotated_types' or pydantic's."""

from __future__ import annotations

import sys

from .field import MISSING, _FieldInfo
from .ports import BOUNDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Info", "describe", "is_field", "is_pydantic_magic"]


class Info:
    """What the metadata of a hint says of the port itself; the outermost word wins."""

    __slots__ = ("aliases", "default", "default_factory", "description", "examples", "title")

    def __init__(self) -> None:
        self.aliases: tuple[str, ...] = ()
        self.default: Any = MISSING
        self.default_factory: Any = None
        self.description: str | None = None
        self.examples: list[Any] | None = None
        self.title: str | None = None


def describe(item: Any, info: Info) -> dict[str, Any]:
    """Take one piece of metadata: what it says of the port goes to `info`, its bounds are returned."""
    if isinstance(item, str):
        info.description = item
        return {}
    documentation = getattr(item, "documentation", None)
    if isinstance(documentation, str):  # typing_extensions.Doc
        info.description = documentation
        return {}
    if isinstance(item, _FieldInfo):
        bounds = {name: getattr(item, name) for name in BOUNDS if getattr(item, name) not in (MISSING, None)}
        _take_field(item, info, missing=MISSING)
        if item.aliases is not MISSING:
            info.aliases = tuple(item.aliases)
        return bounds
    bounds = {}
    if _is_pydantic_field(item):
        undefined = sys.modules["pydantic_core"].PydanticUndefined
        _take_field(item, info, missing=undefined)
        alias = item.validation_alias or item.alias
        if isinstance(alias, str):
            info.aliases = (alias,)
        for inner in item.metadata:
            bounds.update(describe(inner, info))
        return bounds
    if type(item).__module__.partition(".")[0] not in ("annotated_types", "pydantic"):
        return {}
    if hasattr(item, "func") and type(item).__name__ == "Predicate":
        return {"predicates": (item.func,)}
    if hasattr(item, "__iter__"):  # annotated_types.Interval and Len: groups of simpler ones
        for inner in item:
            bounds.update(describe(inner, info))
        return bounds
    for name in BOUNDS:
        value = getattr(item, name, None)
        if value is not None:
            bounds[name] = value
    return bounds


def _take_field(item: Any, info: Info, *, missing: Any) -> None:
    nothing = (missing, None)
    for name in ("description", "title"):
        text = getattr(item, name)
        if text is not missing and text is not None:
            setattr(info, name, text)
    if item.examples is not missing and item.examples is not None:
        info.examples = list(item.examples)
    if item.default is not missing and item.default is not Ellipsis:
        info.default = item.default
    if not any(item.default_factory is no for no in nothing):
        info.default_factory = item.default_factory


def is_field(value: Any) -> bool:
    return isinstance(value, _FieldInfo) or _is_pydantic_field(value)


def _is_pydantic_field(item: Any) -> bool:
    return type(item).__name__ == "FieldInfo" and type(item).__module__.startswith("pydantic")


def is_pydantic_magic(item: Any) -> bool:
    """Tell whether metadata changes the value or the choice of a member, which only pydantic itself can do."""
    if "pydantic" not in sys.modules:
        return False
    if _is_pydantic_field(item):
        return item.discriminator is not None or any(is_pydantic_magic(inner) for inner in item.metadata)
    if type(item).__module__.startswith("pydantic") and type(item).__name__ == "StringConstraints":
        return bool(item.strip_whitespace or item.to_upper or item.to_lower)
    return hasattr(type(item), "__get_pydantic_core_schema__") or type(item).__name__ == "Discriminator"
