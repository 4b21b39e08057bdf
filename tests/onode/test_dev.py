"""`onode dev`: lines of stdin, files that change, and what can't be loaded. Our own choice throughout."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .kit import NODES, PATIENCE, onode, write


class Session:
    """A running `onode dev`, whose two streams are one."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onode", "dev", *words],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, text: str) -> list[str]:
        """Return the lines up to the first that holds a text."""
        seen: list[str] = []
        while True:
            line = self._lines.get(timeout=PATIENCE)
            assert line is not None, f"it ended before {text!r}: {''.join(seen)}"
            seen.append(line)
            if text in line:
                return seen

    def say(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def leave(self) -> int:
        """End its stdin and return its status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@pytest.fixture(params=["octonode", "nodetool"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """Return a session of each host, on nodes.py."""
    write(tmp_path / "nodes.py", NODES)
    running = Session(tmp_path, "nodes.py", "--host", request.param)
    yield running
    running.process.kill()
    if running.process.stdin is not None and not running.process.stdin.closed:
        running.leave()


def test_nodes_are_called_again_and_again(session: Session) -> None:
    """An empty line repeats the last call; a fault of one leaves the next alone."""
    session.until("serving 8 nodes of nodes.py")
    session.say("greet name=Ada")
    session.until("output  warm Ada")
    session.say("")
    session.until("output  warm Ada")
    session.say("greet name='Ada Lovelace'  # with a comment")
    session.until("output  warm Ada Lovelace")
    session.say("fail")
    session.until("no luck today")
    session.say("crash")
    session.until("onode: ")
    session.say("call greet name=Ada tone=dry")
    session.until("output  dry Ada")
    assert session.leave() == 0


def test_wrong_lines_are_told_and_cost_nothing(session: Session) -> None:
    """Each is one line with the way out."""
    session.until("serving")
    for line, told in (
        ("gret name=Ada", "did you mean"),
        ("greet nam=Ada", "did you mean 'name'?"),
        ("greet", "needs name"),
        ("greet times=x name=a", "expected integer"),
        ("greet name='", "can't be read"),
        ("nodess", "did you mean 'nodes'?"),
        ("describe greet", "output  text"),
        ("nodes", "name*"),
        ("help", "help, quit"),
    ):
        session.say(line)
        session.until(told)
    session.say("quit")
    assert session.process.wait(PATIENCE) == 0


def test_a_change_starts_the_worker_again_and_a_fault_is_shown_at_once(session: Session, tmp_path: Path) -> None:
    """What can't be loaded waits for the next change."""
    session.until("serving 8 nodes")
    write(tmp_path / "nodes.py", "x =\n")
    session.until("can't load nodes.py: SyntaxError")
    session.say("greet name=Ada")
    session.until("nodes.py is not loaded; mend it and save")
    write(tmp_path / "nodes.py", "@node\ndef greet(name: str) -> str:\n    return f'new {name}'\n")
    session.until("serving 1 node of nodes.py")
    session.say("greet name=Ada")
    session.until("output  new Ada")
    assert session.leave() == 0


def test_a_change_drops_the_call_that_is_running(session: Session, tmp_path: Path) -> None:
    """A node that hangs does not hold up the one who mends it."""
    session.until("serving")
    session.say("forever")
    write(tmp_path / "other.py", "x = 1\n")
    session.until("changed: other.py")
    session.until("serving")
    session.say("greet name=Ada")
    session.until("output  warm Ada")
    assert session.leave() == 0


def test_a_helper_elsewhere_is_watched_too(tmp_path: Path) -> None:
    """Under Octonode, where the target tells what it has loaded."""
    write(tmp_path / "nodes.py", "from lib.helper import X\n@node\ndef get() -> int:\n    return X\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helper.py").write_text("X = 1\n", encoding="utf-8")
    session = Session(tmp_path, "nodes.py")
    session.until("serving")
    (tmp_path / "lib" / "helper.py").write_text("X = 23456\n", encoding="utf-8")
    session.until("changed: helper.py")
    session.until("serving")
    session.say("get")
    session.until("output  23456")
    assert session.leave() == 0


def test_a_target_that_is_not_loaded_at_the_end_is_the_status(tmp_path: Path) -> None:
    """For scripts: 2 where it can't be loaded, as elsewhere."""
    write(tmp_path / "nodes.py", "x =\n")
    done = onode("dev", "nodes.py", cwd=tmp_path, given="")
    assert done.status == 2
    assert onode("dev", "missing.py", cwd=tmp_path).err.startswith("onode: there is no file 'missing.py'")
