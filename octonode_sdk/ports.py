"""Port types: what a value of a port may be, as plain data.

One tree of these is made from a function's hints (`hints`), and read by the JSON Schema (`schema`), by the checks of
inputs (`checks`) and by the conversion of outputs (`values`). A tree may contain itself: a `Record` or an `Alias` that
refers to itself is the same object again, so whoever walks a tree remembers where it has been.
"""

from __future__ import annotations

from .field import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

__all__ = [
    "ANY",
    "BOUNDS",
    "NULL",
    "SCALAR_NAMES",
    "Alias",
    "Anything",
    "Array",
    "Base64",
    "Choice",
    "Constraints",
    "FixedArray",
    "Flags",
    "Mapping",
    "Null",
    "Port",
    "PortType",
    "Record",
    "Rich",
    "Scalar",
    "Union",
    "inner_types",
    "is_nullable",
    "type_text",
    "uses",
]

#: How messages call the scalars.
SCALAR_NAMES = {"string": "a text", "integer": "an integer", "number": "a number", "boolean": "true or false"}

#: Names of the bounds, in the order in which they are checked and published.
BOUNDS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")


class _Data:
    """Plain data with slots: compared and shown by its fields, like a dataclass, without importing dataclasses.

    `dataclasses` costs more start-up time than the whole of this package.
    """

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, s) == getattr(other, s) for s in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # some hold lists; nothing keys by them

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{s}={getattr(self, s)!r}' for s in self.__slots__)})"


class Constraints(_Data):
    """Bounds of one type. A bound that was not given is None; a given 0 is 0.

    `predicates` are callables that the value has to satisfy; JSON Schema can't say them, so they are checked only.
    """

    __slots__ = (*BOUNDS, "predicates")

    ge: float | None
    gt: float | None
    le: float | None
    lt: float | None
    multiple_of: float | None
    min_length: int | None
    max_length: int | None
    pattern: str | None
    predicates: tuple[Callable[[Any], Any], ...]

    def __init__(self, bounds: dict[str, Any]) -> None:
        for name in BOUNDS:
            setattr(self, name, bounds.get(name))
        self.predicates = tuple(bounds.get("predicates", ()))

    def given(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, value) of each bound that was given, predicates excepted."""
        for name in BOUNDS:
            value = getattr(self, name)
            if value is not None:
                yield name, value


class Anything(_Data):
    """Any JSON value."""

    __slots__ = ()


class Null(_Data):
    """None only."""

    __slots__ = ()


ANY = Anything()
NULL = Null()


class Scalar(_Data):
    """A text, number or truth value; `kind` is JSON Schema's word: string, integer, number, boolean."""

    __slots__ = ("constraints", "kind")

    def __init__(self, kind: str, constraints: Constraints | None = None) -> None:
        self.kind, self.constraints = kind, constraints


class Base64(_Data):
    """`bytes`: base64 text in JSON, raw bytes where the wire has them. `mutable` is a bytearray."""

    __slots__ = ("constraints", "mutable")

    def __init__(self, constraints: Constraints | None = None, mutable: bool = False) -> None:
        self.constraints, self.mutable = constraints, mutable


class Choice(_Data):
    """One of some values: `Literal` or an Enum.

    Attributes:
        members: (value on the wire, value in Python) in the order of their definition.
        cls: The Enum class, or None for a Literal.
    """

    __slots__ = ("cls", "members")

    def __init__(self, members: list[tuple[Any, Any]], cls: type | None = None) -> None:
        self.members, self.cls = members, cls


class Flags(_Data):
    """An `enum.Flag`, carried as its integer."""

    __slots__ = ("cls",)

    def __init__(self, cls: Any) -> None:
        self.cls = cls

    @property
    def mask(self) -> int:
        """Every bit that a member has."""
        bits = 0
        for member in self.cls.__members__.values():
            bits |= member.value
        return bits


class Array(_Data):
    """Items of one type; `container` is list, tuple, set or frozenset."""

    __slots__ = ("constraints", "container", "item")

    def __init__(self, item: PortType, container: type = list, constraints: Constraints | None = None) -> None:
        self.item, self.container, self.constraints = item, container, constraints


class FixedArray(_Data):
    """A tuple of fixed length, a type for each place."""

    __slots__ = ("items",)

    def __init__(self, items: list[PortType]) -> None:
        self.items = items


class Mapping(_Data):
    """A dict. JSON's keys are texts; `key` is the type that they stand for (text, integer, Literal, Enum)."""

    __slots__ = ("constraints", "key", "value")

    def __init__(self, key: PortType, value: PortType, constraints: Constraints | None = None) -> None:
        self.key, self.value, self.constraints = key, value, constraints


class Record(_Data):
    """Named fields: a TypedDict, NamedTuple or dataclass.

    Attributes:
        name: Name of the class.
        cls: The class itself.
        form: "typeddict", "namedtuple", "dataclass" or "model" (pydantic's, where its fields are a node's outputs).
        fields: A port each. Filled after construction, since a field may refer to the record.
        computed: Names of the fields that the class fills itself: outputs, but no inputs.
        attributes: The attribute of each field whose name on the wire is another.
    """

    __slots__ = ("attributes", "cls", "computed", "doc", "fields", "form", "name")

    def __init__(self, name: str, cls: Any, form: str, doc: str | None = None) -> None:
        self.name, self.cls, self.form, self.doc = name, cls, form, doc
        self.fields: list[Port] = []
        self.computed: frozenset[str] = frozenset()
        self.attributes: dict[str, str] = {}

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None

    def __repr__(self) -> str:
        return f"Record({self.name!r})"


