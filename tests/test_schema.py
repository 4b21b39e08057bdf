"""The schemas that hints make: valid, and the same in meaning when read through the validator of the peers."""

import dataclasses
import enum
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import jsonschema
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import NotRequired

from octonode_sdk import Field, node
from octonode_sdk.call import Plan
from octonode_sdk.errors import InputsError
from octonode_sdk.manifest import manifest
from octonode_sdk.nodes import node_of
from octonode_sdk.ports import Scalar
from octonode_sdk.schema import type_schema
from octonode_sdk.values import Policy
from tests import hinted
from tests.data_cases import load_cases, parametrize_cases
from tests.hinted import WithDefault, input_schema, node_with, outputs_schema
from tests.subset import fits

CASES = load_cases("hints/carried")


def node_takes(hint: Any, value: Any) -> bool:
    """Tell whether a node takes a JSON value for a parameter with this hint."""
    try:
        Plan(node_with(x=hint)).bind({"x": value}, None)
    except InputsError:
        return False
    return True


def inputs_of(hint: Any) -> dict[str, Any]:
    schema: dict[str, Any] = manifest(node_with(x=hint))["inputs"]
    return schema


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas inside it."""
    if isinstance(schema, bool):
        return
    yield schema
    for key in ("properties", "$defs", "patternProperties"):
        for inner in schema.get(key, {}).values():
            yield from schemas_in(inner)
    for key in ("anyOf", "allOf", "oneOf", "prefixItems"):
        for inner in schema.get(key, []):
            yield from schemas_in(inner)
    for key in ("items", "additionalProperties", "propertyNames"):
        if key in schema:
            yield from schemas_in(schema[key])


def check_form(schema: dict[str, Any]) -> None:
    """Check what can be seen of a whole inputs or outputs schema without a value."""
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"  # SCH-15
    assert "$ref" not in schema
    names = schema.get("$defs", {})
    for one in schemas_in(schema):
        assert not {"oneOf", "allOf", "const", "not"} & set(one), "SCH-13"
        assert not isinstance(one.get("items"), bool), "SCH-20"
        assert "items" in one or "prefixItems" not in one, "SCH-20"
        if "$ref" in one:
            assert one["$ref"].removeprefix("#/$defs/") in names, "SCH-17"
    used = {one["$ref"].removeprefix("#/$defs/") for one in schemas_in(schema) if "$ref" in one}
    assert used == set(names), "SCH-16"
    for name, one in names.items():
        reached: set[str] = set()
        waiting = [one]
        while waiting:
            for inner in schemas_in(waiting.pop()):
                target = inner.get("$ref", "").removeprefix("#/$defs/")
                if target and target not in reached:
                    reached.add(target)
                    waiting.append(names[target])
        assert name in reached, f"SCH-16: {name} does not contain itself"


@parametrize_cases("hints/carried")
def test_a_schema_is_valid_and_written_in_the_form_that_peers_read(case: dict[str, Any]) -> None:
    """SCH-13, SCH-15, SCH-16, SCH-17, SCH-20."""
    hint = eval(case["hints"][0], dict(hinted.NAMES))
    check_form(inputs_of(hint))
    check_form(outputs_schema(hint))


@parametrize_cases("hints/carried")
def test_the_node_and_the_validator_of_the_peers_agree_on_the_examples(case: dict[str, Any]) -> None:
    """SCH-12: what is good for the node is good for a peer, and what a peer refuses the node refuses."""
    hint = eval(case["hints"][0], dict(hinted.NAMES))
    schema = inputs_of(hint)
    for value in case["good"]:
        assert node_takes(hint, value), value
        assert fits(schema, {"x": value}), value
        jsonschema.Draft202012Validator(schema).validate({"x": value})
    for value in case["bad"]:
        assert not node_takes(hint, value), value
        if case["exact"]:
            assert not fits(schema, {"x": value}), value


@parametrize_cases("hints/carried")
def test_a_peer_refuses_no_value_that_the_node_takes(case: dict[str, Any]) -> None:
    """SCH-12: tried with the values of every other case, too."""
    hint = eval(case["hints"][0], dict(hinted.NAMES))
    schema = inputs_of(hint)
    made = node_with(x=hint)
    plan = Plan(made)
    for value in [value for other in CASES for value in (*other["good"], *other["bad"])]:
        if value is None and made.inputs[0].has_default:
            continue  # null stands for the default there, see docs/inputs.md
        try:
            plan.bind({"x": value}, None)
        except InputsError:
            assert not (case["exact"] and fits(schema, {"x": value})), value
        else:
            assert fits(schema, {"x": value}), value


@parametrize_cases("hints/carried")
def test_a_port_is_required_exactly_when_a_call_without_it_fails(case: dict[str, Any]) -> None:
    """SCH-19."""
    hint = eval(case["hints"][0], dict(hinted.NAMES))
    schema = inputs_of(hint)
    try:
        Plan(node_with(x=hint)).bind({}, None)
    except InputsError:
        assert not fits(schema, {})
    else:
        assert fits(schema, {})


def test_unknown_inputs_are_refused_by_no_schema_of_a_node() -> None:
    """SCH-18: REQ-12 ignores them; a dynamic node says of which type they are (REQ-13)."""
    assert fits(inputs_of(int), {"x": 1, "of the host": None})

    @node(dynamic=True)
    def numbers(x: int, **more: int) -> int:
        return x + sum(more.values())

    @node(dynamic=True)
    def things(**more: Any) -> None: ...

    schema = manifest(node_of(numbers))["inputs"]
    assert schema["additionalProperties"] == {"type": "integer"}
    assert fits(schema, {"x": 1, "y": 2})
    assert not fits(schema, {"x": 1, "y": "2"})
    assert manifest(node_of(things))["inputs"] == {"type": "object", "properties": {}}


def test_a_recursive_type_is_defined_once_for_all_ports() -> None:
    """SCH-16: dataclasses, aliases and models."""
    for hint, name in ((hinted.Tree, "Tree"), (hinted.Json, "Json"), (hinted.Part, "Part")):
        schema = manifest(node_with(a=hint, b=list[hint], c=hint | None))["inputs"]  # type: ignore[valid-type]  # a hint made at run time
        check_form(schema)
        assert list(schema["$defs"]) == [name]


def test_two_recursive_types_of_one_name_have_two_definitions() -> None:
    """SCH-16."""
    scope: dict[str, Any] = {**hinted.NAMES, "__name__": hinted.__name__}
    exec("@dataclasses.dataclass\nclass Tree:\n    leaf: str\n    more: 'list[typing_extensions.Self]'", scope)
    exec("class Part(pydantic.BaseModel):\n    leaf: int\n    more: list['Part'] = []", scope)
    ours = manifest(node_with(a=hinted.Tree, b=scope["Tree"]))["inputs"]
    check_form(ours)
    assert list(ours["$defs"]) == ["Tree", "Tree_"]
    assert ours["properties"]["b"] == {"$ref": "#/$defs/Tree_", "type": "object"}
    pydantics = manifest(node_with(a=hinted.Part, b=scope["Part"]))["inputs"]
    check_form(pydantics)
    assert list(pydantics["$defs"]) == ["Part", "Part_"]


def test_a_reference_says_the_type_that_a_peer_can_check() -> None:
    """SCH-12: a peer reads no `$ref`, but the `type` beside it."""
    schema = inputs_of(hinted.Tree)
    assert not fits(schema, {"x": []})
    assert fits(schema, {"x": {"value": 1}})


WORDS = ["const", "oneOf", "allOf", "anyOf", "enum", "items", "type", "title", "default", "required", "properties"]


@pytest.mark.parametrize(
    "record",
    [
        TypedDict("InDict", dict.fromkeys(WORDS, int)),  # type: ignore[operator]  # made at run time
        dataclasses.make_dataclass("InDataclass", [(word, int) for word in WORDS]),
        pydantic.create_model("InModel", **dict.fromkeys(WORDS, (int, ...))),  # type: ignore[call-overload]  # made at run time
    ],
    ids=lambda record: record.__name__,
)
def test_fields_with_the_names_of_keywords_are_fields_like_any_other(record: Any) -> None:
    """C088, SCH-7: in our schemas and in those that are pydantic's."""
    schema, _ = input_schema(record)
    assert list(schema["properties"]) == schema["required"] == WORDS
    assert {port["type"] for port in schema["properties"].values()} == {"integer"}
    value = dict.fromkeys(WORDS, 1)
    assert fits(schema, value)
    assert node_takes(record, value)


