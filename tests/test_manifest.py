"""Manifests: each field where it belongs, nothing where there is nothing, the same bytes each time."""

import datetime
import decimal
import enum
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from octonode_sdk import DefinitionError, Field, node
from octonode_sdk.manifest import manifest
from octonode_sdk.nodes import node_of
from tests import hinted, showcase
from tests.hinted import WithDefault, node_with
from tests.test_schema import check_form

Golden = Callable[[str, object], None]

FIELDS = [
    "id",
    "language",
    "label",
    "description",
    "symbol",
    "icon",
    "defaults",
    "inputs",
    "outputs",
    "config",
    "workflowId",
]


def described(fn: Callable[..., Any]) -> dict[str, Any]:
    return manifest(node_of(fn))


@pytest.mark.parametrize("fn", showcase.NODES, ids=lambda fn: fn.__name__)
def test_the_manifest_is_the_one_that_was_reviewed(fn: Callable[..., Any], golden: Golden) -> None:
    """MAN-1 to MAN-18: the files in tests/data/manifests are read in review; `--rewrite-golden` writes them."""
    made = described(fn)
    golden(f"manifests/{fn.__name__}", made)
    check_form(made["inputs"])
    check_form(made["outputs"])


@pytest.mark.parametrize("fn", showcase.NODES, ids=lambda fn: fn.__name__)
def test_no_field_of_a_manifest_is_null(fn: Callable[..., Any]) -> None:
    """MAN-17: null stands only inside what the author gave."""
    made = described(fn)
    assert [key for key, value in made.items() if value is None] == []
    assert set(made) <= set(FIELDS)
    for port in (*made["inputs"]["properties"].values(), *made["outputs"]["properties"].values()):
        assert [key for key, value in port.items() if value is None and key != "default"] == []


def test_a_bare_node_says_what_is_always_there_and_nothing_else() -> None:
    """MAN-1, MAN-2, MAN-7, MAN-8, MAN-9, MAN-10."""
    nothing = {"type": "object", "properties": {}}
    assert described(showcase.bare) == {"id": "bare", "language": "python", "inputs": nothing, "outputs": nothing}


def test_a_manifest_is_the_same_bytes_each_time_and_in_each_process(interpreter: str) -> None:
    """MAN-18: whatever the seed of hashes is."""
    code = (
        "import json\nfrom octonode_sdk.manifest import manifest\nfrom octonode_sdk.nodes import node_of\n"
        "from tests import showcase\nprint(json.dumps([manifest(node_of(fn)) for fn in showcase.NODES]))"
    )
    here = json.dumps([described(fn) for fn in showcase.NODES])
    assert json.dumps([described(fn) for fn in showcase.NODES]) == here
    for seed in ("1", "2"):
        run = subprocess.run(
            [interpreter, "-c", code],
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=60,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert run.stdout.strip() == here


def test_an_empty_text_that_was_given_wins_over_the_docstring() -> None:
    """MAN-3, MAN-4: C097."""

    @node(label="", description="")
    def fn() -> None:
        """Something else."""

    made = described(fn)
    assert (made["label"], made["description"]) == ("", "")


def test_the_description_is_the_first_paragraph_of_the_docstring() -> None:
    """MAN-4."""

    @node
    def fn() -> None:
        """Do one
        thing.

        And then another.
        """

    assert described(fn)["description"] == "Do one thing."


class Level(enum.IntEnum):
    LOW = 0


@pytest.mark.parametrize(
    ("hint", "default", "expected"),
    [
        (int, 0, 0),
        (str, "", ""),
        (bool, False, False),
        (int | None, None, None),
        (float, 1, 1),
        (Level, Level.LOW, 0),
        (hinted.Colour, hinted.Colour.RED, "red"),
        (hinted.Access, hinted.Access.BOTH, 3),
        (list[int], [], []),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (set[int], {2, 1}, [1, 2]),
        (bytes, b"abc", "YWJj"),
        (hinted.Point, hinted.Point(1), {"x": 1, "y": 0.0}),
        (hinted.Tree | None, hinted.Tree(1), {"value": 1, "children": []}),
        (hinted.Movie, {"title": "a"}, {"title": "a"}),
        (hinted.Cat, hinted.Cat(kind="cat"), {"kind": "cat", "lives": 9}),
        (datetime.date, datetime.date(2024, 2, 29), "2024-02-29"),
        (decimal.Decimal, decimal.Decimal("1.50"), "1.50"),
        (Any, {"a": (1,)}, {"a": [1]}),
    ],
    ids=str,
)
def test_a_fixed_default_is_published_in_its_json_form(hint: Any, default: Any, expected: Any) -> None:
    """MAN-6: at the top and at the port, falsy values and null included."""
    made = manifest(node_with(x=WithDefault(hint, default)))
    assert made["defaults"] == {"x": expected}
    assert type(made["defaults"]["x"]) is type(expected)
    assert made["inputs"]["properties"]["x"]["default"] == expected
    assert "required" not in made["inputs"]


def test_a_default_that_no_wire_carries_works_and_is_not_published() -> None:
    """MAN-6, RES-17: NaN, infinity and integers beyond 2**53 stay in the process, and nothing stands for them."""
    made = manifest(
        node_with(a=WithDefault(float, math.nan), b=WithDefault(float, math.inf), c=WithDefault(int, 2**53 + 1))
    )
    assert "defaults" not in made
    assert "required" not in made["inputs"]
    assert "default" not in json.dumps(made)


def test_a_default_factory_is_neither_called_nor_published() -> None:
    """MAN-6: what it makes is new for each call (C098)."""

    def make() -> list[int]:
        raise AssertionError("described, not called")

    made = manifest(node_with(x=Annotated[list[int], Field(default_factory=make)]))
    assert "defaults" not in made
    assert "required" not in made["inputs"]


def test_what_pydantic_can_not_read_is_a_fault_that_names_the_node() -> None:
    """Our own choice: known when the manifest is made, since pydantic is not loaded before."""

    class Odd:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: object, handler: object) -> object:
            raise TypeError("no schema for it")

    with pytest.raises(DefinitionError, match=r"node 'fn': .*no schema for it"):
        manifest(node_with(x=Odd))
