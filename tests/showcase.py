"""Nodes whose manifests are kept as golden files: together they use all that a manifest can say."""

import datetime
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, Literal, TypedDict

from typing_extensions import NotRequired

from octonode_sdk import Context, Field, node
from tests import hinted

__all__ = ["NODES", "bare", "collect", "everything", "grow", "measure", "split_later", "split_words"]


class Measured(TypedDict):
    """What was measured."""

    mean: Annotated[float, Field(description="arithmetic mean")]
    outliers: NotRequired[list[float]]


@node
def bare() -> None: ...


@node(
    id="show.everything",
    namespace="show",
    label="Everything",
    description="All at once.",
    icon="wand",
    symbol="\N{GRINNING FACE}",
    output="answer",
    secrets=["API_KEY"],
    config={"limit": 3, "names": ["a"], "nothing": None},
    retry_on=[ConnectionError],
    requires_vram_gb=8,
    workflow_id="w-1",
)
def everything(
    text: Annotated[str, Field(min_length=1, pattern="^[a-z]", title="Text", examples=["abc"])],
    mode: Literal["fast", "slow"] | None = None,
    size: Annotated[int, Field(ge=0, le=0)] = 0,
    ratio: float = 0.5,
    flag: bool = False,
    empty: str = "",
    colour: hinted.Colour = hinted.Colour.BLUE,
    when: datetime.date = datetime.date(2024, 2, 29),
    data: bytes = b"abc",
    numbers: Annotated[list[int], Field(default_factory=list)] = Field(max_length=3),
    unsayable: float = float("nan"),
    *,
    ctx: Context,
) -> dict[str, Any]:
    """Not shown, since the description above wins.

    Args:
        mode: how to go
        size: how large
        gone: no parameter any more
    """
    return {}


@node(non_finite="null")
def measure(values: list[float], unit: hinted.UserId | None = None) -> Measured:
    """Measure values,
    on one line.

    Parameters
    ----------
    values : list of float
        What to measure.
    """
    return {"mean": sum(values) / len(values)}


@node
def grow(tree: hinted.Tree, part: hinted.Part, json: hinted.Json, owner: hinted.Owner) -> hinted.Chain:
    """Grow a tree.

    :param tree: the tree
    """
    return hinted.Chain(1)


@node
def split_words(text: str) -> Iterator[str]:
    """Split a text."""
    yield from text.split()


@node
async def split_later(text: str) -> AsyncIterator[hinted.Point]:
    """Split a text later."""
    for one in text.split():
        yield hinted.Point(len(one))


@node(dynamic=True)
def collect(first: int, /, *rest: int, **more: int) -> list[int]:
    """Collect numbers."""
    return [first, *rest, *more.values()]


NODES: list[Callable[..., Any]] = [bare, everything, measure, grow, split_words, split_later, collect]
