"""Inputs: a JSON value -> what the author's hint promises, or a fault for every place that does not fit.

A port type is compiled once into a `Check`: `accepts(value)` says quickly that a value may pass as it is, `convert`
does the rest and names the faults. Nothing is coerced (REQ-18, VAL-7): "5" is no integer, 1 is no truth value; 3.0 is
an integer, since JSON has one kind of number (SCH-3, VAL-6). An empty list is a value like any other (VAL-8).
"""

from __future__ import annotations

import sys

from .errors import Fault, shorten
from .faults import Check, Trial, bounds_fault, error_text, json_kind, path_text, settle
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
    uses,
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


def compile_check(port_type: PortType, *, raw_bytes: bool = False, non_finite: bool = False) -> Check:
    """Compile a port type into a `Check`.

    Args:
        port_type: The type.
        raw_bytes: Whether the wire carries bytes as they are; else they are base64 text.
        non_finite: Whether the wire carries NaN and infinity, so that a number may be one.
    """
    return _Compiler(raw_bytes, non_finite).compile(port_type)


class _Compiler:
    def __init__(self, raw_bytes: bool, non_finite: bool) -> None:
        self._raw_bytes, self._non_finite = raw_bytes, non_finite
        #: Checks in the making, by identity, so that a type may contain itself.
        self._memo: dict[int, Check] = {}

    def compile(self, port_type: PortType) -> Check:
        known = self._memo.get(id(port_type))
        if known is not None:
            return known
        if isinstance(port_type, Scalar):
            return _scalar(port_type, self._non_finite)
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
            if raw_bytes and isinstance(value, (bytes, bytearray, memoryview)):
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
            made = cls(data)
            message = fault_of(made) if fault_of else None
            if message:
                faults.append(Fault(path_text(path), message))
            return made

        return Check(_never, convert)

    def _array(self, port_type: Array) -> Check:
        item = self.compile(port_type.item)
        container = port_type.container
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None
        is_list = container is list
        only_lengths = not _has_predicates(port_type) and container in (list, tuple)

        def accepts(value: Any) -> bool:
            if not is_list or type(value) is not list or not all(map(item.accepts, value)):
                return False
            return fault_of is None or fault_of(value) is None

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not isinstance(value, (list, tuple)):
                faults.append(Fault(path_text(path), f"expected a list, got {json_kind(value)}"))
                return None
            before = len(faults)
            items = [
                one if item.accepts(one) else item.convert(one, (path, index), faults)
                for index, one in enumerate(value)
            ]
            made: Any = items
            fits = len(faults) == before
            if fits and not is_list:
                try:
                    made = container(items)
                except TypeError as error:  # an unhashable item of a set
                    faults.append(Fault(path_text(path), f"expected items for a {container.__name__}: {error}"))
                    return None
            # A set is as long as it is without doubles, and a predicate is for values that fit.
            message = fault_of(made) if fault_of is not None and (fits or only_lengths) else None
            if message:
                faults.append(Fault(path_text(path), message))
            return made if fits else None

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
        only_lengths = not _has_predicates(port_type)
        keys_are_texts = not self._raw_bytes  # JSON has no others; a wire that carries bytes may
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None

        def accepts(value: Any) -> bool:
            return (
                read_key is None
                and type(value) is dict
                and (keys_are_texts or all(type(key) is str for key in value))
                and all(map(check.accepts, value.values()))
                and (fault_of is None or fault_of(value) is None)
            )

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not isinstance(value, dict):
                faults.append(Fault(path_text(path), f"expected an object, got {json_kind(value)}"))
                return None
            before, made = len(faults), {}
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
            fits = len(faults) == before
            if fault_of is not None and (fits or only_lengths):
                message = fault_of(made if fits else value)
                if message:
                    faults.append(Fault(path_text(path), message))
            return made

        return Check(accepts, convert)

    def _record(self, record: Record) -> Check:
        fields = [(field, self.compile(field.type)) for field in record.fields if field.name not in record.computed]
        build = _builder(record)
        known = {name for field, _ in fields for name in (field.name, *field.aliases)}

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
            if isinstance(faults, Trial):
                faults.lost += len(value.keys() - known)
            try:
                return build(given)
            except Exception as error:  # noqa: BLE001  # __post_init__ of the author's class: its refusal is the fault
                faults.append(Fault(path_text(path), f"{record.name} refused it: {error_text(error)}"))
                return None

        return Check(_never, convert)

    def _union(self, union: Union) -> Check:
        pairs = [(member, self.compile(member)) for member in union.members]
        first, rest = pairs[0][1], [check for _, check in pairs[1:]]
        changing = [uses(_is_changing, member) for member in union.members]
        if len(pairs) == 2 and isinstance(union.members[1], Null):

            def accepts(value: Any) -> bool:
                return value is None or first.accepts(value)
        elif not any(changing[:-1]):

            def accepts(value: Any) -> bool:
                return first.accepts(value) or any(check.accepts(value) for check in rest)
        else:

            def accepts(value: Any) -> bool:
                for (member, check), changes in zip(pairs, changing, strict=True):
                    if check.accepts(value):
                        return True
                    if changes and _same_kind(member, value):
                        return False  # it comes first, and may make a date of the text that the next takes as it is
                return False

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if accepts(value):  # a part of a union may be exact where the whole was asked through a record
                return value
            fits: list[tuple[Any, Trial]] = []
            told: Trial | None = None
            for member, check in sorted(
                pairs, key=lambda pair: isinstance(pair[0], Scalar) and not pair[1].accepts(value)
            ):
                own = Trial()
                made = value if check.accepts(value) else check.convert(value, path, own)
                if own:
                    # A fraction is a number, but that it is no integer is not all that a union with texts has to say.
                    far = isinstance(member, Scalar) and member.kind == "integer" and type(value) is float
                    if _same_kind(member, value) and not far and (told is None or len(own) < len(told)):
                        told = own  # the member that comes nearest says what is wrong
                    continue
                fits.append((made, own))
                if not own.lost:
                    break
            if fits:
                return settle(fits, faults)
            faults.extend(told or [Fault(path_text(path), f"expected {type_text(union)}, got {json_kind(value)}")])
            return None

        return Check(accepts, convert)


