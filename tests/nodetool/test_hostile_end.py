"""Hosts that close, go or do not read at the worst moment, requests that fill the memory, and limits without sense."""

import os
import select
import threading
from pathlib import Path
from typing import Any

import pytest

from nodetool_worker.options import UsageError, read_options
from tests.ipc.support import PATIENCE, gate
from tests.nodetool.sessionkit import Host
from tests.nodetool.support import (
    CANCELLED,
    READY,
    Worker,
    discover,
    error_of,
    execute,
    memory_of,
    outputs_of,
    status,
)

MEGABYTE = 1_000_000

#: Nodes that hold a call up, and one whose entry is large.
HOLD = f"""
    from typing import Any

    @node
    def block(x: Any = None) -> None:
        print("blocked")
        while True:
            threading.Event().wait(3600)

    @node
    def half() -> None:
        print("half a line", end="")
        os.write(2, b"blocked\\n")
        while True:
            threading.Event().wait(3600)

    @node
    def wait(x: Any = None) -> None:
        print("waits")
        open("gate", "rb", buffering=0).read(1)

    @node
    def long() -> None:
        '''{"long " * 20_000}'''
    """


# The end of stdin that nobody reads


@pytest.mark.parametrize(
    ("requests", "limit"),
    [
        ([execute("Block")] * 1500, 1 << 28),
        ([execute("Block", str(number), x="x" * 8000) for number in range(34)], 1 << 16),
        ([execute("Block", x="x" * 8000)] * 36, 1 << 16),
    ],
    ids=["one id", "bytes", "bytes of one id"],
)
def test_the_end_of_stdin_is_noticed_while_nothing_more_is_read(
    tmp_path: Path, requests: list[bytes], limit: int
) -> None:
    """END-1, END-3 to END-5: as many requests are in memory as may be, and none of them ends by itself."""
    with Worker(tmp_path, HOLD, "--grace", 0, NODETOOL_BRIDGE_MAX_FRAME_SIZE=str(limit)) as worker:
        worker.send(*requests)
        worker.wait_for("blocked")
        worker.close()
        assert worker.wait() == 0, worker.stderr
        answers = worker.rest()
    texts = [error_of([answer]) for answer in answers if answer["type"] != "update"]
    assert any("the worker is ending" in text for text in texts)
    assert all("the worker is ending" in text or text == CANCELLED for text in texts)


@pytest.mark.parametrize("node", [None, "Half"])
def test_a_worker_whose_answers_are_not_read_ends_with_its_stdin(tmp_path: Path, node: str | None) -> None:
    """END-1, END-4, END-5: the thread that reads waits for room, and what a call has printed finds none either."""
    with Worker(tmp_path, HOLD, "--grace", 0, reads=("stderr",)) as worker:
        worker.wait_for(READY)
        if node is not None:
            worker.send(execute(node))
            worker.wait_for("blocked")
        worker.send(*(discover(str(number)) for number in range(30)))  # three megabytes of answers
        assert select.select([worker.stdout], [], [], PATIENCE)[0]
        worker.close()
        assert worker.wait() == 0, worker.stderr


def test_the_end_of_a_call_in_memory_waits_for_no_room() -> None:
    """END-4, UPD-17: half a printed line, and more in the outbox than may wait there."""
    started, go_on = threading.Event(), threading.Event()
    host = Host(nodes_of("def run_it() -> None:\n    STARTED.set()\n    GO_ON.wait()", STARTED=started, GO_ON=go_on))
    call = host.ask("RunIt")
    ended = host.start(call)
    assert started.wait(PATIENCE)
    host.pipe.shut()
    call.write_text("half a line")
    host.outbox.put(bytes(2 << 20))
    failed = threading.Event()

    def fail() -> None:
        host.session.fail_all("the worker is ending")
        failed.set()

    threading.Thread(target=fail, daemon=True).start()
    try:
        assert failed.wait(PATIENCE)
        assert host.pipe.waits == 0
    finally:
        host.pipe.open()
        go_on.set()
    assert ended.wait(PATIENCE)


