"""Cases of the tests that are data: `tests/data/<topic>/<name>.json`, each a list of objects with a `name`."""

import json
from pathlib import Path
from typing import Any

import pytest

__all__ = ["load_cases", "parametrize_cases"]


def load_cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of `tests/data/<name>.json`."""
    path = Path(__file__).parent / "data" / f"{name}.json"
    cases: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return cases


def parametrize_cases(name: str) -> pytest.MarkDecorator:
    """Run a test with each case of a file, as its argument `case`."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in load_cases(name)])
