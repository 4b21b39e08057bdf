"""The worker as a process: calls in processes of their own."""

import os
import signal
from pathlib import Path

import pytest

from tests.ipc.support import Watch, gate
from tests.nodetool.support import (
    CANCELLED,
    READY,
    Frame,
    Worker,
    cancel,
    error_of,
    execute,
    kinds_of,
    logs_of,
    outputs_of,
    read_frame,
    status,
)

#: Nodes that do to their process what they are told, and one that says which process it runs in.
HARM = """
    import ctypes, subprocess, time

    state = []

    @node(isolated=True)
    def harm(how: str) -> None:
        print("here", flush=True)
        if how == "exit":
            os._exit(7)
        if how == "segfault":
            ctypes.string_at(0)
        if how == "abort":
            os.abort()
        if how == "kill":
            os.kill(os.getpid(), 9)
        if how == "close":
            os.closerange(0, 256)
            time.sleep(3600)

    @node(isolated=True)
    def where() -> int:
        return os.getpid()

    @node
    def inside() -> int:
        return os.getpid()
    """


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exit", "status 7"),
        ("segfault", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("kill", "SIGKILL"),
        ("close", "status 141"),
    ],
    ids=lambda value: value,
)
def test_a_process_that_ends_before_its_call_costs_that_call_alone(tmp_path: Path, how: str, words: str) -> None:
    """ISO-1, ISO-3: the error names the signal or the status; what the node has printed before is there."""
    with Worker(tmp_path, HARM) as worker:
        frames = worker.call("Harm", how=how)
        assert words in error_of(frames)
        assert logs_of(frames) == ["here"]
        first, second = (outputs_of(worker.call("Where", id_))["output"] for id_ in "ab")
        assert len({first, second, worker.pid}) == 3
        assert outputs_of(worker.call("Inside")) == {"output": worker.pid}
        outcome = worker.finish()
    assert (outcome.status, outcome.answers) == (0, [])
    assert outcome.stderr.count(READY) == 1


def test_what_a_call_does_to_its_process_is_not_seen_by_another(tmp_path: Path) -> None:
    """ISO-4: the folder, the environment, the globals, a closed loop, and another thread."""
    source = """
        state = []

        def look() -> list[str]:
            return [os.path.basename(os.getcwd()), os.getenv("CHANGED", ""), str(state), str(sys.getrecursionlimit())]

        @node(isolated=True)
        def change() -> list[str]:
            seen = look()
            os.chdir("/")
            os.environ["CHANGED"] = "1"
            state.append(1)
            sys.setrecursionlimit(500)
            sys.stdout.close()
            threading.Thread(target=threading.Event().wait).start()
            return seen

        look = node(look)
        """
    with Worker(tmp_path, source, "--grace", 0.1) as worker:
        seen = [outputs_of(worker.call(name))["output"] for name in ("Change", "Change", "Look")]
        assert seen[0][:3] == [tmp_path.name, "", "[]"]
        assert seen[0] == seen[1] == seen[2]
        assert worker.finish().status == 0


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "execute"])
def test_the_frames_are_those_of_a_call_without_isolation(tmp_path: Path, kind: str, stream: bool) -> None:
    """ISO-2: all kinds of them, in the same order, with the same identity; failures as well."""
    source = f"""
        from collections.abc import AsyncIterator, Iterator

        @node(id="same", namespace="plain")
        {kind} tell(count: int, *, ctx: Context) -> {"Async" * (kind != "def")}Iterator[dict[str, int]]:
            for number in range(count):
                ctx.progress(number, count, "step")
                ctx.log("log")
                print("print", number)
                yield {{"number": number, ctx.request_id: 1, str(ctx.node_id): 2, str(ctx.workflow_id): 3}}
                ctx.preview([number])
                ctx.preview(b"bytes")
            if count == 5:
                raise ValueError("five")

        @node(id="same", namespace="apart", isolated=True)
        {kind} tell_apart(count: int, *, ctx: Context) -> {"Async" * (kind != "def")}Iterator[dict[str, int]]:
            {"async " * (kind != "def")}for part in tell(count, ctx=ctx):
                yield part
        """
    more = {"node_id": "n1", "job_id": "j1", "workflow_id": "w1", "user_id": "u1"}
    with Worker(tmp_path, source) as worker:
        for count in (3, 5, "bad"):
            found = []
            for namespace in ("plain", "apart"):
                node_type = {"node_type": f"{namespace}.Same", "fields": {"count": count}, **more}
                worker.send(execute("", "e", stream=stream, more=node_type))
                found.append(worker.until_end("e"))
            for frames in found:
                frames[-1]["data"].pop("traceback", None)  # it names the node's function
            assert found[0] == found[1]
            assert kinds_of(found[0])[-1] == ("result" if count == 3 else "error")