def test_a_record_says_what_its_docstring_says_on_one_line() -> None:
    """Our own choice: what `@dataclass` and NamedTuple write by themselves is no description."""
    assert input_schema(hinted.Box)[0]["description"] == "A box, with a lid."
    assert "description" not in input_schema(hinted.Point)[0]
    assert "description" not in input_schema(hinted.Crate)[0]


class Reading(TypedDict):
    value: float
    count: NotRequired[int]


class Measured(pydantic.BaseModel):
    value: float
    count: int


@pytest.mark.parametrize(
    ("options", "number", "integer"),
    [
        ({}, "number", "integer"),
        ({"non_finite": "null"}, ["number", "null"], "integer"),
        ({"non_finite": "text"}, ["number", "string"], "integer"),
        ({"big_integers": "text"}, ["number", "string"], ["integer", "string"]),
        ({"non_finite": "null", "big_integers": "text"}, ["number", "null", "string"], ["integer", "string"]),
    ],
)
@pytest.mark.parametrize("record", [Reading, Measured])
def test_outputs_are_as_wide_as_the_policy_for_values_makes_them(
    options: dict[str, Any], number: Any, integer: Any, record: Any
) -> None:
    """RES-17, RES-18: a number that may become null or text is published as such, and inputs are not touched."""

    def measure(x: float) -> Any: ...

    def measure_all(x: float) -> Any: ...

    measure.__annotations__["return"] = record
    measure_all.__annotations__["return"] = list[record]
    for function in (measure, measure_all):
        made = manifest(node_of(node(**options)(function)))
        assert made["inputs"]["properties"]["x"] == {"type": "number"}
        found = made["outputs"]["properties"]
        found = found["output"]["items"]["properties"] if "output" in found else found
        assert (found["value"]["type"], found["count"]["type"]) == (number, integer)


