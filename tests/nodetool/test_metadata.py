"""Entries of `discover`: the host's words for every hint, defaults and limits as it takes them."""

import datetime
import enum
import itertools
import json
import math
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgpack
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodetool_worker.metadata import entry_of, node_type_of, title_of, type_metadata
from octonode_sdk import Context, DefinitionError, Field, node
from octonode_sdk.nodes import node_of
from octonode_sdk.ports import NULL, Array, Base64, Union
from tests import hinted, postponed, showcase
from tests.data_cases import load_cases, parametrize_cases
from tests.hinted import WithDefault, node_with
from tests.portkit import define, type_of
from tests.test_carry import evaluate

Golden = Callable[[str, object], None]


def entry(fn: Callable[..., Any]) -> dict[str, Any]:
    return entry_of(node_of(fn), "pack")


def property_of(hint: Any) -> dict[str, Any]:
    """Return the property of an input with this hint, which may be a `WithDefault`."""
    (made,) = entry_of(node_with(x=hint), "pack")["properties"]
    assert isinstance(made, dict)
    return made


def output_types(hint: Any) -> dict[str, str]:
    """Return the name of each output's type, as the host reads them, of a node with this return hint."""
    return {one["name"]: one["type"]["type"] for one in entry_of(node_with(return_=hint), "pack")["outputs"]}


def simple(name: str, *args: Any, optional: bool = False) -> dict[str, Any]:
    return {"type": name, "optional": optional, "type_args": list(args)}


def shown(value: Any) -> Any:
    """Return an entry as JSON can hold it in a golden file: bytes and NaN as text."""
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def check_type(metadata: Any) -> None:
    """Assert the shape of a TypeMetadata and of those inside it."""
    assert set(metadata) - {"values", "type_name"} == {"type", "optional", "type_args"}
    assert (type(metadata["type"]), type(metadata["optional"])) == (str, bool), "NMD-7"
    assert type(metadata["type_args"]) is list, "NMD-7"
    name, args = metadata["type"], metadata["type_args"]
    assert ("values" in metadata) is (name == "enum"), "NMD-12"
    assert "type_name" not in metadata or type(metadata["type_name"]) is str
    assert {type(value) for value in metadata.get("values", [])} <= {str, int, float}
    assert len(args) == {"list": 1, "dict": 2}.get(name, len(args)), "NMD-10"
    assert args == [] or name in ("list", "dict", "tuple", "union")
    if name == "union":
        assert len(args) > 1, "NMD-11"
        assert not any(one["optional"] or one["type"] in ("none", "union", "any") for one in args), "NMD-8"
    for one in args:
        check_type(one)


def check_keys(value: Any) -> None:
    """Assert that every key is a text and that nothing is nil outside of defaults and schemas (NMD-27)."""
    if isinstance(value, dict):
        for key, one in value.items():
            assert type(key) is str
            if key not in ("default", "json_schema_extra"):
                assert one is not None
                check_keys(one)
    elif isinstance(value, list):
        for one in value:
            check_keys(one)


def check_entry(made: dict[str, Any]) -> None:
    """Assert what holds for every entry, and that the wire carries it as it is."""
    for one in (*made["properties"], *made["outputs"]):
        check_type(one["type"])
    check_keys(made)
    assert repr(msgpack.unpackb(msgpack.packb(made))) == repr(made)  # repr, since NaN is not itself


# The whole entry


@pytest.mark.parametrize("fn", showcase.NODES, ids=lambda fn: fn.__name__)
def test_the_entry_is_the_one_that_was_reviewed(fn: Callable[..., Any], golden: Golden) -> None:
    """NMD-1 to NMD-27: the files are read in review; `--rewrite-golden` writes them."""
    made = entry(fn)
    check_entry(made)
    golden(f"nodetool/metadata/{fn.__name__}", shown(made))


