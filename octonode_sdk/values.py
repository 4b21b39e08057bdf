"""The one value policy: what a node returns -> what goes over the wire, or a fault that names port and path.

Never a silent change (RES-17): a value that JSON, or a JavaScript host, would alter is an error unless the node says
otherwise (`Policy`). The table of docs/values.md is made of these rules.
"""

from __future__ import annotations

import sys

from .checks import fresh_default
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
    from .ports import PortType

__all__ = ["MAX_EXACT_INTEGER", "Policy", "compile_dump", "find_cycle", "plain"]

#: The greatest integer up to which a JavaScript number holds every integer exactly (RES-18).
MAX_EXACT_INTEGER = 2**53

_INFINITY = float("inf")


class Policy:
    """How values that a host can't hold exactly are treated.

    Args:
        non_finite: "error", "null", "text" ("NaN", "Infinity", "-Infinity"), or "keep" for a wire that has them.
        big_integers: Integers beyond 2**53: "error" or "text" (decimal digits).
        raw_bytes: Whether the wire carries bytes as they are. Else a `bytes` port is base64 text, and bytes at a place
            that is declared as no bytes are an error.
        text_keys: Whether a key that is no text becomes one, as JavaScript writes it, where no type is declared for it.
            Else it is an error.
        wrap_bytes: Takes raw bytes and returns what stands for them in the message.
    """

    __slots__ = ("big_integers", "non_finite", "raw_bytes", "text_keys", "wrap_bytes")

    def __init__(
        self,
        *,
        non_finite: str = "error",
        big_integers: str = "error",
        raw_bytes: bool = False,
        text_keys: bool = False,
        wrap_bytes: Callable[[Any], Any] | None = None,
    ) -> None:
        self.non_finite, self.big_integers, self.raw_bytes = non_finite, big_integers, raw_bytes
        self.text_keys, self.wrap_bytes = text_keys, wrap_bytes

    def integer(self, value: int, path: Path, faults: list[Fault]) -> Any:
        """Return an integer for the wire."""
        if -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER:
            return value
        if self.big_integers == "text":
            return str(value)
        way_out = "declare the port str and return digits, or say @node(big_integers='text')"
        faults.append(
            Fault(path_text(path), f"the integer is beyond 2**53 and would lose digits at the host; {way_out}")
        )
        return None

    def number(self, value: float, path: Path, faults: list[Fault]) -> Any:
        """Return a float for the wire."""
        if -_INFINITY < value < _INFINITY or self.non_finite == "keep":
            return value
        name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        if self.non_finite == "null":
            return None
        if self.non_finite == "text":
            return name
        way_out = "return a finite number, or say @node(non_finite='null') or 'text'"
        faults.append(Fault(path_text(path), f"{name} is not JSON; {way_out}"))
        return None


def plain(value: Any, path: Path, faults: list[Fault], policy: Policy) -> Any:
    """Return a value of any type as plain JSON values, adding a fault for each place that has no such form."""
    cls = type(value)
    if cls is str or value is None or cls is bool:
        return value
    if cls is int:
        return policy.integer(value, path, faults)
    if cls is float:
        return policy.number(value, path, faults)
    if cls is dict:
        made: dict[str, Any] = {}
        for key, one in value.items():
            text = key if type(key) is str else _plain_key(key, path, faults, policy)
            if text in made:
                faults.append(_doubled(text, path))
            made[text] = plain(one, (path, text), faults, policy)
        return made
    if cls is list or cls is tuple:
        items = []
        for index, one in enumerate(value):  # a loop, since a comprehension would double the depth that fits the stack
            items.append(plain(one, (path, index), faults, policy))
        return items
    return _plain_other(value, path, faults, policy)


def _doubled(text: str, path: Path) -> Fault:
    return Fault(path_text((path, text)), "two keys of the dict are this text in JSON, and one value would be lost")


