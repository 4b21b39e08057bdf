"""The worker as a process: what a cancel does, whatever kind of node it meets and however busy the worker is."""

import select
from pathlib import Path
from textwrap import dedent

import pytest

from tests.ipc.support import PATIENCE, gate
from tests.nodetool.support import (
    CANCELLED,
    READY,
    Worker,
    cancel,
    discover,
    error_of,
    execute,
    kinds_of,
    logs_of,
    message,
    outputs_of,
    status,
)

#: One node of each kind that goes on until it is told to stop, and says what it does then.
KINDS = """
    import asyncio, time

    @node
    def check(*, ctx: Context) -> str:
        ctx.log("started")
        try:
            while True:
                ctx.check_cancelled()
        finally:
            ctx.log("cleaned up")

    @node
    def look(*, ctx: Context) -> str:
        ctx.log("started")
        while not ctx.cancelled:
            time.sleep(0.001)
        try:
            ctx.log("swallowed")
        except BaseException:
            ctx.log("cleaned up")
        return "a value that nobody gets"

    @node
    def report(*, ctx: Context) -> str:
        ctx.log("started")
        try:
            while True:
                ctx.progress(1)
        finally:
            ctx.log("cleaned up")

    @node
    async def nap(*, ctx: Context) -> str:
        ctx.log("started")
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            ctx.log("cleaned up")

    @node
    def generate(*, ctx: Context) -> Iterator[int]:
        ctx.log("started")
        try:
            while True:
                yield 1
                time.sleep(0.001)
        finally:
            ctx.log("cleaned up")

    @node
    async def generate_async(*, ctx: Context) -> AsyncIterator[int]:
        ctx.log("started")
        try:
            while True:
                yield 1
                await asyncio.sleep(0.001)
        finally:
            ctx.log("cleaned up")

    @node
    def raise_other(*, ctx: Context) -> str:
        ctx.log("started")
        try:
            while True:
                ctx.check_cancelled()
        finally:
            ctx.log("cleaned up")
            raise ValueError("something else")

    @node
    def quick() -> str:
        return "quick"
    """
IMPORTS = "    from collections.abc import AsyncIterator, Iterator\n"

#: A node that computes in pure Python until it is told to stop, and one that waits at the gate and never looks.
SPIN = """
    @node
    def spin(*, ctx: Context) -> None:
        print("started")
        while True:
            ctx.check_cancelled()

    @node
    def wait(number: int = 0) -> int:
        print(f"started {number}", flush=True)
        open("gate", "rb", buffering=0).read(1)
        return number

    @node
    def quick() -> str:
        return "quick"
    """


@pytest.mark.parametrize("stream", [False, True], ids=["execute", "stream"])
def test_every_kind_of_node_is_told_and_cleans_up_before_its_one_error(tmp_path: Path, stream: bool) -> None:
    """CAN-1, CAN-3, CAN-6 to CAN-10, CAN-12, CAN-15, RID-12: what it reports while it cleans up still comes."""
    kinds = ["Check", "Look", "Report", "Nap", "Generate", "GenerateAsync", "RaiseOther"]
    with Worker(tmp_path, IMPORTS + KINDS) as worker:
        for kind in kinds:
            worker.send(execute(kind, kind, stream=stream))
        for kind in kinds:
            assert worker.frame(kind)["data"]["content"] == "started"
            if stream and "Generate" in kind:
                assert worker.frame(kind)["type"] == "chunk"
            worker.send(cancel(kind), cancel(kind))
            frames = worker.until_end(kind)
            assert error_of(frames) == CANCELLED, kind
            assert set(frames[-1]["data"]) == {"error"}
            assert logs_of(frames) == ["cleaned up"], kind
            assert set(kinds_of(frames[:-1])) <= {"update", "chunk", "progress"}
        assert outputs_of(worker.call("Quick")) == {"output": "quick"}
        outcome = worker.finish()
    assert (outcome.status, outcome.answers) == (0, [])


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_busy_worker_answers_and_takes_a_cancel(tmp_path: Path, concurrency: int) -> None:
    """CAN-4, DSC-6, EXE-33, C059: every thread that runs nodes computes in pure Python."""
    ids = [str(number) for number in range(concurrency)]
    with Worker(tmp_path, SPIN, "--concurrency", concurrency) as worker:
        worker.send(*(execute("Spin", id_) for id_ in ids))
        worker.wait_for("started", concurrency)
        for _ in range(3):
            worker.send(status(), discover())
            assert worker.frame("status")["data"]["node_count"] == 3
            assert len(worker.frame("discover")["data"]["nodes"]) == 3
        for id_ in ids:
            worker.send(cancel(id_))
            assert error_of(worker.until_end(id_)) == CANCELLED
        assert outputs_of(worker.call("Quick")) == {"output": "quick"}
        assert worker.finish().status == 0