def test_a_bare_node_says_what_is_always_there() -> None:
    """NMD-4, NMD-20, NMD-22, NMD-23, NMD-25, NMD-26: no amount of memory is left out, and so is one of 0."""
    assert entry(showcase.bare) == entry_of(define({}, id="bare", requires_vram_gb=0), "pack")
    assert entry(showcase.bare) == {
        "node_type": "pack.Bare",
        "title": "Bare",
        "description": "",
        "namespace": "pack",
        "layout": "default",
        "properties": [],
        "outputs": [],
        "required_settings": [],
        "recommended_models": [],
        "is_streaming_output": False,
        "is_streaming_input": False,
        "is_dynamic": False,
        "supports_dynamic_inputs": False,
        "supports_dynamic_outputs": False,
    }


def test_what_the_author_says_of_the_node_is_told() -> None:
    """NMD-2, NMD-24, NMD-25, NMD-26, NMD-27: a model's keys without a value are left out."""
    models = [{"id": "org/model", "type": "hf.model", "path": None, "size": 0}]
    made = entry_of(
        define({}, secrets=["B_KEY", "A_KEY"], requires_vram_gb=8, namespace="own", recommended_models=models), "pack"
    )
    assert (made["node_type"], made["namespace"]) == ("own.Made", "own")
    assert made["required_settings"] == ["B_KEY", "A_KEY"]
    assert (made["requires_vram_gb"], type(made["requires_vram_gb"])) == (8.0, float)
    assert made["recommended_models"] == [{"id": "org/model", "type": "hf.model", "size": 0}]


def test_texts_that_were_given_win_even_if_they_are_empty() -> None:
    """NMD-3, NMD-4, NMD-19, C097."""

    @node(label="", description="", namespace="")
    def fn(x: Annotated[int, Field(title="", description="")], y: int) -> None:
        """Something else.

        Args:
            x: not this
            y: how many
        """

    made = entry(fn)
    assert (made["node_type"], made["namespace"], made["title"], made["description"]) == ("Fn", "", "", "")
    x, y = made["properties"]
    assert (x["title"], x["description"]) == ("", "")
    assert (y["title"], y["description"]) == ("Y", "how many")


def test_postponed_annotations_are_read_and_the_context_is_no_property() -> None:
    """NMD-5, C082: `Optional[Literal["a", "b"]] = None` as a text."""
    made = entry(postponed.choose)
    mode, count = made["properties"]
    assert mode == {
        "name": "mode",
        "type": {**simple("enum", optional=True), "values": ["a", "b"]},
        "title": "Mode",
        "values": ["a", "b"],
        "required": False,
    }
    assert (count["name"], count["default"]) == ("count", 1)


def test_properties_may_have_any_name() -> None:
    """NMD-5, C088: names that mean something in an entry are names like any other."""

    @node
    def fn(
        title: str, type: str, default: str, name: str, values: str, context: str, node: str, c: Context
    ) -> None: ...

    made = entry(fn)["properties"]
    assert [one["name"] for one in made] == ["title", "type", "default", "name", "values", "context", "node"]
    assert all(one["type"] == simple("str") and one["required"] for one in made)


# Names


@pytest.mark.parametrize(
    ("identifier", "name", "title"),
    [
        ("text_join", "TextJoin", "Text Join"),
        ("splitHTML", "SplitHTML", "Split HTML"),
        ("HTMLToText", "HTMLToText", "HTML To Text"),
        ("openURLs", "OpenURLs", "Open URLs"),
        ("text.join", "TextJoin", "Text Join"),
        ("  resize -- image!".strip(), "ResizeImage", "Resize Image"),
        ("__init__", "Init", "Init"),
        ("load3DModel", "Load3DModel", "Load3D Model"),
        ("3d_box", "3dBox", "3d Box"),
        ("x", "X", "X"),
        ("\u00e9tirer_\u00e9cran", "\u00c9tirer\u00c9cran", "\u00c9tirer \u00c9cran"),
        ("\u753b\u50cf_resize", "\u753b\u50cfResize", "\u753b\u50cf Resize"),
        (
            "\u0939\u093f\u0928\u094d\u0926\u0940",
            "\u0939\u093f\u0928\u094d\u0926\u0940",
            "\u0939\u093f\u0928\u094d\u0926\u0940",
        ),
        ("\u26a1\ufe0f fast", "Fast", "Fast"),
    ],
)
def test_an_id_becomes_a_type_in_camel_case_and_a_title_in_words(identifier: str, name: str, title: str) -> None:
    """NMD-1, NMD-3: letters of every script, marks with their letters, inner capitals as they are."""
    made = define({}, id=identifier)
    assert node_type_of(made, "pack.sub") == f"pack.sub.{name}"
    assert title_of(made) == title