def _plain_key(key: Any, path: Path, faults: list[Fault], policy: Policy) -> str:
    enum = sys.modules.get("enum")
    if enum is not None and isinstance(key, enum.Enum) and isinstance(key.value, str):
        key = key.value
    if isinstance(key, str):
        return str.__str__(key)
    if policy.text_keys:
        from .shapes import key_text

        text = key_text(key)
        if text is not None:
            return text
    way_out = "make the keys texts, or declare the port dict[int, ...]"
    text = shorten(key)
    faults.append(Fault(path_text((path, text)), f"the key {text} is a {type(key).__name__}; {way_out}"))
    return text


def _plain_other(value: Any, path: Path, faults: list[Fault], policy: Policy) -> Any:
    """The rest of `plain`: what is neither of JSON's own types nor a plain container."""
    cls: Any = type(value)
    enum = sys.modules.get("enum")
    if enum is not None and isinstance(value, enum.Enum):
        return plain(value.value, path, faults, policy)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return policy.integer(int.__int__(value), path, faults)
    if isinstance(value, tuple) and hasattr(cls, "_fields"):
        return {name: plain(getattr(value, name), (path, name), faults, policy) for name in cls._fields}
    if isinstance(value, (set, frozenset)):
        from .shapes import in_order

        return [plain(one, (path, index), faults, policy) for index, one in enumerate(in_order(value))]
    if isinstance(value, dict) or cls.__name__ == "mappingproxy":
        return plain(dict(value), path, faults, policy)
    if isinstance(value, (list, tuple)):
        return plain(list(value), path, faults, policy)
    if isinstance(value, (bytes, bytearray, memoryview)):
        if policy.raw_bytes:
            return _whole_bytes(value, policy)
        way_out = "declare the place bytes to send it as base64"
        faults.append(Fault(path_text(path), f"{cls.__name__} has no JSON form here; {way_out}"))
        return None
    if hasattr(cls, "__pydantic_validator__"):
        from .rich import dump_model

        before = len(faults)
        dumped = dump_model(value, path, faults)
        return None if len(faults) > before else plain(dumped, path, faults, policy)
    if hasattr(cls, "__dataclass_fields__"):
        return {name: plain(getattr(value, name), (path, name), faults, policy) for name in _field_names(cls, value)}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
        return _plain_numpy(value, path, faults, policy)
    if isinstance(value, float):
        return policy.number(float.__float__(value), path, faults)
    from .rich import text_form

    try:
        text = text_form(value)
    except ValueError as error:
        faults.append(Fault(path_text(path), str(error)))
        return None
    if text is not MISSING:
        return policy.number(text, path, faults) if type(text) is float else text
    way_out = "return text, numbers, lists or dicts"
    faults.append(Fault(path_text(path), f"a value of type {cls.__qualname__} has no JSON form; {way_out}"))
    return None


def _whole_bytes(value: Any, policy: Policy | None = None) -> Any:
    """Return bytes for a wire that takes them raw, without a copy; a view with gaps or wide items as a plain one."""
    if isinstance(value, memoryview) and not (value.contiguous and value.format == "B" and value.ndim == 1):
        value = value.tobytes()
    return value if policy is None or policy.wrap_bytes is None else policy.wrap_bytes(value)


def _plain_numpy(value: Any, path: Path, faults: list[Fault], policy: Policy) -> Any:
    """A numpy scalar or 0-d array is its number; an array is nested lists. numpy is loaded already if one exists."""
    from .shapes import is_exact_array

    if is_exact_array(value):
        return plain(value.tolist(), path, faults, policy)
    way_out = "convert it to a dtype of JSON (bool, int, float, text)"
    faults.append(Fault(path_text(path), f"a numpy value of dtype {value.dtype} has no JSON form; {way_out}"))
    return None


def _field_names(cls: Any, value: Any) -> list[str]:
    fields = cls.__dataclass_fields__.items()
    return [name for name, field in fields if field._field_type.name == "_FIELD" and hasattr(value, name)]


def compile_dump(port_type: PortType, policy: Policy) -> Check:
    """Compile a port type into a `Check` for values that leave the node.

    `accepts` says that a value is valid and JSON already; `convert` makes it so, or names the faults. The shape follows
    the declaration, never the value: a text port does not take a number that could be written as text.
    """
    return _Compiler(policy).compile(port_type)


