"""Pure: requests as lines, lines as answers, and the envelopes that the engine makes itself."""

import json
from typing import Any

import pytest

from octonode_sdk.errors import CODES
from octonode_sdk.ipc.engine.answers import (
    DESCRIBE,
    FAULTS,
    INVOKE,
    Answer,
    MalformedAnswerError,
    fault_answer,
    fitting_answer,
    json_text,
    parse_answer,
    request_parts,
)
from octonode_sdk.ipc.envelope import parse_request
from tests.data_cases import parametrize_cases
from tests.ipc.engine.support import envelope


def line_of(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["bytes"]) if "bytes" in case else json.dumps(case["line"]).encode()


@parametrize_cases("engine/answers")
def test_a_line_is_an_envelope_or_says_where_it_is_none(case: dict[str, Any]) -> None:
    """ENG-7, ENG-14: unknown keys are no fault, everything else that differs from the protocol is."""
    if case["fault"] is None:
        assert parse_answer(line_of(case)) == case["line"]
        return
    with pytest.raises(MalformedAnswerError) as caught:
        parse_answer(line_of(case))
    assert caught.value.fault == case["fault"]
    assert case["says"] in caught.value.problem


def test_what_is_nested_too_deep_is_no_json() -> None:
    """ENG-7: a hostile answer ends nothing."""
    with pytest.raises(MalformedAnswerError, match="nested too deep"):
        parse_answer(b"[" * 100_000)


@pytest.mark.parametrize(("type_", "other"), [(INVOKE, "manifest"), (DESCRIBE, "result")])
def test_an_answer_to_the_other_kind_of_request_is_no_answer(type_: str, other: str) -> None:
    """ENG-7: a manifest answers no invoke, and outputs no describe."""
    with pytest.raises(MalformedAnswerError, match="is of type"):
        fitting_answer(envelope(type=other, manifest={}), type_)


def test_an_error_of_type_result_answers_a_describe() -> None:
    """RES-6: so are lines answered that a runner can't read."""
    error = {"code": "VALIDATION_ERROR", "message": "no"}
    assert fitting_answer(envelope(status="error", error=error), DESCRIBE).error == {**error, "retryable": False}


def test_an_error_without_retryable_is_not_retryable() -> None:
    """ERR-3: and the envelope stays as it came."""
    error = {"code": "TIMEOUT", "message": "no"}
    answer = Answer(envelope(status="error", error=error, outputs=...))
    assert answer.error == {**error, "retryable": False}
    assert answer.envelope["error"] is error
    assert (answer.ok, answer.outputs, answer.manifest) == (False, None, None)


def test_an_answer_shows_what_it_holds() -> None:
    """Our own choice: outputs and manifest are None where there are none."""
    assert (Answer(envelope(outputs=3)).outputs, Answer(envelope()).error) == (3, None)
    made = Answer(envelope(type="manifest", manifest={"id": "x"}, outputs=...))
    assert (made.ok, made.manifest, made.outputs) == (True, {"id": "x"}, None)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("status", [None, 0, 3, -9])
def test_each_fault_has_its_envelope(fault: str, status: int | None) -> None:
    """ENG-1: with one of the four codes; ENG-6: where the end of the process decides, only a signal is retryable."""
    answer = fault_answer(fault, "why", request_id="i", type_=INVOKE, status=status, has_status=True, stderr=["a"])
    assert parse_answer(json.dumps(answer.envelope).encode()) == answer.envelope
    assert answer.error is not None
    assert answer.error["code"] in CODES
    assert answer.error["details"] == {"fault": fault, "status": status, "stderr": ["a"]}  # ENG-21
    expected = FAULTS[fault][1]
    assert answer.error["retryable"] is (status == -9 if expected is None else expected)
    assert answer.fault == fault


def test_only_a_deadline_is_a_timeout() -> None:
    """ENG-3: the code TIMEOUT is that of the deadline and of nothing else."""
    assert [fault for fault, (code, _) in FAULTS.items() if code == "TIMEOUT"] == ["deadline"]


def test_a_describe_that_fails_is_a_manifest_that_could_not_be_had() -> None:
    """RES-8: the type follows the request."""
    assert fault_answer("spawn", "why", request_id="i", type_=DESCRIBE).envelope["type"] == "manifest"


def test_a_request_is_one_that_our_runner_reads() -> None:
    """LINE-1, ENG-15, ENG-16: attempt and deadline stand in the context."""
    head, tail = request_parts(
        INVOKE, 'i"\u2028', node="n", inputs_json='{"a":1}', config_json='{"c":2}', env="prod", run_id="r"
    )
    line = f'{head}2,"deadlineMs":1500{tail}'.encode()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    request = parse_request(line[:-1])
    assert (request.type, request.request_id, request.node, request.inputs) == ("invoke", 'i"\u2028', "n", {"a": 1})
    assert (request.config, request.env, request.run_id) == ({"c": 2}, "prod", "r")
    assert (request.attempt, request.deadline_ms) == (2, 1500)


def test_a_plain_request_has_no_more_than_it_needs() -> None:
    """RES-9: what has no value is left out."""
    head, tail = request_parts(INVOKE, "i")
    assert json.loads(f"{head}1{tail}") == {
        "octonode": "1",
        "type": "invoke",
        "invocationId": "i",
        "context": {"config": {}, "attempt": 1},
        "inputs": {},
    }


def test_a_describe_has_neither_inputs_nor_context() -> None:
    """REQ-15: they mean nothing there."""
    head, tail = request_parts(DESCRIBE, "i", node="n")
    assert tail == ""
    assert json.loads(head) == {"octonode": "1", "type": "describe", "invocationId": "i", "node": "n"}


def test_a_lone_surrogate_travels_as_an_escape() -> None:
    """Our own choice: a file name that is no UTF-8 is an input as any other."""
    assert json_text("the inputs", {"a": "\udcff"}) == '{"a":"\\udcff"}'


def test_inputs_that_are_no_json_are_refused() -> None:
    """Our own choice: that is misuse of the interface, and no fault of a node."""
    circle: list[Any] = []
    circle.append(circle)
    for value, error in ((object(), TypeError), (float("nan"), ValueError), (circle, ValueError)):
        with pytest.raises(error, match="the inputs"):
            json_text("the inputs", {"a": value})
