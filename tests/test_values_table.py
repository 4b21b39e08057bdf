"""docs/values.md, executed: the rows are Python, and each has to come out as the page says, under both hosts."""

import re
from pathlib import Path
from typing import Any

import pytest

from octonode_sdk.call import Plan
from octonode_sdk.errors import OutputsError
from octonode_sdk.values import Policy

from .portkit import NODETOOL, OCTONODE, accepted, define

PAGE = Path(__file__).parent.parent / "docs" / "values.md"
TEXT = PAGE.read_text(encoding="utf-8")


def _names() -> dict[str, Any]:
    space: dict[str, Any] = {"__file__": __file__, "__name__": __name__}
    code = TEXT.partition("```python\n")[2].partition("```")[0]
    exec(compile(code, str(PAGE), "exec"), space)
    return space


NAMES = _names()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, the head left out; `\\|` is a bar inside a cell."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert len({len(row) for row in cells}) == 1
    return cells[2:]


def evaluate(cell: str) -> Any:
    """Return what a cell in backquotes stands for."""
    assert cell[0] == cell[-1] == "`", cell
    return eval(cell.strip("`"), NAMES)


def outcome(hint: Any, value: Any, policy: Policy) -> Any:
    """Return what goes over the wire for the port `x`, or "error: ..." with all faults."""
    plan = Plan(define({}, hint, output="x"), policy=policy)
    try:
        return plan.outputs(value)["x"]
    except OutputsError as error:
        return "error: " + "; ".join(f"{fault.path}: {fault.message}" for fault in error.faults)


def check_cell(cell: str, value: Any, found: Any) -> None:
    """Compare one outcome with what the page says of it."""
    if cell.startswith("error: "):
        assert isinstance(found, str)
        assert found.startswith("error: ")
        assert cell.removeprefix("error: ") in found
    else:
        expected = value if cell == "same" else evaluate(cell)
        assert repr(found) == repr(expected)  # which tells 1 from True and 1.0, and has NaN equal itself


@pytest.mark.parametrize("row", rows("At a place declared `Any`"), ids=lambda row: row[0])
def test_a_value_goes_over_the_wire_as_the_table_says(row: list[str]) -> None:
    """RES-17 (C050, C052, C053): docs/values.md is the contract, whatever is declared Any."""
    _, value, octonode, nodetool = row
    for cell, policy in ((octonode, OCTONODE), (nodetool, NODETOOL)):
        made = evaluate(value)
        check_cell(cell, made, outcome(Any, made, policy))


@pytest.mark.parametrize(
    "row", rows("At a place with a declared type"), ids=lambda row: f"{row[0]} {row[1]}".replace("`", "")
)
def test_a_value_of_a_declared_port_goes_over_the_wire_as_the_table_says(row: list[str]) -> None:
    """RES-14, RES-17: the shape follows the declaration."""
    hint_cell, value, octonode, nodetool, back = row
    hint = evaluate(hint_cell)
    for cell, policy in ((octonode, OCTONODE), (nodetool, NODETOOL)):
        made = evaluate(value)
        check_cell(cell, made, outcome(hint, made, policy))
    if back:
        made = evaluate(value)
        returned = accepted(hint, outcome(hint, made, OCTONODE))
        assert back in ("equal", type(returned).__name__)
        if back == "equal":
            assert returned == made


@pytest.mark.parametrize("row", rows("What a node may say otherwise"), ids=lambda row: row[0].strip("`"))
def test_a_node_may_choose_another_form(row: list[str]) -> None:
    """RES-17, RES-18: a change is made only where the author asked for it."""
    option, value, expected = row
    name, _, choice = option.strip("`").partition("=")
    plan = Plan(define({}, Any, **{name: choice.strip('"')}))
    assert plan.outputs(evaluate(value)) == {"output": evaluate(expected)}
