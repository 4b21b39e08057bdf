"""Hints to port types: what is carried, that spellings do not matter, and what is refused with which words."""

import sys
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pydantic
import pytest
import typing_extensions

from octonode_sdk import DefinitionError, Field, node
from octonode_sdk.manifest import manifest
from octonode_sdk.nodes import node_of
from octonode_sdk.ports import Array, Port, Rich, Scalar
from tests import hinted, hinted_base
from tests.data_cases import load_cases, parametrize_cases
from tests.hinted import WithDefault, input_schema, node_with, outputs_schema

NewModule = Callable[[str, str], dict[str, Any]]


def evaluate(text: str) -> Any:
    """Return a hint of the tables as an object."""
    return eval(text, dict(hinted.NAMES))


def without(keys: list[str], schema: Any) -> Any:
    """Return a schema without some keywords, wherever they stand."""
    if isinstance(schema, list):
        return [without(keys, one) for one in schema]
    if isinstance(schema, dict):
        return {key: without(keys, one) for key, one in schema.items() if key not in keys}
    return schema


def only_port(hint: Any) -> Port:
    (port,) = node_with(x=hint).inputs
    return port


@parametrize_cases("hints/carried")
def test_every_spelling_of_a_hint_gives_the_one_schema(case: dict[str, Any]) -> None:
    """MAN-18, and the rule of the case: as objects and as texts, which postponed annotations are."""
    for text in case["hints"]:
        for hint in (evaluate(text), text, Annotated[text, Field()], typing.ForwardRef(text)):
            schema, required = input_schema(hint)
            # What the releases of pydantic write differently is named in the case.
            assert (without(case.get("varies", []), schema), required) == (case["schema"], case["required"]), text


@parametrize_cases("hints/refused")
def test_what_is_wrong_with_a_definition_is_told_in_these_words(case: dict[str, Any]) -> None:
    """The rule of the case: the text names node, parameter, hint and way out, and comes as early as it can be known."""
    scope, when = dict(hinted.NAMES), "defined"
    with pytest.raises(DefinitionError) as caught:  # noqa: PT012  # which of the three steps raises is the question
        exec(case["source"], scope)
        made = node_of(scope["fn"])
        when = "read"
        made.complete()
        when = "described"
        manifest(made)
    assert (when, str(caught.value)) == (case["when"], case["message"])


def test_each_case_of_the_tables_is_named_once() -> None:
    """Our own choice: a name leads to one case."""
    for file in ("hints/carried", "hints/refused", "docstrings/read"):
        names = [case["name"] for case in load_cases(file)]
        assert sorted(set(names)) == sorted(names)


def test_a_built_in_that_tells_no_signature_is_refused() -> None:
    """Our own choice; the interpreter's own words differ from release to release."""
    with pytest.raises(DefinitionError, match=r"node 'getattr': .* has no signature to read .*wrap it in a function"):
        node(getattr)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is Python 3.12's")
def test_aliases_and_generics_in_the_new_syntax_are_what_they_stand_for() -> None:
    """MAN-18: `type X = ...` and type parameters in brackets."""
    source = """
from dataclasses import dataclass
type Names = list[str]
type Many[T] = list[T]
type Tree = dict[str, Tree] | int
type Maybe[T] = T | None
@dataclass
class Pair[T]:
    first: T
    second: "T | None" = None
def bounded[T: int](x: T) -> T: ...
"""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(source, scope)
    assert input_schema(scope["Names"]) == input_schema(list[str])
    assert input_schema(scope["Many"][int]) == input_schema(list[int])
    assert input_schema(scope["Maybe"][int]) == input_schema(int | None)
    tree = {"anyOf": [{"type": "object", "additionalProperties": {"$ref": "#/$defs/Tree"}}, {"type": "integer"}]}
    assert input_schema(scope["Tree"]) == ({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}}, True)
    schema, _ = input_schema(scope["Pair"][int])
    assert schema["properties"] == {"first": {"type": "integer"}, "second": {"type": ["integer", "null"]}}
    bounded = manifest(node_of(node(scope["bounded"])))
    assert bounded["inputs"]["properties"] == {"x": {"type": "integer"}}
    assert bounded["outputs"]["properties"] == {"output": {"type": "integer"}}


