"""Containment of schemas against a validator: what is judged to fit does fit, whatever value is tried."""

from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from onode.containment import Problem, problems
from onode.fits import fault_of, fits
from tests.data_cases import parametrize_cases

Schema = dict[str, Any]

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 1.0, -1, 1.5, "", "a", "b", "ab", "aab"])
SIZES = st.integers(0, 3)
NUMBERS = st.integers(-3, 3) | st.sampled_from([-1.5, 0.5, 2.5])

#: Values of every type, whatever the schema says.
ANY = [
    None,
    True,
    False,
    0,
    1,
    -4,
    7,
    0.5,
    2.0,
    "",
    "a",
    "b",
    "ab",
    "xyz",
    [],
    ["a"],
    [1, 1],
    {},
    {"a": 1},
    {"zz": None},
]


def optional(**words: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    """Draw a schema with some of these keywords."""
    return st.fixed_dictionaries({}, optional=words)


def schemas(depth: int = 3) -> st.SearchStrategy[Schema]:
    """Draw schemas of the keywords that are compared; references lead to the definition `T`."""
    kinds = ["null", "boolean", "integer", "number", "string", "array", "object"]
    leaves = st.one_of(
        st.just({}),
        st.fixed_dictionaries({"type": st.sampled_from(kinds) | st.lists(st.sampled_from(kinds), min_size=1)}),
        st.fixed_dictionaries({"enum": st.lists(SCALARS, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"const": SCALARS}),
        optional(
            type=st.sampled_from(["integer", "number"]),
            minimum=NUMBERS,
            maximum=NUMBERS,
            exclusiveMinimum=NUMBERS,
            exclusiveMaximum=NUMBERS,
            multipleOf=st.sampled_from([1, 2, 4, 0.5]),
        ),
        optional(
            type=st.just("string"),
            minLength=SIZES,
            maxLength=SIZES,
            pattern=st.sampled_from(["a", "^a", "b$"]),
            format=st.sampled_from(["date", "uuid"]),
        ),
    )
    if depth == 0:
        return leaves
    inner = st.deferred(lambda: schemas(depth - 1)) | st.just({"$ref": "#/$defs/T"})
    places = st.lists(inner, max_size=2)
    return st.one_of(
        leaves,
        optional(
            type=st.just("array"),
            items=inner | st.just(False),
            prefixItems=places,
            minItems=SIZES,
            maxItems=SIZES,
            uniqueItems=st.booleans(),
        ),
        optional(
            type=st.just("object"),
            properties=st.dictionaries(NAMES, inner, max_size=3),
            required=st.lists(NAMES, max_size=2, unique=True),
            additionalProperties=inner | st.booleans(),
            propertyNames=optional(pattern=st.sampled_from(["a", "b"]), maxLength=SIZES),
            minProperties=SIZES,
            maxProperties=SIZES,
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.builds(lambda one, other: {**one, "anyOf": [other, {"type": "null"}]}, leaves, inner),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=2)}),
        st.just({"$ref": "#/$defs/T"}),
    )


#: What T is. Each stands inside of itself under a list or an object alone, so that it can be followed.
DEFINITIONS: list[Schema] = [
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"$ref": "#/$defs/T"}}},
    },
    {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "array", "items": {"$ref": "#/$defs/T"}}}},
    {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/T"}}]},
    {"anyOf": [{"type": ["null", "integer"]}, {"type": "array", "items": {"$ref": "#/$defs/T"}, "maxItems": 1}]},
    {"type": "string"},
]


def documents() -> st.SearchStrategy[Schema]:
    """Draw schemas together with their definition."""
    return st.builds(lambda one, t: {**one, "$defs": {"T": t}}, schemas(), st.sampled_from(DEFINITIONS))


def widened(schema: Schema) -> Iterator[Schema]:
    """Yield schemas that take all that a schema takes, and perhaps more."""
    yield schema
    for word in schema:
        if word not in ("$defs", "properties", "prefixItems"):
            yield {key: value for key, value in schema.items() if key != word}
    definitions = {"$defs": schema["$defs"]}
    yield {"anyOf": [{"type": "string"}, {key: one for key, one in schema.items() if key != "$defs"}], **definitions}
    if "enum" in schema:
        yield {**schema, "enum": [*schema["enum"], "more"]}
    if schema.get("type") == "integer":
        yield {**schema, "type": "number"}
    for name, one in schema.get("properties", {}).items():
        for other in widened({**one, **definitions}):
            inner = {key: value for key, value in other.items() if key != "$defs"}
            yield {**schema, "properties": {**schema["properties"], name: inner}}