def test_a_queued_request_that_is_cancelled_never_runs(tmp_path: Path) -> None:
    """CAN-2, CAN-5, C058: answered at once; a cancel for nobody and one for a finished request cause no frame."""
    with gate(tmp_path) as waiting, Worker(tmp_path, SPIN, "--concurrency", 1) as worker:
        assert outputs_of(worker.call("Quick", "finished")) == {"output": "quick"}
        worker.send(execute("Wait", "first", number=1))
        worker.wait_for("started 1")
        worker.send(execute("Wait", "second", number=2), execute("Quick", "third"))
        worker.send(cancel("second"), cancel("unknown"), cancel("finished"), cancel(""), message("cancel", None))
        (found,) = worker.until_end("second")
        assert error_of([found]) == CANCELLED
        waiting.let_pass(2)
        assert outputs_of(worker.until_end("first")) == {"output": 1}
        assert outputs_of(worker.until_end("third")) == {"output": "quick"}
        outcome = worker.finish()
    assert (outcome.status, outcome.answers) == (0, [])
    assert "started 2" not in outcome.stderr


def test_a_cancel_right_behind_its_request_is_not_lost(tmp_path: Path) -> None:
    """CAN-5, CAN-6: in one write, a hundred times, for sync and async nodes."""
    with Worker(tmp_path, IMPORTS + KINDS) as worker:
        for number in range(50):
            worker.send(execute("Check", f"c{number}") + cancel(f"c{number}"))
            worker.send(execute("Nap", f"n{number}") + cancel(f"n{number}"))
        for number in range(50):
            assert error_of(worker.until_end(f"c{number}")) == CANCELLED
            assert error_of(worker.until_end(f"n{number}")) == CANCELLED
        assert worker.finish().answers == []


def test_a_node_that_never_looks_keeps_its_place_and_loses_its_outputs(tmp_path: Path) -> None:
    """CAN-11, CAN-12: the error comes when it ends, and another call has to wait for that."""
    with gate(tmp_path) as waiting, Worker(tmp_path, SPIN, "--concurrency", 1) as worker:
        worker.send(execute("Wait", "stubborn", number=1))
        worker.wait_for("started 1")
        worker.send(cancel("stubborn"), execute("Wait", "next", number=2), status())
        assert worker.frame("stubborn")["data"]["content"] == "started 1"
        assert worker.answer()["request_id"] == "status"
        assert "started 2" not in worker.stderr
        waiting.let_pass()
        (found,) = worker.until_end("stubborn")
        assert error_of([found]) == CANCELLED
        worker.wait_for("started 2")
        waiting.let_pass()
        assert outputs_of(worker.until_end("next")) == {"output": 2}


def test_places_of_cancelled_calls_are_free_again(tmp_path: Path) -> None:
    """CAN-6, EXE-34, C035: more calls cut off in their midst than there are places, and then one more."""
    with Worker(tmp_path, IMPORTS + KINDS, "--concurrency", 2) as worker:
        for number in range(20):
            kind = ("Check", "Nap", "Generate", "GenerateAsync")[number % 4]
            worker.send(execute(kind, kind))
            assert worker.frame(kind)["data"]["content"] == "started"
            worker.send(cancel(kind))
            assert error_of(worker.until_end(kind)) == CANCELLED
        assert outputs_of(worker.call("Quick")) == {"output": "quick"}


