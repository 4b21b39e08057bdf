"""What a running node tells its host, in memory: progress, logs, previews, prints, and their order."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.nodetool.sessionkit import PATIENCE, Host

NODES = """
import asyncio, logging, threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict
from functools import partial
from nodetool_worker.capture import CallLogStream
from octonode_sdk import Context, node

print = partial(print, file=CallLogStream())  # what sys.stdout is in a worker; here pytest has its own

class Two(TypedDict):
    mask: bytes
    count: int

class Label:
    def __str__(self): return "a label"

class Mute:
    def __str__(self): raise RuntimeError("mute")

SAID = {
    "mute": lambda: Mute(), "label": lambda: Label(), "half": lambda: "a\\udc80",
}

STEPS = []
GATE = threading.Event()
REACHED = threading.Event()

@node
def steps(*, ctx: Context) -> None:
    for arguments in STEPS:
        ctx.progress(*arguments)

@node
def said(name: str, *, ctx: Context) -> None:
    ctx.progress(1, 2, SAID[name]())

@node(label="The Teller")
def levels(*, ctx: Context) -> None:
    for level in ("debug", "info", "warning", "error"):
        ctx.log(level + " \\udc80", level)

@node
def long(*, ctx: Context) -> None:
    ctx.log("x" * 50_000)

PREVIEWS = {
    "map": lambda: {"a": [1, 2.5, None, "x\\udc80"], 1: b"b"},
    "bytes": lambda: b"raw",
    "view": lambda: memoryview(bytearray(b"raw")),
    "object": lambda: {"a": object()},
    "big integer": lambda: 2**60,
    "cycle": lambda: (lambda a: a.append(a) or a)([]),
    "large": lambda: b"x" * 100_000,
    "large text": lambda: "x" * 100_000,
}

@node
def show(name: str, *, ctx: Context) -> Two:
    ctx.preview(PREVIEWS[name]())
    ctx.progress(1)
    return {"mask": b"", "count": 1}

@node
def show_nothing(name: str, *, ctx: Context) -> None:
    ctx.preview(PREVIEWS[name]())

@node
def mixed(*, ctx: Context) -> Iterator[int]:
    for number in range(3):
        ctx.progress(number, 3)
        ctx.log(f"log {number}")
        ctx.preview(number)
        print(f"print {number}")
        yield number
    ctx.progress(3, 3)

@node
async def mixed_late(*, ctx: Context) -> AsyncIterator[int]:
    for number in range(3):
        ctx.progress(number, 3)
        ctx.log(f"log {number}")
        ctx.preview(number)
        print(f"print {number}")
        yield number
    ctx.progress(3, 3)

@node
def flood(count: int, *, ctx: Context) -> None:
    for number in range(count):
        ctx.progress(number, count, f"step {number}")
    REACHED.set()
    assert GATE.wait(30)
    ctx.log("done")
    ctx.progress(count, count)

@node
def flood_of_text(count: int, *, ctx: Context) -> None:
    for number in range(count):
        ctx.log("x" * 5000)

@node
async def flood_of_chunks(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield bytes(200_000)

@node
async def quick() -> str:
    return "quick"

LEFT = []

@node
def leaves(*, ctx: Context) -> None:
    LEFT.append(ctx)
"""


@pytest.fixture
def module(new_module: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The names of the nodes."""
    return new_module("t_updates", NODES)


@pytest.fixture
def host(module: dict[str, Any]) -> Host:
    """A session with the nodes."""
    return Host(module)


def data_of(host: Host, type_: str, id_: str = "q") -> list[Any]:
    return [frame["data"] for frame in host.frames(id_) if frame["type"] == type_]


# Progress


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        ((3, 10), {"progress": 3, "total": 10, "message": None}),
        ((0.5, 2.0, "half"), {"progress": 0.5, "total": 2, "message": "half"}),
        ((1.0, None), {"progress": 1, "total": 0, "message": None}),
        ((5, 0), {"progress": 5, "total": 0, "message": None}),
        ((5, -1), {"progress": 5, "total": 0, "message": None}),
        ((5, float("nan")), {"progress": 5, "total": 0, "message": None}),
        ((5, float("inf"), ""), {"progress": 5, "total": 0, "message": ""}),
        ((12, 10), {"progress": 12, "total": 10, "message": None}),
        ((2**70, 2**71), {"progress": float(2**70), "total": float(2**71), "message": None}),
        ((float("nan"), 10), None),
        ((float("-inf"), 10), None),
    ],
)
def test_progress_is_finite_numbers_and_a_text(host: Host, module: dict[str, Any], arguments: Any, data: Any) -> None:
    """UPD-1 to UPD-4: a fraction is no error of the node."""
    module["STEPS"][:] = [arguments]
    host.run("Steps")
    found = data_of(host, "progress")
    assert found == ([] if data is None else [data])
    for one in found:
        assert all(type(one[key]) is type(data[key]) for key in one)