def test_the_schema_of_one_type_stands_alone() -> None:
    """Our own choice."""
    assert type_schema(Scalar("string"), outputs=False, policy=Policy()) == {"type": "string"}


# Hints made at random


class Kind(enum.Enum):
    TEXT = "text"
    NUMBER = 1


class Place(NamedTuple):
    name: str
    height: float = 0.0


def typed_dict_of(first: Any, second: Any) -> Any:
    return TypedDict("Made", {"first": first, "second": NotRequired[second]})  # type: ignore[operator]  # made at run time


LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [str, int, float, bool, None, Any, Literal["a", "b"], Literal[1, True, None], Kind, Place, Annotated[int, "a text"]]
)
HINTS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),  # type: ignore[valid-type]  # made at run time
        inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]  # made at run time
        inner.map(lambda one: tuple[one, ...]),  # type: ignore[valid-type]  # made at run time
        inner.map(lambda one: typing.Optional[one]),
        st.tuples(inner, inner).map(lambda two: typing.Union[two]),
        st.tuples(inner, inner).map(lambda two: typed_dict_of(*two)),
    ),
    max_leaves=6,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["a", "b", "text", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["first", "second", "name", "height", "z"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(HINTS, st.lists(VALUES, max_size=5))
def test_for_light_hints_the_validator_of_the_peers_is_the_whole_contract(hint: Any, values: list[Any]) -> None:
    """SCH-12: node and peer say the same of any value, where only the subset's words are used."""
    made = node_with(x=hint)
    schema = manifest(made)["inputs"]
    check_form(schema)
    plan = Plan(made)
    for value in values:
        try:
            plan.bind({"x": value}, None)
            taken = True
        except InputsError:
            taken = False
        assert taken == fits(schema, {"x": value}), value
        assert taken == jsonschema.Draft202012Validator(schema).is_valid({"x": value}), value


@given(HINTS)
def test_spelling_a_light_hint_as_text_or_wrapped_changes_nothing(hint: Any) -> None:
    """MAN-18."""
    plain = input_schema(hint)
    assert input_schema(Annotated[hint, Field()]) == plain
    hinted.NAMES["_given"] = hint
    try:
        assert input_schema("_given") == plain
    finally:
        del hinted.NAMES["_given"]


def test_a_default_stands_in_the_schema_of_its_port() -> None:
    """MAN-6, SCH-19: falsy and null ones, too."""
    for hint, default in ((int, 0), (str, ""), (bool, False), (int | None, None), (list[int], [])):
        schema, required = input_schema(WithDefault(hint, default))
        assert schema["default"] == default
        assert not required