def test_an_alias_of_text_is_read_in_the_module_that_it_comes_from(new_module: NewModule) -> None:
    """MAN-18: a name of one module is not looked for in another."""
    source = "from typing_extensions import TypeAliasType\nhidden = int\nAlias = TypeAliasType('Alias', 'list[hidden]')"
    home = new_module("tests_of_an_alias", source)
    assert input_schema(home["Alias"]) == input_schema(list[int])


def test_fields_are_read_in_the_module_of_the_class_that_brought_them_in() -> None:
    """MAN-18: an heir in another module knows none of the names in the postponed hints of its base."""
    source = """
from dataclasses import dataclass
from tests.hinted_base import Base, BaseDict, BaseTuple
@dataclass
class Heir(Base):
    more: int = 0
class HeirDict(BaseDict):
    more: int
class HeirTuple(BaseTuple):
    __slots__ = ()
"""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(source, scope)
    for name, count in (("Heir", 3), ("HeirDict", 4), ("HeirTuple", 2)):
        schema, _ = input_schema(scope[name])
        assert len(schema["properties"]) == count
        assert "Local" in repr(schema)
    assert input_schema(scope["HeirDict"])[0]["required"] == ["local", "more"]


def test_a_field_may_have_the_name_of_its_type() -> None:
    """Our own choice: `date: date | None = None` under postponed annotations means the module's `date`."""
    schema, _ = input_schema(hinted_base.Base)
    assert schema["properties"]["date"] == {"anyOf": [{"format": "date", "type": "string"}, {"type": "null"}]}
    schema, _ = input_schema(hinted_base.BaseTuple)
    assert schema["properties"]["date"] == {"format": "date", "type": "string"}


def test_type_variables_are_replaced_where_the_argument_was_written() -> None:
    """MAN-18: `Wrapped["Local"]` means the Local of this place, not the one of the generic's module."""
    source = """
from typing import TypedDict
from tests.hinted import Wrapped
class Nearby(TypedDict):
    near: int
def fn(a: Wrapped["Nearby"], b: Wrapped[list["Nearby"]]) -> None: ...
"""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(source, scope)
    properties = manifest(node_of(node(scope["fn"])))["inputs"]["properties"]
    assert properties["a"]["properties"]["item"]["title"] == "Nearby"
    assert properties["b"]["properties"]["item"]["items"]["title"] == "Nearby"


def test_one_generic_class_with_two_arguments_is_two_types() -> None:
    """Our own choice."""
    schema, _ = input_schema(evaluate("Wrapped[int] | Wrapped[str]"))
    assert [one["properties"]["item"] for one in schema["anyOf"]] == [{"type": "integer"}, {"type": "string"}]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="defaults of type variables are Python 3.13's")
def test_a_type_variable_stands_for_its_default() -> None:
    """Our own choice."""
    scope: dict[str, Any] = {"__name__": __name__}
    exec("from dataclasses import dataclass\n@dataclass\nclass Held[T = int]:\n    item: T", scope)
    assert input_schema(scope["Held"])[0]["properties"]["item"] == {"type": "integer"}


def test_the_outermost_word_on_a_port_wins_and_the_tighter_bound_stays() -> None:
    """Our own choice: of nested Annotated, and of a Field that is the default."""
    inner = Annotated[int, Field(ge=0, lt=100, description="inner", title="Inner")]
    hint = Annotated[inner, Field(ge=-5, le=50, description="outer")]
    port = only_port(WithDefault(hint, Field(7, ge=3, description="default")))
    assert isinstance(port.type, Scalar)
    assert port.type.constraints is not None
    assert dict(port.type.constraints.given()) == {"ge": 3, "le": 50, "lt": 100}
    assert (port.description, port.title, port.default, port.required) == ("default", "Inner", 7, False)


def test_bounds_are_split_over_the_members_that_can_have_them() -> None:
    """SCH-21."""
    schema, required = input_schema(Annotated[int | str | None, Field(ge=1, min_length=2)])
    assert schema == {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "minLength": 2}, {"type": "null"}]
    }
    assert not required


