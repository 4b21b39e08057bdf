"""Types that pydantic checks and describes: models, dates, Decimal, UUID, Path. Loaded on first use of such a port.

Everything here runs pydantic in its strict mode on JSON, in which a date is its ISO text and nothing is coerced; the
one grant beside that is the house's rule that 3.0 is an integer.
"""

from __future__ import annotations

import datetime
import decimal
import os
import re
import uuid
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

from ._quick import to_ascii_json
from .errors import DefinitionError, Fault
from .faults import Check, Trial, bounds_fault, error_text, json_kind, path_text
from .field import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .faults import Path
    from .ports import Rich

__all__ = ["dump_model", "has_text_form", "json_schema", "rich_check", "rich_dump", "text_form"]

_adapters: dict[int, tuple[Rich, pydantic.TypeAdapter[Any]]] = {}


def _adapter(port_type: Rich) -> pydantic.TypeAdapter[Any]:
    """Return pydantic's adapter of a port type, made once."""
    known = _adapters.get(id(port_type))
    if known is None or known[0] is not port_type:
        bounds = dict(port_type.constraints.given()) if port_type.constraints else {}
        hint: Any = Annotated[port_type.hint, pydantic.Field(**bounds)] if bounds else port_type.hint
        try:
            known = _adapters[id(port_type)] = (port_type, pydantic.TypeAdapter[Any](hint))
        except (PydanticUserError, SchemaError, TypeError, NameError) as error:
            reason = " ".join(str(error).partition("\n\nFor further information")[0].split())
            raise DefinitionError(
                f"pydantic can't read {port_type.name}: {reason}", way_out="give it a type that pydantic knows"
            ) from error
    return known[1]


def rich_check(port_type: Rich) -> Check:
    """Compile a rich type for inputs."""
    adapter = _adapter(port_type)
    predicates = _predicates_fault(port_type)
    known = _known_keys(port_type.cls)

    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        if isinstance(value, str):
            wanted = _unlike_text(port_type.cls, value)
            if wanted is not None:
                faults.append(Fault(path_text(path), f"expected {wanted}, got {json_kind(value)}"))
                return None
        try:
            made = _validate(adapter, value)
        except pydantic.ValidationError as error:
            _tell(error, value, path, faults)
            return None
        except (TypeError, ValueError) as error:  # NaN or bytes, which a wire other than JSON may bring
            faults.append(Fault(path_text(path), f"expected JSON values for a {port_type.name}: {error}"))
            return None
        message = predicates(made) if predicates else None
        if message:
            faults.append(Fault(path_text(path), message))
        if known is not None and isinstance(faults, Trial) and isinstance(value, dict):
            faults.lost += len(value.keys() - known)
        return made

    return Check(lambda value: False, convert)


def _unlike_text(cls: Any, text: str) -> str | None:
    """Return what a text should be that pydantic would read, but as something that it does not say; None if it is fine.

    It takes seconds since 1970 for a moment, blanks and underscores in a Decimal, and cuts what is finer than a
    microsecond; months and years of a duration have no fixed length.
    """
    if cls is decimal.Decimal:
        return "a decimal number" if re.search(r"[\s_]", text) else None
    if cls not in (datetime.datetime, datetime.date, datetime.time, datetime.timedelta):
        return None
    if re.search(r"[.,]\d{7}", text):
        return "at most six digits of a second"
    if re.fullmatch(r"\s*[-+]?[\d.]+\s*", text):
        return f"a {cls.__name__} in ISO form"
    if cls is datetime.timedelta and re.match(r"[-+]?P[^T]*[YM]", text, re.IGNORECASE):
        return "a duration in days and less, since months and years have no fixed length"
    return None


def _predicates_fault(port_type: Rich) -> Callable[[Any], str | None] | None:
    from .ports import Constraints

    if port_type.constraints is None or not port_type.constraints.predicates:
        return None
    return bounds_fault(Constraints({"predicates": port_type.constraints.predicates}))


def _known_keys(cls: Any) -> set[str] | None:
    """Return the keys that a model reads, or None for types that lose none: no model, or one that takes any key."""
    fields = getattr(cls, "__pydantic_fields__", None)
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    if fields is None or config.get("extra") == "allow":
        return None
    keys = set(fields)
    for field in fields.values():
        aliases = [field.alias, field.validation_alias]
        aliases += getattr(field.validation_alias, "choices", [])
        keys.update(alias if isinstance(alias, str) else alias.path[0] for alias in aliases if _is_key(alias))
    return keys


def _is_key(alias: Any) -> bool:
    return isinstance(alias, str) or hasattr(alias, "path")


#: Complaints of pydantic that a number may earn by being spelled 3.0 instead of 3.
_NUMBER_SPELLINGS = {"int_type", "int_from_float", "literal_error", "enum"}


def _validate(adapter: pydantic.TypeAdapter[Any], value: Any) -> Any:
    """Validate in strict JSON mode; a number without a fraction is tried again as the integer that it is."""
    while True:
        try:
            return adapter.validate_json(to_ascii_json(value), strict=True)
        except pydantic.ValidationError as error:
            places = [
                _walk(value, e["loc"])
                for e in error.errors(include_url=False)
                if e["type"] in _NUMBER_SPELLINGS and type(e["input"]) is float and e["input"].is_integer()
            ]
            places = [keys for keys in places if type(_at(value, keys)) is float]
            if not places:
                raise
            for keys in places:
                value = _with_integer(value, keys)


def _walk(value: Any, location: tuple[int | str, ...]) -> list[int | str]:
    """Return the keys of a pydantic location that lead through `value`; it holds names of unions' members as well."""
    keys: list[int | str] = []
    key: Any
    for key in location:
        if (isinstance(value, dict) and key in value) or (
            isinstance(value, (list, tuple)) and isinstance(key, int) and key < len(value)
        ):
            keys.append(key)
            value = value[key]
    return keys


