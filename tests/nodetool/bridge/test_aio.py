"""The async client, with a worker that the test plays. What it shares with the sync one is tested there."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nodetool_worker.bridge.aio import AsyncBridge
from nodetool_worker.bridge.limits import Limits
from nodetool_worker.errors import (
    BridgeClosedError,
    BridgeTimeoutError,
    IncompatibleWorkerError,
    RequestCancelledError,
    RequestFailedError,
    StreamLostError,
    WorkerDiedError,
    WorkerStartError,
)
from nodetool_worker.responses import Progress, Update
from tests.ipc.support import gate
from tests.nodetool.bridge.support import PATIENCE, Played, counting_ids, fake_command, frame, result


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine, with a bound."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(bounded())


@asynccontextmanager
async def played(**options: Any) -> AsyncIterator[tuple["Hands", AsyncBridge]]:
    """Attach a bridge to a worker that the test plays, without a handshake."""
    worker = Played()
    given: dict[str, Any] = {"handshake": False, "new_id": counting_ids(), "limits": Limits(), **options}
    bridge = await AsyncBridge.attach(worker.bridge_reads, worker.bridge_writes, **given)
    try:
        yield Hands(worker), bridge
    finally:
        worker.close()
        await bridge.close(0)


class Hands:
    """The played worker, for a task: its waits are on a thread."""

    def __init__(self, worker: Played) -> None:
        self.worker = worker
        self.send = worker.send

    async def take(self, type_: str | None = None) -> Any:
        """Return the next message of the bridge."""
        return await asyncio.to_thread(self.worker.take, type_)


def test_a_call_gives_its_result_after_its_progress() -> None:
    """BRG-17, BRG-21: the functions may be async."""
    seen: list[Any] = []

    async def on_progress(part: Progress) -> None:
        await asyncio.sleep(0)
        seen.append(part.done)

    def on_update(part: Update) -> None:
        seen.append(part.kind)

    async def main() -> None:
        async with played() as (worker, bridge):
            calling = asyncio.create_task(
                bridge.execute("a.B", {"x": 1}, on_progress=on_progress, on_update=on_update, node_id="n")
            )
            message = await worker.take("execute")
            assert message["data"]["node_id"] == "n"
            worker.send(frame("progress", "r1", {"progress": 1, "total": 2}))
            worker.send(frame("update", "r1", {"type": "log_update"}), result("r1", y=2))
            assert (await calling).outputs == {"y": 2}
            assert seen == [1, "log_update"]

    run(main)


def test_many_tasks_use_one_bridge() -> None:
    """BRG-10, BRG-21."""

    async def main() -> None:
        async with played() as (worker, bridge):
            tasks = [asyncio.create_task(bridge.execute("a.B", {"n": n})) for n in range(50)]
            messages = [await worker.take("execute") for _ in tasks]
            for message in reversed(messages):
                worker.worker.answer(message, n=message["data"]["fields"]["n"])
            assert [one.outputs["n"] for one in await asyncio.gather(*tasks)] == list(range(50))

    run(main)


def test_a_task_that_is_cancelled_cancels_its_request() -> None:
    """BRG-8, BRG-21: and what still comes for it is ignored."""

    async def main() -> None:
        async with played() as (worker, bridge):
            calling = asyncio.create_task(bridge.execute("a.B"))
            await worker.take("execute")
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            assert await worker.take() == {"type": "cancel", "request_id": "r1", "data": {}}
            handle = bridge.start("a.B")
            await worker.take("execute")
            worker.send(frame("error", "r1", {"error": "Node execution was cancelled"}), result("r2"))
            await handle.result()
            assert bridge.faults == []

    run(main)


@pytest.mark.parametrize("way", ["close", "with", "aclosing", "cancel", "drop"])
def test_leaving_a_stream_early_cancels_it(way: str) -> None:
    """BRG-18."""

    async def main() -> None:
        async with played() as (worker, bridge):
            stream = bridge.stream("a.B")
            await worker.take("execute.stream")
            worker.send(frame("chunk", "r1", {"outputs": {"t": "a"}, "blobs": {}}))
            assert (await anext(stream)).outputs == {"t": "a"}
            if way == "close":
                stream.close()
            elif way == "with":
                async with stream:
                    pass
            elif way == "aclosing":
                async with contextlib.aclosing(stream):
                    pass
            elif way == "cancel":
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            else:
                del stream
            assert await worker.take() == {"type": "cancel", "request_id": "r1", "data": {}}

    run(main)


def test_a_stream_gives_its_chunks_and_a_result_without_chunks_as_one() -> None:
    """BRG-18."""

    async def main() -> None:
        async with played() as (worker, bridge):
            stream = bridge.stream("a.B")
            await worker.take()
            many = [frame("chunk", "r1", {"outputs": {"n": n}, "blobs": {}}) for n in range(2000)]
            sending = asyncio.create_task(asyncio.to_thread(worker.send, *many, result("r1", n="not this")))
            assert [one.outputs["n"] async for one in stream] == list(range(2000))
            await sending
            single = bridge.stream("a.B")
            await worker.take()
            worker.send(result("r2", y=1))
            assert [one.outputs async for one in single] == [{"y": 1}]
            assert single.result is not None

    run(main)


def test_a_handle_waits_cancels_and_ends() -> None:
    """CAN-1, BRG-21."""

    async def main() -> None:
        async with played() as (worker, bridge):
            handle = bridge.start("a.B")
            await worker.take("execute")
            with pytest.raises(TimeoutError):
                await handle.result(0.01)
            assert not handle.done()
            handle.cancel()
            assert (await worker.take("cancel"))["request_id"] == handle.request_id
            waiting = [asyncio.create_task(handle.result()) for _ in range(3)]
            await asyncio.sleep(0)
            worker.send(frame("error", "r1", {"error": "Node execution was cancelled"}))
            for one in waiting:
                with pytest.raises(RequestCancelledError):
                    await one

    run(main)


def test_errors_are_those_of_the_sync_client() -> None:
    """BRG-8, BRG-13, BRG-17, BRG-20, BRG-21."""

    async def main() -> None:
        async with played() as (worker, bridge):
            with pytest.raises(BridgeTimeoutError):
                await bridge.execute("a.B", timeout=0.02)
            calling = asyncio.create_task(bridge.execute("a.B"))
            for type_ in ("execute", "cancel", "execute"):
                await worker.take(type_)
            worker.send(frame("error", "r2", {"error": "why"}))
            with pytest.raises(RequestFailedError, match="why"):
                await calling
            handle = bridge.start("a.B")
            worker.send(b"print")
            with pytest.raises(StreamLostError):
                await handle.result()
        async with played() as (worker, bridge):
            handle = bridge.start("a.B")
            worker.worker.end("answers")
            with pytest.raises(WorkerDiedError):
                await handle.result()
        async with played() as (_worker, bridge):
            handle = bridge.start("a.B")
            await bridge.close(0)
            with pytest.raises(BridgeClosedError):
                await handle.result()

    run(main)


def test_a_process_is_started_used_and_ended() -> None:
    """BRG-1, BRG-3, BRG-20, BRG-21."""

    async def main() -> None:
        lines: list[str] = []
        async with await AsyncBridge.spawn(
            fake_command("no-status"), on_stderr=lines.append, limits=Limits(status_seconds=0.2)
        ) as bridge:
            assert bridge.protocol_version == 6
            assert (await bridge.discover()).node("fake.Echo") is not None
            assert (await bridge.execute("fake.Echo", {"a": 1}, blobs={"b": b"c"})).blobs == {"b": b"c"}
            with pytest.raises(RequestFailedError, match=r"Unknown message type: models\.list_cached"):
                await bridge.request("models.list_cached")
        assert lines[0] == "NODETOOL_STDIO_READY"
        assert await bridge.close() == 0

    run(main)


def test_a_worker_that_does_not_start_is_an_error() -> None:
    """BRG-2, BRG-4, BRG-21."""

    async def main() -> None:
        with pytest.raises(WorkerStartError, match="ended with status 3"):
            await AsyncBridge.spawn(fake_command("die"))
        with pytest.raises(IncompatibleWorkerError):
            await AsyncBridge.spawn(fake_command("version=0"))

    run(main)


def test_a_start_that_nobody_waits_for_any_more_leaves_no_process(tmp_path: Path) -> None:
    """BRG-20, BRG-21."""

    async def main() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()
        pids: list[int] = []

        def note(line: str) -> None:
            if line.isdecimal():
                pids.append(int(line))
            loop.call_soon_threadsafe(started.set)

        script = (
            "import os, sys, time\n"
            "print(os.getpid(), file=sys.stderr, flush=True)\n"
            "open('gate', 'rb', buffering=0).read(1)\n"
            "print('NODETOOL_STDIO_READY', file=sys.stderr, flush=True)\n"
            "time.sleep(1000)\n"
        )
        command = [sys.executable, "-c", script]
        with gate(tmp_path) as waiting:
            starting = asyncio.create_task(AsyncBridge.spawn(command, on_stderr=note, cwd=tmp_path))
            await started.wait()
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            waiting.let_pass()
        ended = asyncio.create_task(asyncio.to_thread(ends, pids[0]))
        assert await ended

    run(main)


def ends(pid: int) -> bool:
    """Wait for the end of a process."""
    import os
    import select

    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    ended = bool(poll.poll(PATIENCE * 1000))
    os.close(fd)
    return ended
