"""Types and names that the hints of the test tables use, and what makes a node of a hint."""

import collections.abc as cabc
import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import typing
import uuid
from typing import Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import annotated_types
import pydantic
import typing_extensions
from typing_extensions import Annotated, NotRequired, Required, TypeAliasType

from octonode_sdk import Context, Field, node
from octonode_sdk.manifest import manifest
from octonode_sdk.nodes import Node, node_of
from tests import hinted_base

__all__ = ["NAMES", "WithDefault", "input_schema", "node_with", "outputs_schema"]

T = TypeVar("T")
K = TypeVar("K")
Bounded = TypeVar("Bounded", bound=int)
Constrained = TypeVar("Constrained", int, str)

UserId = NewType("UserId", int)
Names = list[str]
Pair = tuple[T, T]
Table = dict[K, list[T]]
Row = TypeAliasType("Row", "list[int | None]")
Many = TypeAliasType("Many", list[T], type_params=(T,))
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | float | bool | None")
Nest = TypeAliasType("Nest", "list[Nest[T]] | T", type_params=(T,))
CallContext = TypeAliasType("CallContext", Context)
Pieces = TypeAliasType("Pieces", "cabc.Iterator[str]")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Tone(enum.StrEnum):
    WARM = "warm"
    DRY = "dry"


class Mixed(enum.Enum):
    NAME = "name"
    ZERO = 0
    HALF = 0.5
    YES = True


class Whole(int):
    """An integer of a class of its own."""


class OwnInts(enum.Enum):
    ONE = Whole(1)
    ALSO_ONE = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


class Pairs(enum.Enum):
    ORIGIN = (0, 0)


class Empty(enum.Enum):
    """It has no members."""


class Movie(TypedDict):
    """A film."""

    title: str
    year: NotRequired[int]


class Partial(TypedDict, total=False):
    title: Required[str]
    year: int
    note: Annotated[NotRequired[str], Field(max_length=3)]


class Sequel(Partial):
    number: int
    before: NotRequired[Movie]


class GenericDict(TypedDict, Generic[T]):
    item: T
    more: NotRequired[list[T]]


class Point(NamedTuple):
    x: float
    y: float = 0.0


class NamedPoint(Point):
    """A point whose own annotation is no field."""

    label: str = ""


class GenericPair(NamedTuple, Generic[T]):
    first: T
    second: T


@dataclasses.dataclass
class Box:
    """A box,
    with a lid.

    It has more to say.
    """

    width: int
    height: Annotated[int, Field(ge=0, description="in pixels")] = 1
    tags: list[str] = dataclasses.field(default_factory=list)
    area: int = dataclasses.field(init=False, default=0)
    note: str = dataclasses.field(default="", metadata={"description": "free text"})
    unit: typing.ClassVar[str] = "px"

    def __post_init__(self) -> None:
        self.area = self.width * self.height


@dataclasses.dataclass(kw_only=True, slots=True)
class Crate(Box):
    depth: int | None


@dataclasses.dataclass
class Tree:
    value: int
    children: "list[Tree]" = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Chain:
    value: int
    next: typing_extensions.Self | None = None


@dataclasses.dataclass
class LongChain(Chain):
    extra: str = ""


@dataclasses.dataclass
class Left:
    rights: "list[Right]"


@dataclasses.dataclass
class Right:
    lefts: "list[Left]"


@dataclasses.dataclass
class Wrapped(Generic[T]):
    item: T
    more: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class TwiceWrapped(Generic[T]):
    one: Wrapped[T]
    all: "list[Wrapped[T]]"


@dataclasses.dataclass
class WrappedInts(Wrapped[int]):
    name: str = ""


@dataclasses.dataclass
class Endless(Generic[T]):
    inner: "Endless[list[T]] | None" = None


class Heir(Box):
    """No dataclass itself."""


@dataclasses.dataclass
class WithInitVar:
    seed: dataclasses.InitVar[int]


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    name: str


class Owner(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
    name: str = pydantic.Field(description="who", min_length=1)


class Aliased(pydantic.BaseModel):
    size: int = pydantic.Field(alias="the-size")
    unit: str = pydantic.Field("px", serialization_alias="theUnit", description="of the size")
    hidden: int = pydantic.Field(0, exclude=True)

    @pydantic.computed_field(description="twice the size")  # type: ignore[prop-decorator]  # pydantic's documented form
    @property
    def double(self) -> int:
        return self.size * 2


class Part(pydantic.BaseModel):
    name: str
    parts: list["Part"] = []


class SelfPart(pydantic.BaseModel):
    parts: list[typing_extensions.Self] = []


class Generic1(pydantic.BaseModel, Generic[T]):
    item: T


class IntList(pydantic.RootModel[list[int]]):
    """A list as a model."""


@pydantic.dataclasses.dataclass
class Checked:
    count: int
    names: list[str] = dataclasses.field(default_factory=list)


class WithCallable(pydantic.BaseModel):
    call: typing.Callable[[int], int]


class WithUnknown(pydantic.BaseModel):
    one: "Unknown"  # type: ignore[name-defined]  # noqa: F821  # a model that is not fully defined


class Session:
    """Something that no wire carries."""


class OwnText(str):
    """A text of a class of its own."""


#: What the hints in the tables may name beside this module's own types.
_MODULES = {
    "annotated_types": annotated_types,
    "cabc": cabc,
    "datetime": datetime,
    "decimal": decimal,
    "functools": functools,
    "hinted_base": hinted_base,
    "pathlib": pathlib,
    "pydantic": pydantic,
    "te": typing_extensions,
    "uuid": uuid,
}

#: What the hints in the tables may name. Every name of typing is there, since every spelling is tried.
NAMES: dict[str, Any] = {**{name: getattr(typing, name) for name in typing.__all__}, **globals(), **_MODULES}


class WithDefault:
    """A hint with the default of its parameter."""

    def __init__(self, hint: Any, default: Any) -> None:
        self.hint, self.default = hint, default


def node_with(**hints: Any) -> Node:
    """Return a node whose parameters have these hints, some `WithDefault`; `return_` is that of its outputs."""
    returns = hints.pop("return_", None)
    given = {name: hint if isinstance(hint, WithDefault) else WithDefault(hint, None) for name, hint in hints.items()}
    written = [f"{name}=GIVEN[{name!r}].default" if isinstance(hints[name], WithDefault) else name for name in hints]
    scope: dict[str, Any] = {**NAMES, "GIVEN": given}
    exec(f"def fn({', '.join(written)}): ...", scope)
    fn = scope["fn"]
    fn.__annotations__ = {**{name: one.hint for name, one in given.items()}, "return": returns}
    return node_of(node(fn))


def input_schema(hint: Any) -> tuple[dict[str, Any], bool]:
    """Return the schema of an input with this hint, its `$defs` beside it, and whether the input is required."""
    inputs = manifest(node_with(x=hint))["inputs"]
    schema = {**inputs["properties"]["x"], **({"$defs": inputs["$defs"]} if "$defs" in inputs else {})}
    return schema, inputs.get("required") == ["x"]


def outputs_schema(hint: Any) -> dict[str, Any]:
    """Return the schema of the outputs of a node with this return hint."""
    schema: dict[str, Any] = manifest(node_with(return_=hint))["outputs"]
    return schema