def _at(value: Any, keys: list[int | str]) -> Any:
    for key in keys:
        value = value[key]
    return value


def _with_integer(value: Any, keys: list[int | str]) -> Any:
    """Return `value` with the number at one place as an integer; what is around it is copied, not changed."""
    if not keys:
        return int(value) if type(value) is float else value
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[keys[0]] = _with_integer(value[keys[0]], keys[1:])
    return copy


def _tell(error: pydantic.ValidationError, value: Any, path: Path, faults: list[Fault]) -> None:
    """Add a fault for each of pydantic's errors."""
    for one in error.errors(include_url=False, include_context=False):
        at = path
        for key in _walk(value, one["loc"]):
            at = (at, key)
        message = one["msg"][:1].lower() + one["msg"][1:]
        if one["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
            at, message = (at, one["loc"][-1]), "is required"
        elif one["type"] != "json_invalid":  # its input is the whole text
            message += f", got {json_kind(one['input'])}"
        faults.append(Fault(path_text(at), message))


def rich_dump(port_type: Rich) -> Callable[[Any, Path, list[Fault]], Any]:
    """Compile a rich type for outputs; what it returns still goes through the value policy."""
    adapter = _adapter(port_type)
    cls = port_type.cls
    predicates = _predicates_fault(port_type)

    def dump(value: Any, path: Path, faults: list[Fault]) -> Any:
        try:
            if cls is object or not isinstance(value, cls) or _is_other_date(value, cls):
                if cls is not object and not (isinstance(value, dict) and port_type.is_object):
                    faults.append(Fault(path_text(path), f"expected a {port_type.name}, got {json_kind(value)}"))
                    return None
                value = adapter.validate_python(value, strict=True)
            elif port_type.constraints is not None:
                value = adapter.validate_python(value, strict=True)
        except pydantic.ValidationError as error:
            _tell(error, value, path, faults)
            return None
        message = predicates(value) if predicates else None
        if message:
            faults.append(Fault(path_text(path), message))
            return None
        # A hint that is the bare class has no serializer of its own: the value policy knows its text.
        return value if port_type.hint is cls and has_text_form(value) else _dump(adapter, value, path, faults)

    return dump


def _is_other_date(value: Any, cls: Any) -> bool:
    """Tell whether a moment stands where a day is declared: by class it is one, but its text says more."""
    return cls is datetime.date and isinstance(value, datetime.datetime)


def dump_model(value: Any, path: Path, faults: list[Fault]) -> Any:
    """Return a pydantic model or dataclass as JSON's types, by alias, as its schema says."""
    cls: Any = type(value)
    return _dump(pydantic.TypeAdapter[Any](cls), value, path, faults)


def _dump(adapter: pydantic.TypeAdapter[Any], value: Any, path: Path, faults: list[Fault]) -> Any:
    """Let pydantic make JSON of a value; a field that holds what it does not declare is a fault."""
    try:
        made = adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
        return _keep_numbers(made, adapter.dump_python(value, by_alias=True, warnings="error")) if _has(made) else made
    except UnicodeDecodeError as error:
        way_out = "set ser_json_bytes and val_json_bytes to 'base64' in the config of the class"
        faults.append(Fault(path_text(path), f"bytes that are no text can't be made JSON ({error}); {way_out}"))
    except (ValueError, TypeError) as error:  # PydanticSerializationError is a ValueError
        reason = " ".join(error_text(error).split())
        faults.append(Fault(path_text(path), f"a {type(value).__qualname__} can't be made JSON: {reason}"))
    return None


def _has(made: Any) -> bool:
    """Tell whether a null is in a dumped value; for each that there is, pydantic may have had a NaN."""
    if isinstance(made, dict):
        return any(map(_has, made.values()))
    return any(map(_has, made)) if isinstance(made, list) else made is None


def _keep_numbers(made: Any, original: Any) -> Any:
    """Return a dump with the NaN and infinities that pydantic has turned into null at places declared Any."""
    if made is None and isinstance(original, float):
        return original
    if isinstance(made, dict) and isinstance(original, dict) and len(made) == len(original):
        pairs = zip(made.items(), original.values(), strict=True)
        return {key: _keep_numbers(one, other) for (key, one), other in pairs}
    if isinstance(made, list) and isinstance(original, (list, tuple)) and len(made) == len(original):
        return [_keep_numbers(one, other) for one, other in zip(made, original, strict=True)]
    if isinstance(made, list) and isinstance(original, (set, frozenset)) and None not in original:
        lost = [one for one in original if isinstance(one, float) and one - one != 0]
        return [lost.pop() if one is None and lost else one for one in made]
    return made


def has_text_form(value: Any) -> bool:
    """Tell whether a value is of a type that goes as its text."""
    return isinstance(
        value, (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID, os.PathLike)
    )


def text_form(value: Any) -> Any:
    """Return the lossless text of a date, time, duration, Decimal, UUID or path, or MISSING for anything else.

    A Decimal that is no number comes back as the float that it would be.

    Raises:
        ValueError: It has no such text; says why and what to do.
    """
    if isinstance(value, (datetime.datetime, datetime.time)):
        offset = value.utcoffset()
        if offset is not None and offset % datetime.timedelta(minutes=1):
            raise ValueError(f"the offset {offset} has seconds, which no reader knows; use astimezone(timezone.utc)")
        return value.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, decimal.Decimal):
        return str(value) if value.is_finite() else _NOT_FINITE["NaN" if value.is_nan() else f"{value}"]
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(os.fspath(value))
    return MISSING


_NOT_FINITE = {name: float(name) for name in ("NaN", "Infinity", "-Infinity")}


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
