"""The sync client, with a worker that the test plays."""

import io
import logging
import os
import threading
from typing import Any

import pytest

from nodetool_worker.bridge.client import Bridge
from nodetool_worker.bridge.limits import Limits
from nodetool_worker.errors import (
    BridgeClosedError,
    BridgeTimeoutError,
    FrameRejectedError,
    IncompatibleWorkerError,
    LocalProtocolError,
    RequestCancelledError,
    RequestFailedError,
    StreamLostError,
    WorkerDiedError,
)
from nodetool_worker.responses import Chunk, Progress, Update
from tests.nodetool.bridge.support import PATIENCE, Played, counting_ids, frame, in_thread, played, result

_DISCOVERY = {"protocol_version": 6, "nodes": [{"node_type": "a.B"}], "load_errors": []}


def greet(worker: Played, status: bytes | None = None, **discovery: Any) -> None:
    """Play the handshake: `discover`, then `worker.status`."""
    assert worker.take("discover")["request_id"] == "r1"
    assert worker.take("worker.status")["request_id"] == "r2"
    worker.send(status or frame("result", "r2", {"protocol_version": 6, "comfy": {"enabled": True}}))
    worker.send(frame("discover", "r1", {**_DISCOVERY, **discovery}))


def attach(worker: Played, **options: Any) -> Any:
    """Attach a bridge beside the test, with a handshake."""
    given: dict[str, Any] = {"new_id": counting_ids(), "limits": Limits(), **options}
    return in_thread(lambda: Bridge.attach(worker.bridge_reads, worker.bridge_writes, **given))


# The start


def test_a_bridge_asks_for_the_inventory_and_then_for_the_status() -> None:
    """BRG-3, BRG-5."""
    worker = Played()
    attaching = attach(worker)
    greet(worker)
    with attaching.result(PATIENCE) as bridge:
        assert bridge.protocol_version == 6
        assert bridge.discovery.node("a.B") == {"node_type": "a.B"}
        assert bridge.supports_comfy()
        assert bridge.supports_models()
        assert bridge.supports_job_lifecycle()
        assert bridge.supports_chunked_blobs()
        assert not bridge.supports_blender()
        assert not bridge.supports_model_preparation("wan")
        assert (bridge.pid, bridge.stderr_tail, bridge.faults) == (None, [], [])
        worker.close()


def test_a_status_that_fails_closes_its_gates_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """BRG-3."""
    worker = Played()
    attaching = attach(worker)
    with caplog.at_level(logging.WARNING, "nodetool_worker.bridge"):
        greet(worker, frame("error", "r2", {"error": "Unknown message type: worker.status"}))
        bridge = attaching.result(PATIENCE)
    assert "Unknown message type: worker.status" in caplog.text
    assert bridge.worker_status is None
    assert not bridge.supports_comfy()
    worker.close()
    bridge.close(0)


def test_a_worker_below_the_floor_is_left_at_once() -> None:
    """BRG-4."""
    worker = Played()
    attaching = attach(worker)
    greet(worker, protocol_version=0)
    with pytest.raises(IncompatibleWorkerError, match="install the worker's Python environment again"):
        attaching.result(PATIENCE)
    assert worker.sees_end()
    worker.close()


def test_a_newer_worker_is_used_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """BRG-4."""
    worker = Played()
    with caplog.at_level(logging.WARNING, "nodetool_worker.bridge"):
        attaching = attach(worker)
        greet(worker, protocol_version=7)
        bridge = attaching.result(PATIENCE)
    assert "the worker speaks bridge protocol 7" in caplog.text
    worker.close()
    bridge.close(0)


def test_the_variables_are_read_and_a_bad_one_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """BRG-9, BRG-12."""
    monkeypatch.setenv("NODETOOL_PYTHON_EXECUTE_TIMEOUT_MS", "soon")
    monkeypatch.setenv("NODETOOL_VALIDATE_BRIDGE_FRAMES", "1")
    with caplog.at_level(logging.WARNING, "nodetool_worker.bridge"), played(limits=None) as (_worker, bridge):
        assert (bridge.limits.execute_seconds, bridge.limits.validate) == (720.0, True)
    assert "NODETOOL_PYTHON_EXECUTE_TIMEOUT_MS is 'soon'" in caplog.text


