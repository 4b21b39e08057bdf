"""Types that pydantic checks: models, dates, Decimal. The paths of their faults, and what they may not hide."""

import dataclasses
import datetime
import decimal
import pathlib
import warnings
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
import pytest
from annotated_types import Predicate
from typing_extensions import TypedDict

from octonode_sdk import Field
from octonode_sdk.call import Plan
from octonode_sdk.errors import DefinitionError, OutputsError
from octonode_sdk.manifest import manifest

from .portkit import NODETOOL, accepted, define, refusal, sent, unsent


class Inner(pydantic.BaseModel):
    size: int
    names: list[str] = []


class Outer(pydantic.BaseModel):
    inner: Inner
    many: dict[str, Inner] = {}
    choice: Union[Inner, int, None] = None
    level: Literal[1, 2] = 1
    ratio: float = 0.5
    anything: Any = None
    other: Annotated[int, pydantic.Field(validation_alias="otherName", serialization_alias="otherName")] = 0


class Base(pydantic.BaseModel):
    x: int


class Wide(pydantic.BaseModel):
    x: int
    y: int = 0


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    age: int


class Narrow(TypedDict):
    x: int


class Node(pydantic.BaseModel):
    value: int
    children: list["Node"] = []


class Forbidding(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    x: int


class Based64(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    data: bytes


@pydantic.dataclasses.dataclass
class PydanticPoint:
    x: int
    y: int = 0


_NEW_YEAR = datetime.date(2024, 1, 1)


@pytest.mark.parametrize(
    ("hint", "value", "paths"),
    [
        (Outer, {"inner": {}}, ["$.inner.size"]),
        (Outer, {"inner": {"size": "1", "names": ["a", 1]}}, ["$.inner.size", "$.inner.names[1]"]),
        (Outer, {"inner": {"size": 1}, "many": {"a b": {"size": None}}}, ['$.many["a b"].size']),
        (Outer, {"inner": {"size": 1}, "otherName": "1"}, ["$.otherName"]),
        (Outer, {"inner": {"size": 1}, "level": 3.0}, ["$.level"]),
        (Outer, 5, ["$"]),
        (
            Node,
            {"value": 1, "children": [{"value": 1, "children": [{"value": "1"}]}]},
            ["$.children[0].children[0].value"],
        ),
        (Forbidding, {"x": 1, "z": 1}, ["$.z"]),
        (list[Base], [{"x": 1}, {"x": "1"}, {}], ["$[1].x", "$[2].x"]),
        (PydanticPoint, {"y": 1}, ["$.x"]),
        (datetime.date, "2024-02-30", ["$"]),
        (datetime.date, 5, ["$"]),
        (datetime.datetime, "yesterday", ["$"]),
        (decimal.Decimal, "NaN", ["$"]),
        (pathlib.Path, 5, ["$"]),
        (Annotated[decimal.Decimal, Field(ge=0)], "-1", ["$"]),
        (Annotated[datetime.date, Predicate(lambda day: day >= _NEW_YEAR)], "2023-01-01", ["$"]),
        (Union[Cat, Dog], {"kind": "dog", "age": "1"}, ["$.age"]),
        (Annotated[Union[Cat, Dog], pydantic.Field(discriminator="kind")], {"kind": "cat", "lives": "9"}, ["$.lives"]),
        (Optional[Base], {"x": "1"}, ["$.x"]),
    ],
    ids=str,
)
def test_a_fault_inside_a_rich_type_stands_at_its_place_in_the_value(hint: Any, value: Any, paths: list[str]) -> None:
    """ERR-19: names of unions' members, which pydantic puts into its locations, are no part of a path."""
    assert [path for path, _ in refusal(hint, value)] == paths


def test_a_fault_of_a_union_inside_a_model_stands_at_the_field() -> None:
    """ERR-19: pydantic says which members it tried; the value has only the field."""
    paths = {path for path, _ in refusal(Outer, {"inner": {"size": 1}, "choice": "x"})}
    assert paths == {"$.choice"}


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Base, {"x": 3.0}, Base(x=3)),
        (Outer, {"inner": {"size": 2.0}, "level": 2.0}, Outer(inner=Inner(size=2), level=2)),
        (Outer, {"inner": {"size": 2.0}, "choice": {"size": 1.0}}, Outer(inner=Inner(size=2), choice=Inner(size=1))),
        (list[Base], [{"x": 1.0}, {"x": 2}], [Base(x=1), Base(x=2)]),
        (PydanticPoint, {"x": 1.0}, PydanticPoint(1)),
        (Node, {"value": 1.0, "children": [{"value": 2.0}]}, Node(value=1, children=[Node(value=2)])),
    ],
    ids=str,
)
def test_a_number_without_a_fraction_is_an_integer_inside_rich_types_as_well(
    hint: Any, value: Any, expected: Any
) -> None:
    """SCH-3: the rule of the house holds wherever an integer is declared."""
    assert accepted(hint, value) == expected