@pytest.mark.parametrize("identifier", ["+", "__", "\u26a1\ufe0f"])
def test_an_id_without_a_letter_has_no_type(identifier: str) -> None:
    """NMD-1, our own choice: it is a fault of the node, and its title is the id as it is."""
    made = define({}, id=identifier)
    assert title_of(made) == identifier
    with pytest.raises(DefinitionError, match="has no letter or digit to make a NodeTool type of; give one: @node"):
        entry_of(made, "pack")


# Types


@parametrize_cases("hints/carried")
def test_every_spelling_of_a_hint_gives_one_type(case: dict[str, Any]) -> None:
    """NMD-15, and the rule of the case: as objects and as texts; `required` says whether a call needs it (NMD-17)."""
    made = [property_of(hint) for text in case["hints"] for hint in (evaluate(text), text)]
    assert all(one == made[0] for one in made)
    check_type(made[0]["type"])
    assert made[0]["required"] is case["required"]


def test_the_types_of_all_hints_are_those_that_were_reviewed(golden: Golden) -> None:
    """NMD-7, NMD-8, NMD-9, NMD-10, NMD-11, NMD-12, NMD-13, NMD-14: by the names of the cases of hints."""
    cases = load_cases("hints/carried")
    golden("nodetool/metadata/types", {case["name"]: property_of(evaluate(case["hints"][0]))["type"] for case in cases})


#: Hints whose values have another form on their way out; pydantic's schemas tell them apart.
ONE_WAY = {"digits of a decimal"}


@parametrize_cases("hints/carried")
def test_a_property_and_an_output_have_the_same_type(case: dict[str, Any]) -> None:
    """NMD-6."""
    port_type = node_with(x=evaluate(case["hints"][0])).inputs[0].type
    if case["name"] not in ONE_WAY:
        assert type_metadata(port_type) == type_metadata(port_type, outputs=True)


class Shade(enum.Enum):
    DARK = "dark"


class Model(pydantic.BaseModel):
    size: int = 1


_LEAVES: list[Any] = [
    *(str, int, float, bool, bytes, bytearray, None, Any, datetime.date, uuid.UUID, Path, Shade, Model),
    *(Literal["a", 1], Literal[True], Literal[None, "b"], hinted.Json, hinted.Access, hinted.Mixed, hinted.Tree),
    *(hinted.Point, hinted.Movie, hinted.Part, hinted.IntList, Annotated[int, pydantic.AfterValidator(abs)]),
    Annotated[int, Field(ge=2**70)],
]


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda one: GenericAlias(list, (one,))),
        inner.map(lambda one: Optional[one]),
        st.tuples(st.sampled_from([str, int, Shade]), inner).map(lambda pair: GenericAlias(dict, pair)),
        st.lists(inner, max_size=3).map(lambda items: GenericAlias(tuple, tuple(items))),
        st.lists(inner, min_size=1, max_size=3).map(_union_of),
    )


def _union_of(items: list[Any]) -> Any:
    made = items[0]
    for one in items[1:]:
        made = Optional[one] if made is None else made | one
    return made


@given(st.recursive(st.sampled_from(_LEAVES), _around, max_leaves=8), st.booleans())
def test_every_port_type_has_metadata_of_the_one_shape(hint: Any, outputs: bool) -> None:
    """NMD-7, NMD-8, NMD-10, NMD-11: at any depth, and MessagePack carries it."""
    port_type = type_of(hint)
    made = type_metadata(port_type, outputs=outputs)
    check_type(made)
    assert msgpack.unpackb(msgpack.packb(made)) == made
    nullable = type_metadata(Union([port_type, NULL]), outputs=outputs)
    assert nullable == {**made, "optional": True}, "NMD-8"
    if not outputs:
        check_entry(entry_of(define({"x": hint}), "pack"))


def test_a_type_that_holds_itself_ends_and_does_no_harm_to_other_nodes() -> None:
    """C086: an alias is `any` where it comes again, a record is a dict at once; its schema refers to itself."""
    assert property_of(hinted.Nest[int])["type"]["type_args"][0] == simple("list", simple("any", optional=True))
    for hint in (hinted.Tree, hinted.Part, hinted.SelfPart, hinted.Chain):
        made = property_of(hint)
        assert made["type"] == simple("dict", simple("str"), simple("any", optional=True))
        assert "$ref" in json.dumps(made["json_schema_extra"])
    assert entry(showcase.bare)["node_type"] == "pack.Bare"


class Nested(pydantic.RootModel[list["Nested"] | int]):
    """A model that is a list of its own kind."""


def test_what_pydantic_alone_knows_is_read_off_its_schema() -> None:
    """NMD-14, C086."""
    assert property_of(Nested)["type"] == simple("union", simple("list", simple("any", optional=True)), simple("int"))
    assert property_of(Annotated[hinted.Pairs, pydantic.AfterValidator(id)])["type"] == simple("any", optional=True)
    assert property_of(Annotated[tuple[int, str], pydantic.AfterValidator(id)])["type"]["type"] == "tuple"


def test_an_object_tells_its_fields_in_a_json_schema() -> None:
    """NMD-14: also one inside a list or beside None; whatever has no fields has no schema."""
    for hint in (hinted.Movie, hinted.Movie | None, list[hinted.Movie]):
        schema = property_of(hint)["json_schema_extra"]
        assert '"title": {"type": "string"}' in json.dumps(schema)
    assert "json_schema_extra" not in property_of(dict[str, int])
    assert "json_schema_extra" not in property_of(datetime.date)


def test_a_schema_that_the_wire_can_not_carry_is_left_out() -> None:
    """Our own choice: it is only a hint."""

    class Big(pydantic.BaseModel):
        size: Annotated[int, pydantic.Field(ge=2**70)]

    made = entry_of(define({"x": Big}), "pack")
    assert made["properties"][0]["type"]["type"] == "dict"
    assert "json_schema_extra" not in made["properties"][0]


def test_a_port_type_may_bring_its_own_name() -> None:
    """Our own choice: at any depth, so that the table need not know every type."""

    class Picture(Base64):
        nodetool_type = "image"

    assert type_metadata(Array(Picture())) == simple("list", simple("image"))


# Properties


def test_an_enum_lists_its_values_where_the_host_looks_for_them() -> None:
    """NMD-12, C052: at the type and at the property; a set of them is a list."""
    made = property_of(hinted.Colour | None)
    values = ["red", "blue"]
    assert made["values"] == made["type"]["values"] == values
    assert made["type"]["type_name"] == "tests.hinted.Colour"
    assert property_of(set[hinted.Size])["type"]["type_args"][0]["values"] == [1, 2]


def test_truth_values_stand_beside_the_values_of_an_enum() -> None:
    """Our own choice: the values of the host are texts and numbers."""
    assert property_of(Literal[True, False])["type"] == simple("bool")
    assert property_of(Literal[True, None])["type"] == simple("bool", optional=True)
    assert property_of(Literal["auto", True])["type"] == simple(
        "union", {**simple("enum"), "values": ["auto"]}, simple("bool")
    )


class Level(enum.IntEnum):
    LOW = 0


