"""The worker as a process: what a running node tells, in which order it comes, and what a slow host does to that."""

import os
import select
import threading
from pathlib import Path

import pytest

from tests.ipc.support import PATIENCE, gate
from tests.nodetool.support import (
    READY,
    Frame,
    Worker,
    discover,
    error_of,
    execute,
    kinds_of,
    logs_of,
    memory_of,
    outputs_of,
    read_frame,
    status,
)

MEGABYTE = 1_000_000


def next_frame(worker: Worker) -> Frame:
    """Read one frame on this thread, of a worker whose stdout no other thread reads."""
    frame = read_frame(worker.stdout)  # type: ignore[arg-type]  # IO[bytes] is the same by another name
    assert frame is not None
    return frame


def wait_for_bytes(worker: Worker) -> None:
    """Wait until something can be read: from now on what is larger than the pipe is stuck in its write."""
    assert select.select([worker.stdout], [], [], PATIENCE)[0]


def progress_of(frames: list[Frame]) -> list[tuple[float, float, str | None]]:
    """Return what the progress frames among frames say."""
    found = [frame["data"] for frame in frames if frame["type"] == "progress"]
    return [(data["progress"], data["total"], data["message"]) for data in found]


# Order


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "execute"])
def test_what_a_node_tells_comes_in_the_order_in_which_it_was_told(tmp_path: Path, kind: str, stream: bool) -> None:
    """UPD-1, UPD-5, UPD-8 to UPD-11, UPD-13, UPD-15 to UPD-17, EXE-13: and all of it before the terminal frame."""
    source = f"""
        from collections.abc import AsyncIterator, Iterator

        @node
        {kind} tell(*, ctx: Context) -> {"Async" * (kind != "def")}Iterator[int]:
            for number in range(3):
                ctx.progress(number, 3, "step")
                ctx.log(f"log {{number}}", level="error")
                print("print", number)
                yield number
                ctx.preview({{"n": number}})
                import logging
                logging.getLogger("pack").warning("logging %d", number)
                ctx.progress(number + 0.5, 3)
                ctx.preview(b"bytes")
            print("the end", end="")
        """
    expected = []
    for number in range(3):
        expected += [("progress", number), ("log_update", f"log {number}"), ("log_update", f"print {number}")]
        expected += [("chunk", number)] if stream else []
        expected += [("preview_update", {"n": number}), ("log_update", f"logging {number}")]
        expected += [("progress", number + 0.5), ("binary_update", b"bytes")]
    expected += [("log_update", "the end"), ("result", {} if stream else {"output": 2})]
    with Worker(tmp_path, source) as worker:
        for id_ in ("first", "second"):
            frames = worker.call("Tell", id_, stream=stream)
            assert [gist_of(frame) for frame in frames] == expected
        assert worker.finish().stderr.count("print 2\n") == 2


def gist_of(frame: Frame) -> tuple[str, object]:
    """Return the kind of a frame and what it is about."""
    type_, data = frame["type"], frame["data"]
    if type_ == "update":
        names = {"log_update": "content", "preview_update": "value", "binary_update": "binary"}
        return data["type"], data[names[data["type"]]]
    value = {"progress": data.get("progress"), "chunk": data.get("outputs", {}).get("output")}
    return type_, value.get(type_, data.get("outputs"))