def test_a_float_beside_an_integer_field_stays_what_it_is() -> None:
    """REQ-18: only the number that stands where an integer is declared is read as one."""

    class Mixed(pydantic.BaseModel):
        a: int
        b: Any
        c: dict[str, Any]

    made = accepted(Mixed, {"a": 1.0, "b": 2.0, "c": {"a": 3.0}})
    assert repr(made) == "Mixed(a=1, b=2.0, c={'a': 3.0})"


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Union[Base, Wide], {"x": 1, "y": 2}, Wide(x=1, y=2)),
        (Union[Wide, Base], {"x": 1}, Wide(x=1)),
        (Union[Base, Narrow], {"x": 1}, Base(x=1)),
        (Union[Narrow, Wide], {"x": 1, "y": 2}, Wide(x=1, y=2)),
        (Union[list[Base], list[Wide]], [{"x": 1, "y": 2}], [Wide(x=1, y=2)]),
        (Union[datetime.date, str], "2024-02-29", datetime.date(2024, 2, 29)),
        (Union[datetime.date, str], "today", "today"),
        (Union[str, datetime.date], "2024-02-29", "2024-02-29"),
        (Union[list[datetime.date], list[str]], ["2024-02-29"], [datetime.date(2024, 2, 29)]),
    ],
    ids=str,
)
def test_a_union_of_models_loses_no_key(hint: Any, value: Any, expected: Any) -> None:
    """Our own choice: the member that knows all the keys takes the object."""
    made = accepted(hint, value)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": 1, "y": b"raw"}, {"x": 1, "y": [float("inf")]}], ids=repr)
def test_values_that_json_lacks_are_a_fault_of_a_rich_input(value: Any) -> None:
    """ERR-10: NodeTool's wire may bring them, and the call has an answer like any other."""
    ((path, message),) = refusal(Wide, value, raw_bytes=True)
    assert path == "$"
    assert message.startswith("expected JSON values for a Wide")


def test_a_text_with_half_a_character_is_a_fault_of_a_rich_input() -> None:
    """ERR-10: pydantic reads no such JSON; the whole of it is not shown."""
    ((path, message),) = refusal(Inner, {"size": 1, "names": ["\ud800"]})
    assert path == "$"
    assert "hex escape" in message
    assert "names" not in message


def test_a_model_whose_field_holds_what_it_does_not_declare_is_refused() -> None:
    """RES-16: pydantic only warns of it, and the wrong value would go out."""
    broken = Base(x=1)
    broken.x = "one"  # type: ignore[assignment]  # the fault itself
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for hint in (Base, Any, list[Base]):
            faults = unsent(hint, [broken] if hint == list[Base] else broken)
            assert len(faults) == 1
            assert "Base can't be made JSON" in faults[0][1]


def test_an_integer_in_a_float_field_of_a_model_goes_out() -> None:
    """Our own choice: JSON has one kind of number."""
    outer = Outer(inner=Inner(size=1))
    outer.ratio = 3
    assert sent(Outer, outer)["ratio"] == 3


def test_non_finite_numbers_never_become_null() -> None:
    """RES-17: pydantic writes null for them at places declared Any."""
    nan, inf = float("nan"), float("inf")
    for anything, path in (
        (nan, "$.anything"),
        ([None, inf], "$.anything[1]"),
        ({"a": {"b": nan}}, "$.anything.a.b"),
        ((1, nan), "$.anything[1]"),
        ({nan}, "$.anything[0]"),
        (Outer(inner=Inner(size=1), anything=-inf), "$.anything.anything"),
    ):
        outer = Outer(inner=Inner(size=1), anything=anything)
        for hint in (Outer, Any):
            assert [where for where, _ in unsent(hint, outer)] == [path]
    assert sent(Outer, Outer(inner=Inner(size=1), anything=[None])) is not None


