"""A session in memory: which frame answers what, ids that come twice, and cancels at every moment."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import msgpack
import pytest

from nodetool_worker import worker as worker_module
from nodetool_worker.calls import CANCELLED
from nodetool_worker.errors import FrameTooLargeError
from nodetool_worker.inventory import Inventory
from tests.nodetool.sessionkit import PATIENCE, TERMINAL, Host

NODES = """
import asyncio, threading
from collections.abc import AsyncIterator, Iterator
from typing import Any
from octonode_sdk import Context, node

RAN, CLEANED = [], []
STARTED = threading.Event()
GATE, TOLD, LATER = threading.Event(), threading.Event(), threading.Event()

@node
def echo(value: Any = None) -> Any:
    RAN.append(value)
    return value

@node
def fail() -> None:
    raise ValueError("bad")

@node
def wait(how: str = "value", *, ctx: Context) -> Any:
    STARTED.set()
    assert GATE.wait(30)
    if how == "check":
        ctx.check_cancelled()
    if how == "progress":
        ctx.progress(1)
    if how == "raise":
        raise ValueError("bad")
    if how == "exit":
        raise SystemExit
    if how == "swallow":
        try:
            ctx.check_cancelled()
        except BaseException:
            pass
    return "done"

@node
def reports(*, ctx: Context) -> None:
    STARTED.set()
    assert GATE.wait(30)
    told = []
    steps = [lambda: ctx.progress(1), lambda: ctx.log("cleaning"), lambda: ctx.preview(1)]
    for step in (*steps, ctx.check_cancelled, ctx.check_cancelled):
        try:
            step()
            told.append("went on")
        except BaseException as error:
            told.append(type(error).__name__)
    CLEANED.append((ctx.cancelled, told))

async def reach():
    STARTED.set()
    while not GATE.is_set():
        await asyncio.sleep(0)

@node
async def wait_late(*, ctx: Context) -> str:
    STARTED.set()
    try:
        await asyncio.Event().wait()
    finally:
        ctx.log("cleaning")
        await asyncio.sleep(0)
        CLEANED.append("late")
    return "never"

@node
async def busy_late(*, ctx: Context) -> str:
    try:
        await reach()
        ctx.progress(1)
    finally:
        TOLD.set()
        while not LATER.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        ctx.log("cleaned")
        CLEANED.append("busy")
    return "never"

@node
async def stubborn() -> str:
    STARTED.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        pass
    return "stayed"

@node
def rows(*, ctx: Context) -> Iterator[int]:
    try:
        yield 1
        STARTED.set()
        assert GATE.wait(30)
        yield 2
        CLEANED.append("not stopped")
    finally:
        ctx.log("cleaning")
        CLEANED.append("rows")

@node
async def rows_late(*, ctx: Context) -> AsyncIterator[int]:
    try:
        yield 1
        STARTED.set()
        await asyncio.Event().wait()
        yield 2
    finally:
        ctx.log("cleaning")
        await asyncio.sleep(0)
        CLEANED.append("rows")
"""


@pytest.fixture
def module(new_module: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The names of the nodes."""
    return new_module("t_session", NODES)


@pytest.fixture
def host(module: dict[str, Any]) -> Host:
    """A session with the nodes."""
    return Host(module)


def kinds(host: Host, id_: str = "q") -> list[str]:
    return [frame["type"] for frame in host.frames(id_)]


def texts(host: Host, id_: str = "q") -> list[Any]:
    """Return what the terminal frames of an id say: the error, or the outputs."""
    data = [frame["data"] for frame in host.frames(id_) if frame["type"] in TERMINAL]
    return [one.get("error", one.get("outputs")) for one in data]


# What answers what


def test_discover_and_status_are_answered_at_once_with_the_same_nodes(host: Host) -> None:
    """DSC-1 to DSC-3, DSC-7 to DSC-13, RID-1, RID-8: whatever the data."""
    for data in ({}, None, {"more": 1}):
        assert host.send("discover", "d", data) is None
        assert host.send("worker.status", "s", data) is None
    found = host.frames("d")
    assert [frame["type"] for frame in found] == ["discover"] * 3
    data = found[0]["data"]
    assert list(data) == ["protocol_version", "load_errors", "nodes"]
    assert data["protocol_version"] == 6
    assert [entry["node_type"] for entry in data["nodes"]] == list(host.inventory.nodes)
    assert [frame["type"] for frame in host.frames("s")] == ["result"] * 3
    assert host.frames("s")[0]["data"] == {
        "protocol_version": 6,
        "node_count": len(data["nodes"]),
        "provider_count": 0,
        "namespaces": ["t"],
        "load_errors": [],
        "transport": "stdio",
        "max_frame_size": 1 << 28,
        "comfy": {"enabled": False, "url": ""},
        "blender": {"enabled": False},
        "model_prepare_backends": [],
    }


def test_nodes_that_have_no_room_are_left_out_and_told_by_both_answers(module: dict[str, Any]) -> None:
    """DSC-5, DSC-7, DSC-9, FRM-5: instead of no answer at all."""
    host = Host(module, limit_bytes=3_000)
    host.send("discover", "d")
    host.send("worker.status", "s")
    [discover], [status] = host.frames("d"), host.frames("s")
    listed = len(discover["data"]["nodes"])
    assert 0 < listed < len(host.inventory.nodes)
    assert len(msgpack.packb(discover)) <= 3_000
    [error] = discover["data"]["load_errors"]
    assert error["error"].startswith(
        f"{len(host.inventory.nodes) - listed} nodes do not fit into a frame of 3000 bytes"
    )
    assert (status["data"]["node_count"], status["data"]["load_errors"]) == (listed, [error])


def test_an_entry_that_can_t_be_packed_costs_its_node_alone(host: Host, module: dict[str, Any]) -> None:
    """DSC-4, DSC-9: discover is answered all the same."""
    host.inventory.entries()
    host.inventory._entries["t.Fail"]["default"] = object()
    host.send("worker.status", "s")
    host.send("discover", "d")
    [status], [discover] = host.frames("s"), host.frames("d")
    assert "t.Fail" not in [entry["node_type"] for entry in discover["data"]["nodes"]]
    assert status["data"]["node_count"] == len(discover["data"]["nodes"]) == len(host.inventory.nodes)
    assert [one["phase"] for one in discover["data"]["load_errors"]] == ["metadata"]
    assert "Unknown node type: t.Fail" in host.error("Fail")


def test_an_answer_that_can_t_be_made_is_an_error(module: dict[str, Any]) -> None:
    """RID-11: also where the frame limit leaves room for nothing."""
    host = Host(module, limit_bytes=100)
    host.send("discover", "d")
    [frame] = host.frames("d")
    assert frame["type"] == "error"
    assert "exceeds max size" in frame["data"]["error"]


def test_providers_are_an_empty_list(host: Host) -> None:
    """PRV-1, PRV-2."""
    host.send("provider.list")
    host.send("provider.generate")
    assert [frame["data"] for frame in host.frames("q")] == [
        {"providers": []},
        {"error": "Unknown provider message type: provider.generate"},
    ]


def test_what_is_no_request_is_answered_in_its_order_and_nothing_runs(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RID-2, RID-3, RID-7, RID-9, EXE-2, EXE-5, FRM-9, FRM-13, FRM-14, FRM-16, FRM-17."""
    said: list[str] = []
    monkeypatch.setattr(worker_module, "say", said.append)
    for payload in (b"\xc1", b"\xc0", b"\xd4\x00\x00", msgpack.packb([1]), b"\x82\xaarequest_id\xa2r1\xc1"):
        assert host.session.take(payload) is None
    assert host.send("foo", "r2") is None
    assert host.send("execute", "r3", [1]) is None
    assert host.send("execute", "r4", {"fields": {}}) is None
    assert host.send("execute", None, {"node_type": "t.Echo"}) is None
    assert host.send("discover", 5) is None
    host.session.refuse(FrameTooLargeError(11, 10))
    found = [(frame["type"], frame["request_id"], frame["data"]) for frame in host.frames()]
    assert {kind for kind, _, _ in found} == {"error"}
    assert {tuple(data) for _, _, data in found} == {("error",)}
    assert [(id_, data["error"].partition(":")[0]) for _, id_, data in found] == [
        (None, "Malformed msgpack frame"),
        (None, "Expected a msgpack map, got NoneType"),
        (None, "Expected a msgpack map, got NoneType"),
        (None, "Expected a msgpack map, got list"),
        ("r1", "Malformed msgpack frame"),
        ("r2", "Unknown message type"),
        ("r3", "`data` of 'execute' is [1]; expected a map"),
        ("r4", "execute needs `node_type`, a text such as 'text.Join'; got nothing"),
        (None, "Incoming bridge frame exceeds max size (11 > 10)"),
    ]
    assert len(said) == 8
    assert all(line.startswith("stdio worker: ") and line.count("\n") == 1 for line in said)


def test_an_answer_that_precedes_nothing_overtakes_what_nodes_have_made(host: Host) -> None:
    """DSC-6, UPD-19: while the host reads slowly."""
    host.pipe.room = 0
    calls = [host.ask("Echo", f"e{number}", value="x" * 50_000) for number in range(5)]
    for call in calls:
        host.session.serve(call)
    host.send("worker.status", "s")
    host.pipe.room = None
    assert [frame["request_id"] for frame in host.frames()] == ["s", *(f"e{number}" for number in range(5))]


# Ids that come twice


def test_requests_of_one_id_are_served_one_after_the_other(host: Host, module: dict[str, Any]) -> None:
    """RID-13: in their order, each with its own terminal frame."""
    first = host.ask("Wait")
    ended = host.start(first)
    assert module["STARTED"].wait(PATIENCE)
    assert [host.ask("Echo", value=number) for number in range(3)] == [None] * 3
    assert host.ask("Echo", "other") is not None
    module["GATE"].set()
    assert ended.wait(PATIENCE)
    assert texts(host) == [{"output": "done"}, *({"output": number} for number in range(3))]
    assert host.outputs("Echo", value="again") == {"output": "again"}
    assert (host.session._same_id, host.session._same_id_count) == ({}, 0)


def test_an_answer_that_is_ready_waits_behind_the_call_that_has_its_id(host: Host) -> None:
    """RID-13, RID-12: else it would end that call at the host."""
    call = host.ask("Echo", value=1)
    host.send("worker.status")
    host.send("discover")
    host.send("foo")
    host.send("execute", data={"fields": {}})
    host.ask("Echo", value=2)
    assert host.frames("q") == []
    host.serve(call)
    assert kinds(host) == ["result", "result", "discover", "error", "error", "result"]
    assert host.session._calls == {}


def test_the_error_of_a_malformed_frame_does_not_end_the_call_that_has_its_id(host: Host) -> None:
    """RID-6: its id is nil then."""
    call = host.ask("Echo", "r1")
    broken = b"\x82\xaarequest_id\xa2r1\xc1"
    host.session.take(broken)
    host.serve(call)
    host.session.take(broken)
    assert [(frame["type"], frame["request_id"]) for frame in host.frames()] == [
        ("error", None),
        ("result", "r1"),
        ("error", "r1"),
    ]


def test_a_cancel_goes_to_the_first_that_has_no_terminal_frame_yet(host: Host, module: dict[str, Any]) -> None:
    """RID-14: the one that runs; then the next."""
    ended = host.start(host.ask("Wait"))
    assert module["STARTED"].wait(PATIENCE)
    host.ask("Echo", value=1)
    host.ask("Echo", value=2)
    host.send("cancel")
    host.send("cancel")  # CAN-3: nothing new
    module["GATE"].set()
    assert ended.wait(PATIENCE)
    assert texts(host) == [CANCELLED, {"output": 1}, {"output": 2}]


def test_a_cancel_reaches_the_second_where_the_first_is_answered_and_still_in_line(
    host: Host, module: dict[str, Any]
) -> None:
    """RID-14, CAN-5: the first was cancelled before a lane took it."""
    first = host.ask("Echo", value=1)
    host.send("cancel")
    host.ask("Echo", value=2)
    host.ask("Echo", value=3)
    host.send("cancel")
    assert texts(host) == [CANCELLED] * 2
    host.serve(first)
    assert texts(host) == [CANCELLED, CANCELLED, {"output": 3}]
    assert module["RAN"] == [3]


def test_too_many_requests_of_one_id_make_the_reader_wait(
    host: Host, module: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXE-36: until some were served."""
    monkeypatch.setattr(worker_module, "_SAME_ID_LIMIT", 3)
    ended = host.start(host.ask("Wait"))
    assert module["STARTED"].wait(PATIENCE)
    crowded = []
    for number in range(3):
        crowded.append(host.session.is_crowded)
        host.ask("Echo", value=number)
    assert [*crowded, host.session.is_crowded] == [False, False, False, True]
    passed = threading.Event()

    def read() -> None:
        host.session.wait_for_room()
        passed.set()

    threading.Thread(target=read, daemon=True).start()
    module["GATE"].set()
    assert passed.wait(PATIENCE)
    assert ended.wait(PATIENCE)
    assert len(host.frames("q")) == 4


# Cancels


def test_a_cancel_that_finds_nothing_gets_no_frame(host: Host) -> None:
    """CAN-1, CAN-2, CAN-16: unknown, finished, without an id, with odd data; and discover can't be cancelled."""
    host.outputs("Echo")
    host.send("discover", "d")
    before = len(host.frames())
    for id_ in ("never", "q", "d", None, 5, ""):
        host.send("cancel", id_)
    host.send("cancel", "q", [5])
    host.outbox.pump()
    assert len(host.frames()) == before


def test_a_queued_call_that_is_cancelled_is_answered_at_once_and_never_starts(
    host: Host, module: dict[str, Any]
) -> None:
    """CAN-5, CAN-6."""
    call = host.ask("Echo", value=1)
    host.send("cancel")
    host.send("cancel")
    assert [frame["data"] for frame in host.frames("q")] == [{"error": CANCELLED}]
    host.serve(call)
    assert len(host.frames("q")) == 1
    assert module["RAN"] == []


@pytest.mark.parametrize("how", ["value", "check", "progress", "raise", "exit", "swallow"])
def test_a_call_that_is_cancelled_gets_the_one_error_however_it_ends(
    host: Host, module: dict[str, Any], how: str
) -> None:
    """CAN-3, CAN-6, CAN-11, CAN-12, RID-12: no outputs and no traceback, and not before it ends."""
    ended = host.start(host.ask("Wait", how=how))
    assert module["STARTED"].wait(PATIENCE)
    host.send("cancel")
    host.send("cancel")
    assert host.frames("q") == []
    module["GATE"].set()
    assert ended.wait(PATIENCE)
    assert [(frame["type"], frame["data"]) for frame in host.frames("q")] == [("error", {"error": CANCELLED})]


def test_a_node_is_told_once_by_what_reports_and_each_time_by_what_asks(host: Host, module: dict[str, Any]) -> None:
    """CAN-9, CAN-10."""
    ended = host.start(host.ask("Reports"))
    assert module["STARTED"].wait(PATIENCE)
    host.send("cancel")
    module["GATE"].set()
    assert ended.wait(PATIENCE)
    stopped = "CallCancelledError"
    assert module["CLEANED"] == [(True, [stopped, "went on", "went on", stopped, stopped])]
    assert kinds(host) == ["update", "update", "error"]


@pytest.mark.parametrize(
    ("node", "cleaned", "told"),
    [
        ("WaitLate", ["late"], ["update", "error"]),
        ("Stubborn", [], ["error"]),
        ("RowsLate", ["rows"], ["chunk", "update", "error"]),
    ],
)
def test_the_task_of_an_async_node_is_cancelled_and_its_clean_up_can_report(
    host: Host, module: dict[str, Any], node: str, cleaned: list[str], told: list[str]
) -> None:
    """CAN-7, CAN-8, CAN-10, CAN-12, CAN-15: before the error is sent."""
    ended = host.start(host.ask(node, stream=True))
    assert module["STARTED"].wait(PATIENCE)
    host.send("cancel")
    assert ended.wait(PATIENCE)
    assert module["CLEANED"] == cleaned
    assert kinds(host) == told
    assert texts(host) == [CANCELLED]


def test_an_async_node_that_has_heard_of_its_cancel_is_left_to_clean_up(host: Host, module: dict[str, Any]) -> None:
    """CAN-10, CAN-15: its task is not cancelled on top of that."""
    call = host.ask("BusyLate")
    ended = host.start(call)
    assert module["STARTED"].wait(PATIENCE)
    assert call.context is not None
    cancel_task = call.context.on_cancel
    later: list[Any] = []
    call.context.on_cancel = lambda: later.append(cancel_task)
    host.send("cancel")
    module["GATE"].set()
    assert module["TOLD"].wait(PATIENCE)
    later[0]()  # this late, and the clean-up goes on all the same
    module["LATER"].set()
    assert ended.wait(PATIENCE)
    assert module["CLEANED"] == ["busy"]
    assert texts(host) == [CANCELLED]


def test_a_generator_is_closed_between_two_values_and_what_was_sent_stays(host: Host, module: dict[str, Any]) -> None:
    """CAN-8, CAN-10, CAN-12, CAN-15: what it yields after the cancel is not sent."""
    ended = host.start(host.ask("Rows", stream=True))
    assert module["STARTED"].wait(PATIENCE)
    host.send("cancel")
    module["GATE"].set()
    assert ended.wait(PATIENCE)
    assert module["CLEANED"] == ["rows"]
    assert kinds(host) == ["chunk", "update", "error"]
    assert host.frames("q")[0]["data"]["outputs"] == {"output": 1}


def test_a_cancel_takes_away_what_has_not_begun_to_be_sent(host: Host, module: dict[str, Any]) -> None:
    """CAN-13: chunks and the result that wait behind other frames, also once the call itself is over."""
    host.pipe.room = 0
    host.session.serve(host.ask("Echo", "first", value="x" * 1000))
    host.outbox.nudge()
    host.outbox._writing.acquire()  # another thread writes, and does not come to an end
    module["GATE"].set()
    copy_context().run(host.session.serve, host.ask("Echo", value="result"))
    copy_context().run(host.session.serve, host.ask("Rows", "stream", stream=True))
    copy_context().run(host.session.serve, host.ask("Fail", "failed"))
    assert host.session._calls == {}
    for id_ in ("first", "q", "stream", "failed", "q"):
        host.send("cancel", id_)
    host.outbox._writing.release()
    host.pipe.room = None
    host.outbox.pump()
    assert texts(host) == [CANCELLED]
    assert kinds(host, "stream") == ["update", "error"]
    assert texts(host, "stream") == [CANCELLED]
    assert texts(host, "first") == [{"output": "x" * 1000}]  # it had begun
    assert texts(host, "failed") == ["ValueError: bad"]
    assert host.session._link.unsent == {}
    assert (host.outbox._bytes, host.outbox.is_empty) == (0, True)


def test_a_broken_frame_with_the_id_of_outputs_that_wait_does_not_end_them(host: Host) -> None:
    """RID-6: in flight is what is not written."""
    host.pipe.room = 0
    host.session.serve(host.ask("Echo", "first"))
    host.session.serve(host.ask("Echo", "r1"))
    host.session.take(b"\x82\xaarequest_id\xa2r1\xc1")
    host.pipe.room = None
    host.outbox.pump()
    assert [frame["request_id"] for frame in host.frames() if frame["type"] == "error"] == [None]
    assert kinds(host, "r1") == ["result"]


# The end


def test_what_is_in_flight_at_the_end_gets_an_error_that_says_so(host: Host, module: dict[str, Any]) -> None:
    """END-3, END-4, RID-11: also what waits for others with its id."""
    running = host.start(host.ask("Wait", "r"))
    assert module["STARTED"].wait(PATIENCE)
    host.ask("Echo", "r")
    host.send("worker.status", "r")
    queued = host.ask("Echo", "queued")
    host.session.cancel_all()
    host.session.fail_all("the worker is ending")
    host.outbox.pump()
    assert texts(host, "queued") == [CANCELLED]
    assert texts(host, "r")[:2] == [CANCELLED, "the worker is ending"]
    assert kinds(host, "r")[2:] == ["result"]
    module["GATE"].set()
    assert running.wait(PATIENCE)
    host.serve(queued)
    assert len(host.frames("queued")) == 1


def test_an_inventory_without_nodes_is_served(host: Host) -> None:
    """FND-16, DSC-9."""
    empty = Host({})
    empty.inventory = Inventory({}, [], [])
    empty.send("discover", "d")
    assert empty.frames("d")[0]["data"]["nodes"] == []
    assert empty.error("Echo") == "Unknown node type: t.Echo"