def test_updates_name_the_node_and_the_run(tmp_path: Path) -> None:
    """UPD-5 to UPD-9, EXE-30, EXE-31: where the request does not say, they are empty."""
    source = """
        import logging

        @node(output="mask", label="My Label")
        def who(*, ctx: Context) -> str:
            for level in ("debug", "info", "warning", "error"):
                ctx.log(level, level=level)
            ctx.preview(1)
            ctx.preview(bytearray(b"x"))
            logging.getLogger("p").critical("critical")
            logging.getLogger("p").info("fine")
            logging.getLogger("p").debug("not shown")
            return f"{ctx.request_id} {ctx.node_id!r} {ctx.job_id} {ctx.workflow_id} {ctx.user_id}"
        """
    ids = {"node_id": "n7", "job_id": "j1", "workflow_id": "w1", "user_id": "u1"}
    with Worker(tmp_path, source) as worker:
        worker.send(execute("Who", "e1", more=ids))
        *updates, result = worker.until_end("e1")
        assert outputs_of([result]) == {"mask": "e1 'n7' j1 w1 u1"}
        texts = [(one["data"]["content"], one["data"]["severity"]) for one in updates if "content" in one["data"]]
        same = [(level, level) for level in ("info", "warning", "error")]
        assert texts == [("debug", "info"), *same, ("critical", "error"), ("fine", "info")]
        for one in updates:
            assert one["data"]["node_id"] == "n7"
            if one["data"]["type"] == "log_update":
                assert (one["data"]["node_name"], one["data"]["workflow_id"]) == ("My Label", "w1")
        (binary,) = [one["data"] for one in updates if one["data"]["type"] == "binary_update"]
        assert (binary["output_name"], binary["binary"]) == ("mask", b"x")
        worker.send(execute("Who", "e2", more={"node_id": "", "job_id": 5, "workflow_id": None}))
        *updates, result = worker.until_end("e2")
        assert outputs_of([result]) == {"mask": "e2 '' None None None"}
        assert {one["data"]["node_id"] for one in updates} == {""}


def test_progress_is_always_finite_numbers(tmp_path: Path) -> None:
    """UPD-1 to UPD-4, C064: totals that say nothing, a number that is none, and one that goes back."""
    source = """
        @node
        def count(*, ctx: Context) -> None:
            nan, inf = float("nan"), float("inf")
            for done, total in [(3, 0), (5, None), (nan, 100), (inf, 1), (6, -1), (7, nan), (8.0, 10.0), (2.5, 10)]:
                ctx.progress(done, total)
                ctx.log("next")
            ctx.progress(1, 2, "last")
        """
    with Worker(tmp_path, source) as worker:
        frames = worker.call("Count")
    numbers = [(3, 0), (5, 0), (6, 0), (7, 0), (8, 10), (2.5, 10)]
    assert progress_of(frames) == [*((done, total, None) for done, total in numbers), (1, 2, "last")]
    assert type(progress_of(frames)[4][0]) is int
    assert outputs_of(frames) == {}


def test_reports_from_threads_reach_their_own_request(tmp_path: Path) -> None:
    """UPD-18, C065: from the node's thread, one that it starts, a pool and the loop, with several calls at once."""
    source = """
        import asyncio, logging
        from concurrent.futures import ThreadPoolExecutor

        def report(ctx, name, place):
            ctx.log(f"{name} {place} log")
            print(name, place, "print")
            logging.getLogger("pack").info("%s %s logging", name, place)

        @node
        def threads(name: str, *, ctx: Context) -> str:
            open("gate", "rb", buffering=0).read(1)
            report(ctx, name, "node")
            thread = threading.Thread(target=report, args=(ctx, name, "thread"))
            thread.start()
            thread.join()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(report, ctx, name, "pool").result()
            return name

        @node
        async def tasks(name: str, *, ctx: Context) -> str:
            report(ctx, name, "node")
            await asyncio.gather(asyncio.to_thread(report, ctx, name, "thread"))
            await asyncio.create_task(in_task(ctx, name))
            return name

        async def in_task(ctx, name):
            report(ctx, name, "pool")
        """
    names = [f"{kind}{number}" for kind in ("Threads", "Tasks") for number in range(4)]
    with gate(tmp_path) as waiting, Worker(tmp_path, source) as worker:
        worker.send(*(execute(name[:-1], name, name=name) for name in names))
        waiting.let_pass(4)
        for name in names:
            frames = worker.until_end(name)
            ways = ("log", "print", "logging")
            assert logs_of(frames) == [f"{name} {place} {way}" for place in ("node", "thread", "pool") for way in ways]
            assert outputs_of(frames) == {"output": name}


def test_what_a_thread_tells_behind_the_end_of_its_call_is_dropped(tmp_path: Path) -> None:
    """UPD-11, RID-12: nothing is sent for a request that has ended; the line on stderr stays."""
    source = """
        @node
        def leave(*, ctx: Context) -> str:
            def late() -> None:
                open("gate", "rb", buffering=0).read(1)
                ctx.log("late log")
                ctx.progress(1)
                print("late print", flush=True)
            threading.Thread(target=late, daemon=True).start()
            return "left"
        """
    with gate(tmp_path) as waiting, Worker(tmp_path, source) as worker:
        assert kinds_of(worker.call("Leave")) == ["result"]
        waiting.let_pass()
        worker.wait_for("late print")
        assert worker.finish().answers == []