def test_bytes_in_a_model_follow_its_own_config() -> None:
    """Our own choice: a model says by itself how its bytes are written; what it can't write is a fault."""
    assert sent(Based64, Based64(data=b"\xff")) == {"data": "_w=="}
    assert accepted(Based64, {"data": "_w=="}) == Based64(data=b"\xff")


def test_what_a_serializer_of_the_author_raises_is_a_fault() -> None:
    """ERR-11: with the place, and on one line."""

    class Picky(pydantic.BaseModel):
        x: int

        @pydantic.field_serializer("x")
        def refuse(self, value: int) -> int:
            raise ValueError(f"not {value}\ntoday")

    ((path, message),) = unsent(list[Picky], [Picky(x=5)])
    assert path == "$[0]"
    assert "not 5 today" in message
    assert "\n" not in message


def test_an_object_that_pydantic_cannot_write_is_a_fault_with_its_type() -> None:
    """ERR-11 (C050): an open file in a field declared Any."""

    def rows() -> Iterator[int]:
        yield 1

    outer = Outer(inner=Inner(size=1), anything=object())
    for hint in (Outer, Any):
        ((_, message),) = unsent(hint, outer)
        assert "object" in message
    assert sent(list[int], rows()) == [1]


def test_a_dict_may_stand_for_a_model_and_is_checked_as_one() -> None:
    """RES-16: with the place of each fault."""
    assert sent(Base, {"x": 1}) == {"x": 1}
    assert [path for path, _ in unsent(Base, {"x": "1"})] == ["$.x"]
    assert unsent(Base, 5) == [("$", "expected a Base, got the integer 5")]


def test_bounds_and_predicates_of_rich_outputs_are_checked() -> None:
    """RES-16: like those of inputs."""
    positive = Annotated[decimal.Decimal, Field(ge=0)]
    assert sent(positive, decimal.Decimal("0.10")) == "0.10"
    assert [path for path, _ in unsent(positive, decimal.Decimal(-1))] == ["$"]
    recent = Annotated[datetime.date, Predicate(lambda day: day >= _NEW_YEAR)]
    assert sent(recent, _NEW_YEAR) == "2024-01-01"
    assert [path for path, _ in unsent(recent, datetime.date(2023, 1, 1))] == ["$"]


def test_a_model_is_an_output_port_a_field() -> None:
    """RES-14: by alias, whether an object or a dict comes back, NaN included in the checks."""
    plan = Plan(define({}, Outer))
    outputs = plan.outputs(Outer.model_validate({"inner": {"size": 1}, "otherName": 5}))
    assert outputs["inner"] == {"size": 1, "names": []}
    assert outputs["otherName"] == 5
    with pytest.raises(OutputsError, match=r"\$\.ratio: NaN is not JSON"):
        plan.outputs(Outer(inner=Inner(size=1), ratio=float("nan")))
    assert Plan(define({}, Outer), policy=NODETOOL).outputs(Outer(inner=Inner(size=1), ratio=float("inf")))[
        "ratio"
    ] == float("inf")


def test_defaults_of_rich_types_are_fresh_and_typed() -> None:
    """Our own choice (C098): the function gets the object, and no call sees what another did to it."""
    plan = Plan(define({"x": Annotated[Inner, Field(default=Inner(size=1))]}))
    first = plan.bind({}, None)[1]["x"]
    first.names.append("a")
    assert plan.bind({}, None)[1]["x"] == Inner(size=1)
    day = Plan(define({"x": Annotated[datetime.date, Field(default=_NEW_YEAR)]}))
    assert day.bind({"x": None}, None)[1] == {"x": _NEW_YEAR}
    assert day.bind({"x": "2024-02-29"}, None)[1] == {"x": datetime.date(2024, 2, 29)}