def closed(schema: Any) -> Any:
    """Return a schema without the values that count as never sent: objects with keys that only others may name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {word: one if word in ("enum", "const", "required") else closed(one) for word, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        made |= {"additionalProperties": False, "patternProperties": {"^zz$": True}}
    return made


def candidates(schema: Any, root: Schema, depth: int = 3) -> list[Any]:
    """Return values near the bounds of a schema; some fit."""
    if depth == 0:
        return []
    if isinstance(schema, bool):
        return ANY if schema else []
    found = [*schema.get("enum", []), *([schema["const"]] if "const" in schema else [])]
    for word in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(word, []):
            found += candidates(one, root, depth)
    if "$ref" in schema:
        found += candidates(root["$defs"]["T"], root, depth - 1)
    for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if word in schema:
            found += [schema[word] + step for step in (-1, -0.5, 0, 0.5, 1)]
    kinds = schema.get("type", [])
    if "array" in kinds or {"items", "prefixItems"} & schema.keys():
        found += lists(schema, root, depth)
    if "object" in kinds or {"properties", "additionalProperties"} & schema.keys():
        found += objects(schema, root, depth)
    return [*found, *ANY]


def lists(schema: Schema, root: Schema, depth: int) -> Iterator[list[Any]]:
    """Yield a few lists whose items are near the schema's."""
    places = [candidates(one, root, depth - 1) for one in schema.get("prefixItems", [])]
    rest = candidates(schema.get("items", True), root, depth - 1)
    for size in range(4):
        pools = [places[at] if at < len(places) else rest for at in range(size)]
        for shift in range(6):
            if all(pools):
                yield [pool[(shift * (at + 3) + at) % len(pool)] for at, pool in enumerate(pools)]


def objects(schema: Schema, root: Schema, depth: int) -> Iterator[dict[str, Any]]:
    """Yield a few objects whose values are near the schema's."""
    named = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    known = {**named, **{name: others for name in ("a", "b", "c", "zz") if name not in named}}
    pools = {name: candidates(one, root, depth - 1) for name, one in known.items()}
    for absent in product((False, True), repeat=len(pools)):
        names = [name for name, is_absent in zip(pools, absent, strict=True) if not is_absent and pools[name]]
        for shift in range(4):
            yield {name: pools[name][(shift * (at + 2) + at) % len(pools[name])] for at, name in enumerate(names)}


def compared(old: Schema, new: Schema) -> list[Problem]:
    """Return what keeps the values of one schema from fitting another."""
    return problems(old, new, narrow_root=old, wide_root=new, names=("the old one", "the new one"))


@given(documents(), documents() | st.none(), st.data())
def test_each_value_that_the_old_schema_takes_is_taken_by_a_new_one_that_is_judged_to_contain_it(
    old: Schema, new: Schema | None, data: st.DataObject
) -> None:
    """Our own choice: `compatible` is a promise, checked with the values that jsonschema takes."""
    if new is None:
        new = data.draw(st.sampled_from([*islice(widened(old), 20)]))
        if data.draw(st.booleans()):
            old, new = new, old
    assume(not compared(old, new))
    before, meant, after = map(Draft202012Validator, (old, closed(old), new))
    for value in candidates(old, old):
        if before.is_valid(value) and meant.is_valid(value):
            assert after.is_valid(value), value


@given(documents(), st.data())
def test_a_schema_that_was_widened_is_judged_to_contain_the_old_one(old: Schema, data: st.DataObject) -> None:
    """Our own choice: the judge is of use only if it sees plain cases; where it can't decide, it says so."""
    new = data.draw(st.sampled_from([*islice(widened(old), 40)]))
    assert [one for one in compared(old, new) if one.sure] == []


@given(documents())
def test_a_schema_contains_itself(schema: Schema) -> None:
    """Our own choice: no change is no change, for what can't be compared as well."""
    assert compared(schema, {**schema, "description": "other words"}) == []
    assert fault_of(schema) is None


@given(documents(), st.data())
def test_values_fit_as_the_validator_says(schema: Schema, data: st.DataObject) -> None:
    """Our own choice: single values are judged as jsonschema judges them, or not at all."""
    value = data.draw(st.sampled_from(candidates(schema, schema) or ANY))
    assert fits(schema, value, schema) in (Draft202012Validator(schema).is_valid(value), None)


@parametrize_cases("onode/containment")
def test_problem_is_told_with_its_place(case: dict[str, Any]) -> None:
    """Our own choice: each keyword that gets in the way is named, with both sides."""
    found = [[one.path, one.message, one.sure] for one in compared(case["old"], case["new"])]
    assert found == case["problems"]


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (5, "$ is 5; expected a JSON Schema, which is an object"),
        ({"type": 5}, "$.type is 5; expected a text or list of texts"),
        ({"properties": []}, "$.properties is []; expected a map of schemas"),
        ({"properties": {"a": 1}}, "$.properties.a is 1; expected a JSON Schema, which is an object"),
        ({"items": [{}]}, "$.items is list of 1 items; expected a schema"),
        ({"anyOf": [{"minimum": "1"}]}, "$.anyOf[0].minimum is '1'; expected a number"),
        ({"$defs": {"T": {"required": "a"}}}, "$.$defs.T.required is 'a'; expected a list of texts"),
    ],
    ids=["number", "type", "properties", "property", "items", "bound", "definition"],
)
def test_shape_that_is_no_schema_is_told_with_its_place(schema: Any, fault: str) -> None:
    """Our own choice: what the judge can't read is refused before it is read."""
    assert fault_of(schema) == fault