def test_bounds_of_a_rich_type_are_of_its_own_kind() -> None:
    """SCH-21: a date is bounded by dates, and pydantic holds them."""
    port = only_port(evaluate("Annotated[datetime.date, Field(ge=datetime.date(2024, 1, 1))]"))
    assert isinstance(port.type, Rich)
    assert port.type.constraints is not None


@pytest.mark.parametrize("empty", [0, "", False, 0.0])
def test_an_empty_default_is_kept(empty: Any) -> None:
    """MAN-6: nothing falsy is taken for nothing (C097)."""
    schema, required = input_schema(WithDefault(type(empty), empty))
    assert schema == {"type": schema["type"], "default": empty}
    assert type(schema["default"]) is type(empty)
    assert not required


def test_the_default_of_the_signature_wins_over_that_of_the_metadata() -> None:
    """Our own choice: it is the one that a direct call has."""
    port = only_port(WithDefault(Annotated[list[int], Field(default_factory=list)], [1]))
    assert (port.default, port.default_factory) == ([1], None)


def test_aliases_are_taken_from_either_field_one_or_several() -> None:
    """C119: earlier names of an input are still accepted."""
    for marker in (
        Field(aliases=["old", "older"]),
        pydantic.Field(validation_alias=pydantic.AliasChoices("old", "older")),
    ):
        assert only_port(Annotated[int, marker]).aliases == ("old", "older")
    for marker in (Field(aliases="old"), pydantic.Field(alias="old")):
        assert only_port(Annotated[int, marker]).aliases == ("old",)


def test_an_optional_input_is_nullable_and_not_required_and_keeps_its_list() -> None:
    """SCH-19, SCH-14: C083."""
    assert input_schema(typing.Optional[str]) == ({"type": ["string", "null"]}, False)
    schema, required = input_schema(evaluate("list[pathlib.Path] | None"))
    assert schema["anyOf"][0]["type"] == "array"
    assert schema["anyOf"][1] == {"type": "null"}
    assert not required


def test_a_nullable_field_of_a_record_without_a_default_has_to_be_given() -> None:
    """SCH-19: unlike an input, since building the record fails without it."""
    schema, _ = input_schema(hinted.Crate)
    assert schema["required"] == ["width", "depth"]


def test_an_optional_that_only_pydantic_reads_may_be_left_out() -> None:
    """SCH-19: a validator beside it changes nothing in that."""
    port = only_port(WithDefault(evaluate("Annotated[Optional[int], pydantic.AfterValidator(abs)]"), None))
    assert isinstance(port.type, Rich)
    assert (port.required, port.default) == (False, None)


def test_a_container_of_records_keeps_what_python_wants() -> None:
    """Our own choice: the container is part of the type, for the value that the node gets."""
    assert only_port(frozenset[int]).type == Array(Scalar("integer"), frozenset)
    assert only_port(tuple[int, ...]).type == Array(Scalar("integer"), tuple)
    assert only_port(set[hinted.Point]).type != only_port(list[hinted.Point]).type