def test_a_bound_that_a_rich_type_cannot_have_is_an_error_of_the_definition() -> None:
    """Our own choice: as far as pydantic finds it when it builds the type."""
    with pytest.raises(DefinitionError, match="pydantic can't read date"):
        refusal(Annotated[datetime.date, Field(ge=5)], "2024-02-29")


def test_a_standard_dataclass_with_a_model_inside_is_checked_field_by_field() -> None:
    """ERR-18: our records and pydantic's types nest in each other."""

    @dataclasses.dataclass
    class Holder:
        model: Base
        day: datetime.date

    assert accepted(Holder, {"model": {"x": 1.0}, "day": "2024-01-01"}) == Holder(Base(x=1), _NEW_YEAR)
    assert [path for path, _ in refusal(Holder, {"model": {"x": "1"}, "day": 5})] == ["$.model.x", "$.day"]
    assert sent(Holder, Holder(Base(x=1), _NEW_YEAR)) == {"model": {"x": 1}, "day": "2024-01-01"}


def test_a_model_nested_too_deep_is_a_fault() -> None:
    """ERR-10: pydantic's parser has a limit of its own."""
    deep: dict[str, Any] = {"value": 1}
    for _ in range(300):
        deep = {"value": 1, "children": [deep]}
    ((path, message),) = refusal(Node, deep)
    assert path == "$"
    assert "recursion limit" in message


class Shown(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_timedelta="float")
    size: int
    data: bytes = b"a"
    wait: datetime.timedelta = datetime.timedelta(seconds=1.5)

    @pydantic.field_serializer("size")
    def _show(self, size: int) -> str:
        return f"<{size}>"


class Open(pydantic.BaseModel, extra="allow"):
    a: int


def test_a_model_as_several_outputs_goes_by_its_own_serializers() -> None:
    """RES-17: it says the same as where it is a part of an output, and the manifest says so as well."""
    node = define({}, Shown)
    assert Plan(node).outputs(Shown(size=1)) == {"size": "<1>", "data": "a", "wait": 1.5}
    assert sent(Shown, Shown(size=1)) == {"size": "<1>", "data": "a", "wait": 1.5}
    schema = manifest(node)["outputs"]
    kinds = {name: port["type"] for name, port in schema["properties"].items()}
    assert kinds == {"size": "string", "data": "string", "wait": "number"}
    assert schema["required"] == ["size", "data", "wait"]


def test_a_key_that_a_model_lets_in_and_no_port_takes_is_told() -> None:
    """RES-14: nothing is dropped in silence."""
    with pytest.raises(OutputsError, match=r"\$\.zz: is no output of the node, which has a"):
        Plan(define({}, Open)).outputs(Open(a=1, zz=5))  # type: ignore[call-arg]  # extra="allow" takes it


@pytest.mark.parametrize(
    ("hint", "text", "wanted"),
    [
        (datetime.datetime, "1600000000", "a datetime in ISO form"),
        (datetime.date, "1577836800", "a date in ISO form"),
        (datetime.time, "3600", "a time in ISO form"),
        (datetime.timedelta, "90", "a timedelta in ISO form"),
        (datetime.datetime, "2020-01-01T00:00:00.1234567", "at most six digits of a second"),
        (datetime.timedelta, "PT0.1234567S", "at most six digits of a second"),
        (datetime.timedelta, "P1M", "a duration in days and less, since months and years have no fixed length"),
        (decimal.Decimal, "1_000", "a decimal number"),
        (decimal.Decimal, " 1 ", "a decimal number"),
    ],
)
def test_a_text_that_would_be_read_as_what_it_does_not_say_is_refused(hint: Any, text: str, wanted: str) -> None:
    """REQ-18: pydantic reads these, as something else or as less."""
    assert refusal(hint, text) == [("$", f"expected {wanted}, got the text {text!r}")]


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (datetime.datetime, "2020-01-01T00:00:00.123456Z"),
        (datetime.date, "2020-01-01"),
        (datetime.timedelta, "P1DT2M0.5S"),
        (decimal.Decimal, "-1.50E+3"),
    ],
)
def test_a_text_in_its_own_form_is_read(hint: Any, text: str) -> None:
    """REQ-18."""
    assert isinstance(accepted(hint, text), hint)
