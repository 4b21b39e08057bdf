"""Targets that can't be loaded: one line with the way out, status 2, and no traceback unless it is asked for."""

from pathlib import Path

import pytest

from .kit import HEAD, NODES, onode, write

BAD = {
    "not there": ("gret.py", None, "there is no file 'gret.py'", "did you mean 'greet.py'?"),
    "no Python": ("data.csv", "a,b\n", "'data.csv' is no Python file", "has to end in .py"),
    "a folder": ("folder/", None, "folder/ is a folder", "onode scan folder/"),
    "no module": ("no_such_module", None, "there is no module 'no_such_module'", "give the path of a file"),
    "a syntax error": ("bad.py", "def (\n", "can't load bad.py: SyntaxError", "line 1"),
    "raises": ("bad.py", HEAD + "raise ValueError('boom')\n", "ValueError: boom (bad.py, line 2)", "--debug"),
    "exits": ("bad.py", "import sys\nsys.exit(3)\n", "SystemExit: 3 (bad.py, line 2)", "__name__ == '__main__'"),
    "interrupts": ("bad.py", "raise KeyboardInterrupt\n", "KeyboardInterrupt", "line 1"),
    "ends the process": ("bad.py", "import os\nos._exit(5)\n", "ended the process (status 5)", "do that in the node"),
    "kills the process": (
        "bad.py",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "ended the process (signal SIGKILL)",
        "do that in the node",
    ),
    "no node": ("bad.py", "x = 1\n", "bad.py defines no node", "put @node on a function"),
    "one id twice": (
        "bad.py",
        HEAD + "@node(id='a')\ndef b() -> int: ...\n@node(id='a')\ndef c() -> int: ...\n",
        "two nodes of bad.py have this id",
        "give one of them another",
    ),
    "an ill-defined node": ("bad.py", HEAD + "@node\ndef b(x) -> int: ...\n", "'x' has no annotation", "write one"),
    "a part of a package": (
        "pack/one.py",
        "from .two import x\n",
        "attempted relative import",
        "give its dotted name, pack.one",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["describe", "call", "bench"])
def test_a_bad_target_is_one_line_with_the_way_out(name: str, command: str, tmp_path: Path) -> None:
    """Our own choice: the same words from each command."""
    target, source, problem, way_out = BAD[name]
    (tmp_path / "folder").mkdir()
    write(tmp_path / "greet.py", NODES)
    if source is not None:
        (tmp_path / target).parent.mkdir(exist_ok=True)
        (tmp_path / "pack").mkdir(exist_ok=True)
        (tmp_path / "pack" / "__init__.py").touch()
        (tmp_path / target).write_text(source, encoding="utf-8")
    done = onode(command, target, "greet", cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("onode: ")
    assert done.err.count("\n") == 1
    assert problem in done.err
    assert way_out in done.err


@pytest.mark.parametrize("name", ["not there", "no Python", "raises", "exits", "ends the process", "no node"])
def test_a_bad_target_is_one_line_under_nodetool_as_well(name: str, tmp_path: Path) -> None:
    """Our own choice."""
    target, source, problem, _ = BAD[name]
    if source is not None:
        (tmp_path / target).write_text(source, encoding="utf-8")
    done = onode("describe", target, "--host", "nodetool", cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("onode: can't load ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    if name != "ends the process":
        assert problem.partition(" (")[0] in done.err


def test_the_traceback_comes_with_debug(tmp_path: Path) -> None:
    """Our own choice: from the author's first line on."""
    (tmp_path / "bad.py").write_text(HEAD + "def f():\n    raise ValueError('boom')\n\nf()\n", encoding="utf-8")
    done = onode("describe", "bad.py", "--debug", cwd=tmp_path)
    assert done.status == 2
    assert "Traceback (most recent call last)" in done.err
    assert "bad.py" in done.err.partition("Traceback")[2].splitlines()[1]


def test_a_command_that_is_no_node_is_told_in_one_line(tmp_path: Path) -> None:
    """ENG-1: whatever it does, with status 2."""
    for command in (["cat"], ["true"], ["no-such-program"], ["echo", "hello"], ["false"]):
        done = onode("describe", "--", *command, cwd=tmp_path)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"onode: {' '.join(command)} does not answer as a node: ")
        assert done.err.count("\n") == 1


def test_a_module_is_found_in_the_working_directory(tmp_path: Path) -> None:
    """LIFE-19: as `python -m` finds it."""
    write(tmp_path / "acme" / "nodes.py", NODES)
    (tmp_path / "acme" / "__init__.py").touch()
    done = onode("call", "acme.nodes", "greet", "name=Ada", cwd=tmp_path)
    assert (done.status, done.out) == (0, "output  warm Ada\n")
