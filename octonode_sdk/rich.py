"""Types that pydantic checks and describes: models, dates, Decimal, UUID, Path. Loaded on first use of such a port.

Everything here runs pydantic in its strict mode on JSON, in which a date is its ISO text and nothing is coerced; the
one grant beside that is the house's rule that 3.0 is an integer.
"""

from __future__ import annotations

import datetime
import decimal
import os
import uuid
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
from pydantic.errors import PydanticUserError

from ._quick import to_ascii_json
from .errors import DefinitionError, Fault, shorten
from .faults import Check, bounds_fault, json_kind, path_text
from .field import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .faults import Path
    from .ports import Rich

__all__ = ["dump_model", "json_schema", "rich_check", "rich_dump", "text_form"]

_adapters: dict[int, tuple[Rich, pydantic.TypeAdapter[Any]]] = {}


def _adapter(port_type: Rich) -> pydantic.TypeAdapter[Any]:
    """Return pydantic's adapter of a port type, made once."""
    known = _adapters.get(id(port_type))
    if known is None or known[0] is not port_type:
        bounds = dict(port_type.constraints.given()) if port_type.constraints else {}
        hint: Any = Annotated[port_type.hint, pydantic.Field(**bounds)] if bounds else port_type.hint
        try:
            known = _adapters[id(port_type)] = (port_type, pydantic.TypeAdapter[Any](hint))
        except (PydanticUserError, TypeError, NameError) as error:
            first = str(error).splitlines()[0]
            raise DefinitionError(
                f"pydantic can't read {port_type.name}: {first}", way_out="give it a type that pydantic knows"
            ) from error
    return known[1]


def rich_check(port_type: Rich) -> Check:
    """Compile a rich type for inputs."""
    adapter = _adapter(port_type)
    predicates = _predicates_fault(port_type)

    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        try:
            made = _validate(adapter, value)
        except pydantic.ValidationError as error:
            for fault in error.errors(include_url=False, include_context=False):
                faults.append(_as_fault(fault, path))
            return None
        message = predicates(made) if predicates else None
        if message:
            faults.append(Fault(path_text(path), message))
        return made

    return Check(lambda value: False, convert)


def _predicates_fault(port_type: Rich) -> Callable[[Any], str | None] | None:
    from .ports import Constraints

    if port_type.constraints is None or not port_type.constraints.predicates:
        return None
    return bounds_fault(Constraints({"predicates": port_type.constraints.predicates}))


def _validate(adapter: pydantic.TypeAdapter[Any], value: Any) -> Any:
    """Validate in strict JSON mode; a number without a fraction is tried again as the integer that it is."""
    try:
        return adapter.validate_json(to_ascii_json(value), strict=True)
    except pydantic.ValidationError as error:
        places = [e["loc"] for e in error.errors() if type(e["input"]) is float and e["input"].is_integer()]
        if not places:
            raise
        return adapter.validate_json(to_ascii_json(_with_integers(value, places)), strict=True)


def _with_integers(value: Any, places: list[tuple[int | str, ...]]) -> Any:
    """Return `value` with the numbers at `places` as integers; a place may hold names of a union's members as well."""
    if type(value) is float and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {
            key: _with_integers(one, places) if any(key in p for p in places) else one for key, one in value.items()
        }
    if isinstance(value, list):
        return [_with_integers(one, places) if any(i in p for p in places) else one for i, one in enumerate(value)]
    return value


def _as_fault(error: Any, path: Path) -> Fault:
    for key in error["loc"]:
        path = (path, key)
    message = error["msg"][:1].lower() + error["msg"][1:]
    if error["type"] == "missing":
        return Fault(path_text(path), "is required")
    return Fault(path_text(path), f"{message}, got {json_kind(error['input'])}")


def rich_dump(port_type: Rich) -> Callable[[Any, Path, list[Fault]], Any]:
    """Compile a rich type for outputs; what it returns still goes through the value policy."""
    adapter = _adapter(port_type)
    cls = port_type.cls

    def dump(value: Any, path: Path, faults: list[Fault]) -> Any:
        try:
            if cls is object or not isinstance(value, cls):
                if cls is not object and not (isinstance(value, dict) and port_type.is_object):
                    faults.append(Fault(path_text(path), f"expected a {port_type.name}, got {json_kind(value)}"))
                    return None
                value = adapter.validate_python(value, strict=True)
            elif port_type.constraints is not None:
                value = adapter.validate_python(value, strict=True)
        except pydantic.ValidationError as error:
            for fault in error.errors(include_url=False, include_context=False):
                faults.append(_as_fault(fault, path))
            return None
        text = text_form(value)
        if text is not MISSING:
            return text
        try:
            return adapter.dump_python(value, mode="json", by_alias=True)
        except pydantic.ValidationError as error:  # a serializer of the author's
            faults.append(Fault(path_text(path), f"can't be made JSON: {error}"))
        except pydantic.PydanticSchemaGenerationError as error:
            faults.append(Fault(path_text(path), f"can't be made JSON: {error}"))
        except ValueError as error:  # PydanticSerializationError: a value that pydantic can't write
            faults.append(Fault(path_text(path), f"{shorten(value)} can't be made JSON: {error}"))
        return None

    return dump


def dump_model(value: Any) -> Any:
    """Return a pydantic model or dataclass as JSON's types, by alias, as its schema says."""
    return pydantic.TypeAdapter(type(value)).dump_python(value, mode="json", by_alias=True)


def text_form(value: Any) -> Any:
    """Return the lossless text of a date, time, duration, Decimal, UUID or path, or MISSING for anything else."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(os.fspath(value))
    return MISSING


def _duration(value: datetime.timedelta) -> str:
    """Return an ISO 8601 duration, such as P1DT2H3.5S, exact to the microsecond."""
    sign, value = ("-", -value) if value < datetime.timedelta() else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    time = (
        f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes) + f"{seconds}{fraction}S" * bool(seconds or fraction)
    )
    date = f"{value.days}D" if value.days else ""
    return f"{sign}P{date}{'T' if time else ''}{time}" if date or time else "PT0S"


def json_schema(port_type: Rich, *, outputs: bool) -> dict[str, Any]:
    """Return pydantic's own JSON Schema of the type, with its `$defs`."""
    adapter = _adapter(port_type)
    return adapter.json_schema(mode="serialization" if outputs else "validation", by_alias=True)
