"""Inputs: what is taken, what the node gets for it, and in which words the rest is refused."""

import dataclasses
import enum
import math
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union

import pytest
from annotated_types import Predicate
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeAliasType, TypedDict

from octonode_sdk import Field, node
from octonode_sdk.call import Plan
from octonode_sdk.errors import InputsError
from octonode_sdk.nodes import node_of

from .portkit import accepted, check, refusal


class Color(enum.Enum):
    RED = "red"
    ONE = 1


class Size(enum.IntEnum):
    SMALL = 1
    BIG = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 4


class Both(enum.Flag):
    ALL = 3


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Positive:
    x: int

    def __post_init__(self) -> None:
        if self.x <= 0:
            raise ValueError("x is not positive")


class Silent(Exception):  # noqa: N818  # its text is what the test is about
    def __str__(self) -> str:
        raise RuntimeError("no text")


@dataclasses.dataclass
class Rude:
    x: int

    def __post_init__(self) -> None:
        raise Silent


class Named(NamedTuple):
    x: int
    y: str = "a"


class Small(TypedDict):
    x: int


class Large(TypedDict):
    x: int
    y: NotRequired[int]


class Cat(TypedDict):
    kind: Literal["cat"]
    lives: int


class Dog(TypedDict):
    kind: Literal["dog"]
    age: int


class Tree(TypedDict):
    value: int
    inner: "NotRequired[list[Tree]]"


Nested = TypeAliasType("Nested", Union[list["Nested"], int])  # type: ignore[misc]  # mypy reads the new syntax only


def _is_even(value: int) -> bool:
    return value % 2 == 0


def _explodes(value: int) -> bool:
    raise KeyError(value)


#: (hint, value on the wire, what the node gets).
TAKEN: list[tuple[Any, Any, Any]] = [
    (int, 3.0, 3),
    (int, -0.0, 0),
    (int, 2**70, 2**70),
    (float, 3, 3.0),
    (float, 2**70, float(2**70)),
    (str, "5", "5"),
    (bytes, "", b""),
    (bytes, "AP8=", b"\x00\xff"),
    (bytearray, "AP8=", bytearray(b"\x00\xff")),
    (None, None, None),
    (Any, {"a": [1, None]}, {"a": [1, None]}),
    (Literal[1, "a", True], 1.0, 1),
    (Literal[1, "a", True], True, True),
    (Color, "red", Color.RED),
    (Color, 1.0, Color.ONE),
    (Size, 2, Size.BIG),
    (Access, 5, Access.READ | Access.WRITE),
    (Access, 4.0, Access.WRITE),
    (Access, 0, Access(0)),
    (Both, 3, Both.ALL),
    (list[float], [1, 2.5], [1.0, 2.5]),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[()], [], ()),
    (set[int], [1, 1.0, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (set[frozenset[int]], [[1, 2], [2, 1]], {frozenset({1, 2})}),
    (set[tuple[int, int]], [[1, 2]], {(1, 2)}),
    (dict[int, str], {"-1": "a", "0": "b"}, {-1: "a", 0: "b"}),
    (dict[int, str], {1: "a"}, {1: "a"}),  # MessagePack has keys that are integers (C055)
    (dict[Color, int], {"red": 1, "1": 2}, {Color.RED: 1, Color.ONE: 2}),
    (dict[Literal["a", "b"], int], {"a": 1}, {"a": 1}),
    (Small, {"x": 1, "z": 2}, {"x": 1}),
    (Named, {"x": 1}, Named(1)),
    (Point, {"x": 1, "y": 2.0}, Point(1, 2)),
    (set[Point], [{"x": 1}, {"x": 1, "y": 0}], {Point(1)}),
    (Tree, {"value": 1, "inner": [{"value": 2.0}]}, {"value": 1, "inner": [{"value": 2}]}),
    (Optional[float], 1, 1.0),
    (Union[int, str], 3.0, 3),
    (Union[int, float], 3.0, 3.0),
    (Union[float, int], 3, 3),
    (Union[Color, str], "red", Color.RED),
    (Union[Color, str], "blue", "blue"),
    (Union[str, Color], "red", "red"),
    (Union[Size, int], 1, Size.SMALL),
    (Union[Size, int], 7, 7),
    (Union[Color, float, int], 3, 3),
    (Union[Point, dict[str, int]], {"x": 1}, Point(1)),
    (Union[Point, dict[str, int]], {"x": 1, "z": 1}, {"x": 1, "z": 1}),
    (Union[tuple[int, int], list[int]], [1, 2], (1, 2)),
    (Union[tuple[int, int], list[int]], [1, 2, 3], [1, 2, 3]),
    (Union[list[float], list[int]], [3], [3]),
    (Union[bytes, str], "no base64", "no base64"),
    (Annotated[int, Predicate(_is_even)], 4, 4),
    (Annotated[float, Field(multiple_of=0.1)], 0.3, 0.3),
    (Annotated[int, Field(multiple_of=0.5)], 10**400, 10**400),
]


@pytest.mark.parametrize(("hint", "value", "expected"), TAKEN, ids=str)
def test_a_value_that_fits_becomes_what_the_hint_promises(hint: Any, value: Any, expected: Any) -> None:
    """REQ-18: exactly the type of the hint, without a conversion that changes the value."""
    made = accepted(hint, value)
    assert made == expected
    assert type(made) is type(expected)
    if isinstance(made, (list, tuple)):
        assert [type(one) for one in made] == [type(one) for one in expected]


#: (hint, value on the wire, path, message).
REFUSED: list[tuple[Any, Any, str, str | None]] = [
    (int, "5", "$", "expected an integer, got the text '5'; send it without quotes"),
    (int, "five", "$", "expected an integer, got the text 'five'"),
    (int, True, "$", "expected an integer, got the truth value true"),
    (int, 1.5, "$", "expected an integer, got the number 1.5"),
    (int, math.inf, "$", "expected an integer, got the number inf"),
    (int, None, "$", "expected an integer, got null"),
    (float, False, "$", "expected a number, got the truth value false"),
    (float, "1.5", "$", "expected a number, got the text '1.5'; send it without quotes"),
    (float, math.nan, "$", "expected a number, got the number nan, which is not finite"),
    (
        float,
        2**53 + 1,
        "$",
        "expected a number, got the integer 9007199254740993, which a float can't hold without a change",
    ),
    (bool, 1, "$", "expected true or false, got the integer 1; send true or false"),
    (bool, "true", "$", "expected true or false, got the text 'true'; send true or false"),
    (bool, 2, "$", "expected true or false, got the integer 2"),
    (str, 5, "$", "expected a text, got the integer 5"),
    (str, ["a"], "$", "expected a text, got a list of 1"),
    (None, 0, "$", "expected null, got the integer 0"),
    (bytes, "AP8", "$", "expected base64 text, got 'AP8' (Incorrect padding)"),
    (bytes, "é", "$", None),
    (bytes, b"\x00", "$", "expected base64 text, got a bytes"),
    (Literal[1], True, "$", "expected one of 1, got the truth value true"),
    (Literal["a", "b"], "c", "$", "expected one of 'a', 'b', got the text 'c'"),
    (Literal["a"], ["a"], "$", "expected one of 'a', got a list of 1"),
    (Color, "RED", "$", "expected one of 'red', 1, got the text 'RED'"),
    (Access, 2, "$", "expected the integer of a Access (0 to 5), got the integer 2"),
    (Access, -1, "$", "expected the integer of a Access (0 to 5), got the integer -1"),
    (Access, True, "$", "expected the integer of a Access (0 to 5), got the truth value true"),
    (list[int], "12", "$", "expected a list, got the text '12'"),
    (list[int], {"0": 1}, "$", "expected a list, got an object"),
    (list[int], [1, "2"], "$[1]", "expected an integer, got the text '2'; send it without quotes"),
    (tuple[int, str], [1], "$", "expected a list of exactly 2, got a list of 1"),
    (tuple[int, str], [1, 2], "$[1]", "expected a text, got the integer 2"),
    (dict[str, int], [], "$", "expected an object, got a list of 0"),
    (dict[str, int], {"a b": None}, '$["a b"]', "expected an integer, got null"),
    (dict[int, int], {"01": 1}, '$["01"]', "expected a key that is an integer, got '01'"),
    (dict[int, int], {"1.0": 1}, '$["1.0"]', "expected a key that is an integer, got '1.0'"),
    (dict[int, int], {"٣": 1}, '$["٣"]', "expected a key that is an integer, got '٣'"),
    (dict[int, int], {True: 1}, "$[True]", "expected a key that is an integer, got True"),
    (dict[int, int], {1.5: 1}, '$["1.5"]', "expected a key that is an integer, got 1.5"),
    (dict[int, int], {None: 1}, "$.None", "expected a key that is an integer, got None"),
    (dict[Color, int], {"RED": 1}, "$.RED", "expected a key that is one of 'red', 1, got 'RED'"),
    (Small, [1], "$", "expected an object, got a list of 1"),
    (Small, {}, "$.x", "is required: an integer"),
    (Positive, {"x": 0}, "$", "Positive refused it: x is not positive"),
    (Rude, {"x": 0}, "$", "Rude refused it: Silent"),
    (Tree, {"value": 1, "inner": [{}]}, "$.inner[0].value", "is required: an integer"),
    (Optional[int], "5", "$", "expected an integer or null, got the text '5'"),
    (Optional[list[int]], ["x"], "$[0]", "expected an integer, got the text 'x'"),
    (Union[int, str, None], [], "$", "expected an integer, a text or null, got a list of 0"),
    (Union[list[int], list[str]], [1, 2, "a"], "$[2]", "expected an integer, got the text 'a'"),
    (Union[Cat, Dog], {"kind": "dog", "age": "3"}, "$.age", None),
    (Annotated[int, Field(ge=1)], 0, "$", "expected at least 1, got 0"),
    (Annotated[int, Field(gt=1)], 1, "$", "expected more than 1, got 1"),
    (Annotated[int, Field(le=1)], 2, "$", "expected at most 1, got 2"),
    (Annotated[int, Field(lt=1)], 1, "$", "expected less than 1, got 1"),
    (Annotated[int, Field(multiple_of=3)], 4, "$", "expected a multiple of 3, got 4"),
    (Annotated[int, Field(multiple_of=2.5)], 10**400 + 1, "$", None),
    (Annotated[str, Field(min_length=2)], "a", "$", "expected a length of at least 2, got 1"),
    (Annotated[str, Field(max_length=2)], "abc", "$", "expected a length of at most 2, got 3"),
    (Annotated[str, Field(pattern="^a")], "b", "$", "expected a text that matches '^a', got 'b'"),
    (Annotated[bytes, Field(max_length=1)], "AP8=", "$", "expected a length of at most 1, got 2"),
    (Annotated[set[int], Field(min_length=2)], [1, 1], "$", "expected a length of at least 2, got 1"),
    (Annotated[dict[str, int], Field(min_length=1)], {}, "$", "expected a length of at least 1, got 0"),
    (Annotated[int, Predicate(_is_even)], 3, "$", "expected a value that satisfies _is_even, got 3"),
    (Annotated[int, Predicate(_explodes)], 3, "$", "_explodes failed on 3: 3"),
    (Annotated[Optional[int], Field(ge=1)], 0, "$", "expected at least 1, got 0"),
]


@pytest.mark.parametrize(("hint", "value", "path", "message"), REFUSED, ids=str)
def test_a_value_that_does_not_fit_is_refused_with_place_and_reason(
    hint: Any, value: Any, path: str, message: str | None
) -> None:
    """REQ-18, ERR-19: nothing is coerced; a message says what was expected and what came."""
    faults = refusal(hint, value)
    assert [place for place, _ in faults] == [path]
    if message is not None:
        assert [text for _, text in faults] == [message]


def test_each_place_that_does_not_fit_is_a_fault_of_its_own() -> None:
    """ERR-18: a list that is too short and holds a wrong item has two faults."""
    hint = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=5)]
    assert [path for path, _ in refusal(hint, [0, 1, "2"])] == ["$[0]", "$[2]", "$"]
    assert [path for path, _ in refusal(Annotated[dict[str, int], Field(max_length=1)], {"a": "", "b": ""})] == [
        "$.a",
        "$.b",
        "$",
    ]


def test_a_predicate_of_a_container_sees_values_that_fit_and_the_container_of_the_hint() -> None:
    """Our own choice: it was written for the type that the hint promises, not for what the wire had."""
    seen: list[Any] = []

    def note(value: Any) -> bool:
        seen.append(value)
        return True

    cases: list[tuple[Any, Any]] = [
        (tuple[int, ...], [1.0]),
        (set[int], [2.0]),
        (frozenset[int], [2]),
        (dict[int, int], {"1": 2}),
        (list[int], [3.0]),
        (bytearray, "AA=="),
    ]
    for hint, value in cases:
        accepted(Annotated[hint, Predicate(note)], value)
    assert seen == [(1,), {2}, frozenset({2}), {1: 2}, [3], bytearray(b"\x00")]
    assert [type(one) for one in seen] == [tuple, set, frozenset, dict, list, bytearray]
    seen.clear()
    cases = [(list[int], ["a"]), (dict[int, int], {"a": 2}), (set[int], [None])]
    for hint, value in cases:
        assert refusal(Annotated[hint, Predicate(note)], value) != []
    assert seen == []


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Union[Small, Large], {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (Union[Large, Small], {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (Union[list[Small], list[Large]], [{"x": 1, "y": 2}], [{"x": 1, "y": 2}]),
        (Union[dict[str, Small], dict[str, Large]], {"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 2}}),
        (Union[Small, dict[str, int]], {"x": 1, "z": 2}, {"x": 1, "z": 2}),
        (Union[Small, Named], {"x": 1, "y": "b"}, Named(1, "b")),
        (Union[Small, Point], {"x": 1}, {"x": 1}),
        (Union[Cat, Dog], {"kind": "dog", "age": 3}, {"kind": "dog", "age": 3}),
        (Union[list[Union[Small, Large]], None], [{"x": 1, "y": 2}], [{"x": 1, "y": 2}]),
    ],
    ids=str,
)
def test_a_union_takes_an_object_by_the_member_that_loses_no_key(hint: Any, value: Any, expected: Any) -> None:
    """Our own choice: also where the object stands deeper than the union."""
    made = accepted(hint, value)
    assert made == expected
    assert type(made) is type(expected)


def test_the_host_of_raw_bytes_may_send_them_or_base64() -> None:
    """Our own choice: NodeTool's wire has bytes, and a value that came through JSON is text."""
    for value in (b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff"), "AP8="):
        made = accepted(bytes, value, raw_bytes=True)
        assert (made, type(made)) == (b"\x00\xff", bytes)
    data = b"untouched"
    assert accepted(bytes, data, raw_bytes=True) is data
    assert refusal(bytes, 5, raw_bytes=True) == [("$", "expected base64 text, got the integer 5")]


def test_a_wire_with_keys_of_any_type_brings_only_texts_to_a_dict_of_texts() -> None:
    """Our own choice (C055): MessagePack has integer keys, and a text key is none."""
    assert refusal(dict[str, int], {1: 1}, raw_bytes=True) == [("$[1]", "expected a text as key, got the integer 1")]
    assert accepted(dict[int, int], {1: 1}, raw_bytes=True) == {1: 1}


def test_a_wire_that_has_nan_brings_it_to_number_ports_and_to_no_other() -> None:
    """Our own choice: what NodeTool sends as a float is one."""
    assert math.isnan(accepted(float, math.nan, non_finite=True))
    assert accepted(list[float], [math.inf, 1], non_finite=True) == [math.inf, 1.0]
    assert refusal(int, math.nan, non_finite=True) == [("$", "expected an integer, got the number nan")]


def test_a_type_alias_that_holds_itself_is_checked_to_the_bottom() -> None:
    """Our own choice: the check refers to itself as the type does."""

    @node
    def nest(x: Nested) -> None: ...

    plan = Plan(node_of(nest))
    assert repr(plan.bind({"x": [[1.0], 2, []]}, None)[1]["x"]) == "[[1], 2, []]"
    with pytest.raises(InputsError, match=r"\$\.x"):
        plan.bind({"x": [[1], ["a"]]}, None)


@given(st.integers(), st.booleans())
def test_an_integer_with_a_point_and_zero_is_that_integer(number: int, negative: bool) -> None:
    """SCH-3: as far as a float holds it."""
    value = float(number % 2**53) * (-1 if negative else 1)
    made = accepted(int, value)
    assert (made, type(made)) == (int(value), int)


@given(st.dictionaries(st.integers(), st.integers()))
def test_integer_keys_come_back_from_their_texts(value: dict[int, int]) -> None:
    """Our own choice: whatever their size, since a key is a text that nobody rounds."""
    assert accepted(dict[int, int], {str(key): one for key, one in value.items()}) == value


def test_a_key_of_more_digits_than_python_reads_is_a_fault() -> None:
    """ERR-10: the interpreter's own limit for integers ends no call in another way."""
    ((path, message),) = refusal(dict[int, int], {"9" * 5000: 1})
    assert message.startswith("expected a key that is an integer")
    assert len(path) < 100


@pytest.mark.parametrize(
    ("pattern", "text", "fits"), [("^a$", "a", True), ("^a$", "a\n", False), (r"^a\$", "a$\n", True)]
)
def test_a_dollar_at_the_end_of_a_pattern_means_the_end(pattern: str, text: str, fits: bool) -> None:
    """SCH-21: as in JSON Schema; in Python it is also the place before a last line break."""
    _, faults = check(Annotated[str, Field(pattern=pattern)], text)
    assert (faults == []) is fits
