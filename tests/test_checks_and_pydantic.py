"""Two paths to one verdict: our own checks of light types, and pydantic in its strict mode on JSON.

`DIFFERENCES` is the whole list of what they see differently.
"""

import dataclasses
import json
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import pydantic
import pydantic_core
import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from octonode_sdk import Field

from .portkit import check

#: A hint, and the values to try on it: good ones and near misses.
Case = tuple[Any, st.SearchStrategy[Any]]

_KEYS = st.sampled_from(["a", "b", "c"])
_TEXTS = st.text(st.sampled_from("abcé 1\n"), max_size=4)
_INTEGERS = st.integers(-20, 20) | st.integers(-(2**53), 2**53)
_NUMBERS = st.integers(-400, 400).map(lambda number: number / 8) | st.sampled_from([0.1, 3.0, -0.0, 1e15, 1e300])
_SCALARS = st.none() | st.booleans() | _INTEGERS | _NUMBERS | _TEXTS
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=5
)


def _case(hint: Any, values: st.SearchStrategy[Any]) -> Case:
    """Pair a hint with its values; one in a few is any JSON at all."""
    return hint, st.one_of(values, values, values, _JSON)


#: Under other names, since a hint that is made at run time is no type to a type checker.
_DICT: Any = dict
_TUPLE: Any = tuple


@st.composite
def _scalars(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(["str", "int", "float", "bool", "None", "texts", "integers"]))
    low, high = sorted(draw(st.tuples(st.integers(-3, 6), st.integers(-3, 6))))
    if kind == "str":
        lengths = MinLen(max(low, 0)), MaxLen(max(high, 0))
        bounds = draw(st.sampled_from([(), lengths, lengths[:1], (pydantic.Field(pattern="^[ab]+"),)]))
        return _case(_annotated(str, bounds), _TEXTS)
    if kind == "int":
        bounds = draw(st.sampled_from([(), (Ge(low), Le(high)), (Gt(low),), (Lt(high),), (MultipleOf(3),)]))
        return _case(_annotated(int, bounds), _INTEGERS)
    if kind == "float":
        bounds = draw(st.sampled_from([(), (Ge(low + 0.5), Lt(high + 1.5)), (Gt(low),), (MultipleOf(0.25),)]))
        return _case(_annotated(float, bounds), _NUMBERS | _INTEGERS)
    if kind == "texts":
        members = draw(st.lists(_TEXTS, min_size=1, max_size=3, unique=True))
        return _case(Literal[tuple(members)], st.sampled_from(members) | _TEXTS)
    if kind == "integers":
        return _case(Literal[2, 3, "x"], st.integers(1, 4))
    return _case({"bool": bool, "None": None}[kind], st.booleans() | st.none())


def _annotated(hint: Any, metadata: tuple[Any, ...]) -> Any:
    return Annotated[(hint, *metadata)] if metadata else hint