def _never(_value: Any) -> bool:
    return False


class _Compiler:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        #: Dumps in the making, by identity, so that a type may contain itself.
        self._memo: dict[int, Check] = {}

    def compile(self, port_type: PortType) -> Check:
        known = self._memo.get(id(port_type))
        if known is not None:
            return known
        policy = self._policy
        if isinstance(port_type, Scalar):
            return self._scalar(port_type)
        if isinstance(port_type, Anything):
            return Check(_never, lambda value, path, faults: plain(value, path, faults, policy))
        if isinstance(port_type, Null):
            return Check(lambda value: value is None, _refuser(port_type))
        if isinstance(port_type, Union):
            return self._union(port_type)
        if isinstance(port_type, (Choice, Flags)):
            return _member(port_type)
        if isinstance(port_type, Base64):
            return self._base64(port_type)
        if isinstance(port_type, Array):
            return self._array(port_type)
        if isinstance(port_type, FixedArray):
            return self._fixed(port_type)
        if isinstance(port_type, Mapping):
            return self._mapping(port_type)
        if isinstance(port_type, Rich):
            from .rich import rich_dump

            dump = rich_dump(port_type)

            def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
                before = len(faults)
                made = dump(value, path, faults)
                return None if len(faults) > before else plain(made, path, faults, policy)

            return Check(_never, convert)
        forward = self._memo[id(port_type)] = Check(_never)
        made = self.compile(port_type.target) if isinstance(port_type, Alias) else self._record(port_type)
        forward.accepts, forward.convert = made.accepts, made.convert
        return forward

    def _scalar(self, port_type: Scalar) -> Check:
        kind, policy = port_type.kind, self._policy
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None
        exact = _EXACT[kind]

        def accepts(value: Any) -> bool:
            return exact(value) and (fault_of is None or fault_of(value) is None)

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            from .shapes import as_scalar

            own = as_scalar(kind, value)
            if own is MISSING:
                faults.append(Fault(path_text(path), f"expected {SCALAR_NAMES[kind]}, got {json_kind(value)}"))
                return None
            message = fault_of(own) if fault_of else None
            if message:
                faults.append(Fault(path_text(path), message))
                return None
            if type(own) is int:
                return policy.integer(own, path, faults)
            return policy.number(own, path, faults) if type(own) is float else own

        return Check(exact if fault_of is None else accepts, convert)

    def _base64(self, port_type: Base64) -> Check:
        policy = self._policy
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                faults.append(Fault(path_text(path), f"expected bytes, got {json_kind(value)}"))
                return None
            value = _whole_bytes(value)
            message = fault_of(value) if fault_of else None
            if message:
                faults.append(Fault(path_text(path), message))
            if policy.raw_bytes:
                return value if policy.wrap_bytes is None else policy.wrap_bytes(value)
            import binascii

            return binascii.b2a_base64(value, newline=False).decode("ascii")

        return Check(_never, convert)

    def _array(self, port_type: Array) -> Check:
        item = self.compile(port_type.item)
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None
        container = port_type.container
        is_set = container in (set, frozenset)

        def accepts(value: Any) -> bool:
            if is_set or type(value) is not list or not all(map(item.accepts, value)):
                return False
            return fault_of is None or fault_of(value) is None

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            items = value if type(value) is list and not is_set else _items_of(value, is_set)
            if items is None:
                wanted = "a set" if is_set else "a list"
                faults.append(Fault(path_text(path), f"expected {wanted}, got {json_kind(value)}"))
                return None
            message = fault_of(value if isinstance(value, container) else items) if fault_of else None
            if message:
                faults.append(Fault(path_text(path), message))
            return [
                one if item.accepts(one) else item.convert(one, (path, index), faults)
                for index, one in enumerate(items)
            ]

        return Check(accepts, convert)

    def _fixed(self, port_type: FixedArray) -> Check:
        checks = [self.compile(one) for one in port_type.items]
        size = len(checks)

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            items = _items_of(value, False)
            if items is None or len(items) != size:
                got = json_kind(value if items is None else items)
                faults.append(Fault(path_text(path), f"expected exactly {size} items, got {got}"))
                return None
            return [
                one if check.accepts(one) else check.convert(one, (path, index), faults)
                for index, (one, check) in enumerate(zip(items, checks, strict=True))
            ]

        return Check(_never, convert)

    def _mapping(self, port_type: Mapping) -> Check:
        check = self.compile(port_type.value)
        fault_of = bounds_fault(port_type.constraints) if port_type.constraints else None
        key_type = port_type.key
        plain_keys = isinstance(key_type, Scalar) and key_type.kind == "string" and key_type.constraints is None
        # A key is a text in JSON, whose digits no host rounds.
        digits = Policy(non_finite=self._policy.non_finite, big_integers="text")
        key_check = None if plain_keys else compile_dump(key_type, digits)

        def accepts(value: Any) -> bool:
            return (
                key_check is None
                and type(value) is dict
                and all(type(key) is str for key in value)
                and all(map(check.accepts, value.values()))
                and (fault_of is None or fault_of(value) is None)
            )

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not _is_mapping(value):
                faults.append(Fault(path_text(path), f"expected a dict, got {json_kind(value)}"))
                return None
            message = fault_of(value) if fault_of else None
            if message:
                faults.append(Fault(path_text(path), message))
            made: dict[str, Any] = {}
            for key, one in value.items():
                if key_check is None:
                    text = key if type(key) is str else _plain_key(key, path, faults, self._policy)
                else:
                    before = len(faults)
                    text = str(key_check.convert(key, (path, shorten(key)), faults))
                    if len(faults) > before:
                        continue
                if text in made:
                    faults.append(_doubled(text, path))
                made[text] = one if check.accepts(one) else check.convert(one, (path, text), faults)
            return made

        return Check(accepts, convert)

    def _record(self, record: Record) -> Check:
        fields = [(field, self.compile(field.type)) for field in record.fields]
        attributes = [(field.name, record.attributes.get(field.name, field.name)) for field in record.fields]
        names = {field.name for field in record.fields}
        is_instance = _instance_test(record)
        # A mapping may leave out what the class would have filled in; a TypedDict fills in nothing.
        defaults = {f.name: fresh_default(f) for f in record.fields if f.has_default and record.form != "typeddict"}

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            if is_instance(value):
                given: Any = {name: getattr(value, attribute, MISSING) for name, attribute in attributes}
            elif _is_mapping(value):
                given = value
            else:
                faults.append(Fault(path_text(path), f"expected {record.name}, got {json_kind(value)}"))
                return None
            for key in given:
                if key not in names:
                    known = ", ".join(sorted(names))
                    at = path_text((path, key if isinstance(key, str) else shorten(key)))
                    faults.append(Fault(at, f"is no field of {record.name}, which has {known}"))
            made = {}
            for field, check in fields:
                name = field.name
                one = given[name] if name in given else defaults[name]() if name in defaults else MISSING
                if one is MISSING:
                    if field.required or record.form != "typeddict":
                        message = f"is missing: {record.name} requires it ({type_text(field.type)})"
                        faults.append(Fault(path_text((path, field.name)), message))
                    continue
                made[field.name] = one if check.accepts(one) else check.convert(one, (path, field.name), faults)
            return made

        return Check(_never, convert)

    def _union(self, union: Union) -> Check:
        pairs = [(member, self.compile(member)) for member in union.members]

        def accepts(value: Any) -> bool:
            return any(check.accepts(value) for _, check in pairs)

        def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
            from .shapes import FOREIGN, distance, is_iterator

            if is_iterator(value):
                value = list(value)  # once: the second member to look at an iterator would find it empty
            told: list[Fault] | None = None
            for member, check in sorted(pairs, key=lambda pair: distance(pair[0], value)):
                own: list[Fault] = []
                made = check.convert(value, path, own)
                if not own:
                    return made
                if distance(member, value) < FOREIGN and (told is None or len(own) < len(told)):
                    told = own  # the member that comes nearest says what is wrong
            faults.extend(told or [Fault(path_text(path), f"expected {type_text(union)}, got {json_kind(value)}")])
            return None

        return Check(accepts, convert)


def _refuser(port_type: PortType) -> Callable[[Any, Path, list[Fault]], Any]:
    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        faults.append(Fault(path_text(path), f"expected {type_text(port_type)}, got {json_kind(value)}"))

    return convert


#: Whether a value is valid JSON for a scalar as it is, without any doubt.
_EXACT: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: type(v) is str,
    "boolean": lambda v: type(v) is bool,
    "integer": lambda v: type(v) is int and -MAX_EXACT_INTEGER <= v <= MAX_EXACT_INTEGER,
    "number": lambda v: (
        (type(v) is float and -_INFINITY < v < _INFINITY)
        or (type(v) is int and -MAX_EXACT_INTEGER <= v <= MAX_EXACT_INTEGER)
    ),
}


def _member(port_type: Choice | Flags) -> Check:
    """Dump a member of a Literal or an Enum; its value on the wire is taken as well."""
    if isinstance(port_type, Flags):
        cls, every = port_type.cls, port_type.mask

        def convert_flags(value: Any, path: Path, faults: list[Fault]) -> Any:
            if not isinstance(value, cls):
                faults.append(Fault(path_text(path), f"expected a {cls.__name__}, got {json_kind(value)}"))
                return None
            number = int(value.value)
            if number & ~every:  # an IntFlag keeps bits that no member has
                wanted = f"{type_text(port_type)} (0 to {every})"
                faults.append(Fault(path_text(path), f"expected {wanted}, got {json_kind(number)}"))
            return number

        return Check(_never, convert_flags)
    wires = {(type(wire), wire) for wire, _ in port_type.members}
    types = {cls for cls, _ in wires}

    def accepts(value: Any) -> bool:
        cls = type(value)
        return cls in types and (cls, value) in wires

    def convert(value: Any, path: Path, faults: list[Fault]) -> Any:
        if accepts(value):
            return value
        from .shapes import number_of

        value = number_of(value)
        if accepts(value):
            return value
        for wire, member in port_type.members:
            if value is member or (isinstance(value, str) and type(wire) is str and str.__str__(value) == wire):
                return wire
        faults.append(Fault(path_text(path), f"expected {type_text(port_type)}, got {json_kind(value)}"))
        return None

    return Check(accepts, convert)


