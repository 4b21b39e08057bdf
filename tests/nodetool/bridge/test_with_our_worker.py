"""Both ends of the bridge are ours: the client drives the worker, every frame checked."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodetool_worker.bridge import AsyncBridge, Bridge, Limits
from nodetool_worker.errors import RequestCancelledError, RequestFailedError, WorkerDiedError
from nodetool_worker.responses import Progress, Update
from tests.ipc.support import PATIENCE, write_nodes
from tests.nodetool.bridge.support import in_thread

SOURCE = """
    from collections.abc import Iterator

    @node
    def echo(text: str = "", number: int = 0) -> dict[str, object]:
        print("stray text on stdout")
        return {"text": text, "number": number}

    @node
    def measure(data: bytes) -> int:
        return len(data)

    @node
    def fill(size: int) -> bytes:
        return b"x" * size

    @node
    def count(to: int, *, ctx: Context) -> Iterator[int]:
        for number in range(to):
            yield number

    @node
    def report(*, ctx: Context) -> str:
        ctx.progress(1, 2, "half")
        ctx.log("a line")
        ctx.progress(2, 2)
        return ctx.node_id

    @node
    async def wait(*, ctx: Context) -> None:
        import asyncio
        ctx.progress(0)
        await asyncio.sleep(3600)

    @node
    def fail() -> None:
        raise ValueError("no ink")

    @node
    def leave() -> None:
        print("good-bye", file=sys.stderr, flush=True)
        os._exit(7)
    """


@contextmanager
def spawned(folder: Path) -> Iterator[Bridge]:
    """Start our worker on the nodes above."""
    path = write_nodes(folder, SOURCE)
    with Bridge.spawn(nodes=[str(path)], cwd=folder, validate=True, limits=Limits(), env=_PLAIN) as bridge:
        yield bridge


#: Variables that change what is tested are taken away.
_PLAIN: dict[str, str | None] = {name: None for name in os.environ if name.startswith(("OCTONODE_", "NODETOOL_"))}


def test_the_inventory_and_the_status_are_known_from_the_start(tmp_path: Path) -> None:
    """BRG-1, BRG-2, BRG-3, BRG-12."""
    with spawned(tmp_path) as bridge:
        assert bridge.discovery is not None
        assert {"nodes.Echo", "nodes.Count"} <= {entry["node_type"] for entry in bridge.discovery.nodes}
        assert bridge.protocol_version == 6
        assert bridge.worker_status is not None
        assert bridge.worker_status.node_count == 8
        assert bridge.supports_chunked_blobs()
        assert bridge.faults == []
    assert bridge.close() == 0


def test_values_and_bytes_go_there_and_back(tmp_path: Path) -> None:
    """BRG-17, FRM-1, VAL-14: small and large, in fields and as blobs."""
    with spawned(tmp_path) as bridge:
        assert bridge.execute("nodes.Echo", {"text": "é", "number": 3}).outputs == {
            "output": {"text": "é", "number": 3}
        }
        for size in (0, 10, 100_000, 20_000_000):
            data = bytes(size)
            assert bridge.execute("nodes.Measure", {"data": data}).outputs == {"output": size}
            assert bridge.execute("nodes.Measure", blobs={"data": data}).outputs == {"output": size}
            answer = bridge.execute("nodes.Fill", {"size": size})
            assert {**answer.outputs, **answer.blobs} == {"output": b"x" * size}
        assert bridge.faults == []


def test_progress_updates_and_chunks_come_in_order(tmp_path: Path) -> None:
    """BRG-17, BRG-18, BRG-19."""
    seen: list[Any] = []

    def note(part: Progress | Update) -> None:
        seen.append((part.done, part.total, part.message) if isinstance(part, Progress) else part.data["content"])

    with spawned(tmp_path) as bridge:
        result = bridge.execute("nodes.Report", node_id="n7", on_progress=note, on_update=note)
        assert result.outputs == {"output": "n7"}
        assert seen == [(1, 2, "half"), "a line", (2, 2, None)]
        stream = bridge.stream("nodes.Count", {"to": 1000})
        assert [one.outputs for one in stream] == [{"output": number} for number in range(1000)]
        assert [one.outputs for one in bridge.stream("nodes.Report")] == [{"output": ""}]
        stream = bridge.stream("nodes.Count", {"to": 10**9})
        assert [next(stream).outputs["output"] for _ in range(1000)] == list(range(1000))
        stream.close()
        assert bridge.execute("nodes.Report").outputs == {"output": ""}
        assert bridge.faults == []


def test_a_cancelled_call_ends(tmp_path: Path) -> None:
    """CAN-1, BRG-17."""
    with spawned(tmp_path) as bridge:
        started = threading.Event()
        handle = bridge.start("nodes.Wait", on_progress=lambda _: started.set())
        waiting = in_thread(lambda: handle.result(PATIENCE))
        assert started.wait(PATIENCE)
        handle.cancel()
        with pytest.raises(RequestCancelledError, match="Node execution was cancelled"):
            waiting.result(PATIENCE)


def test_many_threads_use_one_worker(tmp_path: Path) -> None:
    """BRG-10: each gets its own answer."""

    def call(first: int) -> list[int]:
        return [bridge.execute("nodes.Echo", {"number": first + n}).outputs["output"]["number"] for n in range(50)]

    with spawned(tmp_path) as bridge:
        calls = [in_thread(lambda first=n * 100: call(first)) for n in range(8)]  # type: ignore[misc]  # a default binds it
        for n, one in enumerate(calls):
            assert one.result(PATIENCE) == list(range(n * 100, n * 100 + 50))
        assert bridge.faults == []


def test_a_failure_of_a_node_has_its_text_and_its_traceback(tmp_path: Path) -> None:
    """BRG-17."""
    with spawned(tmp_path) as bridge:
        with pytest.raises(RequestFailedError, match="ValueError: no ink") as caught:
            bridge.execute("nodes.Fail")
        assert caught.value.traceback is not None
        assert "in fail" in caught.value.traceback
        with pytest.raises(RequestFailedError, match=r"Unknown node type: nodes\.Nope") as caught:
            bridge.execute("nodes.Nope")
        assert caught.value.traceback is None


def test_a_node_that_ends_the_process_fails_every_call(tmp_path: Path) -> None:
    """BRG-15, BRG-16."""
    with spawned(tmp_path) as bridge:
        handle = bridge.start("nodes.Wait")
        with pytest.raises(WorkerDiedError, match="ended with status 7") as caught:
            bridge.execute("nodes.Leave")
        assert caught.value.stderr_tail[-1] == "good-bye"
        with pytest.raises(WorkerDiedError):
            handle.result(PATIENCE)


def test_closing_ends_a_call_that_would_take_an_hour(tmp_path: Path) -> None:
    """BRG-20: it is cancelled, so the worker ends by itself."""
    with spawned(tmp_path) as bridge:
        started = threading.Event()
        handle = bridge.start("nodes.Wait", on_progress=lambda _: started.set())
        in_thread(lambda: handle.result(PATIENCE))
        assert started.wait(PATIENCE)
        assert bridge.close() == 0


def test_the_async_client_gives_the_same(tmp_path: Path) -> None:
    """BRG-21."""
    path = write_nodes(tmp_path, SOURCE)

    async def main() -> None:
        bridge = await AsyncBridge.spawn(nodes=[str(path)], cwd=tmp_path, validate=True, limits=Limits(), env=_PLAIN)
        async with bridge, asyncio.timeout(PATIENCE):
            calls = [bridge.execute("nodes.Echo", {"number": n}) for n in range(100)]
            answers = [one.outputs["output"]["number"] for one in await asyncio.gather(*calls)]
            assert answers == list(range(100))
            assert [one.outputs["output"] async for one in bridge.stream("nodes.Count", {"to": 500})] == list(
                range(500)
            )
            answer = await bridge.execute("nodes.Fill", {"size": 20_000_000})
            assert {**answer.outputs, **answer.blobs} == {"output": b"x" * 20_000_000}
            started = asyncio.Event()
            waiting = asyncio.create_task(bridge.execute("nodes.Wait", on_progress=lambda _: started.set()))
            await started.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(RequestFailedError, match="ValueError: no ink"):
                await bridge.execute("nodes.Fail")
            assert bridge.faults == []
            assert await bridge.close() == 0

    asyncio.run(main())
