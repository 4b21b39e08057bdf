"""Nodes that can't be started, that fail and recover, that say too much, or something else each time."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octonode_sdk.errors import CODES, RUNTIME_ERROR
from octonode_sdk.ipc.engine import Engine, Limits, RetryPolicy
from tests.ipc.engine.brokenkit import FOLDER, INTERFACES, MODES, ask, command_of
from tests.ipc.support import PATIENCE

AGAIN = RetryPolicy(attempts=4, backoff=0.0)


# What can't be started


def missing(_folder: Path) -> dict[str, Any]:
    """Return a command that is not there."""
    return {"command": ["no-such-node-anywhere"]}


def missing_path(folder: Path) -> dict[str, Any]:
    """Return a path where nothing is."""
    return {"command": [folder / "node"]}


def no_permission(folder: Path) -> dict[str, Any]:
    """Return a file that may not be run."""
    path = folder / "node"
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o644)
    return {"command": [path]}


def a_folder(folder: Path) -> dict[str, Any]:
    """Return a folder."""
    return {"command": [folder]}


def no_program(folder: Path) -> dict[str, Any]:
    """Return a file that may be run and is no program."""
    path = folder / "node"
    path.write_bytes(b"\x00\x01\x02\x03")
    path.chmod(0o755)
    return {"command": [path]}


def no_interpreter(folder: Path) -> dict[str, Any]:
    """Return a script whose interpreter is missing."""
    path = folder / "node"
    path.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    path.chmod(0o755)
    return {"command": [path]}


def no_cwd(folder: Path) -> dict[str, Any]:
    """Return a good command and a folder that is not there."""
    return {"command": command_of("well.py"), "cwd": folder / "gone"}


def too_long(_folder: Path) -> dict[str, Any]:
    """Return a command line that no system takes."""
    return {"command": [*command_of("well.py"), "x" * 20_000_000]}


UNSTARTABLE = [missing, missing_path, no_permission, a_folder, no_program, no_interpreter, no_cwd, too_long]


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", UNSTARTABLE, ids=lambda make: make.__name__)
def test_process_that_cannot_be_started_is_a_retryable_error(
    make: Callable[[Path], dict[str, Any]], mode: str, interface: str, tmp_path: Path
) -> None:
    """ENG-2: whatever the reason of the system."""
    options = make(tmp_path)
    told = ask(interface, options.pop("command"), [{}, {}], mode=mode, **options)
    for answer in told.answers:
        assert answer.error is not None
        assert (answer.fault, answer.error["code"], answer.error["retryable"]) == ("spawn", RUNTIME_ERROR, True)
        assert "can't be started" in answer.error["message"]
        assert len(answer.error["message"]) < 10_000


@pytest.mark.parametrize("mode", MODES)
def test_command_that_appears_later_is_started_then(mode: str, tmp_path: Path) -> None:
    """ENG-2, ENG-24: a failed start is no verdict on the next one."""
    path = tmp_path / "node"
    with Engine([path], mode=mode) as engine:
        assert engine.invoke().fault == "spawn"
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FOLDER / "well.py"}"\n', encoding="utf-8")
        path.chmod(0o755)
        assert engine.invoke(deadline=PATIENCE).ok


# Retries


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", CODES)
def test_retryable_alone_decides_whether_a_call_is_tried_again(code: str, mode: str, interface: str) -> None:
    """ENG-12, ENG-16: and never the code; the node sees the number of the attempt."""
    calls = [
        {"inputs": {"until": 3, "error": {"code": code, "message": "no", **said}}}
        for said in ({"retryable": True}, {"retryable": False}, {})
    ]
    again, never, silent = ask(interface, command_of("fails_until.py"), calls, mode=mode, retry=AGAIN).answers
    assert (again.ok, again.attempts, again.outputs) == (True, 3, {"config": {}, "attempt": 3})
    for answer in (never, silent):  # ERR-3
        assert (answer.ok, answer.attempts) == (False, 1)
        assert answer.error is not None
        assert (answer.error["code"], answer.error["retryable"], answer.fault) == (code, False, None)


@pytest.mark.parametrize("mode", MODES)
def test_last_attempt_that_fails_is_the_answer(mode: str) -> None:
    """ENG-12: after the policy's attempts the node's own error is handed on, with their number."""
    error = {"code": "RUNTIME_ERROR", "message": "busy", "retryable": True, "details": {"load": 9}}
    with Engine(command_of("fails_until.py"), mode=mode, retry=AGAIN) as engine:
        answer = engine.invoke({"until": 9, "error": error}, deadline=PATIENCE)
    assert (answer.attempts, answer.error) == (4, error)


@pytest.mark.parametrize("mode", MODES)
def test_process_that_a_signal_ended_is_tried_again_and_one_that_exits_is_not(mode: str) -> None:
    """ENG-6, ENG-12: since the one is retryable and the other is not."""
    attempts = {
        program: ask("sync", command_of(program), [{}], mode=mode, retry=AGAIN).answer.attempts
        for program in ("killed.py", "segfaults.py", "exits_0.py", "exits_3.py")
    }
    assert attempts == {"killed.py": 4, "segfaults.py": 4, "exits_0.py": 1, "exits_3.py": 1}


@pytest.mark.parametrize("mode", MODES)
def test_deadline_holds_for_all_attempts_together(mode: str) -> None:
    """ENG-3, ENG-12: a late call is retryable for whoever called, but its own time is over."""
    answer = ask("sync", command_of("never_answers.py"), [{"deadline": 1.0}], mode=mode, retry=AGAIN).answer
    assert (answer.fault, answer.attempts) == ("deadline", 1)
    assert answer.error is not None
    assert answer.error["retryable"]


@pytest.mark.parametrize("mode", MODES)
def test_node_sees_how_much_time_is_left(mode: str) -> None:
    """ENG-15: in milliseconds, and less in each attempt; without a deadline there is nothing to see."""
    error = {"code": "RUNTIME_ERROR", "message": "busy", "retryable": True}
    with Engine(command_of("fails_until.py"), mode=mode, retry=AGAIN) as engine:
        with_one = engine.invoke({"until": 2, "error": error}, deadline=PATIENCE)
        without = engine.invoke({"until": 2, "error": error})
    assert 0 < with_one.outputs["deadlineMs"] <= PATIENCE * 1000
    assert "deadlineMs" not in without.outputs


# What is long


@pytest.mark.parametrize("mode", MODES)
def test_huge_answer_comes_whole(mode: str) -> None:
    """ENG-17: 40 MB are within the limit, and the next call is served."""
    with Engine(command_of("huge_answer.py"), mode=mode) as engine:
        for _ in range(2):
            assert engine.invoke(deadline=2 * PATIENCE).outputs == "0123456789" * 4_000_000


@pytest.mark.parametrize("mode", MODES)
def test_answer_over_the_limit_is_not_taken(mode: str) -> None:
    """ENG-17: it is whole and good, and more than whoever called wants to bear."""
    with Engine(command_of("huge_answer.py"), mode=mode, limits=Limits(max_answer_bytes=1_000_000)) as engine:
        answer = engine.invoke(deadline=2 * PATIENCE)
    assert answer.error is not None
    assert (answer.fault, answer.error["retryable"]) == ("too-long", False)
    assert "1000000 bytes" in answer.error["message"]


@pytest.mark.parametrize("mode", MODES)
def test_flood_on_stderr_is_handed_on_and_keeps_nobody_waiting(mode: str) -> None:
    """ENG-13, ENG-21: 100 MB of it, of which a bounded part is kept of each line."""
    lines: list[str] = []
    limits = Limits(stderr_line_bytes=100)
    with Engine(command_of("floods_stderr.py"), mode=mode, on_stderr=lines.append, limits=limits) as engine:
        assert engine.invoke(deadline=2 * PATIENCE).ok
    assert len(lines) == 101
    assert max(map(len, lines)) < 110
    assert lines[-1] == "done with it"


@pytest.mark.parametrize("mode", MODES)
def test_large_request_reaches_a_node_that_answers_with_it(mode: str) -> None:
    """ENG-10, LINE-1: neither pipe fills up and stops the other."""
    text = "0123456789" * 2_000_000
    with Engine(command_of("well.py"), mode=mode) as engine:
        assert engine.invoke({"text": text}, deadline=2 * PATIENCE).outputs == {"text": text}


def test_traceback_of_a_node_is_quoted() -> None:
    """ENG-21: the last lines of stderr, which no verdict depends on."""
    answer = ask("sync", command_of("raises.py"), [{"inputs": {"a": 1}}]).answer
    assert answer.error is not None
    assert answer.error["details"]["stderr"][-1] == "ValueError: these inputs are too much: {'a': 1}"
    assert answer.error["details"]["status"] == 1


# What a node says of itself


def copied(program: str, folder: Path) -> Path:
    """Return a copy of a program whose times a test may change."""
    return Path(shutil.copy(FOLDER / program, folder / program))


@pytest.mark.parametrize("mode", MODES)
def test_manifest_is_kept_until_the_program_changes(mode: str, tmp_path: Path) -> None:
    """Our own choice: a node that describes itself differently each time is asked again when its file has changed."""
    path = copied("changes_its_manifest.py", tmp_path)
    with Engine([sys.executable, "-S", path], mode=mode) as engine:
        first = engine.describe().manifest
        assert first is not None
        assert engine.describe().manifest == first
        fresh = engine.describe(fresh=True).manifest
        assert fresh not in (first, None)
        assert engine.describe().manifest == fresh
        os.utime(path, ns=(1, 1))
        assert engine.describe().manifest not in (first, fresh, None)


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("fails_to_describe.py", None),
        ("exits_0.py", "no-output"),
        ("answers_twice.py", "no-output"),
        ("endless_line.py", "too-long"),
        ("ignores_signals.py", "deadline"),
    ],
    ids=["fails", "silent", "no-inputs", "endless", "late"],
)
def test_describe_that_fails_is_an_envelope_and_is_not_kept(program: str, fault: str | None, tmp_path: Path) -> None:
    """ENG-1: the same faults, in an answer of the type `manifest`."""
    path = copied(program, tmp_path)
    limits = Limits(max_answer_bytes=100_000)
    with Engine([sys.executable, "-S", path], limits=limits) as engine:
        for _ in range(2):
            answer = engine.describe(deadline=1.0 if fault == "deadline" else PATIENCE)
            assert (answer.ok, answer.fault, answer.attempts) == (False, fault, 1)
            assert (answer.envelope["type"], answer.envelope["status"]) == ("manifest", "error")
            assert answer.manifest is None