# Calls


def test_a_call_sends_its_data_and_gives_its_result() -> None:
    """BRG-17, BRG-19."""
    with played() as (worker, bridge):
        calling = in_thread(lambda: bridge.execute("a.B", {"x": 1}, blobs={"i": b"png"}, node_id="n7"))
        message = worker.take("execute")
        data = {"node_type": "a.B", "fields": {"x": 1}, "secrets": {}, "blobs": {"i": b"png"}, "node_id": "n7"}
        assert message == {"type": "execute", "request_id": "r1", "data": data}
        worker.send(frame("result", "r1", {"outputs": {"y": 2}, "blobs": {"o": b"jpg"}}))
        answer = calling.result(PATIENCE)
        assert (answer.outputs, answer.blobs) == ({"y": 2}, {"o": b"jpg"})


def test_progress_and_updates_come_before_the_result_and_in_their_order() -> None:
    """BRG-17: in the thread of the caller."""
    seen: list[Any] = []

    def note(part: Progress | Update) -> None:
        seen.append((threading.get_ident(), part.type, part.data))

    with played() as (worker, bridge):
        calling = in_thread(lambda: (bridge.execute("a.B", on_progress=note, on_update=note), threading.get_ident()))
        id_ = worker.take()["request_id"]
        parts = [("progress", {"progress": 1, "total": 2}), ("update", {"type": "log_update"}), ("progress", {})]
        worker.send(*(frame(type_, id_, data) for type_, data in parts), result(id_))
        _, caller = calling.result(PATIENCE)
        assert seen == [(caller, *part) for part in parts]


def test_an_error_raises_what_the_worker_says() -> None:
    """BRG-17."""
    with played() as (worker, bridge):
        calling = in_thread(lambda: bridge.execute("a.B"))
        worker.take()
        worker.send(frame("error", "r1", {"error": "Unknown node type: a.B", "traceback": "Traceback ..."}))
        with pytest.raises(RequestFailedError, match=r"^Unknown node type: a\.B$") as caught:
            calling.result(PATIENCE)
        assert caught.value.traceback == "Traceback ..."


def test_answers_in_any_order_reach_their_threads() -> None:
    """BRG-10."""
    with played() as (worker, bridge):
        calls = {n: in_thread(lambda n=n: bridge.execute("a.B", {"n": n})) for n in range(20)}  # type: ignore[misc]  # a default binds the number
        messages = [worker.take("execute") for _ in calls]
        assert len({message["request_id"] for message in messages}) == 20
        for message in reversed(messages):
            worker.answer(message, n=message["data"]["fields"]["n"])
        assert {n: call.result(PATIENCE).outputs for n, call in calls.items()} == {n: {"n": n} for n in range(20)}


def test_a_call_that_can_not_be_sent_is_refused_and_the_bridge_goes_on() -> None:
    """BRG-14."""
    with played() as (worker, bridge):
        with pytest.raises(LocalProtocolError, match="can't be sent"):
            bridge.execute("a.B", {"x": object()})
        calling = in_thread(lambda: bridge.execute("a.B"))
        worker.answer(worker.take())
        assert calling.result(PATIENCE).outputs == {}


def test_a_function_of_the_caller_that_fails_leaves_nothing_running() -> None:
    """Our own choice: its exception is the call's, and the call is cancelled."""

    def fail(_part: Progress) -> None:
        raise ZeroDivisionError

    with played() as (worker, bridge):
        calling = in_thread(lambda: bridge.execute("a.B", on_progress=fail))
        worker.take()
        worker.send(frame("progress", "r1", {"progress": 1, "total": 2}))
        with pytest.raises(ZeroDivisionError):
            calling.result(PATIENCE)
        assert worker.take() == {"type": "cancel", "request_id": "r1", "data": {}}


def test_discover_and_status_ask_anew() -> None:
    """BRG-3."""
    with played() as (worker, bridge):
        asking = in_thread(bridge.discover)
        worker.send(frame("discover", worker.take("discover")["request_id"], _DISCOVERY))
        assert asking.result(PATIENCE).nodes == [{"node_type": "a.B"}]
        asked = in_thread(bridge.status)
        worker.send(frame("result", worker.take("worker.status")["request_id"], {"node_count": 3}))
        assert asked.result(PATIENCE).node_count == 3
        assert bridge.worker_status is not None


def test_any_other_message_can_be_sent() -> None:
    """BRG-5: a worker has more families than this client has functions for."""
    events: list[Any] = []
    with played() as (worker, bridge):
        asking = in_thread(
            lambda: bridge.request(
                "comfy.execute", {"workflow": {}}, on_event=lambda one: events.append(one.data["event"])
            )
        )
        id_ = worker.take("comfy.execute")["request_id"]
        worker.send(frame("comfy.event", id_, {"event": "queued"}), frame("comfy.event", id_, {"event": "started"}))
        worker.send(frame("result", id_, {"status": "completed"}))
        assert asking.result(PATIENCE).data == {"status": "completed"}
        assert events == ["queued", "started"]


# Handles


def test_a_handle_goes_on_while_its_caller_does_something_else() -> None:
    """BRG-17."""
    with played() as (worker, bridge):
        handle = bridge.start("a.B", {"x": 1})
        message = worker.take("execute")
        assert message["request_id"] == handle.request_id
        assert not handle.done()
        with pytest.raises(TimeoutError, match="is not done yet; ask again, or cancel it"):
            handle.result(0)
        worker.answer(message, y=1)
        assert handle.result(PATIENCE).outputs == {"y": 1}
        assert handle.result(0).outputs == {"y": 1}
        assert handle.done()


def test_a_cancelled_handle_ends_as_the_worker_says() -> None:
    """CAN-1, BRG-17."""
    with played() as (worker, bridge):
        handle = bridge.start("a.B")
        worker.take("execute")
        handle.cancel()
        handle.cancel()
        assert worker.take() == {"type": "cancel", "request_id": "r1", "data": {}}
        worker.send(frame("error", "r1", {"error": "Node execution was cancelled"}))
        with pytest.raises(RequestCancelledError, match="Node execution was cancelled"):
            handle.result(PATIENCE)
        handle.cancel()
        next_one = bridge.start("a.B")
        assert worker.take()["request_id"] == next_one.request_id


def test_several_threads_may_wait_for_one_handle() -> None:
    """Our own choice: each of them gets the result."""
    with played() as (worker, bridge):
        handle = bridge.start("a.B")
        waiting = [in_thread(lambda: handle.result(PATIENCE)) for _ in range(5)]
        worker.answer(worker.take(), y=1)
        assert [one.result(PATIENCE).outputs for one in waiting] == [{"y": 1}] * 5


def test_each_who_waits_gets_an_error_of_his_own() -> None:
    """BRG-17: with its fields, and with its class."""
    with played() as (worker, bridge):
        handle = bridge.start("a.B")
        worker.take()
        worker.send(frame("error", "r1", {"error": "why", "traceback": "where"}))
        caught = []
        for _ in range(2):
            with pytest.raises(RequestFailedError, match=r"^why$") as info:
                handle.result(PATIENCE)
            caught.append(info.value)
        first, second = caught
        assert first is not second
        assert (first.traceback, second.traceback, second.request_id) == ("where", "where", "r1")


# Streams


def chunk(id_: str, **outputs: Any) -> bytes:
    return frame("chunk", id_, {"outputs": outputs, "blobs": {}})


def test_a_stream_gives_its_chunks_in_their_order() -> None:
    """BRG-18: None slots included; the outputs of the result do not count then."""
    seen: list[Any] = []
    with played() as (worker, bridge):
        stream = bridge.stream("a.B", {"x": 1}, on_update=lambda one: seen.append(one.kind))
        id_ = worker.take("execute.stream")["request_id"]
        worker.send(chunk(id_, t="a", n=None), frame("update", id_, {"type": "log_update"}), chunk(id_, t="b"))
        worker.send(result(id_, t="not this"))
        assert [(type(one), one.outputs) for one in stream] == [(Chunk, {"t": "a", "n": None}), (Chunk, {"t": "b"})]
        assert stream.result is not None
        assert seen == ["log_update"]
        assert list(stream) == []


def test_a_node_that_does_not_stream_gives_its_outputs_as_one_chunk() -> None:
    """BRG-18."""
    with played() as (worker, bridge):
        stream = bridge.stream("a.B")
        worker.answer(worker.take(), y=1)
        assert [one.outputs for one in stream] == [{"y": 1}]


def test_a_failure_comes_after_the_chunks_before_it() -> None:
    """BRG-18."""
    with played() as (worker, bridge):
        stream = bridge.stream("a.B")
        worker.take()
        worker.send(chunk("r1", t="a"), frame("error", "r1", {"error": "out of ink"}))
        assert next(stream).outputs == {"t": "a"}
        with pytest.raises(RequestFailedError, match="out of ink"):
            next(stream)
        assert list(stream) == []


@pytest.mark.parametrize("way", ["close", "with", "drop", "break"])
def test_leaving_a_stream_early_cancels_it(way: str) -> None:
    """BRG-18, BRG-8: and what still comes is ignored."""
    with played() as (worker, bridge):
        stream = bridge.stream("a.B")
        worker.take("execute.stream")
        worker.send(chunk("r1", t="a"), chunk("r1", t="b"))
        assert next(stream).outputs == {"t": "a"}
        if way == "close":
            stream.close()
            stream.close()
        elif way == "with":
            with stream:
                pass
        elif way == "break":
            for _ in stream:
                break
            del stream
        else:
            del stream
        assert worker.take() == {"type": "cancel", "request_id": "r1", "data": {}}
        worker.send(chunk("r1", t="c"), frame("error", "r1", {"error": "Node execution was cancelled"}))
        handle = bridge.start("a.B")
        worker.answer(worker.take("execute"))
        handle.result(PATIENCE)
        assert bridge.faults == []


def test_a_stream_that_nobody_takes_makes_the_worker_wait() -> None:
    """BRG-18, C067: memory does not grow; and nothing is lost."""
    count = 2000
    with played() as (worker, bridge):
        stream = bridge.stream("a.B")
        worker.take()
        sent: list[int] = []

        def send_all() -> None:
            for number in range(count):
                worker.send(frame("chunk", "r1", {"outputs": {"n": number, "x": "x" * 1000}, "blobs": {}}))
                sent.append(number)
            worker.send(result("r1"))

        sending = in_thread(send_all)
        assert next(stream).outputs["n"] == 0
        with pytest.raises(TimeoutError):  # the pipe holds 64 of them, and the client 256
            sending.result(0.3)
        assert len(sent) < 500
        assert [one.outputs["n"] for one in stream] == list(range(1, count))
        sending.result(PATIENCE)


def test_a_full_stream_holds_up_nobody_who_waits() -> None:
    """Our own choice: what somebody waits for may stand behind chunks that nobody takes."""
    with played() as (worker, bridge):
        stream = bridge.stream("a.B")
        worker.take()
        many = b"".join(chunk("r1", n=number) for number in range(5000))
        sending = in_thread(lambda: worker.send(many, result("r2", y=1), result("r1")))
        assert bridge.execute("a.B").outputs == {"y": 1}
        assert [one.outputs["n"] for one in stream] == list(range(5000))
        sending.result(PATIENCE)


def test_time_does_not_run_while_nobody_reads() -> None:
    """BRG-8: a consumer that is slow is no worker that is silent."""
    with played(limits=Limits(execute_seconds=1.0)) as (worker, bridge):
        stream, handle = bridge.stream("a.B"), bridge.start("a.B")
        for _ in range(2):
            worker.take()
        sending = in_thread(lambda: worker.send(*(chunk("r1", n=n) for n in range(3000)), result("r1")))
        next(stream)
        with played(limits=Limits(status_seconds=1.3)) as (_, other), pytest.raises(BridgeTimeoutError):
            other.status()  # so much time has passed
        assert len(list(stream)) == 2999
        sending.result(PATIENCE)
        worker.send(result("r2", y=1))
        assert handle.result(PATIENCE).outputs == {"y": 1}


# Time


def test_a_call_without_a_frame_times_out_and_is_cancelled() -> None:
    """BRG-6, BRG-8: what comes later is ignored, and the bridge goes on."""
    with played() as (worker, bridge):
        with pytest.raises(BridgeTimeoutError, match=r"'r1' \(execute\) got no frame for 0\.05 s") as caught:
            bridge.execute("a.B", timeout=0.05)
        assert isinstance(caught.value, TimeoutError)
        assert worker.take("execute")["request_id"] == "r1"
        assert worker.take() == {"type": "cancel", "request_id": "r1", "data": {}}
        calling = in_thread(lambda: bridge.execute("a.B"))
        worker.send(frame("progress", "r1", {"progress": 1, "total": 2}), result("r1", late=1))
        worker.answer(worker.take("execute"), y=1)
        assert calling.result(PATIENCE).outputs == {"y": 1}
        assert bridge.faults == []


def test_a_handle_that_nobody_waits_for_times_out_as_well() -> None:
    """BRG-8."""
    with played() as (worker, bridge):
        handle = bridge.start("a.B", timeout=0.05)
        worker.take("execute")
        assert worker.take("cancel")["request_id"] == handle.request_id
        with pytest.raises(BridgeTimeoutError):
            handle.result(PATIENCE)


def test_a_status_times_out_after_its_own_time() -> None:
    """BRG-7."""
    limits = Limits(status_seconds=0.05)
    wanted = pytest.raises(BridgeTimeoutError, match="NODETOOL_PYTHON_STATUS_TIMEOUT_MS")
    with played(limits=limits) as (_worker, bridge), wanted:
        bridge.status()


def test_a_worker_that_reads_nothing_holds_up_no_timeout() -> None:
    """BRG-8: a request that does not fit the pipe is not waited for."""
    with played() as (_worker, bridge), pytest.raises(BridgeTimeoutError):
        bridge.execute("a.B", {"x": "x" * 10_000_000}, timeout=0.05)


# What a worker may do wrong


def test_a_frame_that_does_not_fit_rejects_its_own_request_alone() -> None:
    """BRG-12."""
    with played(validate=True) as (worker, bridge):
        first, second = bridge.start("a.B"), bridge.start("a.B")
        for _ in range(2):
            worker.take("execute")
        worker.send(frame("error", "r1", {"error": "x", "traceback": None}), result("r2", y=1))
        with pytest.raises(FrameRejectedError, match="`traceback` is None; expected a text"):
            first.result(PATIENCE)
        assert second.result(PATIENCE).outputs == {"y": 1}


def test_what_names_no_request_is_kept_as_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    """BRG-11: the request that it may have been for is not guessed; people are told of the first twenty."""
    with caplog.at_level(logging.WARNING, "nodetool_worker.bridge"), played() as (worker, bridge):
        handle = bridge.start("a.B")
        worker.take()
        worker.send(*(result(f"nobody{n}") for n in range(200)), result("r1"))
        handle.result(PATIENCE)
        assert len(bridge.faults) == 100
        assert "no request has this id" in str(bridge.faults[-1])
        assert len(caplog.records) == 20


@pytest.mark.parametrize("garbage", [b"\0\0\0\1\xc1", b"Hello, world\n", b"\0\0\0\0"])
def test_garbage_fails_every_pending_request_and_ends_the_connection(garbage: bytes) -> None:
    """BRG-13, C040."""
    with played() as (worker, bridge):
        handles = [bridge.start("a.B") for _ in range(3)]
        for _ in handles:
            worker.take()
        worker.send(garbage)
        for handle in handles:
            with pytest.raises(StreamLostError, match="lost track of the worker's frames") as caught:
                handle.result(PATIENCE)
            assert caught.value.request_id == handle.request_id
        with pytest.raises(StreamLostError):
            bridge.execute("a.B")
        assert worker.sees_end()


