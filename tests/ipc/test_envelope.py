"""Lines -> requests, and answers -> lines. The cases stand in tests/data/envelope."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from octonode_sdk.errors import CODES, TIMEOUT, OutputsError, RemoteProtocolError
from octonode_sdk.failures import Failure, failure_of
from octonode_sdk.ipc.envelope import (
    UNKNOWN_ID,
    Request,
    failure_line,
    manifest_line,
    overlong_error,
    parse_request,
    result_line,
)
from octonode_sdk.ipc.lines import OverlongLine
from tests.ipc.support import read_answer

DATA = Path(__file__).resolve().parents[1] / "data" / "envelope"

#: JSON values as Python has them, lone surrogates included.
TEXTS = st.text(st.characters(exclude_categories=[]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


def load_cases(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert len({case["name"] for case in cases}) == len(cases)
    return cases


def by_name(case: dict[str, Any]) -> str:
    return str(case["name"])


def line_of(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["hex"]) if "hex" in case else case["line"].encode("utf-8")


def refuse(line: bytes) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        parse_request(line)
    return caught.value


@pytest.mark.parametrize("case", load_cases("requests"), ids=by_name)
def test_a_request_is_read(case: dict[str, Any]) -> None:
    """REQ-2 to REQ-5, REQ-10, REQ-14, REQ-15, CTX-1 to CTX-6, CTX-8: what stands in the cases."""
    request = parse_request(line_of(case))
    assert {name: getattr(request, name) for name in case["expected"]} == case["expected"]


@pytest.mark.parametrize("case", load_cases("refusals"), ids=by_name)
def test_a_line_that_is_no_request_is_refused_with_its_id_and_every_fault(case: dict[str, Any]) -> None:
    """LINE-6, LINE-7, LINE-11, LINE-12, REQ-1 to REQ-5, REQ-11, CTX-1 to CTX-8, RES-3, RES-4, ERR-17, ERR-18."""
    expected = case["expected"]
    error = refuse(line_of(case))
    assert error.request_id == expected["id"]
    assert expected["message"] in str(error)
    assert [fault.path for fault in error.faults] == expected["paths"]


@pytest.mark.parametrize("case", load_cases("recovered_ids"), ids=by_name)
def test_the_id_of_a_broken_line_is_read_where_it_can_only_be_the_request_s(case: dict[str, Any]) -> None:
    """RES-3, RES-19: its sender waits for an answer; an id of somebody else's must not get one."""
    line = line_of(case)
    assert refuse(line).request_id == case["expected"]
    assert overlong_error(OverlongLine(line, 99), 10).request_id == case["expected"]
    assert refuse(line + b"\xff").request_id == case["expected"]


@given(line=st.binary() | st.text().map(str.encode))
@example(b"")
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b'{"octonode":"1","type":"invoke","invocationId":"i","inputs":{"a":' + b"[" * 100_000)
def test_any_bytes_give_a_request_or_a_protocol_error(line: bytes) -> None:
    """LINE-6, LINE-7, LINE-12: nothing else leaves the parser, and the error can be sent."""
    try:
        assert isinstance(parse_request(line), Request)
    except RemoteProtocolError as error:
        read_answer(failure_line(UNKNOWN_ID if error.request_id is None else error.request_id, failure_of(error)))


@given(
    envelope=st.fixed_dictionaries(
        {},
        optional={
            "octonode": st.just("1") | VALUES,
            "type": st.sampled_from(["invoke", "describe"]) | VALUES,
            "invocationId": TEXTS | VALUES,
            "node": TEXTS | VALUES,
            "inputs": st.dictionaries(TEXTS, VALUES, max_size=3) | VALUES,
            "context": st.fixed_dictionaries(
                {},
                optional={
                    "runId": TEXTS | VALUES,
                    "env": VALUES,
                    "config": VALUES,
                    "attempt": st.integers() | VALUES,
                    "deadlineMs": st.integers() | VALUES,
                },
            )
            | VALUES,
        },
    )
    | VALUES
)
def test_any_json_gives_a_request_or_a_protocol_error(envelope: Any) -> None:
    """REQ-1, RES-2, RES-4: whatever comes of it, the id is that of the line."""
    line = json.dumps(envelope).encode()
    id_ = envelope.get("invocationId") if isinstance(envelope, dict) else None
    read: Request | RemoteProtocolError
    try:
        read = parse_request(line)
    except RemoteProtocolError as error:
        read = error
    if isinstance(read, Request):
        assert read.request_id == id_
        assert read.attempt >= 1
        assert read.deadline_ms is None or 0 < read.deadline_ms < sys.float_info.max
    else:
        assert read.request_id == (id_ if isinstance(id_, str) else None)
        read_answer(failure_line("i", failure_of(read)))


def test_a_line_that_is_nested_too_deep_is_told_so_under_its_id() -> None:
    """LINE-12."""
    error = refuse(b'{"octonode":"1","type":"invoke","invocationId":"i","inputs":{"a":' + b"[" * 200_000)
    assert error.request_id == "i"


def test_the_search_for_an_id_takes_time_in_proportion_to_the_line() -> None:
    """LINE-7: a broken line of many quotes must not hold up the lines behind it. Minutes here if it is quadratic."""
    assert refuse(b'{"invocationId":5,' + b'"a",' * 1_000_000).request_id is None
    assert refuse(b'{"invocationId":"' + b'\\"' * 1_000_000).request_id is None
    assert refuse(b'{"invocationId":"' + b"\\" * 1_000_000).request_id is None


def test_a_line_over_the_limit_is_told_its_size_and_the_way_out() -> None:
    """LINE-8: the cap is named, and how to raise it; the id is that of the line's head."""
    error = overlong_error(OverlongLine(b'{"octonode":"1","invocationId":"i","inputs":{"a":"xxx', 1234), 1000)
    assert error.request_id == "i"
    for part in ("1234", "1000", "--max-line-bytes", "OCTONODE_MAX_LINE_BYTES"):
        assert part in str(error)


def test_a_head_that_is_cut_inside_a_character_still_gives_its_id() -> None:
    """LINE-8, RES-19: the cut is ours, not the sender's."""
    head = '{"invocationId":"é","inputs":{"a":"é'.encode()[:-1]
    assert overlong_error(OverlongLine(head, 99), 10).request_id == "é"
    assert overlong_error(OverlongLine('{"invocationId":"é'.encode()[:-1], 99), 10).request_id is None


# Answers


@given(id_=TEXTS, outputs=st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.booleans()))
@example("\ud800", {})
@example("\u2028\u2029\r\n\0", {"a": "\u2028\u2029\r\n\0\x7f\ufeff"})
def test_an_answer_is_one_line_of_strict_json_that_repeats_the_id(id_: str, outputs: dict[str, Any]) -> None:
    """LINE-14, LINE-15, RES-1, RES-2, RES-5 to RES-7: whatever characters the id and the outputs are made of."""
    result = read_answer(result_line(id_, outputs, node="n"))
    assert result == {"octonode": "1", "type": "result", "invocationId": id_, "status": "ok", "outputs": outputs}
    manifest = read_answer(manifest_line(id_, outputs))
    assert manifest == {"octonode": "1", "type": "manifest", "invocationId": id_, "status": "ok", "manifest": outputs}
    failure = read_answer(failure_line(id_, Failure("RUNTIME_ERROR", "no")))
    error = {"code": "RUNTIME_ERROR", "message": "no", "retryable": False}
    assert failure == {"octonode": "1", "type": "result", "invocationId": id_, "status": "error", "error": error}


def test_an_answer_is_utf_8_and_not_escapes() -> None:
    """LINE-15: a text of another script does not grow to six bytes a character."""
    assert "日本".encode() in result_line("i", {"a": "日本"}, node="n")


def test_what_an_error_does_not_have_is_absent() -> None:
    """C013, RES-9, ERR-4, ERR-5, ERR-6: the host's schema takes absent keys and no null in their place."""
    bare = read_answer(failure_line("i", Failure("NON_RETRYABLE", "no")))["error"]
    assert bare == {"code": "NON_RETRYABLE", "message": "no", "retryable": False}
    failure = Failure("RUNTIME_ERROR", "no", retryable=True, details={"a": None}, stack="Traceback")
    whole = read_answer(failure_line("i", failure))["error"]
    assert whole == {
        "code": "RUNTIME_ERROR",
        "message": "no",
        "retryable": True,
        "details": {"a": None},
        "stack": "Traceback",
    }


@pytest.mark.parametrize("details", [0, False, "", [], {}])
def test_details_that_count_as_false_are_kept(details: Any) -> None:
    """ERR-5: any JSON value is one."""
    error = read_answer(failure_line("i", Failure("RUNTIME_ERROR", "no", details=details)))["error"]
    assert error["details"] == details
    assert type(error["details"]) is type(details)


def test_a_failed_describe_is_a_manifest() -> None:
    """RES-8."""
    answer = read_answer(failure_line("i", Failure("RUNTIME_ERROR", "no"), type_="manifest"))
    assert (answer["type"], answer["status"]) == ("manifest", "error")


def test_an_error_with_a_text_that_is_no_utf_8_is_sent_all_the_same() -> None:
    """ERR-20: such as the name of a file on a disk with another encoding."""
    error = read_answer(failure_line("i", Failure("RUNTIME_ERROR", "can't load \udcff.py")))["error"]
    assert error["message"] == "can't load \udcff.py"


@pytest.mark.parametrize(
    ("outputs", "path"),
    [
        ({"a": "\ud800"}, "$.a"),
        ({"a": {"b": ["x", "\udfff"]}}, "$.a.b[1]"),
    ],
)
def test_a_lone_surrogate_in_the_outputs_is_an_error_with_its_path(outputs: dict[str, Any], path: str) -> None:
    """RES-17, ERR-11: no UTF-8 can carry it, and it is not replaced."""
    with pytest.raises(OutputsError) as caught:
        result_line("\ud800", outputs, node="n")
    assert [fault.path for fault in caught.value.faults] == [path]
    read_answer(failure_line("i", failure_of(caught.value)))


def test_a_lone_surrogate_in_a_key_of_the_outputs_is_an_error() -> None:
    """RES-17, ERR-11."""
    with pytest.raises(OutputsError):
        result_line("i", {"a": {"\ud800": 1}}, node="n")


def test_outputs_that_are_nested_too_deep_are_an_error() -> None:
    """RES-17, ERR-11."""
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(OutputsError, match="nested too deep"):
        result_line("i", {"a": deep}, node="n")
    while deep:  # let go of it level by level: some interpreters free it by recursion
        deep = deep[0]


def test_the_codes_are_the_four_of_the_wire() -> None:
    """ERR-1, RES-13: one of them, TIMEOUT, is the engine's alone."""
    assert CODES == ("VALIDATION_ERROR", "RUNTIME_ERROR", "TIMEOUT", "NON_RETRYABLE")
    assert failure_of(TimeoutError("late")).code != TIMEOUT
    assert failure_of(TimeoutError("late")).code == "RUNTIME_ERROR"


def test_every_rule_of_the_cases_is_a_rule_of_the_document() -> None:
    """Our own choice: a case names the rule that it proves."""
    document = Path(__file__).resolve().parents[2] / "docs" / "octonode-wire.md"
    text = document.read_text(encoding="utf-8")
    rules = {case["rule"] for name in ("requests", "refusals", "recovered_ids") for case in load_cases(name)}
    assert [rule for rule in sorted(rules) if f"| {rule} |" not in text] == []