def test_progress_that_goes_back_is_sent_as_it_is(host: Host, module: dict[str, Any]) -> None:
    """UPD-4, UPD-10."""
    module["STEPS"][:] = [(5, 10), (1, 10), (1, 10)]
    host.run("Steps")
    assert [one["progress"] for one in data_of(host, "progress")] == [5, 1, 1]


def test_a_message_is_made_a_text_by_the_node_s_own_thread(host: Host) -> None:
    """UPD-1, RID-11: what its code raises is its own error, whoever writes the frame."""
    host.run("Said", name="label")
    host.run("Said", name="half", id_="h")
    assert data_of(host, "progress")[0]["message"] == "a label"
    assert data_of(host, "progress", "h")[0]["message"] == "a\\udc80"
    other = host.ask("Levels", "other")
    assert host.error("Said", name="mute", id_="m") == "RuntimeError: mute"
    host.serve(other)
    assert host.frames("other")[-1]["type"] == "result"


def test_where_the_host_is_slow_the_latest_progress_stands_for_all_before(host: Host, module: dict[str, Any]) -> None:
    """UPD-12, UPD-13: 20,000 of them take the room of one, and the last before another frame is there."""
    host.outbox._writing.acquire()  # another thread writes, and does not come to an end
    ended = host.start(host.ask("Flood", count=20_000))
    assert module["REACHED"].wait(PATIENCE)
    assert host.outbox._bytes < 1000
    module["GATE"].set()
    assert ended.wait(PATIENCE)
    host.outbox._writing.release()
    host.outbox.pump()
    found = host.frames("q")
    assert [frame["type"] for frame in found] == ["progress", "update", "progress", "result"]
    assert found[0]["data"] == {"progress": 19_999, "total": 20_000, "message": "step 19999"}
    assert found[2]["data"]["progress"] == 20_000


# Order


@pytest.mark.parametrize("node", ["Mixed", "MixedLate"])
def test_all_that_a_node_tells_is_sent_in_the_order_in_which_it_did(host: Host, node: str) -> None:
    """UPD-10, UPD-11, UPD-15: what was told before a yield comes before its chunk."""
    found = host.run(node, stream=True)
    assert [frame["type"] for frame in found] == ["progress", *["update"] * 3, "chunk"] * 3 + ["progress", "result"]
    told = [frame["data"].get("content", frame["data"].get("value")) for frame in found if frame["type"] == "update"]
    assert told == [one for number in range(3) for one in (f"log {number}", number, f"print {number}")]
    assert [one["outputs"]["output"] for one in data_of(host, "chunk")] == [0, 1, 2]


def test_what_is_told_after_the_terminal_frame_is_dropped(host: Host, module: dict[str, Any]) -> None:
    """RID-12, UPD-11: by a Context that the node has kept."""
    host.run("Leaves")
    [context] = module["LEFT"]
    context.log("late")
    context.progress(1)
    context.preview(1)
    host.outbox.pump()
    assert [frame["type"] for frame in host.frames("q")] == ["result"]


# Logs and previews


