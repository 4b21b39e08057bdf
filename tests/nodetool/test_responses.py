"""Responses: what a map from a worker is taken for, and what is refused."""

from typing import Any

import pytest

from nodetool_worker import responses
from nodetool_worker.errors import FrameRejectedError
from nodetool_worker.responses import Discovery, Error, Progress, Result, WorkerStatus, check_call, parse_response
from tests.data_cases import parametrize_cases
from tests.nodetool.bridge.support import plain_bytes


@parametrize_cases("nodetool/bridge/frames")
def test_without_validation_what_is_missing_is_forgiven(case: dict[str, Any]) -> None:
    """BRG-12, BRG-11."""
    message = plain_bytes(case["message"])
    if case["class"] is None:
        with pytest.raises(FrameRejectedError) as caught:
            parse_response(message)
        assert case["lenient"] in caught.value.problem
        return
    response = parse_response(message)
    assert type(response) is getattr(responses, case["class"])
    assert response.request_id == ("r1" if message.get("request_id") == "r1" else None)
    assert response.data == (message.get("data") or {})


@parametrize_cases("nodetool/bridge/frames")
def test_with_validation_each_fault_is_named(case: dict[str, Any]) -> None:
    """BRG-12, BLB-5."""
    message = plain_bytes(case["message"])
    if case["strict"] is None:
        assert type(parse_response(message, validate=True)) is getattr(responses, case["class"])
        return
    with pytest.raises(FrameRejectedError) as caught:
        parse_response(message, validate=True)
    assert caught.value.problem.startswith(case["strict"])
    assert caught.value.request_id == ("r1" if message.get("request_id") == "r1" else None)


def test_what_is_of_no_use_has_a_default() -> None:
    """Our own choice: a lenient response never has a value of another kind than it says."""
    error = parse_response({"type": "error", "request_id": "r", "data": {"error": 5, "traceback": 7}})
    assert isinstance(error, Error)
    assert (error.text, error.traceback) == ("5", None)
    progress = parse_response({"type": "progress", "request_id": "r", "data": {"progress": "x", "message": 5}})
    assert isinstance(progress, Progress)
    assert (progress.done, progress.total, progress.message) == (0, 0, None)
    found = parse_response({"type": "discover", "request_id": "r", "data": {"nodes": [{"a": 1}, {"node_type": "n"}]}})
    assert isinstance(found, Discovery)
    assert (found.nodes, found.load_errors, found.protocol_version) == ([{"node_type": "n"}], [], 1)
    assert found.node("n") == {"node_type": "n"}
    assert found.node("m") is None
    status = WorkerStatus({"node_count": "x", "comfy": None, "namespaces": [1, "a"], "max_frame_size": -1})
    assert (status.node_count, status.comfy, status.namespaces, status.max_frame_size) == (0, {}, ["a"], None)


@pytest.mark.parametrize("data", [{"outputs": {}}, {"blobs": {}}, {}])
def test_a_call_needs_both_maps_when_it_is_checked(data: dict[str, Any]) -> None:
    """BRG-12: the host reads both."""
    response = parse_response({"type": "result", "request_id": "r", "data": data}, validate=True)
    assert isinstance(response, Result)
    check_call(response)
    with pytest.raises(FrameRejectedError, match="is missing"):
        check_call(response, validate=True)


def test_a_response_shows_what_it_is() -> None:
    """Our own choice: a text for people, short."""
    shown = repr(parse_response({"type": "result", "request_id": "r", "data": {"outputs": {"a": "x" * 1000}}}))
    assert shown.startswith("Result('r', ")
    assert len(shown) < 200