def test_every_call_is_isolated_where_the_worker_is_told_so(tmp_path: Path) -> None:
    """ISO-1, WOP-5."""
    with Worker(tmp_path, HARM, "--isolate") as worker:
        pids = [outputs_of(worker.call(name))["output"] for name in ("Inside", "Where", "Inside")]
        assert len({*pids, worker.pid}) == 4
        assert "Unknown node type" in error_of(worker.call("Nope"))
        assert "how" in error_of(worker.call("Harm"))
        assert worker.finish().status == 0


def test_a_cancel_reaches_the_node_in_its_process(tmp_path: Path) -> None:
    """ISO-5, CAN-6, CAN-15: which cleans up and reports; no process is killed for it."""
    source = """
        import asyncio

        @node(isolated=True)
        def check(*, ctx: Context) -> None:
            ctx.log("started")
            try:
                while True:
                    ctx.check_cancelled()
            finally:
                ctx.log("cleaned up")

        @node(isolated=True)
        async def nap(*, ctx: Context) -> None:
            ctx.log("started")
            try:
                await asyncio.sleep(3600)
            finally:
                ctx.log("cleaned up")
        """
    with Worker(tmp_path, source, "--grace", 1000) as worker:
        for name in ("Check", "Nap"):
            worker.send(execute(name))
            assert worker.frame()["data"]["content"] == "started"
            worker.send(cancel(), cancel())
            frames = worker.until_end()
            assert (logs_of(frames), error_of(frames)) == (["cleaned up"], CANCELLED)
            assert set(frames[-1]["data"]) == {"error"}
        for number in range(10):
            worker.send(execute("Check", str(number)) + cancel(str(number)))
            assert error_of(worker.until_end(str(number))) == CANCELLED
        assert worker.finish().answers == []


#: A node that never looks, with children: one in its group, one in a session of its own whose parent has ended; and a
#: folder.
STUBBORN = """
    import subprocess

    @node(isolated=True)
    def stubborn(how: str = "", *, ctx: Context) -> None:
        child = subprocess.Popen(["sleep", "1000"])
        orphan = subprocess.run(
            ["setsid", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, check=True
        )
        (ctx.temp_dir / "file").touch()
        ctx.log(f"{os.getpid()} {child.pid} {int(orphan.stdout)} {ctx.temp_dir}")
        if how:
            os._exit(7)
        while True:
            pass

    @node
    def quick() -> str:
        return "quick"
    """


def left_by(frame: Frame) -> tuple[list[Watch], Path]:
    """Return the processes and the folder that STUBBORN has told of."""
    *pids, folder = frame["data"]["content"].split()
    assert Path(folder).is_dir()
    return [Watch(int(pid)) for pid in pids], Path(folder)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_call_that_ignores_its_cancel_is_killed_with_all_that_it_started(tmp_path: Path, concurrency: int) -> None:
    """ISO-6, EXE-38, C059: after the grace; its place is free again, and its folder is gone before the error."""
    with Worker(tmp_path, STUBBORN, "--grace", 0.1, "--concurrency", concurrency) as worker:
        worker.send(execute("Stubborn"))
        processes, folder = left_by(worker.frame())
        worker.send(cancel(), status())
        assert worker.frame("status")
        assert error_of(worker.until_end()) == CANCELLED
        assert not folder.exists()
        for process in processes:
            assert process.ends(), process.pid
        assert outputs_of(worker.call("Quick")) == {"output": "quick"}
        assert worker.finish().status == 0


def test_a_crash_leaves_nothing_behind(tmp_path: Path) -> None:
    """ISO-3, EXE-38, END-10: neither what the process had started nor its folder."""
    with Worker(tmp_path, STUBBORN, TMPDIR=str(tmp_path)) as worker:
        worker.send(execute("Stubborn", how="exit"))
        *pids, folder = worker.frame()["data"]["content"].split()
        assert "status 7" in error_of(worker.until_end())
        assert not Path(folder).exists()
        for pid in pids[1:]:
            assert not Path(f"/proc/{pid}").exists() or Watch(int(pid)).ends()
        assert worker.finish().status == 0