@pytest.mark.parametrize(
    ("hint", "default", "expected"),
    [
        (int, 0, 0),
        (str, "", ""),
        (bool, False, False),
        (int | None, 5, 5),
        (float, math.inf, math.inf),
        (Level, Level.LOW, 0),
        (hinted.Colour, hinted.Colour.RED, "red"),
        (hinted.Access, hinted.Access.BOTH, 3),
        (list[int], [], []),
        (list[int] | None, [], []),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (set[int], {2, 1}, [1, 2]),
        (bytes, b"abc", b"abc"),
        (dict[int, str], {1: "a"}, {"1": "a"}),
        (dict[hinted.Colour, int], {hinted.Colour.RED: 1}, {"red": 1}),
        (hinted.Point, hinted.Point(1), {"x": 1, "y": 0.0}),
        (hinted.Cat, hinted.Cat(kind="cat"), {"kind": "cat", "lives": 9}),
        (datetime.date, datetime.date(2024, 2, 29), "2024-02-29"),
        (Any, {"a": (1,)}, {"a": [1]}),
    ],
    ids=str,
)
def test_a_default_is_told_as_it_goes_over_the_wire(hint: Any, default: Any, expected: Any) -> None:
    """NMD-16, VAL-9, VAL-10, VAL-13, C097."""
    made = property_of(WithDefault(hint, default))
    assert made["default"] == expected
    assert type(made["default"]) is type(expected)
    assert made["required"] is False
    assert msgpack.unpackb(msgpack.packb(made["default"])) == expected


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (int | None, None),
        (int, 2**53 + 1),
        (list[int], [2**70]),
        (str, "\ud800"),
        (dict[str, int], {"\ud800": 1}),
    ],
    ids=range(5),
)
def test_a_default_that_the_host_would_not_get_unchanged_is_not_told(hint: Any, default: Any) -> None:
    """NMD-16, NMD-27, VAL-15: it works where the property is left out; None is what is left out anyway (C083)."""
    made = property_of(WithDefault(hint, default))
    assert "default" not in made
    assert made["required"] is False


def test_an_optional_without_a_default_is_not_required() -> None:
    """NMD-8, NMD-17, C083: and a list or None keeps its list."""
    made = property_of(list[str] | None)
    assert made["type"] == simple("list", simple("str"), optional=True)
    assert (made["required"], "default" in made) == (False, False)


def test_a_factory_shows_what_it_makes_if_that_is_always_the_same() -> None:
    """NMD-16, C098: a fixed value in each new node of a workflow must not stand in for what is fresh in each call."""
    count = itertools.count()

    def fail() -> int:
        raise OSError("no disk")

    def of(hint: Any, factory: Callable[[], Any]) -> Any:
        made = property_of(Annotated[hint, Field(default_factory=factory)])
        assert made["required"] is False
        return made.get("default", "untold")

    assert of(list[int], list) == []
    assert of(dict[str, int], lambda: {"a": 0}) == {"a": 0}
    assert of(hinted.Colour, lambda: hinted.Colour.RED) == "red"
    assert of(int, lambda: next(count)) == "untold"
    assert of(uuid.UUID, uuid.uuid4) == "untold"
    assert of(int, fail) == "untold"
    assert of(int, lambda: "no integer") == "untold"
    assert of(Optional[int], lambda: None) == "untold"


def test_a_default_of_the_function_is_not_handed_out() -> None:
    """Our own choice: whoever changes an entry changes no later call."""
    default = [1]
    made = property_of(WithDefault(list[int], default))
    made["default"].append(2)
    assert default == [1]


@pytest.mark.parametrize(
    ("hint", "limits"),
    [
        (Annotated[int, Field(ge=0, le=0)], {"min": 0, "max": 0}),
        (Annotated[int, Field(gt=0, lt=10)], {"min": 1, "max": 9}),
        (Annotated[int, Field(gt=0.5, lt=9.5)], {"min": 1, "max": 9}),
        (Annotated[int, Field(ge=0.5, le=9.5)], {"min": 1, "max": 9}),
        (Annotated[int, Field(ge=0, gt=2, le=9, lt=7)], {"min": 3, "max": 6}),
        (Annotated[float, Field(gt=0, lt=0.5)], {"min": 0, "max": 0.5}),
        (Annotated[float, Field(ge=0, gt=-1)], {"min": 0}),
        (Annotated[int | None, Field(ge=1)], {"min": 1}),
        (Annotated[int, Field(le=3)] | None, {"max": 3}),
        (Annotated[int, Field(ge=1)] | Literal["auto"], {"min": 1}),
        (Annotated[int, Field(ge=1)] | Annotated[float, Field(ge=0.5)], {"min": 0.5}),
        (Annotated[int, Field(ge=1)] | float, {}),
        (Annotated[int, Field(ge=-(2**70))], {"min": -(2.0**70)}),
        (Annotated[int, Field(ge=-(10**400))], {}),
        (Annotated[int, pydantic.Field(ge=2, lt=5), pydantic.AfterValidator(abs)], {"min": 2, "max": 4}),
        (list[Annotated[int, Field(ge=1)]], {}),
        (Annotated[str, Field(max_length=3)], {}),
        (Annotated[datetime.date, pydantic.Field(ge=datetime.date(2024, 1, 1))], {}),
        (int, {}),
    ],
    ids=range(19),
)
def test_bounds_become_limits_that_include_themselves(hint: Any, limits: dict[str, Any]) -> None:
    """NMD-18, C097: also inside Optional; what holds for one of several numbers only is no limit."""
    made = property_of(hint)
    assert {key: made[key] for key in ("min", "max") if key in made} == limits
    check_entry(entry_of(node_with(x=hint), "pack"))


# Outputs


def test_outputs_are_the_slots_that_a_call_fills() -> None:
    """NMD-20: one a field of a record, one by the author's name, `output` without it, none for None."""

    class Two(TypedDict):
        colour: hinted.Colour
        size: int

    assert output_types(Two) == {"colour": "enum", "size": "int"}
    assert output_types(int) == {"output": "int"}
    assert output_types(None) == {}
    assert [one["name"] for one in entry_of(define({}, Two, output="both"), "pack")["outputs"]] == ["both"]


def test_the_outputs_of_a_generator_are_streams() -> None:
    """NMD-21: sync and async; the slots of another node do not say so."""

    @node
    def now() -> Iterator[hinted.Point]:
        yield hinted.Point(1)

    @node
    async def later() -> AsyncIterator[int]:
        yield 1

    for fn in (now, later):
        made = entry(fn)
        assert made["is_streaming_output"] is True
        assert [one["stream"] for one in made["outputs"]] == [True] * len(made["outputs"])
    assert "stream" not in entry(postponed.triple)["outputs"][0]


def test_a_field_that_a_model_writes_in_its_own_way_has_that_type() -> None:
    """NMD-20: the model makes its JSON by itself; a field that it leaves alone keeps all that its hint says."""

    class Written(pydantic.BaseModel):
        when: int
        colour: hinted.Colour
        data: bytes
        day: datetime.date

        @pydantic.field_serializer("when")
        def _as_text(self, value: int) -> str:
            return str(value)

    made = {one["name"]: one["type"] for one in entry_of(define({}, Written), "pack")["outputs"]}
    assert made["when"] == made["data"] == made["day"] == simple("str")
    assert made["colour"]["type_name"] == "tests.hinted.Colour"


# Faults


class Huge(enum.Enum):
    ONE = 2**60


class HugeOut(TypedDict):
    a: Huge


class Odd:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> object:
        raise TypeError("no schema for it")


@pytest.mark.parametrize(
    ("hints", "returns", "message"),
    [
        ({"x": Literal["\ud800"]}, None, r"node 'made': has a text at \$\.properties\[0\]\.type.* is no Unicode text"),
        ({"x": Huge}, None, r"parameter 'x' offers 1152921504606846976, which the host would round; offer texts"),
        ({"x": Odd}, None, r"node 'made': parameter 'x' .*no schema for it"),
        ({}, Odd, r"node 'made': the return .*no schema for it"),
        ({}, HugeOut, r"node 'made': the return\.a offers"),
    ],
    ids=range(5),
)
def test_what_can_not_be_told_is_a_fault_that_names_node_and_place(
    hints: dict[str, Any], returns: Any, message: str
) -> None:
    """DSC-4: the caller makes a load error of it."""
    with pytest.raises(DefinitionError, match=message):
        entry_of(define(hints, returns), "pack")


def test_a_default_that_its_own_type_refuses_is_a_fault() -> None:
    """DSC-4: of a rich type it is known only now."""
    wrong = WithDefault(datetime.date, "tomorrow")
    with pytest.raises(DefinitionError, match=r"parameter 'x' has the default 'tomorrow', which its own type refuses"):
        property_of(wrong)
