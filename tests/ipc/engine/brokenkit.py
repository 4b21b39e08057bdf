"""Engines on programs of tests/data/engine, through either interface, and the proof that nothing of them is left."""

import asyncio
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from octonode_sdk.ipc.engine import Answer, AsyncEngine, Engine
from tests.ipc.support import PATIENCE, Watch

__all__ = ["FOLDER", "INTERFACES", "MODES", "Told", "ask", "command_of", "marked", "new_mark", "none_left"]

FOLDER = Path(__file__).resolve().parents[2] / "data" / "engine"

MODES = ("one-shot", "worker")
INTERFACES = ("sync", "async")

#: Marks the processes of one engine, and all that those start.
_MARK = "ENGINE_TEST_MARK"

#: Seconds that workers have to end by themselves; those that ignore the end of their stdin take all of them.
_GRACE = 1.0

_INTERPRETERS = {".py": (sys.executable, "-S"), ".sh": ("/bin/sh",), ".js": ("node",)}


def command_of(program: str) -> list[str]:
    """Return the command of a program; the test is skipped where nothing runs it."""
    path = FOLDER / program
    line = _INTERPRETERS[path.suffix]
    if shutil.which(line[0]) is None:
        pytest.skip(f"{line[0]} is not installed")
    return [*line, str(path)]


def new_mark() -> dict[str, str]:
    """Return a variable by which `marked` finds whatever is started with it."""
    return {_MARK: uuid.uuid4().hex}


def marked(mark: dict[str, str]) -> list[int]:
    """Return the ids of the processes that carry a mark."""
    wanted = f"{_MARK}={mark[_MARK]}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            if wanted in variables:
                found.append(int(entry))
    return found


def none_left(mark: dict[str, str]) -> bool:
    """Wait until no process with a mark is left; if that does not come, kill them and return False."""
    for _ in range(20):  # what was about to start another one when the list was made
        pids = marked(mark)
        if not pids:
            return True
        for pid in pids:
            try:
                watch = Watch(pid)
            except ProcessLookupError:
                continue
            if not watch.ends():
                _kill(mark)
                return False
    _kill(mark)
    return False


def _kill(mark: dict[str, str]) -> None:
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@dataclass
class Told:
    """What an engine told.

    Attributes:
        answers: The answer of each call, in their order.
        mark: That of its processes.
        ended: Whether none of them was left before the engine was closed; None where nobody looked.
    """

    answers: list[Answer]
    mark: dict[str, str]
    ended: bool | None = None

    @property
    def answer(self) -> Answer:
        """The only one."""
        (answer,) = self.answers
        return answer


def ask(
    interface: str, command: Sequence[str], calls: Sequence[dict[str, Any]], *, looks: bool = False, **options: Any
) -> Told:
    """Start an engine, give it calls at once, wait for their answers, and close it; then none of its processes is left.

    Args:
        interface: "sync" or "async".
        command: The program.
        calls: The arguments of each call; `inputs` is one of them.
        looks: Whether its processes have to end before it is closed.
        options: Of the engine; `env` is added to the mark.
    """
    mark = new_mark()
    options["env"] = {**mark, **options.get("env", {})}
    told = (_ask_sync if interface == "sync" else _ask_async)(command, calls, looks, mark, options)
    assert none_left(mark), "processes are left"
    return told


def _ask_sync(command: Sequence[str], calls: Any, looks: bool, mark: dict[str, str], options: Any) -> Told:
    with Engine(command, **options) as engine:
        handles = [engine.submit(**call) for call in calls]
        answers = [handle.result(PATIENCE) for handle in handles]
        told = Told(answers, mark, none_left(mark) if looks else None)
        engine.close(_GRACE)
    return told


def _ask_async(command: Sequence[str], calls: Any, looks: bool, mark: dict[str, str], options: Any) -> Told:
    async def main() -> Told:
        async with asyncio.timeout(2 * PATIENCE), AsyncEngine(command, **options) as engine:
            answers = await asyncio.gather(*(engine.invoke(**call) for call in calls))
            told = Told(answers, mark, await asyncio.to_thread(none_left, mark) if looks else None)
            await engine.close(_GRACE)
        return told

    return asyncio.run(main())
