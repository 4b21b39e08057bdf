"""The client's core on paper: bytes in, happenings out."""

import hashlib
from typing import Any

import pytest

from nodetool_worker.bridge.core import CALL, DISCOVER, PLAIN, STATUS, STREAM, Answered, Core, Failed
from nodetool_worker.errors import LocalProtocolError, RequestFailedError, WorkerDiedError
from nodetool_worker.frames import Large
from nodetool_worker.responses import Result
from tests.data_cases import parametrize_cases
from tests.nodetool.bridge.support import (
    counting_ids,
    frame,
    new_core,
    open_request,
    plain_bytes,
    read_frame,
    result,
    told,
    wire,
)

_TYPES = {CALL: "execute", STREAM: "execute.stream", DISCOVER: "discover", STATUS: "worker.status", PLAIN: "x.y"}


def as_json(shown: list[Any]) -> list[Any]:
    return [list(one) for one in shown]


@parametrize_cases("nodetool/bridge/conversations")
def test_frames_become_happenings(case: dict[str, Any]) -> None:
    """BRG-4, BRG-11, BRG-12, BRG-17, BRG-18, FRM-2: whole, byte by byte, and with more behind."""
    data = b"".join(map(wire, case["frames"]))
    more = result("r2", b=2)
    for pieces in ([data + more], [bytes([one]) for one in data + more], [data, more]):
        core = new_core(validate=case["validate"])
        open_request(core, kind=case["kind"], type_=_TYPES[case["kind"]])
        open_request(core)
        happenings: list[Any] = []
        for piece in pieces:
            happenings += core.feed(piece, 0.0)
        assert as_json(told(happenings)[:-1]) == case["expected"]
        assert told(happenings)[-1] == ("answered", "r2", {"outputs": {"b": 2}, "blobs": {}})
        assert core.pending == []


@pytest.mark.parametrize("is_bytewise", [False, True])
@parametrize_cases("nodetool/bridge/blobs")
def test_chunks_become_blobs_or_an_error_of_their_request(case: dict[str, Any], is_bytewise: bool) -> None:
    """BLB-5, C070: offsets, sizes, digests and the limit are checked; the other request goes on."""
    core = new_core(blob_bytes=8)
    open_request(core)
    open_request(core)
    happenings: list[Any] = []
    for type_, data in plain_bytes(case["frames"]):
        wired = frame(type_, "r1", data)
        for piece in [bytes([one]) for one in wired] if is_bytewise else [wired]:
            happenings += core.feed(piece, 0.0)
    if case["blobs"] is not None:
        (answered,) = happenings
        assert isinstance(answered.response, Result)
        assert {name: bytes(one).hex() for name, one in answered.response.blobs.items()} == case["blobs"]
    else:
        *sent, failed = happenings
        assert case["problem"] in str(failed.error)
        is_ended = case["frames"][-1][0] in ("result", "error")
        assert told(sent) == ([] if is_ended else [("send", "cancel", "r1")])
        assert core.feed(frame("blob.chunk", "r1", {"name": "a", "offset": 0, "bytes": b"late"}), 0.0) == [] or is_ended
    assert told(core.feed(result("r2"), 0.0))[0][:2] == ("answered", "r2")


def test_blobs_of_two_requests_may_be_interleaved() -> None:
    """BLB-5, C070."""
    core = new_core()
    open_request(core)
    open_request(core)
    sha = {
        "r1": "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a",
        "r2": "dbc1b4c900ffe48d575b5da5c638040125f65db0fe3e24494b76ea986457d986",
    }
    happenings: list[Any] = []
    for type_ in ("blob.start", "blob.chunk", "blob.end", "result"):
        for number, id_ in enumerate(sha, 1):
            forms: dict[str, dict[str, Any]] = {
                "blob.start": {"name": "o", "size": 1},
                "blob.chunk": {"name": "o", "offset": 0, "bytes": bytes([number])},
                "blob.end": {"name": "o", "size": 1, "sha256": sha[id_]},
                "result": {"outputs": {}, "blobs": {}},
            }
            happenings += core.feed(frame(type_, id_, forms[type_]), 0.0)
    assert [bytes(one.response.blobs["o"]) for one in happenings] == [b"\1", b"\2"]


def test_a_large_blob_is_read_only_memory_and_costs_nothing_before_it_comes() -> None:
    """BLB-5: a size alone takes no memory."""
    core = new_core(blob_bytes=1 << 60)
    open_request(core)
    assert core.feed(frame("blob.start", "r1", {"name": "a", "size": 1 << 40}), 0.0) == [] or core.pending == []
    core = new_core()
    open_request(core)
    content = bytes(range(256)) * 8192
    core.feed(frame("blob.start", "r1", {"name": "a", "size": len(content)}), 0.0)
    core.feed(frame("blob.chunk", "r1", {"name": "a", "offset": 0, "bytes": content}), 0.0)
    digest = hashlib.sha256(content).hexdigest()
    core.feed(frame("blob.end", "r1", {"name": "a", "size": len(content), "sha256": digest}), 0.0)
    (answered,) = core.feed(result(), 0.0)
    assert isinstance(answered, Answered)
    assert isinstance(answered.response, Result)
    blob = answered.response.blobs["a"]
    assert isinstance(blob, memoryview)
    assert blob.readonly
    assert blob == content


