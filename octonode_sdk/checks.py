"""Inputs: a JSON value -> what the author's hint promises, or a fault for every place that does not fit.

A port type is compiled once into a `Check`: `accepts(value)` says quickly that a value may pass as it is, `convert`
does the rest and names the faults. Nothing is coerced (REQ-18): "5" is no integer, 1 is no truth value; 3.0 is an
integer, since JSON has one kind of number (SCH-3).
"""

from __future__ import annotations

import sys

from .errors import Fault, shorten
from .faults import Check, bounds_fault, json_kind, path_text
from .field import MISSING
from .ports import (
    SCALAR_NAMES,
    Alias,
    Anything,
    Array,
    Base64,
    Choice,
    FixedArray,
    Flags,
    Mapping,
    Null,
    Record,
    Rich,
    Scalar,
    Union,
    type_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .faults import Path
    from .ports import Port, PortType

__all__ = ["compile_check", "fresh_default"]

_INFINITY = float("inf")


def fresh_default(port: Port) -> Callable[[], Any]:
    """Return a function that gives a port's default; a mutable one anew for each call, so that calls share nothing."""
    if port.default_factory is not None:
        return port.default_factory
    default = port.default
    if default is MISSING:
        return lambda: None
    if isinstance(default, (str, bytes, int, float, frozenset)) or default is None or _is_enum(default):
        return lambda: default
    if type(default) in (list, dict, set) and not default:
        return type(default)
    import copy

    return lambda: copy.deepcopy(default)


def _is_enum(value: object) -> bool:
    enum = sys.modules.get("enum")
    return enum is not None and isinstance(value, enum.Enum)


def _never(_value: Any) -> bool:
    return False


def _always(_value: Any) -> bool:
    return True


def compile_check(port_type: PortType, *, raw_bytes: bool = False, memo: dict[int, Check] | None = None) -> Check:
    """Compile a port type into a `Check`.

    Args:
        port_type: The type.
        raw_bytes: Whether the wire carries bytes as they are; else they are base64 text.
        memo: Checks in the making, by identity, so that a type may contain itself.
    """
    return _Compiler(raw_bytes, {} if memo is None else memo).compile(port_type)


class _Compiler:
    def __init__(self, raw_bytes: bool, memo: dict[int, Check]) -> None:
        self._raw_bytes, self._memo = raw_bytes, memo

    def compile(self, port_type: PortType) -> Check:
        known = self._memo.get(id(port_type))
        if known is not None:
            return known
        if isinstance(port_type, Scalar):
            return _scalar(port_type)
        if isinstance(port_type, Anything):
            return Check(_always, lambda value, _path, _faults: value)
        if isinstance(port_type, Null):
            return Check(lambda value: value is None, _refuser(port_type))
        if isinstance(port_type, Union):
            return self._union(port_type)
        if isinstance(port_type, Choice):
            return _choice(port_type)
        if isinstance(port_type, Flags):
            return _flags(port_type)
        if isinstance(port_type, Base64):
            return self._base64(port_type)
        if isinstance(port_type, Array):
            return self._array(port_type)
        if isinstance(port_type, FixedArray):
            return self._fixed(port_type)
        if isinstance(port_type, Mapping):
            return self._mapping(port_type)
        if isinstance(port_type, Rich):
            from .rich import rich_check

            return rich_check(port_type)
        # Records and aliases may contain themselves: a forward reference stands in until the real one is ready.
        forward = self._memo[id(port_type)] = Check(_never)
        made = self.compile(port_type.target) if isinstance(port_type, Alias) else self._record(port_type)
        forward.accepts, forward.convert = made.accepts, made.convert
        return forward

    def _base64(self, port_type: Base64) -> Check:
        raw_bytes, cls = self._raw_bytes, bytearray if port_type.mutable else bytes
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if isinstance(value, (bytes, bytearray, memoryview)) and raw_bytes:
                data = bytes(value)
            elif type(value) is str:
                import binascii

                try:
                    data = binascii.a2b_base64(value.encode("ascii"), strict_mode=True)
                except ValueError as error:
                    faults.append(Fault(path_text(path), f"expected base64 text, got {shorten(value)} ({error})"))
                    return None
            else:
                faults.append(Fault(path_text(path), f"expected base64 text, got {json_kind(value)}"))
                return None
            message = fault_of(data) if fault_of else None
            if message:
                faults.append(Fault(path_text(path), message))
            return cls(data)

        return Check(_never, convert)

    def _array(self, port_type: Array) -> Check:
        item = self.compile(port_type.item)
        container = port_type.container
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None
        is_list = container is list

        def accepts(value: Any) -> bool:
            if not is_list or type(value) is not list or (fault_of is not None and fault_of(value)):
                return False
            return all(map(item.accepts, value))

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not isinstance(value, (list, tuple)):
                faults.append(Fault(path_text(path), f"expected a list, got {json_kind(value)}"))
                return None
            before = len(faults)
            items = [
                one if item.accepts(one) else item.convert(one, (path, index), faults)
                for index, one in enumerate(value)
            ]
            message = fault_of(items) if fault_of else None
            if message:
                faults.append(Fault(path_text(path), message))
            if len(faults) > before:
                return None
            try:
                return items if is_list else container(items)
            except TypeError as error:  # an unhashable item of a set
                faults.append(Fault(path_text(path), f"expected items for a {container.__name__}: {error}"))
                return None

        return Check(accepts, convert)

    def _fixed(self, port_type: FixedArray) -> Check:
        checks = [self.compile(item) for item in port_type.items]
        size = len(checks)

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not isinstance(value, (list, tuple)) or len(value) != size:
                faults.append(Fault(path_text(path), f"expected a list of exactly {size}, got {json_kind(value)}"))
                return None
            return tuple(
                one if check.accepts(one) else check.convert(one, (path, index), faults)
                for index, (one, check) in enumerate(zip(value, checks, strict=True))
            )

        return Check(_never, convert)

    def _mapping(self, port_type: Mapping) -> Check:
        check = self.compile(port_type.value)
        read_key = _key_reader(port_type.key)
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None

        def accepts(value: Any) -> bool:
            return (
                read_key is None
                and type(value) is dict
                and (fault_of is None or fault_of(value) is None)
                and all(map(check.accepts, value.values()))
            )

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not isinstance(value, dict):
                faults.append(Fault(path_text(path), f"expected an object, got {json_kind(value)}"))
                return None
            made = {}
            for key, one in value.items():
                at = (path, key if isinstance(key, (str, int)) else str(key))
                if read_key is not None:
                    known = read_key(key)
                    if known is MISSING:
                        wanted = type_text(port_type.key)
                        faults.append(Fault(path_text(at), f"expected a key that is {wanted}, got {shorten(key)}"))
                        continue
                    key = known
                elif type(key) is not str:
                    faults.append(Fault(path_text(at), f"expected a text as key, got {json_kind(key)}"))
                    continue
                made[key] = one if check.accepts(one) else check.convert(one, at, faults)
            message = fault_of(value) if fault_of else None
            if message:
                faults.append(Fault(path_text(path), message))
            return made

        return Check(accepts, convert)

    def _record(self, record: Record) -> Check:
        fields = [(field, self.compile(field.type)) for field in record.fields if field.name not in record.computed]
        build = _builder(record)

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not isinstance(value, dict):
                faults.append(Fault(path_text(path), f"expected an object, got {json_kind(value)}"))
                return None
            before, given = len(faults), {}
            for field, check in fields:
                one = value.get(field.name, MISSING)
                if one is MISSING:
                    one = next((value[alias] for alias in field.aliases if alias in value), MISSING)
                if one is MISSING:
                    if field.required:
                        faults.append(Fault(path_text((path, field.name)), f"is required: {type_text(field.type)}"))
                    continue
                given[field.name] = one if check.accepts(one) else check.convert(one, (path, field.name), faults)
            if len(faults) > before:
                return None
            try:
                return build(given)
            except Exception as error:  # noqa: BLE001  # __post_init__ of the author's class: its refusal is the fault
                faults.append(Fault(path_text(path), f"{record.name} refused it: {error}"))
                return None

        return Check(_never, convert)

    def _union(self, union: Union) -> Check:
        checks = [self.compile(member) for member in union.members]
        pairs = list(zip(union.members, checks, strict=True))
        if len(checks) == 2 and isinstance(union.members[1], Null):
            first = checks[0]

            def accepts(value: Any) -> bool:
                return value is None or first.accepts(value)
        else:

            def accepts(value: Any) -> bool:
                return any(check.accepts(value) for check in checks)

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            for check in checks:  # a part of a union may be exact where the whole was asked through a record
                if check.accepts(value):
                    return value
            tried: list[tuple[PortType, list[Fault]]] = []
            for member, check in _likeliest_first(pairs, value):
                own: list[Fault] = []
                made = check.convert(value, path, own)
                if not own:
                    return made
                tried.append((member, own))
            alike = [own for member, own in tried if _same_kind(member, value)]
            if len(alike) == 1:
                faults.extend(alike[0])
            else:
                faults.append(Fault(path_text(path), f"expected {type_text(union)}, got {json_kind(value)}"))
            return None

        return Check(accepts, convert)


def _refuser(port_type: PortType) -> Callable[[Any, Path, list[Fault]], Any]:
    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        faults.append(Fault(path_text(path), f"expected {type_text(port_type)}, got {json_kind(value)}"))

    return convert


def _scalar(port_type: Scalar) -> Check:
    kind = port_type.kind
    fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None
    cls = {"string": str, "integer": int, "number": float, "boolean": bool}[kind]
    if kind == "number":

        def exact(value: Any) -> bool:
            return type(value) is float and -_INFINITY < value < _INFINITY
    else:

        def exact(value: Any) -> bool:
            return type(value) is cls

    if fault_of is None:
        accepts = exact
    else:

        def accepts(value: Any) -> bool:
            return exact(value) and fault_of(value) is None

    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        if not exact(value):
            if kind == "integer" and type(value) is float and value.is_integer():
                value = int(value)
            elif kind == "number" and type(value) is int and _is_exact_float(value):
                value = float(value)
            else:
                faults.append(
                    Fault(
                        path_text(path), f"expected {SCALAR_NAMES[kind]}, got {json_kind(value)}{_aside(kind, value)}"
                    )
                )
                return None
        message = fault_of(value) if fault_of else None
        if message:
            faults.append(Fault(path_text(path), message))
        return value

    return Check(accepts, convert)


def _is_exact_float(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _aside(kind: str, value: object) -> str:
    """Return the way out for the mistakes that are made most."""
    if kind in ("integer", "number") and type(value) is str:
        return "; send it without quotes" if value.strip().lstrip("+-").replace(".", "", 1).isdigit() else ""
    if kind == "number" and type(value) is int:
        return ", which a float can't hold without a change"
    if kind == "number" and type(value) is float:
        return ", which is not finite"
    if kind == "boolean" and value in (0, 1, "true", "false"):
        return "; send true or false"
    return ""


def _choice(port_type: Choice) -> Check:
    by_wire = {(type(wire), wire): member for wire, member in port_type.members}
    unchanged = {key for key, member in by_wire.items() if type(member) is key[0]}
    types = {key[0] for key in by_wire}

    def accepts(value: Any) -> bool:
        cls = type(value)
        return cls in types and (cls, value) in unchanged

    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        for candidate in _same_number(value):
            member = by_wire.get((type(candidate), candidate), MISSING)
            if member is not MISSING:
                return member
        faults.append(Fault(path_text(path), f"expected {type_text(port_type)}, got {json_kind(value)}"))
        return None

    return Check(accepts, convert)


def _same_number(value: Any) -> tuple[Any, ...]:
    """Return a value and, for a number, its other spelling: JSON does not tell 1 from 1.0."""
    if type(value) is float and value.is_integer():
        return value, int(value)
    if type(value) is int and _is_exact_float(value):
        return value, float(value)
    return (value,) if isinstance(value, (str, bool, int, float)) else ()


def _flags(port_type: Flags) -> Check:
    cls = port_type.cls
    every = 0
    for member in cls:
        every |= member.value

    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        number = int(value) if type(value) is float and value.is_integer() else value
        if type(number) is not int or number < 0 or number & ~every:
            faults.append(
                Fault(path_text(path), f"expected {type_text(port_type)} (0 to {every}), got {json_kind(value)}")
            )
            return None
        return cls(number)

    return Check(_never, convert)


def _key_reader(key: PortType) -> Callable[[Any], Any] | None:
    """Return a function: key on the wire -> key in Python, or MISSING; None where texts stay as they are."""
    if isinstance(key, Scalar) and key.kind == "string" and key.constraints is None:
        return None
    if isinstance(key, Choice):
        by_text = {str(wire): member for wire, member in key.members}
        return lambda text: by_text.get(str(text), MISSING)
    assert isinstance(key, Scalar)  # `carry` refuses other keys
    fault_of = bounds_fault(key.constraints) if key.constraints else None

    def read(text: Any) -> Any:
        made: Any = text
        if key.kind == "integer":
            digits = text[1:] if isinstance(text, str) and text[:1] == "-" else text
            if isinstance(text, str) and not (digits.isascii() and digits.isdigit() and str(int(text)) == text):
                return MISSING
            made = int(text)
        return MISSING if fault_of is not None and fault_of(made) else made

    return read


def _builder(record: Record) -> Callable[[dict[str, Any]], Any]:
    """Return a function: fields -> the record's own object."""
    if record.form == "typeddict":
        defaults = [(f.name, fresh_default(f)) for f in record.fields if f.has_default]
        if not defaults:
            return lambda given: given

        def build(given: dict[str, Any]) -> Any:
            return {**{name: make() for name, make in defaults if name not in given}, **given}

        return build
    cls = record.cls
    return lambda given: cls(**given)


def _likeliest_first(pairs: list[tuple[PortType, Check]], value: Any) -> list[tuple[PortType, Check]]:
    """Return a union's members with the records that know most of an object's keys first, so that none gets lost."""
    if not isinstance(value, dict):
        return pairs

    def unknown(pair: tuple[PortType, Check]) -> int:
        member = pair[0]
        return sum(key not in {f.name for f in member.fields} for key in value) if isinstance(member, Record) else 0

    return sorted(pairs, key=unknown)


def _same_kind(member: PortType, value: Any) -> bool:
    """Tell whether a value is of the JSON kind that a type wants, so that its faults are the ones worth telling."""
    if isinstance(member, Alias):
        return _same_kind(member.target, value)
    if isinstance(value, dict):
        return isinstance(member, (Mapping, Record)) or (isinstance(member, Rich) and member.is_object)
    if isinstance(value, (list, tuple)):
        return isinstance(member, (Array, FixedArray))
    if isinstance(value, bool):
        return isinstance(member, Scalar) and member.kind == "boolean"
    if isinstance(value, (int, float)):
        return isinstance(member, Scalar) and member.kind in ("integer", "number")
    if isinstance(value, str):
        if isinstance(member, Rich):
            return not member.is_object
        return isinstance(member, (Base64, Choice)) or (isinstance(member, Scalar) and member.kind == "string")
    return False