def test_every_call_is_told_of_the_end_though_one_can_t_be() -> None:
    """END-3, CAN-5: node code has closed the loop that its cancel would go over."""
    host = Host(nodes_of("def run_it() -> None: ..."))
    calls = [host.ask("RunIt", id_) for id_ in "abc"]

    def refuse() -> None:
        raise RuntimeError("Event loop is closed")

    calls[1].on_cancel = refuse
    host.session.cancel_all()
    assert [call.is_cancelled for call in calls] == [True] * 3
    assert [(frame["request_id"], frame["data"]["error"]) for frame in host.frames()] == [
        ("c", CANCELLED),
        ("a", CANCELLED),
    ]


def nodes_of(source: str, **names: Any) -> dict[str, Any]:
    """Return the names of a module with one node."""
    exec(f"from octonode_sdk import node\n@node\n{source}\n", names)
    return names


# The end of the host


@pytest.mark.parametrize("closed", [False, True])
def test_a_host_that_goes_while_nodes_are_imported_is_noticed(tmp_path: Path, closed: bool) -> None:
    """END-9: an import may take minutes, and nobody is there any more who waits for it."""
    source = "    print('here', flush=True)\n    open('gate', 'rb').read(1)\n"
    with gate(tmp_path), Worker(tmp_path, source, "--grace", 1000, reads=("stderr",)) as worker:
        worker.wait_for("here")
        if closed:
            worker.close()
        worker.stdout.close()
        assert worker.wait() == 141, worker.stderr


# Memory


def test_requests_with_one_id_are_bounded_in_bytes_and_then_served(tmp_path: Path) -> None:
    """EXE-36, RID-13: the rest stay in the pipe, and the host waits."""
    limit = {"NODETOOL_BRIDGE_MAX_FRAME_SIZE": "1100000"}
    with gate(tmp_path) as waiting, Worker(tmp_path, HOLD, **limit) as worker:  # type: ignore[arg-type]  # its keys are variables
        worker.send(execute("Wait"))
        worker.wait_for("waits")
        before = memory_of(worker.pid)
        data = execute("Wait", x=bytes(MEGABYTE)) * 40
        fd, sent = worker.stdin.fileno(), 0
        os.set_blocking(fd, False)
        # A second is many times what a worker that reads needs to make room.
        while sent < len(data) and select.select([], [fd], [], 1)[1]:
            sent += os.write(fd, data[sent : sent + 65536])
        os.set_blocking(fd, True)
        assert sent < 10 * MEGABYTE, f"the worker took {sent} bytes of {len(data)}"
        assert memory_of(worker.pid) - before < 20 * MEGABYTE
        writer = threading.Thread(target=lambda: worker.send(data[sent:]), daemon=True)
        writer.start()
        waiting.let_pass(41)
        for _ in range(41):
            assert outputs_of(worker.until_end()) == {}
        writer.join(PATIENCE)
        assert worker.finish().status == 0


# Limits


@pytest.mark.parametrize(
    ("flag", "variable", "text", "wanted"),
    [
        ("--concurrency", "OCTONODE_CONCURRENCY", "10001", "a whole number from 1 to 10000"),
        ("--concurrency", "OCTONODE_CONCURRENCY", "9" * 30, "a whole number from 1 to 10000"),
        ("--grace", "OCTONODE_GRACE", "86400.1", "a number of seconds from 0 to 86400"),
        ("--grace", "OCTONODE_GRACE", "1e14", "a number of seconds from 0 to 86400"),
    ],
)
def test_a_limit_that_no_system_keeps_is_refused(flag: str, variable: str, text: str, wanted: str) -> None:
    """WOP-3, WOP-4, WOP-7, WOP-9: a flag in one line, a variable in a warning."""
    with pytest.raises(UsageError) as caught:
        read_options(["--stdio", flag, text], {})
    assert str(caught.value) == f"{flag} is {text!r}; expected {wanted}"
    (warning,) = read_options(["--stdio"], {variable: text}).warnings
    assert warning.startswith(f"{variable} is {text!r}; expected {wanted}; using ")


def test_the_greatest_limits_are_served(tmp_path: Path) -> None:
    """WOP-3, WOP-4, END-1, END-2: a call goes on behind the end of stdin, and no wait of a day stands in its way."""
    with gate(tmp_path) as waiting, Worker(tmp_path, HOLD, "--grace", 86400, "--concurrency", 10000) as worker:
        worker.send(execute("Wait"))
        worker.wait_for("waits")
        worker.send(status())
        assert worker.until_end("status")
        worker.close()
        waiting.let_pass()
        assert outputs_of(worker.until_end()) == {}
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr
