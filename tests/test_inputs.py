"""The tables of docs/inputs.md, row by row, and what else becomes of inputs on their way to the function."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from octonode_sdk import Field, node
from octonode_sdk.call import Plan
from octonode_sdk.errors import InputsError
from octonode_sdk.field import MISSING
from octonode_sdk.nodes import node_of
from octonode_sdk.values import Policy

from .portkit import NODETOOL, OCTONODE, define

PAGE = Path(__file__).parent.parent / "docs" / "inputs.md"


def table(heading: str) -> list[dict[str, str]]:
    """Return the first table under a heading of the page, a dict a row."""
    lines = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].splitlines()
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


#: Types that take no null: (hint, values). The first value of each is a default, and the test takes another as input.
_TYPES: list[tuple[Any, list[Any]]] = [
    (int, [0, 1, -5, 3]),
    (str, ["", "a", "null", "0"]),
    (bool, [False, True]),
    (float, [0.0, 1.5]),
    (Literal["a", "b"], ["a", "b"]),
    (list[int], [[], [1], [0, 0]]),
    (dict[str, int], [{}, {"a": 0}]),
    (Annotated[int, Field(ge=0)], [0, 7]),
    (list[dict[str, str]], [[{}], [{"a": ""}], []]),
]


@pytest.mark.parametrize("policy", [OCTONODE, NODETOOL], ids=["octonode", "nodetool"])
@pytest.mark.parametrize(
    "row", table("Left out, null, or given"), ids=lambda row: f"default {row['default']}, nullable {row['nullable']}"
)
@given(data=st.data())
def test_inputs_follow_the_published_table(row: dict[str, str], policy: Policy, data: st.DataObject) -> None:
    """REQ-16: docs/inputs.md is the contract, the same under both hosts."""
    hint, values = data.draw(st.sampled_from(_TYPES))
    default = data.draw(st.sampled_from(values))
    value = data.draw(st.sampled_from(values))
    declared: Any = Optional[hint] if row["nullable"] == "yes" else hint
    if row["default"] == "yes":
        declared = Annotated[declared, Field(default=default)]
    made = define({"x": declared})
    plan = Plan(made, policy=policy)
    assert made.inputs[0].required is (row["required"] == "yes")
    for key, inputs in (("left out", {}), ("null", {"x": None}), ("a value", {"x": value})):
        expected = {"the default": default, "None": None, "the value": value, "error": MISSING}[row[key]]
        if expected is MISSING:
            with pytest.raises(InputsError) as caught:
                plan.bind(inputs, None)
            assert [fault.path for fault in caught.value.faults] == ["$.x"]
        else:
            assert plan.bind(inputs, None) == ([], {"x": expected})


def test_the_published_table_has_a_row_for_each_combination() -> None:
    """Our own choice: a table with holes is no contract."""
    rows = table("Left out, null, or given")
    combinations = [(row["default"], row["nullable"]) for row in rows]
    assert sorted(combinations) == [("no", "no"), ("no", "yes"), ("yes", "no"), ("yes", "yes")]
    assert all(row["required"] == ("yes" if row["default"] == row["nullable"] == "no" else "no") for row in rows)


#: Under other names, since a record whose fields are made at run time is none to a type checker.
_TYPED_DICT: Any = TypedDict
_NAMED_TUPLE: Any = NamedTuple


def _record_types(field: str) -> list[Any]:
    """Return records with one field `x` as a row of the second table words it; with a default it is 7."""
    hint: Any = Optional[int] if "or None" in field else int
    if field.startswith("NotRequired"):
        return [_TYPED_DICT("Made", {"x": NotRequired[hint]})]
    if "default" not in field:
        fields = [("x", hint)]
        return [
            _TYPED_DICT("Made", dict(fields)),
            _NAMED_TUPLE("Made", fields),
            dataclasses.make_dataclass("Made", fields),
        ]
    space: dict[str, Any] = {"hint": hint, "NamedTuple": NamedTuple}
    exec("class Made(NamedTuple):\n    x: hint = 7", space)
    annotated = Annotated[hint, Field(default=7)]
    return [
        space["Made"],
        dataclasses.make_dataclass("Made", [("x", hint, dataclasses.field(default=7))]),
        dataclasses.make_dataclass("Made", [("x", hint, dataclasses.field(default_factory=lambda: 7))]),
        dataclasses.make_dataclass("Made", [("x", annotated)]),
        _TYPED_DICT("Made", {"x": annotated}),
    ]


@pytest.mark.parametrize("row", table("Inside a value"), ids=lambda row: row["field"])
def test_fields_of_records_follow_the_published_table(row: dict[str, str]) -> None:
    """Our own choice: docs/inputs.md is the contract for fields as well."""
    for record in _record_types(row["field"]):
        plan = Plan(define({"x": record}))
        for key, given_value in (("left out", {}), ("null", {"x": None}), ("a value", {"x": 5})):
            if row[key] == "error":
                with pytest.raises(InputsError) as caught:
                    plan.bind({"x": given_value}, None)
                assert [fault.path for fault in caught.value.faults] == ["$.x.x"]
                continue
            made = plan.bind({"x": given_value}, None)[1]["x"]
            found = made.get("x", "absent") if isinstance(made, dict) else made.x
            assert found == {"the default": 7, "None": None, "the value": 5, "absent": "absent"}[row[key]]


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[list[int], Field(default=[1])],
        Annotated[list[int], Field(default=[])],
        Annotated[list[int], Field(default_factory=list)],
        Annotated[dict[str, list[int]], Field(default={"a": [1]})],
        Annotated[list[dict[str, int]], Field(default=[{"a": 1}])],
    ],
    ids=str,
)
def test_a_default_that_a_call_changes_is_fresh_in_the_next_call(hint: Any) -> None:
    """Our own choice (C098): calls share nothing through a default."""
    plan = Plan(define({"x": hint}))
    first = plan.bind({}, None)[1]["x"]
    before = repr(first)
    for inner in [first, *(first.values() if isinstance(first, dict) else first)]:
        if isinstance(inner, (list, dict)):
            inner.clear()
    assert repr(plan.bind({}, None)[1]["x"]) == before


class _Named(NamedTuple):
    tags: list[str] = []  # noqa: RUF012  # the mistake that the test is about


@dataclasses.dataclass
class _Marked:
    tags: list[str] = Field(default_factory=list)
    size: int = Field(3, ge=1)


@pytest.mark.parametrize("record", [_Named, _Marked])
def test_a_default_inside_a_record_is_fresh_and_no_marker(record: Any) -> None:
    """Our own choice (C098): a NamedTuple shares its default, and a Field that stands as a default is none itself."""
    plan = Plan(define({"x": record}))
    first = plan.bind({"x": {}}, None)[1]["x"]
    assert first.tags == []
    first.tags.append("a")
    second = plan.bind({"x": {}}, None)[1]["x"]
    assert second.tags == []
    assert getattr(second, "size", 3) == 3


def test_an_earlier_name_is_taken_unless_the_name_itself_is_there() -> None:
    """Our own choice (C119): saved workflows keep running when a parameter gets a new name."""
    plan = Plan(define({"width": Annotated[int, Field(aliases=["w", "breadth"])]}))
    assert plan.bind({"w": 1}, None)[1] == {"width": 1}
    assert plan.bind({"breadth": 2}, None)[1] == {"width": 2}
    assert plan.bind({"width": 3, "w": 1}, None)[1] == {"width": 3}
    assert plan.unknown_inputs({"w": 1, "breadth": 2, "other": 3}) == ["other"]
    with pytest.raises(InputsError, match=r"\$\.width: expected an integer"):
        plan.bind({"w": "1"}, None)


def test_an_earlier_name_of_a_field_is_taken_too() -> None:
    """Our own choice: the same inside a record."""

    class Box(TypedDict):
        width: Annotated[int, Field(aliases=["w"])]

    plan = Plan(define({"box": Box}))
    assert plan.bind({"box": {"w": 1}}, None)[1] == {"box": {"width": 1}}
    assert plan.bind({"box": {"w": 1, "width": 2}}, None)[1] == {"box": {"width": 2}}


def test_all_faults_of_all_inputs_are_told_at_once() -> None:
    """ERR-18: an author of a workflow corrects them in one go."""
    plan = Plan(define({"a": int, "b": list[int], "c": Annotated[str, Field(min_length=2)], "d": bool}))
    with pytest.raises(InputsError) as caught:
        plan.bind({"a": "1", "b": [1, None, "x"], "c": ""}, None)
    assert [fault.path for fault in caught.value.faults] == ["$.a", "$.b[1]", "$.b[2]", "$.c", "$.d"]


def test_an_input_that_no_port_has_is_left_out_and_told_of() -> None:
    """REQ-12: hosts send keys of their own."""
    plan = Plan(define({"a": int}))
    assert plan.bind({"a": 1, "_ui": {}}, None)[1] == {"a": 1}
    assert plan.unknown_inputs({"a": 1, "_ui": {}}) == ["_ui"]
    assert not plan.known.issuperset({"a": 1, "_ui": {}})
    assert plan.known.issuperset({"a": 1})


def test_a_dynamic_node_gets_the_other_inputs_as_its_hint_says() -> None:
    """REQ-13: they are checked like any port."""

    @node(dynamic=True)
    def collect(a: int, **rest: int) -> None: ...

    plan = Plan(node_of(collect))
    assert plan.bind({"a": 1, "b": 2, "c": 3.0}, None)[1] == {"a": 1, "b": 2, "c": 3}
    assert plan.unknown_inputs({"a": 1, "b": 2}) == []
    with pytest.raises(InputsError, match=r"\$\.b: expected an integer"):
        plan.bind({"a": 1, "b": "2"}, None)


def test_values_for_starred_parameters_arrive_by_place() -> None:
    """REQ-13: `*args` is one input, a list, alone or behind parameters that have names."""

    @node(dynamic=True)
    def total(*numbers: int, **rest: int) -> None: ...

    @node(dynamic=True)
    def scaled(factor: int, /, offset: int, *numbers: int, last: int = 0, **rest: int) -> None: ...

    assert Plan(node_of(total)).bind({"numbers": [1, 2], "x": 3}, None) == ([1, 2], {"x": 3})
    assert Plan(node_of(total)).bind({}, None) == ([], {})
    places, named = Plan(node_of(scaled)).bind({"factor": 2, "offset": 1, "numbers": [5], "z": 9}, None)
    assert (places, named) == ([2, 1, 5], {"last": 0, "z": 9})


def test_text_that_looks_like_something_else_arrives_as_it_was_sent() -> None:
    """REQ-18 (C089): a web address is no file, and digits are no number."""
    plan = Plan(define({"x": str}))
    for text in ("https://example.org/a.png", "12345", "true", "[1]", "null", "", " ", "1e5", "\x00"):
        assert plan.bind({"x": text}, None)[1] == {"x": text}


def test_parameters_without_default_that_take_null_may_be_left_out() -> None:
    """REQ-16 (C083): and a list or null keeps its list."""
    plan = Plan(define({"a": Optional[str], "b": list[str] | None}))
    assert plan.bind({}, None)[1] == {"a": None, "b": None}
    assert plan.bind({"b": ["x"]}, None)[1] == {"a": None, "b": ["x"]}


def test_empty_values_are_values() -> None:
    """REQ-16 (C047): an empty list is not "not given", and null where a default stands is."""
    plan = Plan(
        define(
            {
                "count": Annotated[int, Field(default=3)],
                "items": Annotated[list[str], Field(default=["a"])],
                "text": Annotated[Optional[str], Field(default="x")],
            }
        )
    )
    assert plan.bind({"count": None, "items": [], "text": None}, None)[1] == {"count": 3, "items": [], "text": None}


@pytest.mark.parametrize(
    ("hint", "low", "high"),
    [
        (Annotated[int, Field(ge=0)], 0, -1),
        (Annotated[int, Field(le=0)], 0, 1),
        (Annotated[float, Field(gt=0)], 0.5, 0.0),
        (Annotated[str, Field(max_length=0)], "", "a"),
    ],
    ids=str,
)
def test_a_bound_of_zero_is_a_bound(hint: Any, low: Any, high: Any) -> None:
    """Our own choice (C097): 0 is not "no bound"."""
    plan = Plan(define({"x": hint}))
    assert plan.bind({"x": low}, None)[1] == {"x": low}
    with pytest.raises(InputsError):
        plan.bind({"x": high}, None)


@pytest.mark.parametrize("default", [0, "", False, 0.0], ids=repr)
def test_a_falsy_default_is_a_default(default: Any) -> None:
    """Our own choice (C097): and an explicit null does not replace it by None."""
    plan = Plan(define({"x": Annotated[type(default), Field(default=default)]}))
    found = plan.bind({}, None)[1]["x"]
    assert found == default
    assert type(found) is type(default)


class Tree(TypedDict):
    inner: "NotRequired[Tree]"


def test_inputs_that_are_nested_too_deep_are_a_fault_of_the_inputs() -> None:
    """ERR-10: no depth of a value ends anything."""

    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"inner": deep}

    @node
    def walk(tree: Tree) -> None: ...

    with pytest.raises(InputsError, match="nested too deep"):
        Plan(node_of(walk)).bind({"tree": deep}, None)
    while deep:
        deep = deep.pop("inner")  # unwound by hand: the destructor of the interpreter recurses