def _has_predicates(port_type: Array | Mapping) -> bool:
    return port_type.constraints is not None and bool(port_type.constraints.predicates)


def _refuser(port_type: PortType) -> Callable[[Any, Path, list[Fault]], Any]:
    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        faults.append(Fault(path_text(path), f"expected {type_text(port_type)}, got {json_kind(value)}"))

    return convert


def _scalar(port_type: Scalar, non_finite: bool) -> Check:
    kind = port_type.kind
    fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None
    cls = {"string": str, "integer": int, "number": float, "boolean": bool}[kind]
    if kind == "number" and not non_finite:

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
    cls, every = port_type.cls, port_type.mask

    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        number = int(value) if type(value) is float and value.is_integer() else value
        if type(number) is int and number >= 0 and not number & ~every:
            return cls(number)
        faults.append(Fault(path_text(path), f"expected {type_text(port_type)} (0 to {every}), got {json_kind(value)}"))
        return None

    return Check(_never, convert)


def _key_reader(key: PortType) -> Callable[[Any], Any] | None:
    """Return a function: key on the wire -> key in Python, or MISSING; None where texts stay as they are."""
    if isinstance(key, Scalar) and key.kind == "string" and key.constraints is None:
        return None
    if isinstance(key, Choice):
        by_text = {str(wire): member for wire, member in key.members}
        return lambda text: by_text.get(str(text), MISSING) if type(text) in (str, int) else MISSING
    assert isinstance(key, Scalar)  # `carry` refuses other keys
    fault_of = bounds_fault(key.constraints) if key.constraints else None
    is_integer = key.kind == "integer"

    def read(text: Any) -> Any:
        made = text
        if is_integer and type(text) is str:
            made = _whole_number(text)
        if type(made) is not (int if is_integer else str):
            return MISSING
        return MISSING if fault_of is not None and fault_of(made) else made

    return read


def _whole_number(text: str) -> int | None:
    """Return the integer that a text spells in its one canonical way, as a key of an object does, or None."""
    try:
        number = int(text)
        return number if str(number) == text else None
    except ValueError:  # no digits, or more than Python converts
        return None


def _builder(record: Record) -> Callable[[dict[str, Any]], Any]:
    """Return a function: fields -> the record's own object."""
    # The class fills in the rest by itself.
    defaults = [(f.name, fresh_default(f)) for f in record.fields if f.has_default and not _is_filled_in(record, f)]
    if defaults:

        def complete(given: dict[str, Any]) -> dict[str, Any]:
            return {**{name: make() for name, make in defaults if name not in given}, **given}
    else:

        def complete(given: dict[str, Any]) -> dict[str, Any]:
            return given

    if record.form == "typeddict":
        return complete
    cls = record.cls
    return lambda given: cls(**complete(given))


def _is_filled_in(record: Record, field: Port) -> bool:
    """Tell whether a class makes a fresh default for a field by itself: a dataclass does, for its own defaults."""
    if field.name in record.computed:
        return True
    own = record.cls.__dataclass_fields__.get(field.name) if record.form == "dataclass" else None
    if own is None:
        return False
    return field.default is own.default or (
        field.default_factory is not None and field.default_factory is own.default_factory
    )


_NUMBERS = ("integer", "number")


def _is_changing(member: PortType) -> bool:
    """Tell whether a type makes something of a value that another type might take as it is."""
    if isinstance(member, Array):
        return member.container is not list
    if isinstance(member, Mapping):
        return _key_reader(member.key) is not None
    if isinstance(member, Choice):
        return member.cls is not None
    return isinstance(member, (Base64, FixedArray, Flags, Record, Rich))


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
        return isinstance(member, (Choice, Flags)) or (isinstance(member, Scalar) and member.kind in _NUMBERS)
    if isinstance(value, str):
        if isinstance(member, Rich):
            return not member.is_object
        return isinstance(member, (Base64, Choice)) or (isinstance(member, Scalar) and member.kind == "string")
    return False