def test_secrets_are_masked_wherever_they_are_told(tmp_path: Path) -> None:
    """EXE-26 to EXE-29, C103: in the error, its traceback, every kind of update, and on stderr."""
    source = """
        import logging
        from octonode_sdk import Secret

        @node(secrets=["TOKEN", Secret("OTHER", required=False)])
        def leak(how: str, *, ctx: Context) -> str:
            token = ctx.secret("TOKEN")
            print("print", token)
            ctx.log(f"log {token}")
            ctx.progress(1, 2, f"progress {token}")
            logging.getLogger("pack").warning("logging %s", token)
            if how == "undeclared":
                ctx.secret("PATH")
            raise ValueError(f"no access with {token}")

        @node
        def say(text: str) -> None:
            print("say", text)
        """
    token = "tok-9f8e7d6c5b4a"
    with Worker(tmp_path, source) as worker:
        worker.send(execute("Leak", more={"secrets": {"TOKEN": token}}, how="raise"))
        frames = worker.until_end()
        assert error_of(frames) == "ValueError: no access with ***"
        assert "no access with ***" in frames[-1]["data"]["traceback"]
        assert logs_of(frames) == ["print ***", "log ***", "logging ***"]
        assert progress_of(frames) == [(1, 2, "progress ***")]
        assert token not in repr(frames)
        worker.send(execute("Leak", more={"secrets": {"TOKEN": token}}, how="undeclared"))
        assert "not declared" in error_of(worker.until_end())
        assert logs_of(worker.call("Say", text=token)) == ["say ***"]
        assert "TOKEN" in error_of(worker.call("Leak", how="raise"))
        outcome = worker.finish()
    assert token not in outcome.stderr
    assert outcome.stderr.count("print ***\n") == 2


# A host that reads slowly, or not at all


def test_progress_for_a_host_that_does_not_read_becomes_the_latest(tmp_path: Path) -> None:
    """UPD-12, UPD-13, UPD-19: few frames for many reports, and the last one before anything else is among them."""
    source = """
        @node
        def count(*, ctx: Context) -> str:
            for number in range(30_000):
                ctx.progress(number, 30_000)
            ctx.log("half")
            os.write(2, b"half\\n")
            for number in range(30_000):
                ctx.progress(number, 30_000)
            os.write(2, b"all\\n")
            return "done"
        """
    with Worker(tmp_path, source, reads=("stderr",)) as worker:
        worker.send(execute("Count"))
        worker.wait_for("all")
        worker.read_stdout()
        frames = worker.until_end()
    assert outputs_of(frames) == {"output": "done"}
    # The pipe has taken some before it was full; from then on there is one.
    assert 2 <= len(progress_of(frames)) < 5000
    at = [kind == "update" for kind in kinds_of(frames)].index(True)
    assert progress_of(frames[:at])[-1] == (29_999, 30_000, None)
    assert progress_of(frames[at:])[-1] == (29_999, 30_000, None)
    for part in (frames[:at], frames[at:]):
        numbers = [done for done, _, _ in progress_of(part)]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_stream_waits_for_a_host_that_does_not_read(tmp_path: Path, kind: str) -> None:
    """UPD-19, UPD-20: memory stays flat, other calls go on, and then every chunk comes, once and in order."""
    source = f"""
        from collections.abc import AsyncIterator, Iterator

        @node
        {kind} stream(count: int) -> {"Async" * (kind != "def")}Iterator[bytes]:
            for number in range(count):
                yield number.to_bytes(4, "big") * 250_000

        @node
        {kind} other() -> None:
            os.write(2, b"other is served\\n")
        """
    with Worker(tmp_path, source, reads=("stderr",)) as worker:
        worker.send(execute("Stream", stream=True, count=3))
        for _ in range(3):
            assert next_frame(worker)["type"] == "chunk"
        assert next_frame(worker)["type"] == "result"
        before = memory_of(worker.pid)
        worker.send(execute("Stream", stream=True, count=100), execute("Other", "other"))
        wait_for_bytes(worker)
        worker.wait_for("other is served")
        assert memory_of(worker.pid) - before < 20 * MEGABYTE
        chunks: list[Frame] = []
        others: list[Frame] = []
        for _ in range(102):
            frame = next_frame(worker)
            (chunks if frame["request_id"] == "i" else others).append(frame)
        assert [chunk["data"]["outputs"]["output"][:4] for chunk in chunks[:-1]] == [
            n.to_bytes(4, "big") for n in range(100)
        ]
        assert kinds_of(chunks[-1:] + others) == ["result", "result"]
        assert memory_of(worker.pid, "VmHWM") - before < 20 * MEGABYTE