class Alias(_Data):
    """A named type alias that refers to itself (`type Tree = list[Tree]`); `target` is set once it is known."""

    __slots__ = ("name", "target")

    target: PortType

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None

    def __repr__(self) -> str:
        return f"Alias({self.name!r})"


class Rich(_Data):
    """A type whose checks and schema are pydantic's: models, dates, Decimal, UUID, Path.

    `hint` is what pydantic gets, with `constraints` added; `name` is for messages. pydantic is loaded when the port is
    first used. `cls` is what an output has to be an instance of; object where only pydantic can tell. `nullable` says
    that None is one of its values.
    """

    __slots__ = ("cls", "constraints", "hint", "name", "nullable")

    def __init__(
        self, hint: Any, cls: Any, name: str, constraints: Constraints | None = None, *, nullable: bool = False
    ) -> None:
        self.hint, self.cls, self.name, self.constraints, self.nullable = hint, cls, name, constraints, nullable

    @property
    def is_object(self) -> bool:
        """Whether its JSON form is an object: pydantic's models and dataclasses, and what only pydantic can tell."""
        return self.cls is object or hasattr(self.cls, "__pydantic_validator__")


class Union(_Data):
    """One of several types; null, where it is one of them, comes last."""

    __slots__ = ("members",)

    def __init__(self, members: list[PortType]) -> None:
        self.members = members


PortType: TypeAlias = (
    "Anything | Null | Scalar | Base64 | Choice | Flags | Array | FixedArray | Mapping | Record | Alias | Rich | Union"
)


def is_nullable(port_type: PortType) -> bool:
    """Tell whether None is a value of the type."""
    if isinstance(port_type, Union):
        return any(is_nullable(member) for member in port_type.members)
    if isinstance(port_type, Alias):
        return is_nullable(port_type.target)
    if isinstance(port_type, Rich):
        return port_type.nullable
    return isinstance(port_type, (Null, Anything))


def type_text(port_type: PortType) -> str:
    """Return a port type in the words of the messages."""
    if isinstance(port_type, Scalar):
        return SCALAR_NAMES[port_type.kind]
    if isinstance(port_type, Anything):
        return "any JSON value"
    if isinstance(port_type, Null):
        return "null"
    if isinstance(port_type, Base64):
        return "bytes"
    if isinstance(port_type, Choice):
        shown = ", ".join(repr(wire) for wire, _ in port_type.members[:12])
        return f"one of {shown}" + (", ..." if len(port_type.members) > 12 else "")
    if isinstance(port_type, Flags):
        return f"the integer of a {port_type.cls.__name__}"
    if isinstance(port_type, (Array, FixedArray)):
        return "a list"
    if isinstance(port_type, (Mapping, Record)):
        return "an object"
    if isinstance(port_type, Union):
        names = [type_text(member) for member in port_type.members]
        unique = list(dict.fromkeys(names))
        return ", ".join(unique[:-1]) + (" or " if unique[:-1] else "") + unique[-1]
    if isinstance(port_type, Alias):
        return type_text(port_type.target)
    return f"a {port_type.name}"


class Port(_Data):
    """One input, output or field of a record.

    Attributes:
        name: Key on the wire.
        type: What it may be.
        default: Value when it is left out, or MISSING.
        default_factory: Makes that value anew for each call, or None.
        required: Whether leaving it out is an error.
        title, description, examples: For people; None where the author gave none.
        aliases: Earlier names that are still accepted.
    """

    __slots__ = (
        "aliases",
        "default",
        "default_factory",
        "description",
        "examples",
        "name",
        "required",
        "title",
        "type",
    )

    def __init__(
        self,
        name: str,
        port_type: PortType,
        *,
        default: Any = MISSING,
        default_factory: Callable[[], Any] | None = None,
        required: bool = True,
        title: str | None = None,
        description: str | None = None,
        examples: list[Any] | None = None,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.name, self.type = name, port_type
        self.default, self.default_factory, self.required = default, default_factory, required
        self.title, self.description, self.examples, self.aliases = title, description, examples, aliases

    @property
    def has_default(self) -> bool:
        """Whether there is a value for a call that leaves the port out, apart from null."""
        return self.default is not MISSING or self.default_factory is not None


def uses(kind: Callable[[PortType], bool], port_type: PortType, seen: set[int] | None = None) -> bool:
    """Tell whether `kind` holds for the type or for any type inside it."""
    seen = set() if seen is None else seen
    if id(port_type) in seen:
        return False
    seen.add(id(port_type))
    return kind(port_type) or any(uses(kind, inner, seen) for inner in inner_types(port_type))


def inner_types(port_type: PortType) -> list[PortType]:
    """Return the types directly inside a type."""
    if isinstance(port_type, Union):
        return port_type.members
    if isinstance(port_type, FixedArray):
        return port_type.items
    if isinstance(port_type, Array):
        return [port_type.item]
    if isinstance(port_type, Mapping):
        return [port_type.key, port_type.value]
    if isinstance(port_type, Record):
        return [field.type for field in port_type.fields]
    return [port_type.target] if isinstance(port_type, Alias) else []
