"""What a node sends from a port of a hint, a node with a port of the same hint receives as an equal value."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from typing import Any, Literal, NamedTuple, Optional, Union

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from octonode_sdk._quick import loads, to_json

from .portkit import NODETOOL, OCTONODE, accepted, sent


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Pair(NamedTuple):
    first: int
    second: list[str]


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    day: Optional[datetime.date] = None


class Box(TypedDict, total=False):
    corner: Point
    tags: set[str]


class Model(pydantic.BaseModel):
    moment: datetime.datetime
    amounts: dict[str, decimal.Decimal]
    inner: Optional["Model"] = None
    renamed: int = pydantic.Field(0, alias="otherName")


_INTEGERS = st.integers(-(2**53), 2**53)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_DAYS = st.dates()
_ZONES = st.none() | st.integers(-14 * 60, 14 * 60).map(
    lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes))
)
_MOMENTS = st.builds(
    lambda moment, zone: moment.replace(tzinfo=zone),
    st.datetimes(datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 29)),
    _ZONES,
)
_DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
_POINTS = st.builds(Point, _FLOATS, st.none() | _DAYS)
_MODELS = st.recursive(
    st.builds(Model, moment=_MOMENTS, amounts=st.just({}), otherName=_INTEGERS),
    lambda inner: st.builds(Model, moment=_MOMENTS, amounts=st.dictionaries(st.text(), _DECIMALS), inner=inner),
    max_leaves=3,
)

#: Hints, and the values that a node may return for them.
HINTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, st.text()),
    (int, _INTEGERS),
    (float, _FLOATS),
    (bool, st.booleans()),
    (bytes, st.binary()),
    (bytearray, st.binary().map(bytearray)),
    (Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    (Color, st.sampled_from(Color)),
    (Access, st.integers(0, 7).map(Access)),
    (list[bytes], st.lists(st.binary())),
    (tuple[int, ...], st.lists(_INTEGERS).map(tuple)),
    (tuple[str, float], st.tuples(st.text(), _FLOATS)),
    (set[int], st.sets(_INTEGERS)),
    (frozenset[Color], st.frozensets(st.sampled_from(Color))),
    (dict[str, Optional[float]], st.dictionaries(st.text(), st.none() | _FLOATS)),
    (dict[int, str], st.dictionaries(st.integers(), st.text())),
    (dict[Color, int], st.dictionaries(st.sampled_from(Color), _INTEGERS)),
    (Pair, st.builds(Pair, _INTEGERS, st.lists(st.text()))),
    (Point, _POINTS),
    (Box, st.fixed_dictionaries({}, optional={"corner": _POINTS, "tags": st.sets(st.text())})),
    (datetime.date, _DAYS),
    (datetime.datetime, _MOMENTS),
    (datetime.time, st.times()),
    (datetime.timedelta, st.timedeltas()),
    (decimal.Decimal, _DECIMALS),
    (uuid.UUID, st.uuids()),
    (pathlib.PurePosixPath, st.lists(st.text("ab .é", min_size=1)).map(lambda parts: pathlib.PurePosixPath(*parts))),
    (Model, _MODELS),
    (list[Model], st.lists(_MODELS, max_size=2)),
    (Optional[uuid.UUID], st.none() | st.uuids()),
    (Union[datetime.timedelta, int], st.timedeltas() | _INTEGERS),
    (Union[Point, Pair, list[int]], _POINTS | st.builds(Pair, _INTEGERS, st.just([])) | st.lists(_INTEGERS)),
]


@pytest.mark.parametrize(("hint", "values"), HINTS, ids=[str(hint) for hint, _ in HINTS])
@given(data=st.data())
def test_what_one_node_sends_another_receives_equal(hint: Any, values: st.SearchStrategy[Any], data: Any) -> None:
    """RES-17: over Octonode's JSON, and over NodeTool's wire, which has bytes."""
    value = data.draw(values)
    through_json = loads(to_json(sent(hint, value, OCTONODE)))
    for returned in (
        accepted(hint, through_json),
        accepted(hint, sent(hint, value, NODETOOL), raw_bytes=True, non_finite=True),
    ):
        assert returned == value
        assert type(returned) is type(value)


@given(st.floats())
def test_nodetool_carries_every_float_from_port_to_port(value: float) -> None:
    """Our own choice: its wire has NaN and infinity, so its ports take them."""
    assert repr(accepted(float, sent(float, value, NODETOOL), non_finite=True)) == repr(value)