def test_a_long_stream_of_large_chunks_takes_no_memory(tmp_path: Path) -> None:
    """UPD-20, VAL-14, C067: a thousand of a megabyte."""
    source = """
        from collections.abc import Iterator

        @node
        def stream() -> Iterator[bytes]:
            for number in range(1000):
                yield number.to_bytes(4, "big") + bytes(1_000_000)
        """
    with Worker(tmp_path, source, reads=("stderr",)) as worker:
        worker.wait_for(READY)
        before = memory_of(worker.pid)
        worker.send(execute("Stream", stream=True))
        for number in range(1000):
            chunk = next_frame(worker)["data"]["outputs"]["output"]
            assert (int.from_bytes(chunk[:4], "big"), len(chunk)) == (number, MEGABYTE + 4)
        assert next_frame(worker)["type"] == "result"
        assert memory_of(worker.pid, "VmHWM") - before < 20 * MEGABYTE


def test_results_for_a_host_that_does_not_read_are_bounded(tmp_path: Path) -> None:
    """UPD-19: those that run may each have made one, and no further call is begun."""
    source = """
        @node
        def big() -> bytes:
            os.write(2, b"made\\n")
            return b"x" * 10_000_000
        """
    with Worker(tmp_path, source, "--concurrency", 2, reads=("stderr",)) as worker:
        worker.wait_for(READY)
        before = memory_of(worker.pid)
        worker.send(*(execute("Big", str(number)) for number in range(20)))
        found = set()
        for number in range(20):
            wait_for_bytes(worker)
            assert worker.stderr.count("made") <= number + 4
            found.add(next_frame(worker)["request_id"])
        assert found == {str(number) for number in range(20)}
        assert memory_of(worker.pid, "VmHWM") - before < 60 * MEGABYTE


def test_a_status_waits_for_one_large_frame_at_most(tmp_path: Path) -> None:
    """DSC-6, FRM-19: it overtakes the others that wait."""
    source = "    @node\n    def big() -> bytes:\n        os.write(2, b'made\\n')\n        return bytes(5_000_000)\n"
    with Worker(tmp_path, source, reads=("stderr",)) as worker:
        worker.send(*(execute("Big", str(number)) for number in range(5)))
        worker.wait_for("made", 5)
        wait_for_bytes(worker)
        worker.send(status(), discover(), b"\0\0\0\0")
        worker.wait_for("stdio worker: ")  # so all three have been taken
        ids = [next_frame(worker)["request_id"] for _ in range(8)]
        assert {*ids[1:4]} == {"status", "discover", None}
        assert {*ids[:1], *ids[4:]} == {str(number) for number in range(5)}


def test_requests_that_wait_in_memory_are_bounded(tmp_path: Path) -> None:
    """EXE-35, EXE-36: the rest stay in the pipe, and the host waits; then all are served."""
    source = """
        @node
        def wait() -> None:
            print("started")
            open("gate", "rb", buffering=0).read(1)

        @node
        def size(data: bytes) -> int:
            return len(data)
        """
    limit = {"NODETOOL_BRIDGE_MAX_FRAME_SIZE": "1100000"}
    with gate(tmp_path) as waiting, Worker(tmp_path, source, "--concurrency", 1, **limit) as worker:  # type: ignore[arg-type]  # its keys are variables
        worker.send(execute("Wait", "first"))
        worker.wait_for("started")
        before = memory_of(worker.pid)
        data = b"".join(execute("Size", str(number), data=bytes(MEGABYTE)) for number in range(40))
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
        waiting.let_pass()
        for number in range(40):
            assert outputs_of(worker.until_end(str(number))) == {"output": MEGABYTE}
        assert worker.until_end("first")
        writer.join(PATIENCE)
        assert worker.finish().status == 0