@st.composite
def _containers(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    kind = draw(st.sampled_from(["list", "tuple", "fixed", "set", "dict", "int keys", "union", "optional"]))
    hint, values = draw(inner)
    generic: Any = {"list": list, "tuple": tuple, "set": set, "dict": dict}.get(kind)
    lengths = draw(st.sampled_from([(), (MinLen(1),), (MaxLen(1),)]))
    if kind == "list":
        return _case(_annotated(generic[hint], lengths), st.lists(values, max_size=3))
    if kind == "tuple":
        return _case(_annotated(generic[hint, ...], lengths), st.lists(values, max_size=3))
    if kind == "set":
        hint, values = draw(_scalars())
        return _case(_annotated(generic[hint], lengths), st.lists(values, max_size=3))
    if kind == "dict":
        return _case(_annotated(generic[str, hint], lengths), st.dictionaries(_KEYS, values, max_size=3))
    if kind == "int keys":
        keys = st.integers(-3, 3).map(str) | _KEYS
        return _case(_DICT[int, hint], st.dictionaries(keys, values, max_size=3))
    if kind == "optional":
        return _case(Optional[hint], st.none() | values)
    other_hint, other_values = draw(inner)
    if kind == "union":
        return _case(Union[hint, other_hint], values | other_values)
    return _case(_TUPLE[hint, other_hint], st.tuples(values, other_values).map(list) | st.lists(values, max_size=3))


@st.composite
def _records(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    fields = draw(st.dictionaries(_KEYS, inner, min_size=1, max_size=3))
    hints = {name: hint for name, (hint, _) in fields.items()}
    values = {name: value for name, (_, value) in fields.items()}
    complete = st.fixed_dictionaries(values)
    some = st.fixed_dictionaries({}, optional={**values, "c": _JSON, "z": _JSON})
    form = draw(st.sampled_from(["typeddict", "partial", "dataclass"]))
    if form == "dataclass":
        left_out = draw(st.sets(st.sampled_from(sorted(hints))))
        members: list[Any] = [(name, hint) for name, hint in hints.items() if name not in left_out]
        members += [
            (name, Optional[hints[name]], dataclasses.field(default=None)) for name in hints if name in left_out
        ]
        return _case(dataclasses.make_dataclass("Made", members), complete | some)
    return _case(TypedDict("Made", hints, total=form == "typeddict"), complete | some)  # type: ignore[operator]  # made at run time


_CASES = st.recursive(_scalars(), lambda inner: _containers(inner) | _records(inner), max_leaves=5)


def _as_integers(value: Any) -> Any:
    """Return JSON with 3 for each 3.0: the one reading of numbers that pydantic does not share."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _as_integers(one) for key, one in value.items()}
    return [_as_integers(one) for one in value] if isinstance(value, list) else value


def _pydantic_accepts(hint: Any, value: Any) -> bool:
    try:
        pydantic.TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except pydantic.ValidationError:
        return False
    return True


@given(st.data())
def test_our_checks_and_pydantic_accept_the_same_values(data: st.DataObject) -> None:
    """REQ-18: the light path is the strict JSON mode of pydantic, without loading it."""
    hint, values = data.draw(_CASES)
    value = data.draw(values)
    _, faults = check(hint, value)
    assert (faults == []) == _pydantic_accepts(hint, _as_integers(value)), faults


class _Pair(NamedTuple):
    first: int
    second: int = 2


#: (hint, JSON, whether we take it, why). pydantic says the opposite of each.
DIFFERENCES: list[tuple[Any, str, bool, str]] = [
    (int, "3.0", True, "JSON has one kind of number (SCH-3)"),
    (Literal[1], "true", False, "a truth value is no number (SCH-5)"),
    (Literal[True], "1", False, "a number is no truth value (SCH-5)"),
    (float, "9007199254740993", False, "a float would change it"),
    (float, "NaN", False, "it is not JSON (LINE-11)"),
    (Annotated[float, MultipleOf(0.1)], "1e-12", False, "pydantic rounds what is near zero"),
    (dict[int, str], '{"01": "a"}', False, "a key is written in one way, so that no two keys become one"),
    (dict[Literal[1], str], '{"1": "a"}', True, "the key of an object can't be anything but a text"),
    (_Pair, "[1, 2]", False, "fields have names on the wire"),
    (_Pair, '{"first": 1, "third": 3}', True, "a key that no field has is left out, as in every other record"),
    (str, '"\\ud800"', True, "half a character is still what the host sent"),
    (Annotated[str, Field(pattern="(?=a)")], '"a"', True, "patterns are Python's, which can look ahead"),
]


@pytest.mark.parametrize(("hint", "text", "ours", "why"), DIFFERENCES, ids=[why for *_, why in DIFFERENCES])
def test_the_two_paths_differ_where_the_list_says_so(hint: Any, text: str, ours: bool, why: str) -> None:
    """Our own choice: whatever is not in this list is the same in both paths."""
    _, faults = check(hint, json.loads(text))
    assert (faults == []) is ours
    theirs = hint if not isinstance(hint, type) and "Field" not in repr(hint) else _translated(hint)
    try:
        pydantic.TypeAdapter(theirs).validate_json(text, strict=True)
        accepts = True
    except (pydantic.ValidationError, pydantic.PydanticUserError, pydantic_core.SchemaError):
        accepts = False
    assert accepts is not ours


def _translated(hint: Any) -> Any:
    """Return a hint with pydantic's Field in place of ours."""
    metadata = getattr(hint, "__metadata__", None)
    return (
        hint if metadata is None else Annotated[hint.__origin__, pydantic.Field(pattern=metadata[0].given["pattern"])]
    )


@given(st.data())
def test_a_named_tuple_is_taken_as_a_dataclass_of_the_same_fields_is(data: st.DataObject) -> None:
    """Our own choice: all records are objects with named fields, whatever class holds them."""
    fields = data.draw(st.dictionaries(_KEYS, _CASES, min_size=1, max_size=3))
    hints = {name: hint for name, (hint, _) in fields.items()}
    record = dataclasses.make_dataclass("Made", list(hints.items()))
    named = NamedTuple("Made", list(hints.items()))  # type: ignore[misc]  # its fields are known at run time only
    values = st.fixed_dictionaries({}, optional={**{name: value for name, (_, value) in fields.items()}, "z": _JSON})
    value = data.draw(values | _JSON)
    one, one_faults = check(record, value)
    other, other_faults = check(named, value)
    assert one_faults == other_faults
    if not one_faults:
        assert {name: getattr(one, name) for name in hints} == other._asdict()
