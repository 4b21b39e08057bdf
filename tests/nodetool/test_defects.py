"""What nodetool-core's worker (0.8.2) does wrong, row by row, and the tests that show this one doing better.

`tests/data/nodetool/defects/rows.json` is the index: each row of the defects list that needs no media, providers or
WebSocket, what sets it off, and where it is tested.
"""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROWS: list[dict[str, Any]] = json.loads(
    (HERE.parent / "data" / "nodetool" / "defects" / "rows.json").read_text(encoding="utf-8")
)

#: Rows that wait for media (3b, 13, 14b to 14g), providers (3c, 18a to 18c) and WebSocket (19a to 19c).
LATER = {"3b", "3c", "13", "14b", "14c", "14d", "14e", "14f", "14g", "18a", "18b", "18c", "19a", "19b", "19c"}


def names_in(module: str) -> set[str]:
    """Return the names of the tests of a module of this folder."""
    tree = ast.parse((HERE / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["row"]))
def test_each_defect_has_its_test(row: dict[str, Any]) -> None:
    """Our own choice: who renames a test renames it here, and who drops one has to say what shows the row then."""
    assert row["tests"]
    for name in row["tests"]:
        module, _, test = name.partition("::")
        assert test in names_in(module), name


def test_the_rows_are_numbered_without_a_gap() -> None:
    """Our own choice: a row that is forgotten shows."""
    known = {row["row"] for row in ROWS}
    assert len(known) == len(ROWS)
    assert not known & LATER
    numbers = {int("".join(one for one in row if one.isdigit())) for row in known | LATER}
    assert numbers == set(range(1, 22))
    for number, last in ((2, "k"), (5, "i"), (6, "c"), (7, "c"), (9, "c"), (14, "g"), (15, "d"), (17, "c"), (18, "c")):
        letters = {chr(code) for code in range(ord("a"), ord(last) + 1)}
        assert {f"{number}{letter}" for letter in letters} <= known | LATER