def _items_of(value: Any, is_set: bool) -> list[Any] | None:
    from .shapes import items_of

    return items_of(value, is_set)


def _is_mapping(value: Any) -> bool:
    if isinstance(value, dict):
        return True
    from .shapes import is_mapping

    return is_mapping(value)


def _instance_test(record: Record) -> Callable[[Any], bool]:
    if record.form == "typeddict":
        return lambda value: False
    return lambda value: isinstance(value, record.cls)


def find_cycle(value: Any) -> Path | bool:
    """Return the path at which a container holds itself, or False. Does not recurse: the value is deep by nature."""
    above: dict[int, None] = {}
    stack: list[tuple[Any, Path, bool]] = [(value, None, False)]
    while stack:
        one, path, leaving = stack.pop()
        if leaving:
            del above[id(one)]
            continue
        pairs: Any
        if isinstance(one, dict):
            pairs = one.items()
        elif isinstance(one, (list, tuple, set)):
            pairs = enumerate(one)
        elif hasattr(type(one), "__dataclass_fields__") or hasattr(type(one), "__pydantic_validator__"):
            pairs = getattr(one, "__dict__", {}).items()
        else:
            continue
        if id(one) in above:
            return path
        above[id(one)] = None
        stack.append((one, path, True))
        stack.extend(
            (inner, (path, key if isinstance(key, (int, str)) else shorten(key)), False) for key, inner in pairs
        )
    return False
