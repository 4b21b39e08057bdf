"""Outputs: what is refused and why, how unions choose, and what becomes of values that are deep, shared or broken."""

import dataclasses
import enum
import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union

import numpy as np
import pytest
from annotated_types import Predicate
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from octonode_sdk import Field
from octonode_sdk._quick import loads, to_json
from octonode_sdk.call import Plan
from octonode_sdk.errors import OutputsError
from octonode_sdk.faults import path_text
from octonode_sdk.shapes import find_surrogate
from octonode_sdk.values import MAX_EXACT_INTEGER, Policy, find_cycle

from .portkit import NODETOOL, define, dump, sent, unsent


@dataclasses.dataclass
class Base:
    x: int


@dataclasses.dataclass
class Derived(Base):
    y: int = 2


class Undecorated(Base):
    """A dataclass's subclass that is none by itself."""


@dataclasses.dataclass
class Lazy:
    x: int
    y: int = dataclasses.field(init=False, repr=False)


@dataclasses.dataclass
class Ring:
    inner: Any = None


class Small(TypedDict):
    x: int


class Large(TypedDict):
    x: int
    y: NotRequired[int]


class Named(NamedTuple):
    x: int


class Access(enum.IntFlag):
    READ = 1


_WIDE = memoryview(b"\x01\0\0\0\x02\0\0\0").cast("i")


class Tree(TypedDict):
    value: float
    inner: "list[Tree]"


#: (hint, value that the node returns, faults as (path, message)).
REFUSED: list[tuple[Any, Any, list[tuple[str, str]]]] = [
    (
        list[int],
        [1, "2", None],
        [("$[1]", "expected an integer, got the text '2'"), ("$[2]", "expected an integer, got null")],
    ),
    (dict[str, int], [("a", 1)], [("$", "expected a dict, got a list of 1")]),
    (dict[int, int], {"1": 1}, [("$[\"'1'\"]", "expected an integer, got the text '1'")]),
    (tuple[int, int], [1], [("$", "expected exactly 2 items, got a list of 1")]),
    (set[int], [1], [("$", "expected a set, got a list of 1")]),
    (Base, Small(x=1, y=2), [("$.y", "is no field of Base, which has x")]),  # type: ignore[typeddict-unknown-key]  # the fault itself
    (Base, 5, [("$", "expected Base, got the integer 5")]),
    (Lazy, Lazy(1), [("$.y", "is missing: Lazy requires it (an integer)")]),
    (Small, {}, [("$.x", "is missing: Small requires it (an integer)")]),
    (Small, {"x": 1, 2: 3}, [('$["2"]', "is no field of Small, which has x")]),
    (Literal["a"], "b", [("$", "expected one of 'a', got the text 'b'")]),
    (Access, 1, [("$", "expected a Access, got the integer 1")]),
    (Access, Access(9), [("$", "expected the integer of a Access (0 to 1), got the integer 9")]),
    (Union[list[int], list[str]], [1, 2, "a"], [("$[2]", "expected an integer, got the text 'a'")]),
    (Union[int, str], 1.5, [("$", "expected an integer or a text, got the number 1.5")]),
    (Optional[Annotated[str, Field(max_length=1)]], "ab", [("$", "expected a length of at most 1, got 2")]),
    (
        Tree,
        {"value": 1, "inner": [{"value": "1", "inner": []}]},
        [("$.inner[0].value", "expected a number, got the text '1'")],
    ),
    (None, 0, [("$", "expected null, got the integer 0")]),
]


@pytest.mark.parametrize(("hint", "value", "faults"), REFUSED, ids=str)
def test_an_output_that_does_not_fit_is_refused_with_place_and_reason(
    hint: Any, value: Any, faults: list[tuple[str, str]]
) -> None:
    """RES-16, ERR-11, ERR-18: every place, not only the first."""
    assert unsent(hint, value) == faults


