"""The command line itself: help, typing errors, exit statuses, missing extras, and what is no terminal."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from .kit import NODES, PATIENCE, onode, write

EMPTY: Mapping[str, str] = {}

COMMANDS = ("describe", "call", "scan", "bench", "diff", "dev", "doctor")


def test_help_teaches_by_examples_and_names_every_command(tmp_path: Path) -> None:
    """Our own choice: a first call can be copied from it."""
    done = onode("--help", cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert "onode call nodes.py greet name=Ada" in done.out
    assert "Exit status: 0 done" in done.out
    assert all(f"\n  {command} " in done.out for command in COMMANDS)
    assert onode(cwd=tmp_path).out == done.out


@pytest.mark.parametrize("command", COMMANDS[:-1])
def test_each_command_has_an_example_in_its_help(command: str, tmp_path: Path) -> None:
    """Our own choice."""
    done = onode(command, "-h", cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert f"onode {command} " in done.out.partition("Usage:")[2].partition("\n")[2]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["cal"], "No such command 'cal'. Did you mean 'call'? (onode --help)"),
        (["call", "--jsn", "x.py"], "No such option: --jsn"),
        (["call"], "Missing argument 'TARGET' (onode call --help)"),
        (["describe"], "no TARGET"),
        (["describe", "a", "b", "c"], "one word too many: 'c'"),
        (["describe", "--"], "there is no command behind --"),
        (["describe", "x.py", "--host", "notetool"], "did you mean 'nodetool'?"),
        (["call", "x.py", "--deadline", "0"], "0 is no time"),
        (["call", "x.py", "--retry", "0"], "--retry"),
        (["call", "x.py", "--config", "size"], "write --config key=value"),
        (["call", "x.py", "--secret", "A=1"], "--secret 'A' is no name"),
        (["call", "x.py", "--secret", "NOT_SET_ANYWHERE"], "the secret NOT_SET_ANYWHERE is not in the environment"),
        (["scan"], "nothing to scan"),
        (["scan", "no/such/folder"], "there is no file or folder 'no/such/folder'"),
        (["diff", "no.json", "no.json"], "no.json"),
    ],
)
def test_wrong_usage_is_one_line_with_the_way_out_and_status_2(words: list[str], text: str, tmp_path: Path) -> None:
    """Our own choice: and no traceback."""
    done = onode(*words, cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert text in done.err
    assert done.err.startswith("onode: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", ["typer", "rich", "watchfiles"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(name: str, tmp_path: Path) -> None:
    """Our own choice: it says what to do, wherever the command was started."""
    code = (
        "import sys\n"
        f"sys.modules[{name!r}] = None\n"
        "from onode.__main__ import main\n"
        "sys.exit(main(['dev', 'nodes.py'] if sys.argv[1] == 'watchfiles' else ['--help']))"
    )
    write(tmp_path / "nodes.py", NODES)
    done = subprocess.run(
        [sys.executable, "-c", code, name],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"onode: onode needs {name}, which is not installed; pip install 'octonode-sdk[cli]'\n"


def test_the_command_imports_no_node_code(tmp_path: Path) -> None:
    """Our own choice: what node code does to its process, it does to that of the probe or the host."""
    write(tmp_path / "nodes.py", NODES + "\nimport sys\nprint('imported by', *sys.orig_argv)\n")
    done = onode("call", "nodes.py", "greet", "name=Ada", cwd=tmp_path)
    assert (done.status, done.out) == (0, "output  warm Ada\n")
    (line,) = done.err.splitlines()
    assert line.endswith("-m octonode_sdk nodes.py")


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    """Our own choice: `onode ... | head` is how people read."""
    write(tmp_path / "nodes.py", NODES)
    command = f"{sys.executable} -m onode call nodes.py greet name=Ada times=200000 | head -c 1"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=PATIENCE, check=False
    )
    assert done.stderr == ""


def at_a_terminal(*words: str, cwd: Path, env: Mapping[str, str] = EMPTY) -> tuple[int, str]:
    """Run the command with a terminal on all of its streams; return its status and what it has shown."""
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment = {**kept, "TERM": "xterm", **env}
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(sys.executable, [sys.executable, "-m", "onode", *words], environment)
    shown = b""
    while select.select([terminal], [], [], PATIENCE)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_a_terminal_gets_a_table_a_bar_and_colours(tmp_path: Path) -> None:
    """Our own choice: people get what people read."""
    write(tmp_path / "nodes.py", NODES)
    status, shown = at_a_terminal("call", "nodes.py", "steps", "n=3", cwd=tmp_path)
    assert status == 0
    assert "━" in shown
    assert "\x1b[" in shown
    assert "─" in shown
    assert "100%" in shown


def test_no_color_is_respected(tmp_path: Path) -> None:
    """Our own choice, after no-color.org: no colour; bold and dim are none."""
    write(tmp_path / "nodes.py", NODES)
    _, plain = at_a_terminal("call", "nodes.py", "fail", cwd=tmp_path, env={"NO_COLOR": "1"})
    _, coloured = at_a_terminal("call", "nodes.py", "fail", cwd=tmp_path)
    assert "no luck today" in plain
    assert "\x1b[1;31m" in coloured
    assert "\x1b[1;31m" not in plain
