"""What the tests of the inventory share: packs on disk, and a process that is as it was afterwards."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from nodetool_worker.inventory import Inventory
from octonode_sdk import nodes, secrets

__all__ = ["a_node", "as_it_was", "clean", "install", "places", "write"]


def as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Undo what loading does to the process: modules, the path, the known nodes; `lib` in the folder is on the path."""
    before = set(sys.modules)
    (tmp_path / "lib").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "lib")])
    monkeypatch.setattr(nodes, "_nodes", dict(nodes._nodes))
    monkeypatch.delenv("OCTONODE_DISABLED_PACKS", raising=False)
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()
    yield
    secrets.forget_secrets()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def a_node(name: str, options: str = "") -> str:
    """Return the source of a node; its `def` is the third line."""
    return f"\n@node({options})\ndef {name}(value: int) -> int:\n    return value\n"


def write(path: str, source: str) -> str:
    """Write a file below the folder of the test, with `node` at hand; return its path."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("from octonode_sdk import node\n" + dedent(source), encoding="utf-8")
    return path


def install(distribution: str, *points: str, folder: str = "lib") -> None:
    """Install a distribution with these entry points: `name = module`."""
    info = Path(folder) / f"{distribution.replace('-', '_')}-1.0.dist-info"  # as installers spell it
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {distribution}\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(["[octonode.nodes]", *points]), encoding="utf-8")


def places(found: Inventory) -> list[tuple[str, str, str]]:
    """Return the module, phase and class of each load error."""
    return [(one["module"], one["phase"], one["error_type"]) for one in found.load_errors]


def clean(found: Inventory) -> list[str]:
    """Return the node types of an inventory without load errors."""
    assert found.load_errors == []
    return list(found.nodes)