def test_a_log_says_who_and_where_and_how_bad(host: Host) -> None:
    """UPD-5 to UPD-7, EXE-21: debug is info, and half a character its escape."""
    host.run("Levels", more={"node_id": "n", "workflow_id": "w"})
    frame = {"type": "log_update", "node_id": "n", "node_name": "The Teller", "workflow_id": "w"}
    severities = {"debug": "info", "info": "info", "warning": "warning", "error": "error"}
    assert data_of(host, "update") == [
        {**frame, "content": f"{level} \\udc80", "severity": severity} for level, severity in severities.items()
    ]
    host.run("Long", id_="l")
    [long] = data_of(host, "update", "l")
    assert (long["node_id"], long["node_name"], long["workflow_id"]) == ("", "Long", "")
    assert 9_000 < len(long["content"]) <= 10_000
    assert "characters left out" in long["content"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("map", {"type": "preview_update", "value": {"a": [1, 2.5, None, "x\\udc80"], "1": b"b"}}),
        ("bytes", {"type": "binary_update", "output_name": "mask", "binary": b"raw"}),
        ("view", {"type": "binary_update", "output_name": "mask", "binary": b"raw"}),
        ("large", {"type": "binary_update", "output_name": "mask", "binary": b"x" * 100_000}),
    ],
)
def test_a_preview_is_a_value_or_bytes(host: Host, name: str, data: Any) -> None:
    """UPD-8, UPD-9, EXE-21."""
    host.run("Show", name=name, more={"node_id": "n"})
    assert data_of(host, "update") == [{**data, "node_id": "n"}]


def test_a_preview_of_bytes_has_a_name_without_any_slot(host: Host) -> None:
    """UPD-9."""
    host.run("ShowNothing", name="bytes")
    assert data_of(host, "update")[0]["output_name"] == "output"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("object", "$.a: a value of type object has no JSON form"),
        ("big integer", "$: the integer is beyond 2**53"),
        ("cycle", "it is nested too deep or contains itself"),
        ("large", "Outgoing bridge frame exceeds max size"),
        ("large text", "Outgoing bridge frame exceeds max size"),
    ],
)
def test_a_preview_that_can_t_be_sent_is_told_and_the_call_goes_on(
    module: dict[str, Any], name: str, text: str
) -> None:
    """UPD-14: and what follows it is sent."""
    host = Host(module, limit_bytes=50_000)
    found = host.run("Show", name=name)
    assert [frame["type"] for frame in found] == ["update", "progress", "result"]
    [(severity, content)] = host.logs()
    assert severity == "warning"
    assert content.startswith(f"a preview can't be shown: {text}")


# A host that reads slowly


def test_a_node_that_tells_more_than_the_host_reads_waits(host: Host) -> None:
    """UPD-19: with little in memory; and goes on once the host reads."""
    host.pipe.shut()
    ended = host.start(host.ask("FloodOfText", count=2_000))
    assert host.pipe.is_waited_for.wait(PATIENCE)
    assert host.outbox._bytes < 1 << 21
    assert not ended.is_set()
    host.pipe.open()
    assert ended.wait(PATIENCE)
    assert len(host.frames("q")) == 2_001
    assert host.outbox._bytes == 0


def test_an_async_node_that_makes_more_than_the_host_reads_waits_and_the_loop_does_not(host: Host) -> None:
    """UPD-19, UPD-20: another node of the loop runs meanwhile."""
    host.pipe.room = 0
    full = threading.Event()
    call_with_room = host.outbox.call_with_room

    def watch(callback: Callable[[], object]) -> None:
        call_with_room(callback)
        full.set()

    host.outbox.call_with_room = watch  # type: ignore[method-assign]  # watched
    ended = host.start(host.ask("FloodOfChunks", stream=True, count=30))
    assert full.wait(PATIENCE)
    held = host.outbox._bytes
    assert 1 << 20 < held < 1 << 21
    other = host.ask("Quick", "other")
    host.session.serve(other)
    assert other.has_ended
    host.pipe.room = None
    host.outbox.settle()
    assert ended.wait(PATIENCE)
    assert len(host.frames("q")) == 31
    assert len(host.frames("other")) == 1