def test_the_end_of_the_stream_fails_every_pending_request() -> None:
    """BRG-16: and says what the worker had complained of, and what was cut."""
    with played() as (worker, bridge):
        handle = bridge.start("a.B")
        worker.take()
        worker.send(frame("error", None, {"error": "Incoming bridge frame exceeds max size (9 > 5)"}))
        worker.send(b"\0\0\0\7half")
        worker.end("answers")
        with pytest.raises(WorkerDiedError) as caught:
            handle.result(PATIENCE)
        assert str(caught.value) == (
            "the worker has closed its stdout in the middle of a frame; it had complained: 'Incoming bridge frame "
            "exceeds max size (9 > 5)'; the request 'r1' (execute) was open"
        )
        with pytest.raises(WorkerDiedError):
            bridge.discover()


def test_a_worker_that_stops_reading_is_lost_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """BRG-16: what it has still sent is read first."""
    monkeypatch.setattr("nodetool_worker.bridge.link._LAST_SECONDS", 0.2)
    with played() as (worker, bridge):
        worker.end("requests")
        first = bridge.start("a.B")
        worker.send(result(first.request_id, y=1))
        assert first.result(PATIENCE).outputs == {"y": 1}
        with pytest.raises(WorkerDiedError, match="reads nothing any more"):
            bridge.execute("a.B")


# The end


def test_closing_cancels_what_is_open_and_ends_the_input() -> None:
    """BRG-20."""
    with played() as (worker, bridge):
        handle = bridge.start("a.B")
        stream = bridge.stream("a.B")
        for _ in range(2):
            worker.take()
        assert bridge.close(0) is None
        assert bridge.close(0) is None
        assert {worker.take("cancel")["request_id"] for _ in range(2)} == {"r1", "r2"}
        assert worker.sees_end()
        with pytest.raises(BridgeClosedError, match="make a new one"):
            handle.result(PATIENCE)
        with pytest.raises(BridgeClosedError):
            next(stream)
        with pytest.raises(BridgeClosedError):
            bridge.execute("a.B")


def test_closing_does_not_wait_for_a_worker_that_reads_nothing() -> None:
    """BRG-20."""
    with played() as (_worker, bridge):
        bridge.start("a.B", {"x": "x" * 10_000_000})
        bridge.close(0.05)


def test_file_objects_serve_as_well() -> None:
    """BRG-1: any pair of streams; here buffered ones."""
    worker = Played()
    reader, writer = os.fdopen(worker.bridge_reads, "rb"), os.fdopen(worker.bridge_writes, "wb")
    attaching = in_thread(lambda: Bridge.attach(reader, writer, new_id=counting_ids(), limits=Limits()))
    greet(worker)
    bridge = attaching.result(PATIENCE)
    calling = in_thread(lambda: bridge.execute("a.B", blobs={"i": b"x" * 3_000_000}))
    assert worker.take("execute")["data"]["blobs"] == {"i": b"x" * 3_000_000}
    worker.send(frame("result", "r3", {"outputs": {}, "blobs": {"o": b"y" * 3_000_000}}))
    assert calling.result(PATIENCE).blobs == {"o": b"y" * 3_000_000}
    worker.end("answers")
    with pytest.raises(WorkerDiedError):
        bridge.execute("a.B")
    bridge.close(0)
    assert (reader.closed, writer.closed) == (True, True)
    worker.close()


def test_a_stream_in_memory_is_read_to_its_end() -> None:
    """BRG-1, BRG-16."""
    sent = io.BytesIO()
    bridge = Bridge.attach(io.BytesIO(), sent, handshake=False, limits=Limits())
    with pytest.raises(WorkerDiedError):
        bridge.execute("a.B")
    bridge.close(0)
