"""What the metadata of a hint says: `Annotated[int, Field(ge=1), "pixels"]`, ours, annotated_types' or pydantic's."""

from __future__ import annotations

import sys

from .errors import DefinitionError
from .field import MISSING, _FieldInfo
from .ports import BOUNDS, Array, Base64, Constraints, Mapping, Rich, Scalar, Union

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .ports import PortType

__all__ = ["Info", "describe", "is_field", "is_pydantic_magic", "merge_bounds", "possible_bounds"]

_BOUND_NAMES = frozenset(BOUNDS)
_NUMERIC = frozenset(("ge", "gt", "le", "lt", "multiple_of"))
_LENGTHS = frozenset(("min_length", "max_length"))

#: Pairs of bounds that one value can meet although they are equal.
_CLOSED = (("ge", "le"), ("min_length", "max_length"))
_BOUNDS_OF_KIND = {
    "string": _LENGTHS | {"pattern"},
    "integer": _NUMERIC,
    "number": _NUMERIC,
    "boolean": frozenset[str](),
}


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
    if isinstance(item, _FieldInfo):
        return _read_field(item.given, info)
    if isinstance(item, str):
        info.description = item
        return {}
    documentation = getattr(item, "documentation", None)
    if isinstance(documentation, str):  # typing_extensions.Doc
        info.description = documentation
        return {}
    bounds: dict[str, Any] = {}
    if _is_pydantic_field(item):
        undefined = sys.modules["pydantic_core"].PydanticUndefined
        names = ("default", "default_factory", "description", "examples", "title")
        said = {name: getattr(item, name) for name in names if getattr(item, name) not in (undefined, None, Ellipsis)}
        if item.default is None:
            said["default"] = None
        _read_field(said, info)
        alias = item.validation_alias or item.alias
        choices = [alias] if isinstance(alias, str) else getattr(alias, "choices", ())
        info.aliases = tuple(one for one in choices if isinstance(one, str)) or info.aliases
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


def _read_field(given: dict[str, Any], info: Info) -> dict[str, Any]:
    """Read what a Field was given: what it says of the port goes to `info`, its bounds are returned."""
    bounds: dict[str, Any] = {}
    for name, value in given.items():
        if name in _BOUND_NAMES:
            if value is not None:
                bounds[name] = value
        elif name == "default":
            if value is not Ellipsis:
                info.default = value
        elif value is None:
            continue
        elif name == "examples":
            info.examples = list(value)
        elif name == "aliases":
            info.aliases = (value,) if isinstance(value, str) else tuple(value)
        else:
            setattr(info, name, value)
    return bounds


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
    if any(getattr(item, name, None) is not None for name in ("max_digits", "decimal_places")):
        return True
    return hasattr(type(item), "__get_pydantic_core_schema__") or type(item).__name__ == "Discriminator"


def merge_bounds(old: Constraints | None, new: dict[str, Any], *, rich: bool = False) -> Constraints:
    """Return the bounds of both; where both set one, the tighter stays. Those of a rich type may be dates.

    Raises:
        DefinitionError: A bound makes no sense; without node and parameter, which the caller knows.
    """
    merged: dict[str, Any] = dict(old.given()) if old is not None else {}
    predicates = (*(old.predicates if old is not None else ()), *new.get("predicates", ()))
    for name, value in new.items():
        if name == "predicates":
            continue
        if name in ("min_length", "max_length") and (type(value) is not int or value < 0):
            _refuse(f"has {name}={value!r}", "a length is an integer of at least 0")
        if name in _NUMERIC and not rich and not _is_bound(name, value):
            wanted = "a finite number above 0" if name == "multiple_of" else "a finite number"
            _refuse(f"has {name}={value!r}", f"the bound of a number is {wanted}")
        if name == "pattern":
            value = _pattern(value)
        if name not in merged or merged[name] == value:
            merged[name] = value
        elif name in ("ge", "gt", "min_length"):
            merged[name] = max(merged[name], value)
        elif name in ("le", "lt", "max_length"):
            merged[name] = min(merged[name], value)
        else:
            _refuse(f"has two different bounds {name}", "keep one")
    for least, most in (("ge", "le"), ("ge", "lt"), ("gt", "le"), ("gt", "lt"), ("min_length", "max_length")):
        low, high = merged.get(least), merged.get(most)
        if low is None or high is None or low < high or (low == high and (least, most) in _CLOSED):
            continue
        _refuse(f"has {least}={low!r} and {most}={high!r}, which no value meets", "correct one of them")
    return Constraints({**merged, "predicates": predicates})


def _pattern(pattern: Any) -> str:
    import re

    try:
        return str(re.compile(pattern).pattern)
    except (re.error, TypeError) as error:
        return _refuse(f"has the pattern {pattern!r}, which is no regular expression ({error})", "correct it")


def _refuse(problem: str, way_out: str) -> NoReturn:
    raise DefinitionError(problem, way_out=way_out)


def _is_bound(name: str, value: Any) -> bool:
    """Tell whether a bound is a number that JSON has, and that a multiple can be of."""
    return type(value) in (int, float) and abs(value) < float("inf") and (value > 0 or name != "multiple_of")


def possible_bounds(port_type: PortType) -> frozenset[str]:
    """Return which bounds a type can have."""
    if isinstance(port_type, Scalar):
        return _BOUNDS_OF_KIND[port_type.kind] | {"predicates"}
    if isinstance(port_type, (Base64, Array, Mapping)):
        return _LENGTHS | {"predicates"}
    if isinstance(port_type, Rich):
        if port_type.cls.__module__ in ("uuid", "datetime", "decimal") or hasattr(port_type.cls, "__fspath__"):
            ordered = port_type.cls.__module__ in ("datetime", "decimal")
            return (_NUMERIC if ordered else frozenset[str]()) | {"predicates"}
        return _NUMERIC | _LENGTHS | {"pattern", "predicates"}
    if isinstance(port_type, Union):
        return frozenset[str]().union(*(possible_bounds(member) for member in port_type.members))
    return frozenset()
