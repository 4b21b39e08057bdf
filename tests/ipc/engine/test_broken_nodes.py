"""Each program of tests/data/engine in both modes, through both interfaces: an envelope comes, and nothing stays."""

from typing import Any

import pytest

from octonode_sdk.errors import CODES
from octonode_sdk.ipc.engine import Limits
from tests.data_cases import load_cases
from tests.ipc.engine.brokenkit import FOLDER, INTERFACES, MODES, ask, command_of

CASES = load_cases("engine/cases")

#: Faults after which a worker is ended; after others it is told by its id whose they are, and it goes on.
ENDING = ("cut-off", "deadline", "no-output", "too-long", "wrong-id")

#: Programs that other tests start.
ELSEWHERE = {
    "answers_in_reverse.py",
    "changes_its_manifest.py",
    "conftest.py",
    "fails_to_describe.py",
    "fails_until.py",
    "huge_answer.py",
    "id_of_another.py",
    "raises.py",
    "waits_for_attempt.py",
}


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_broken_node_gives_an_envelope_and_leaves_no_process(case: dict[str, Any], mode: str, interface: str) -> None:
    """ENG-1: nothing raises and nothing hangs. Each case names the rules that say which envelope it is."""
    inputs = {"name": "Ada", "text": "x" * case.get("size", 0)}
    limits = Limits(**case.get("limits", {}))
    options = {"mode": mode, "limits": limits, "deadline": case.get("deadline")}
    expected = case[mode]
    ends = mode == "one-shot" or expected.get("fault") in ENDING
    told = ask(interface, command_of(case["name"]), [{"inputs": inputs, "invocation_id": "i"}], looks=ends, **options)
    answer = told.answer
    assert answer.envelope["octonode"] == "1"
    assert answer.envelope["invocationId"] == "i"
    assert answer.attempts == 1
    if expected.get("ok"):
        assert answer.ok, answer
        assert answer.outputs in (inputs, {})
        assert answer.fault is None
        return
    error = answer.error
    assert error is not None, answer
    assert (answer.fault, error["code"], error["retryable"]) == (
        expected["fault"],
        expected["code"],
        expected["retryable"],
    )
    assert error["code"] in CODES
    assert expected["says"] in error["message"]
    for key in ("status", "stderr"):  # ENG-21
        if key in expected:
            assert error["details"][key] == expected[key]
    assert told.ended is not False


def test_every_program_is_started_by_a_test() -> None:
    """Our own choice: a program that nothing starts proves nothing."""
    programs = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".sh", ".js")}
    assert programs == {case["name"] for case in CASES} | ELSEWHERE


def test_every_guarantee_has_a_program_that_breaks_it() -> None:
    """Our own choice: the rules of the engine that a single program can put to the test."""
    cited = {rule for case in CASES for rule in case["rule"].split(", ")}
    assert {f"ENG-{number}" for number in (1, 3, 4, 5, 6, 7, 8, 9, 13, 14, 17)} <= cited
