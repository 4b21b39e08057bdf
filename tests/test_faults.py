"""The words of a fault: paths, kinds, bounds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octonode_sdk._quick import loads
from octonode_sdk.errors import Fault
from octonode_sdk.faults import Trial, bounds_fault, error_text, json_kind, path_text, settle
from octonode_sdk.ports import Constraints


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([], "$"),
        (["a"], "$.a"),
        (["a", 0, "b"], "$.a[0].b"),
        (["a b"], '$["a b"]'),
        ([""], '$[""]'),
        (["1"], '$["1"]'),
        (["é"], "$.é"),
        (['say "x"'], '$["say \\"x\\""]'),
        (["back\\slash"], '$["back\\\\slash"]'),
        (["new\nline"], '$["new\\nline"]'),
        (["a.b", "c"], '$["a.b"].c'),
        (["x" * 100], f'$["{"x" * 60}..."]'),
        (["- " * 100], f'$["{"- " * 30}..."]'),
    ],
    ids=repr,
)
def test_a_path_names_each_step_from_the_root(keys: list[str | int], text: str) -> None:
    """ERR-19: a plain name after a dot, an index in brackets, any other key in quotes, each on one line."""
    path: Any = None
    for key in keys:
        path = (path, key)
    assert path_text(path) == text


@given(st.text(max_size=60))
def test_a_key_in_a_path_can_be_read_back(key: str) -> None:
    """ERR-19: what stands in brackets is JSON."""
    text = path_text((None, key)).removeprefix("$")
    assert key == (text[1:] if text.startswith(".") else loads(text[1:-1]))


def test_a_path_may_begin_elsewhere() -> None:
    """ERR-19: a part of a value has its own root."""
    assert path_text((None, "a"), "$.outputs") == "$.outputs.a"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "the truth value true"),
        (False, "the truth value false"),
        ("a", "the text 'a'"),
        (5, "the integer 5"),
        (1.5, "the number 1.5"),
        ([1, 2], "a list of 2"),
        ((1,), "a list of 1"),
        ({}, "an object"),
        (b"", "a bytes"),
        ({1}, "a set"),
    ],
    ids=repr,
)
def test_a_value_is_called_by_its_kind(value: Any, kind: str) -> None:
    """Our own choice: the words of JSON, as the person at the host knows them."""
    assert json_kind(value) == kind


@pytest.mark.parametrize(
    ("bounds", "good", "bad"),
    [
        ({"ge": 0}, [0, 1], [-1]),
        ({"gt": 0}, [1], [0]),
        ({"le": 0}, [0, -1], [1]),
        ({"lt": 0}, [-1], [0]),
        ({"ge": 1.5, "le": 2.5}, [2, 1.5, 2.5], [1, 3]),
        ({"multiple_of": 3}, [0, 3, -6, 3 * 10**400], [1, -1, 10**400]),
        ({"multiple_of": 0.1}, [0.3, 0.7, 1, 1e9], [0.35]),
        ({"multiple_of": 2.5}, [5, 10**400], [1, 10**400 + 1]),
        ({"min_length": 0}, ["", "a"], []),
        ({"min_length": 2}, ["ab", [1, 2]], ["a", []]),
        ({"max_length": 0}, ["", []], ["a"]),
        ({"pattern": "b+"}, ["abc"], ["ac", ""]),
        ({"pattern": "^b+$"}, ["bb"], ["abb"]),
    ],
    ids=str,
)
def test_each_bound_takes_what_it_includes(bounds: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    """Our own choice: a bound of 0 is one, and integers of any size are measured exactly."""
    fault_of = bounds_fault(Constraints(bounds))
    assert [fault_of(value) for value in good] == [None] * len(good)
    assert all(fault_of(value) for value in bad)


def test_the_first_bound_that_is_missed_is_told() -> None:
    """Our own choice: one reason is enough for one value."""
    fault_of = bounds_fault(Constraints({"ge": 0, "multiple_of": 2, "predicates": (lambda value: value < 10,)}))
    assert fault_of(4) is None
    assert fault_of(-1) == "expected at least 0, got -1"
    assert fault_of(3) == "expected a multiple of 2, got 3"
    assert "<lambda>, got 12" in str(fault_of(12))


@pytest.mark.parametrize(
    ("error", "text"),
    [(ValueError("no"), "no"), (ValueError(), "ValueError"), (KeyError("a"), "'a'")],
    ids=repr,
)
def test_an_exception_always_has_a_word(error: Exception, text: str) -> None:
    """ERR-20: its text, or its class."""
    assert error_text(error) == text


def test_the_member_of_a_union_that_loses_least_wins_and_its_loss_counts_further_up() -> None:
    """Our own choice: the first of equals."""
    one, two, three = Trial(), Trial(), Trial()
    one.lost, two.lost, three.lost = 2, 1, 1
    above = Trial()
    assert settle([("one", one), ("two", two), ("three", three)], above) == "two"
    assert above.lost == 1
    plain: list[Fault] = []
    assert settle([("one", one)], plain) == "one"