def test_a_large_payload_is_read_into_its_own_memory() -> None:
    """FRM-2: by way of `room` and `filled` as well."""
    core = new_core()
    open_request(core)
    data = frame("result", "r1", {"outputs": {"a": "x" * (2 << 20)}, "blobs": {}}) + result("r9")
    assert core.feed(data[:100], 0.0) == []
    room = core.room()
    assert room is not None
    count = len(room)
    room[:] = data[100 : 100 + count]
    room.release()
    assert told(core.filled(count, 0.0))[0][:2] == ("answered", "r1")
    assert core.room() is None


# What can't be followed


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\0\0\0\1\xc1", "Malformed msgpack frame: invalid format"),
        (b"\0\0\0\0", "Malformed msgpack frame: Unpack failed: incomplete input"),
        (b"\0\0\0\2\xc0\xc0", "Malformed msgpack frame: unpack(b) received extra data."),
        (b"\0\0\0\2\xa1\xff", "Malformed msgpack frame: 'utf-8' codec"),
        (b"\xff\xff\xff\xff", "exceeds max size (4294967295 > 268435456); raise NODETOOL_BRIDGE_MAX_FRAME_SIZE"),
        (b"Hello\n", "came the text 'Hell'...; something in the worker prints to stdout"),
    ],
)
@pytest.mark.parametrize("is_bytewise", [False, True])
def test_what_can_not_be_followed_loses_the_stream(data: bytes, problem: str, is_bytewise: bool) -> None:
    """BRG-13, C040, C041: an empty frame among it; nothing behind it is looked at."""
    core = new_core()
    open_request(core)
    happenings: list[Any] = []
    whole = data + result()
    for piece in [bytes([one]) for one in whole] if is_bytewise else [whole]:
        happenings += core.feed(piece, 0.0)
    (lost,) = told(happenings)
    assert lost[0] == "lost"
    assert problem in lost[1]
    ended = core.end(lambda request: WorkerDiedError("is gone", request_id=request.request_id))
    assert told(ended) == [("failed", "r1", "WorkerDiedError", "the worker is gone")]
    assert core.pending == []
    assert core.feed(result(), 0.0) == []


def test_each_pending_request_gets_an_error_of_its_own() -> None:
    """BRG-16: one exception raised in two threads would mix their tracebacks."""
    core = new_core()
    open_request(core)
    open_request(core)
    first, second = core.end(lambda request: WorkerDiedError("died", request_id=request.request_id))
    assert isinstance(first, Failed)
    assert isinstance(second, Failed)
    assert first.error is not second.error


# Requests


def test_a_request_is_a_frame_with_its_id() -> None:
    """BRG-10, FRM-1."""
    core = new_core()
    first = core.prepare("execute", {"a": 1}, None)
    second = core.prepare("execute", {"a": 1}, None)
    assert read_frame(first.frame) == {"type": "execute", "request_id": "r1", "data": {"a": 1}}
    assert second.request_id == "r2"


@pytest.mark.parametrize("state", ["pending", "ended", "empty"])
def test_an_id_that_is_not_new_is_refused(state: str) -> None:
    """BRG-10."""
    core = Core(new_id=lambda: "" if state == "empty" else "same")
    if state != "empty":
        core.open(core.prepare("execute", {}, None, kind=CALL), 0.0)
    if state == "ended":
        core.feed(result("same"), 0.0)
    with pytest.raises(LocalProtocolError, match="is not new"):
        core.prepare("execute", {}, None)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"a": object()}, "a object can't be sent; MessagePack carries"),
        ({"a": 1 << 64}, "can't be sent: .*MessagePack carries"),
        ({"a": "\ud800"}, "surrogates not allowed"),
        ({"a": b"x" * 2000}, "has 20.. bytes, and a frame takes at most 1024; send less, or raise"),
        ({"a": Large(memoryview(b"x" * 2000))}, "has 20.. bytes, and a frame takes at most 1024"),
    ],
)
def test_what_the_wire_can_not_carry_is_refused_before_anything_is_sent(data: dict[str, Any], problem: str) -> None:
    """BRG-14."""
    core = new_core(frame_bytes=1024)
    with pytest.raises(LocalProtocolError, match=problem):
        core.prepare("execute", data, None)
    assert core.pending == []