@pytest.mark.parametrize("end", ["stdin", "signal", "two signals", "reader", "kill"])
def test_no_process_of_a_call_outlives_the_worker(tmp_path: Path, end: str) -> None:
    """ISO-9, END-4, END-10, END-11: whichever way it ends, also where it is killed and can do nothing about it."""
    grace = "1000" if end in ("reader", "two signals", "kill") else "0"
    with Worker(tmp_path, STUBBORN, "--grace", grace, reads=("stderr",), TMPDIR=str(tmp_path)) as worker:
        worker.send(execute("Stubborn"))
        frame = read_frame(worker.stdout)  # type: ignore[arg-type]  # IO[bytes] is the same by another name
        assert frame is not None
        processes, folder = left_by(frame)
        spare = [Watch(pid) for pid in children_of(worker.pid)]
        assert len(spare) == 2, "that of the call, and the one that is kept ready"
        if end == "stdin":
            worker.close()
        elif end == "reader":
            worker.stdout.close()
        elif end == "kill":
            worker.process.kill()
        else:
            worker.process.terminate()
            if end == "two signals":
                worker.process.send_signal(signal.SIGINT)
        expected = {"reader": (141,), "two signals": (143, 130), "kill": (-9,)}.get(end, (0,))
        assert worker.wait() in expected
        for process in processes + spare:
            assert process.ends(), process.pid
        assert not folder.exists()
        if end in ("stdin", "signal"):
            worker.read_stdout()
            assert error_of(worker.until_end()) == CANCELLED


def children_of(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    texts = [(task / "children").read_text(encoding="ascii") for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for text in texts for child in text.split()]


def test_exit_hooks_run_in_the_process_of_a_call(tmp_path: Path) -> None:
    """END-12, ISO-4: also in the last one, whose worker ends right behind it."""
    source = """
        import atexit, time

        def hook() -> None:
            time.sleep(0.3)  # far longer than the end of a worker that does not wait for it
            os.write(2, b"hook\\n")

        @node(isolated=True)
        def leave() -> None:
            atexit.register(hook)
        """
    with Worker(tmp_path, source) as worker:
        assert outputs_of(worker.call("Leave")) == {}
        outcome = worker.finish()
    assert (outcome.status, outcome.answers) == (0, [])
    assert "hook\n" in outcome.stderr


def test_secrets_go_over_the_pipe_alone(tmp_path: Path) -> None:
    """ISO-7, EXE-28, EXE-29: not through the environment or the command line; and they are masked all the same."""
    source = """
        from pathlib import Path

        @node(isolated=True, secrets=["TOKEN"])
        def read(*, ctx: Context) -> list[bool]:
            token = ctx.secret("TOKEN")
            print(f"print {token}")
            places = [Path("/proc/self/environ"), Path("/proc/self/cmdline")]
            return [token == "tok-" + "9f8e7d6c5b4a", *(token.encode() in place.read_bytes() for place in places)]
        """
    with Worker(tmp_path, source) as worker:
        worker.send(execute("Read", more={"secrets": {"TOKEN": "tok-9f8e7d6c5b4a"}}))
        frames = worker.until_end()
        assert outputs_of(frames) == {"output": [True, False, False]}
        assert logs_of(frames) == ["print ***"]
        assert "TOKEN" in error_of(worker.call("Read", "b"))
        assert "tok-" not in worker.finish().stderr


def test_large_bytes_go_in_and_out(tmp_path: Path) -> None:
    """ISO-2, VAL-14: whole, as a result and in chunks; and what is over the limit is an error."""
    source = """
        from collections.abc import Iterator

        @node(isolated=True)
        def double(data: bytes) -> bytes:
            return data * 2

        @node(isolated=True)
        def parts(data: bytes) -> Iterator[bytes]:
            yield data
            yield data[:10]
            yield data
        """
    data = os.urandom(4_000_000)
    with Worker(tmp_path, source, NODETOOL_BRIDGE_MAX_FRAME_SIZE="9000000") as worker:
        assert outputs_of(worker.call("Double", data=data)) == {"output": data * 2}
        frames = worker.call("Parts", stream=True, data=data)
        assert [frame["data"]["outputs"].get("output") for frame in frames] == [data, data[:10], data, None]
        assert "> 9000000" in error_of(worker.call("Double", data=data + data[:1_000_000]))
        assert outputs_of(worker.call("Double", data=b"x")) == {"output": b"xx"}


def test_processes_of_calls_count_among_those_that_run_at_once(tmp_path: Path) -> None:
    """ISO-8, EXE-34: thirty calls at once, four at a time, and each is answered once."""
    source = """
        @node(isolated=True)
        def wait(number: int) -> int:
            print("started", flush=True)
            open("gate", "rb", buffering=0).read(1)
            return number
        """
    with gate(tmp_path) as waiting, Worker(tmp_path, source, "--concurrency", 4) as worker:
        worker.send(*(execute("Wait", str(number), number=number) for number in range(30)), status())
        worker.wait_for("started", 4)
        assert worker.frame("status")
        assert worker.stderr.count("started") == 4
        assert len(children_of(worker.pid)) <= 5
        waiting.let_pass(30)
        for number in range(30):
            assert outputs_of(worker.until_end(str(number))) == {"output": number}
        assert worker.finish().answers == []
