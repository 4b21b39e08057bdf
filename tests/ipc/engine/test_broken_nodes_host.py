"""The end of the program that holds an engine: whichever way it ends, no process of its nodes is left."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ipc.engine.brokenkit import MODES, command_of, new_mark, none_left
from tests.ipc.support import PATIENCE, clean_environment

#: A host: it starts an engine, gives it calls, hands on what the nodes say, and ends as it is told.
HOST = """
import os, signal, sys
from octonode_sdk.ipc.engine import Engine

def hand_on(line):
    os.write(1, line.encode() + b"\\n")

mode, count, end, *command = sys.argv[1:]
engine = Engine(command, mode=mode, workers=2, on_stderr=hand_on)
calls = [engine.submit({"until": 9, "then": "wait"}) for _ in range(int(count))]
if end != "at-once":
    sys.stdin.readline()  # the test has seen the processes
if end == "wait":
    hand_on("at the end")
    calls[0].result()
elif end == "raise":
    raise ValueError("the host fails")
elif end == "forget":
    del engine
"""

STUBBORN = ["ignores_signals.py", "grandchild_in_its_session.py", "grandchild_is_orphaned.py"]


class Host:
    """A program with an engine whose calls are in flight."""

    def __init__(self, folder: Path, program: str, mode: str, end: str, calls: int = 4) -> None:
        self.mark = new_mark()
        path = folder / "host.py"
        path.write_text(HOST, encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(path), mode, str(calls), end, *command_of(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(**self.mark),
        )

    def wait_for_lines(self, count: int) -> None:
        """Wait until its nodes have said so many lines."""
        assert self.process.stdout is not None
        fd, seen = self.process.stdout.fileno(), b""
        while seen.count(b"\n") < count:
            ready, _, _ = select.select([fd], [], [], PATIENCE)
            data = os.read(fd, 65536) if ready else b""
            assert data, f"the host has not said {count} lines: {seen!r}"
            seen += data

    def go_on(self) -> None:
        """Let it go on to its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Wait for its end; return what it said on stderr."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return errors.decode()


@contextmanager
def host(folder: Path, program: str, mode: str, end: str, calls: int = 4) -> Iterator[Host]:
    """Start a host; a node that is left when the test is done is killed."""
    made = Host(folder, program, mode, end, calls)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()
        none_left(made.mark)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_killed_host_leaves_no_process_that_reads_its_stdin(number: signal.Signals, mode: str, tmp_path: Path) -> None:
    """ENG-11, LIFE-3: nobody is there to kill them; the end of their stdin is what ends them."""
    with host(tmp_path, "waits_for_attempt.py", mode, "wait") as made:
        made.wait_for_lines(4)
        made.process.send_signal(number)
        made.end()
        assert made.process.returncode == -number
        assert none_left(made.mark)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", STUBBORN)
@pytest.mark.parametrize("end", ["return", "raise", "forget"])
def test_host_that_ends_without_closing_leaves_no_process(end: str, program: str, mode: str, tmp_path: Path) -> None:
    """ENG-4: nodes that ignore all that can be ignored, and what they have started, are killed at its exit."""
    with host(tmp_path, program, mode, end) as made:
        made.wait_for_lines({"one-shot": 4, "worker": 2}[mode])
        made.go_on()
        assert ("ValueError" in made.end()) == (end == "raise")
        assert none_left(made.mark)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", STUBBORN)
def test_host_that_ends_while_its_nodes_are_started_leaves_no_process(program: str, mode: str, tmp_path: Path) -> None:
    """ENG-4: a process that is being started while the host ends is killed, or never started."""
    with host(tmp_path, program, mode, "at-once", calls=12) as made:
        made.end()
        assert none_left(made.mark)


def test_interrupted_host_leaves_no_process(tmp_path: Path) -> None:
    """ENG-4: Ctrl-C while it waits for an answer."""
    with host(tmp_path, "ignores_signals.py", "worker", "wait") as made:
        made.go_on()
        made.wait_for_lines(3)
        made.process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in made.end()
        assert none_left(made.mark)