@pytest.mark.parametrize(
    ("hint", "names", "required"),
    [
        ("Movie", ["title", "year"], ["title"]),
        ("Partial", ["title", "year", "note"], ["title"]),
        ("Point", ["x", "y"], ["x", "y"]),
        ("NamedPoint", ["x", "y"], ["x", "y"]),
        ("Box", ["width", "height", "tags", "area", "note"], ["width", "height", "tags", "area", "note"]),
        ("Wrapped[int]", ["item", "more"], ["item", "more"]),
        ("Dog", ["kind", "name"], ["kind", "name"]),
        ("Aliased", ["the-size", "theUnit", "double"], ["the-size", "theUnit", "double"]),
        ("Checked", ["count", "names"], ["count", "names"]),
        ("Part", ["name", "parts"], ["name", "parts"]),
        ("Iterator[Movie]", ["title", "year"], ["title"]),
        ("Awaitable[Point]", ["x", "y"], ["x", "y"]),
        ("Annotated[Point, 'where']", ["x", "y"], ["x", "y"]),
    ],
)
def test_a_declared_record_is_an_output_port_a_field(hint: str, names: list[str], required: list[str]) -> None:
    """RES-14: a field is always there, unless a TypedDict says that it may be missing."""
    for spelling in (evaluate(hint), hint):
        schema = outputs_schema(spelling)
        assert list(schema["properties"]) == names
        assert schema["required"] == required


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        ("int", {"type": "integer"}),
        ("dict", {"type": "object"}),
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("set[int]", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        ("Annotated[int, 'pixels']", {"type": "integer", "description": "pixels"}),
        ("Iterator[int]", {"type": "integer"}),
        ("cabc.AsyncIterator[int]", {"type": "integer"}),
        ("Generator[int, None, str]", {"type": "integer"}),
        ("AsyncGenerator[int, None]", {"type": "integer"}),
        ("Annotated[Iterator[int], 'pieces']", {"type": "integer", "description": "pieces"}),
        ("Annotated[Awaitable[int], 'later']", {"type": "integer", "description": "later"}),
        ("Awaitable[Iterator[int]]", {"type": "integer"}),
        ("Coroutine[Any, Any, int]", {"type": "integer"}),
        ("Pieces", {"type": "string"}),
        ("Optional[int]", {"type": ["integer", "null"]}),
        ("Iterable[int]", {"type": "array", "items": {"type": "integer"}}),
        (
            "IntList",
            {"description": "A list as a model.", "items": {"type": "integer"}, "title": "IntList", "type": "array"},
        ),
    ],
)
def test_any_other_return_is_the_one_port_output(hint: str, schema: dict[str, Any]) -> None:
    """RES-14: a plain mapping is one value (C091)."""
    for spelling in (evaluate(hint), hint):
        assert outputs_schema(spelling) == {"type": "object", "properties": {"output": schema}, "required": ["output"]}


def test_a_return_of_none_has_no_port() -> None:
    """RES-14, MAN-8."""
    for hint in (None, type(None), "None", Iterator[None], typing.Optional[None]):
        assert outputs_schema(hint) == {"type": "object", "properties": {}}


def test_an_optional_record_is_one_nullable_port() -> None:
    """RES-14: the shape follows the declaration, and null has no fields."""
    schema = outputs_schema(evaluate("Movie | None"))
    assert list(schema["properties"]) == ["output"]
    assert schema["properties"]["output"]["anyOf"][1] == {"type": "null"}


def test_a_name_for_the_output_makes_one_port_of_a_record() -> None:
    """RES-14, our own choice."""

    @node(output="film")
    def single() -> hinted.Movie:
        return {"title": ""}

    schema = manifest(node_of(single))["outputs"]
    assert schema["required"] == ["film"]
    assert schema["properties"]["film"]["title"] == "Movie"


def test_what_a_dataclass_computes_is_an_output_and_no_input() -> None:
    """Our own choice: a field with `init=False` can't be given."""
    assert "area" not in input_schema(hinted.Box)[0]["properties"]
    assert "area" in outputs_schema(hinted.Box)["properties"]


def test_a_model_says_of_its_output_ports_what_its_fields_say() -> None:
    """Our own choice."""
    properties = outputs_schema(hinted.Aliased)["properties"]
    assert properties["theUnit"] == {"type": "string", "description": "of the size"}
    assert properties["double"] == {"type": "integer", "description": "twice the size"}


def test_a_broken_type_leaves_nothing_half_read_behind(new_module: NewModule) -> None:
    """Our own choice: the name that was missing may come, and the next reading is a fresh one."""
    source = """
from dataclasses import dataclass
from octonode_sdk import node
@dataclass
class Late:
    a: int
    b: "Later"
@node
def fn(x: Late, y: Late) -> None: ...
"""
    scope = new_module("tests_of_a_late_name", source)
    with pytest.raises(DefinitionError, match=r"parameter 'x\.b' has an annotation with a name that is not defined"):
        manifest(node_of(scope["fn"]))
    scope["Later"] = typing_extensions.Literal["now"]
    properties = manifest(node_of(scope["fn"]))["inputs"]["properties"]
    assert properties["x"] == properties["y"]
    assert properties["x"]["properties"]["b"] == {"type": "string", "enum": ["now"]}