def test_a_cancellation_of_the_node_s_own_making_is_no_cancel(tmp_path: Path) -> None:
    """CAN-14, C061: an error that says so, neither silence nor the words of a cancel."""
    source = """
        import asyncio

        @node
        async def inner() -> str:
            task = asyncio.ensure_future(asyncio.sleep(3600))
            asyncio.get_running_loop().call_soon(task.cancel)
            await task
            return "never"

        @node
        async def own() -> str:
            asyncio.current_task().cancel()
            await asyncio.sleep(3600)
            return "never"

        @node
        async def fine() -> str:
            return "fine"
        """
    with Worker(tmp_path, source) as worker:
        for name in ("Inner", "Own"):
            text = error_of(worker.call(name))
            assert text != CANCELLED
            assert "cancel" in text.lower()
        assert outputs_of(worker.call("Fine")) == {"output": "fine"}


#: A node that tells the test that all requests before its own have been taken.
NOTE = r"""
@node
def note() -> None:
    os.write(2, b"noted\n")
"""


def fill_pipe(worker: Worker) -> None:
    """Wait until something waits to be read: nobody reads, so what is larger than the pipe is stuck in its write."""
    assert select.select([worker.stdout], [], [], PATIENCE)[0]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_cancel_takes_away_what_waits_to_be_sent(tmp_path: Path, kind: str) -> None:
    """CAN-8, CAN-13: a stream to a host that does not read ends with the error, and not with all its chunks."""
    source = f"""
        from collections.abc import {"Async" * kind.startswith("async")}Iterator as Parts

        @node
        {kind} stream() -> Parts[bytes]:
            for number in range(1000):
                yield bytes([number % 256]) * 100_000
                os.write(2, b"made %d\\n" % number)
        """
    with Worker(tmp_path, dedent(source) + NOTE, reads=("stderr",)) as worker:
        worker.send(execute("Stream", "stream", stream=True))
        worker.wait_for("made 5\n" if "async" in kind else READY)
        fill_pipe(worker)
        worker.send(cancel("stream"), execute("Note"))
        worker.wait_for("noted")  # so the cancel has been taken, before anything is read
        worker.read_stdout()
        frames = worker.until_end("stream")
        assert error_of(frames) == CANCELLED
        chunks = [frame["data"]["outputs"]["output"] for frame in frames[:-1]]
        assert len(chunks) <= 2, "only what was on its way"
        assert [chunk[0] for chunk in chunks] == list(range(len(chunks)))


def test_a_cancel_takes_away_a_result_that_waits_to_be_sent(tmp_path: Path) -> None:
    """CAN-13: and the others that wait are sent whole."""
    source = """
        @node
        def big() -> bytes:
            os.write(2, b"made\\n")
            return bytes(1_000_000)
        """
    with Worker(tmp_path, dedent(source) + NOTE, reads=("stderr",)) as worker:
        worker.send(execute("Big", "a"))
        fill_pipe(worker)
        worker.send(execute("Big", "b"))
        worker.wait_for("made", 2)
        worker.send(cancel("b"), cancel("a"), execute("Note"))
        worker.wait_for("noted")  # so the cancels have been taken, before anything is read
        worker.read_stdout()
        assert len(outputs_of(worker.until_end("a"))["output"]) == 1_000_000
        (found,) = worker.until_end("b")
        assert error_of([found]) == CANCELLED
        assert outputs_of(worker.until_end()) == {}
        assert worker.finish().answers == []


def test_what_is_no_call_can_not_be_cancelled(tmp_path: Path) -> None:
    """CAN-16."""
    with Worker(tmp_path, SPIN) as worker:
        worker.send(cancel("discover") + discover() + cancel("discover") + status() + cancel("status"))
        assert worker.frame("discover")["type"] == "discover"
        assert worker.frame("status")["type"] == "result"
        assert worker.finish().answers == []


def test_a_cancel_is_for_the_one_request_that_runs_under_its_id(tmp_path: Path) -> None:
    """RID-13, RID-14: the ones that wait for it are served as usual."""
    with Worker(tmp_path, SPIN) as worker:
        worker.send(execute("Spin"), execute("Quick"), execute("Spin"))
        worker.wait_for("started")
        worker.send(cancel())
        assert error_of(worker.until_end()) == CANCELLED
        assert outputs_of(worker.until_end()) == {"output": "quick"}
        worker.wait_for("started", 2)
        worker.send(cancel())
        assert error_of(worker.until_end()) == CANCELLED
        assert worker.finish().answers == []