@pytest.mark.parametrize(
    ("hint", "value", "wire"),
    [
        (Union[Base, Derived], Derived(1), {"x": 1, "y": 2}),
        (Union[Derived, Base], Base(1), {"x": 1}),
        (Union[Small, Large], {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (Union[Small, dict[str, int]], {"x": 1, "z": 2}, {"x": 1, "z": 2}),
        (Union[str, Base], Undecorated(3), {"x": 3}),
        (Union[list[int], set[int]], {2, 1}, [1, 2]),
        (Union[list[int], list[str]], iter(["a", "b"]), ["a", "b"]),
        (Union[int, float], 2.5, 2.5),
        (Union[bool, int], 1, 1),
        (Union[int, None], np.int8(1), 1),
    ],
    ids=str,
)
def test_a_union_sends_a_value_by_the_member_that_it_belongs_to(hint: Any, value: Any, wire: Any) -> None:
    """RES-17: no field is lost because another member comes first, and an iterator is not used up by the first try."""
    assert sent(hint, value) == wire


def test_a_subclass_of_the_declared_class_goes_as_the_declared_one() -> None:
    """RES-14: the shape follows the declaration."""
    assert sent(Base, Derived(1)) == {"x": 1}
    assert sent(Any, Undecorated(1)) == {"x": 1}


def test_a_mapping_that_is_no_dict_serves_as_one_where_a_dict_is_declared() -> None:
    """Our own choice: a class that behaves as a mapping has one JSON form."""
    assert sent(dict[str, int], UserDict({"a": 1})) == {"a": 1}
    assert sent(Small, UserDict({"x": 1})) == {"x": 1}
    assert unsent(Any, UserDict({"a": 1})) != []


def test_a_predicate_of_a_container_sees_what_the_node_returned() -> None:
    """Our own choice: a set, not the list that stands for it on the wire."""
    seen: list[Any] = []

    def note(value: Any) -> bool:
        seen.append(value)
        return True

    sent(Annotated[set[int], Predicate(note)], {1})
    sent(Annotated[list[int], Predicate(note)], (1.0, 2))
    assert seen == [{1}, [1.0, 2]]


def test_bytes_go_untouched_over_a_wire_that_has_them() -> None:
    """Our own choice: no copy of a blob; a view with gaps or wide items becomes plain bytes."""
    data = b"x" * 1000
    assert sent(bytes, data, NODETOOL) is data
    view = memoryview(data)[10:20]
    assert sent(bytes, view, NODETOOL) is view
    assert sent(bytes, _WIDE, NODETOOL) == b"\x01\0\0\0\x02\0\0\0"
    assert unsent(Annotated[bytes, Field(max_length=7)], _WIDE) == [("$", "expected a length of at most 7, got 8")]


def test_the_order_of_a_set_on_the_wire_does_not_depend_on_the_run(interpreter: str) -> None:
    """Our own choice: the same outputs give the same bytes; hashes of texts differ from run to run."""
    code = (
        "from tests.portkit import sent\nfrom typing import Any\n"
        "print(sent(Any, {'a', 'b', 'c', 1, None}), sent(Any, {frozenset('ab'), frozenset('bc'), frozenset('cd')}))"
    )
    folder = Path(__file__).parent.parent
    runs = {
        subprocess.run(
            [interpreter, "-c", code],
            capture_output=True,
            check=True,
            cwd=folder,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(folder)},
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1


def _rows(count: int) -> Iterator[int]:
    yield from range(count)


def test_what_an_iterator_raises_is_the_failure_of_the_node() -> None:
    """ERR-14: its code is the node's own, and no fault of the values."""

    def broken() -> Iterator[int]:
        yield 1
        raise LookupError("no second row")

    assert sent(list[int], _rows(3)) == [0, 1, 2]
    with pytest.raises(LookupError, match="no second row"):
        sent(list[int], broken())


def _nested(depth: int, kind: type) -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
def test_a_value_as_deep_as_most_of_the_stack_goes_out(kind: type) -> None:
    """Our own choice: one level of a value costs one frame, so that what comes in can go out."""
    depth = sys.getrecursionlimit() // 2
    plan = Plan(define({}, Any))
    assert plan.outputs(_nested(depth, kind)) == {"output": _nested(depth, kind)}


def test_a_value_that_is_deeper_than_the_stack_is_a_fault_of_the_outputs() -> None:
    """ERR-11: whatever the depth."""
    plan = Plan(define({}, Any))
    deep = _nested(100_000, list)
    with pytest.raises(OutputsError, match=r"\$\.output: is nested too deep"):
        plan.outputs(deep)
    while deep:
        deep = deep.pop()  # unwound by hand: the destructor of the interpreter recurses


def test_a_value_that_holds_itself_is_a_fault_at_the_place_of_the_cycle() -> None:
    """ERR-11: JSON can't hold a cycle; through a dataclass as well as through a list."""
    ring = Ring()
    ring.inner = {"again": [ring]}
    plan = Plan(define({}, Any))
    with pytest.raises(OutputsError, match=r"\$\.output\.inner\.again\[0\]: contains itself"):
        plan.outputs(ring)


def test_a_value_that_stands_in_two_places_is_no_cycle() -> None:
    """Our own choice: sharing is lost in JSON, and nothing else."""
    shared = {"a": 1}
    assert sent(Any, [shared, shared, [shared]]) == [{"a": 1}, {"a": 1}, [{"a": 1}]]
    assert find_cycle([shared, shared]) is False


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("\ud800", "$"),
        (["a", {"b": "x\udfff"}], "$[1].b"),
        ({"a\ud800": 1}, '$["a\\\\ud800"]'),
        ({"a": ["é", "\U0001f600"]}, None),
        ([1, None, True], None),
    ],
    ids=ascii,
)
def test_half_a_character_is_found_where_it_stands(value: Any, path: str | None) -> None:
    """LINE-15: no UTF-8 can carry it."""
    found = find_surrogate(value)
    if path is None:
        assert found is False
    else:
        assert not isinstance(found, bool)
        assert path_text(found) == path


def test_half_a_character_is_found_however_deep_it_stands() -> None:
    """LINE-15: the search does not use the stack."""
    value: Any = "\ud800"
    for _ in range(50_000):
        value = [value]
    assert find_surrogate(value) is not False
    while isinstance(value, list):
        value = value.pop()


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_EXACT_INTEGER, MAX_EXACT_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(_JSON)
def test_json_goes_out_as_it_is_and_comes_back_equal(value: Any) -> None:
    """RES-17: whatever a host can hold is left alone."""
    wire = sent(Any, value)
    assert repr(wire) == repr(value)
    assert repr(loads(to_json(wire))) == repr(value)


@given(st.integers())
def test_an_integer_goes_out_whole_or_not_at_all(number: int) -> None:
    """RES-18: up to 2^53 on both sides of zero, both included."""
    fits = -(2**53) <= number <= 2**53
    assert (unsent(Any, number) == []) is fits
    assert (unsent(int, number) == []) is fits
    assert sent(int, number, Policy(big_integers="text")) == (number if fits else str(number))


_ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.complex_numbers()
    | st.decimals()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.sampled_from([object(), Base(1), Named(1), np.float32(1), np.array([1])]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers() | st.text() | st.none(), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
)


@given(_ANYTHING)
def test_whatever_a_node_returns_becomes_json_or_faults(value: Any) -> None:
    """LINE-15, RES-17: there is no third outcome."""
    wire, faults = dump(Any, value)
    if faults:
        assert all(fault.path.startswith("$") and fault.message for fault in faults)
    else:
        to_json(wire)