def test_a_status_is_answered_while_more_nodes_block_than_there_are_threads(tmp_path: Path) -> None:
    """DSC-6, EXE-33 to EXE-35: forty nodes that block; 32 run, and the others start in their order."""
    source = """
        @node
        def block(number: int) -> int:
            print(f"started {number}")
            open("gate", "rb", buffering=0).read(1)
            return number
        """
    with gate(tmp_path) as waiting, Worker(tmp_path, source) as worker:
        worker.send(*(execute("Block", str(number), number=number) for number in range(40)), status(), discover())
        assert worker.frame("status")["data"]["node_count"] == 1
        assert worker.frame("discover")
        worker.wait_for("started", 32)
        assert worker.stderr.count("started") == 32
        assert "started 32\n" not in worker.stderr
        for number in range(32, 40):
            waiting.let_pass()
            worker.wait_for(f"started {number}\n")
        waiting.let_pass(32)
        for number in range(40):
            assert outputs_of(worker.until_end(str(number))) == {"output": number}


def test_a_quick_call_is_not_held_back_by_a_slow_one(tmp_path: Path) -> None:
    """EXE-33, EXE-37: sync behind sync, async behind sync, and both behind a node that computes."""
    source = """
        import asyncio

        @node
        def wait() -> str:
            open("gate", "rb", buffering=0).read(1)
            return "waited"

        @node
        def compute(*, ctx: Context) -> None:
            while not os.path.exists("stop"):
                ctx.check_cancelled()

        @node
        def quick() -> str:
            return "quick"

        @node
        async def quick_async() -> str:
            await asyncio.sleep(0)
            return "quick"
        """
    with gate(tmp_path) as waiting, Worker(tmp_path, source) as worker:
        worker.send(execute("Wait", "wait"), execute("Compute", "compute"))
        for number in range(20):
            worker.send(execute("Quick", f"a{number}"), execute("QuickAsync", f"b{number}"))
            assert outputs_of(worker.until_end(f"a{number}")) == {"output": "quick"}
            assert outputs_of(worker.until_end(f"b{number}")) == {"output": "quick"}
        waiting.let_pass()
        (tmp_path / "stop").touch()
        assert outputs_of(worker.until_end("wait")) == {"output": "waited"}
        assert outputs_of(worker.until_end("compute")) == {}


def test_a_line_without_an_end_is_told_with_the_rest_of_it(tmp_path: Path) -> None:
    """UPD-15, UPD-17: in pieces, with blank lines, and more than one line at once."""
    source = r"""
        @node
        def talk() -> None:
            print("a", end="")
            print("b", end="", file=sys.stderr)
            print("c")
            print()
            print("one\ntwo")
            sys.stdout.write("last")

        @node
        def fail() -> None:
            print("last", end="")
            raise ValueError("no")
        """
    with Worker(tmp_path, source) as worker:
        frames = worker.call("Talk")
        assert "\n".join(logs_of(frames)).split() == ["abc", "one", "two", "last"]
        frames = worker.call("Fail")
        assert (logs_of(frames), error_of(frames)) == (["last"], "ValueError: no")


def test_logging_is_captured_though_it_is_loaded_within_the_call(tmp_path: Path) -> None:
    """UPD-16, WOP-12: from its first record on, at the level that the variable says, and once each."""
    source = """
        @node
        def talk() -> bool:
            was_loaded = "logging" in sys.modules
            import logging
            logging.getLogger("pack").debug("debug")
            logging.getLogger("pack").info("info")
            logging.error("error")
            return was_loaded
        """
    with Worker(tmp_path, source, NODETOOL_LOG_LEVEL="debug") as worker:
        frames = worker.call("Talk")
        assert outputs_of(frames) == {"output": False}
        assert logs_of(frames) == ["debug", "info", "error"]
        assert logs_of(worker.call("Talk")) == ["debug", "info", "error"]
        assert worker.finish().stderr.count("[info] pack: info\n") == 2