def test_a_worker_that_takes_smaller_frames_gets_no_larger_ones() -> None:
    """BRG-14: `max_frame_size` of its status counts as well."""
    core = new_core()
    open_request(core, kind=STATUS, type_="worker.status")
    core.feed(frame("result", "r1", {"max_frame_size": 100}), 0.0)
    with pytest.raises(LocalProtocolError, match="at most 100"):
        core.prepare("execute", {"a": "x" * 100}, None)


def test_a_cancelled_request_ends_as_the_worker_says() -> None:
    """BRG-17: an error is then a cancellation, and a result that was on its way counts."""
    core = new_core()
    for id_ in ("r1", "r2"):
        assert open_request(core) == id_
        cancel = core.cancel(id_)
        assert cancel is not None
        assert read_frame(cancel) == {"type": "cancel", "request_id": id_, "data": {}}
        assert core.cancel(id_) is None
    (failed,) = core.feed(frame("error", "r1", {"error": "Node execution was cancelled"}), 0.0)
    assert isinstance(failed, Failed)
    assert type(failed.error).__name__ == "RequestCancelledError"
    assert told(core.feed(result("r2"), 0.0))[0][:2] == ("answered", "r2")
    assert core.cancel("r2") is None
    assert core.cancel("nobody") is None


def test_what_still_comes_for_a_request_that_was_left_is_ignored() -> None:
    """BRG-8, BRG-18: up to its terminal frame; what comes after that is a fault."""
    core = new_core()
    open_request(core, kind=STREAM)
    left = core.give_up("r1")
    assert left is not None
    assert core.give_up("r1") is None
    late = frame("chunk") + frame("progress") + frame("blob.end") + frame("result", "r1", {"outputs": 1})
    assert core.feed(late, 0.0) == []
    assert told(core.feed(result("r1"), 0.0))[0][0] == "fault"


def test_leaving_a_cancelled_request_sends_no_second_cancel() -> None:
    """CAN-1: one is enough."""
    core = new_core()
    open_request(core)
    core.cancel("r1")
    assert core.give_up("r1") is None


def test_old_ids_are_forgotten_in_time() -> None:
    """Our own choice: the memory for ids of the past is bounded."""
    core = new_core()
    for number in range(1, 5000):
        open_request(core)
        core.feed(result(f"r{number}"), 0.0)
    assert "no request has this id" in told(core.feed(result("r1"), 0.0))[0][1]
    assert "has had its terminal frame" in told(core.feed(result("r4999"), 0.0))[0][1]


# Time


@pytest.mark.parametrize("kind", [CALL, STREAM, PLAIN])
def test_a_frame_of_a_call_starts_its_time_anew(kind: str) -> None:
    """BRG-6, BRG-8: the time counts from the last frame."""
    core = new_core()
    open_request(core, kind=kind, type_=_TYPES[kind], seconds=10.0, now=100.0)
    assert core.next_deadline() == 110.0
    assert core.expire(109.9) == []
    core.feed(frame("progress", "r1", {"progress": 1, "total": 2}), 105.0)
    assert core.next_deadline() == 115.0
    assert core.expire(114.9) == []
    send, failed = told(core.expire(115.0))
    assert send == ("send", "cancel", "r1")
    assert failed[:3] == ("failed", "r1", "BridgeTimeoutError")
    assert f"'r1' ({_TYPES[kind]}) got no frame for 10 s and was cancelled" in failed[3]
    assert core.next_deadline() is None
    assert core.feed(result("r1"), 116.0) == []


def test_discover_has_its_time_once() -> None:
    """BRG-7."""
    core = new_core()
    open_request(core, kind=DISCOVER, type_="discover", seconds=10.0, now=0.0)
    core.feed(frame("hello", "r1"), 9.0)
    assert "NODETOOL_PYTHON_STATUS_TIMEOUT_MS" in told(core.expire(10.0))[1][3]


def test_a_request_without_a_bound_waits_for_ever() -> None:
    """Our own choice: `timeout=None`."""
    core = new_core()
    open_request(core, seconds=None)
    assert core.next_deadline() is None
    assert core.expire(1e12) == []


def test_time_in_which_nobody_reads_does_not_count() -> None:
    """Our own choice: silence then means nothing."""
    core = new_core()
    open_request(core, seconds=10.0)
    core.renew(100.0)
    assert core.next_deadline() == 110.0


def test_an_error_keeps_what_the_worker_said() -> None:
    """BRG-17."""
    core = new_core()
    open_request(core)
    (failed,) = core.feed(frame("error", "r1", {"error": "why", "traceback": "where"}), 0.0)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, RequestFailedError)
    assert (failed.error.error, failed.error.traceback, failed.error.request_id) == ("why", "where", "r1")


def test_ids_are_made_by_whoever_the_caller_says() -> None:
    """Our own choice: the core has no random source."""
    made = counting_ids()
    assert [made(), made()] == ["r1", "r2"]
