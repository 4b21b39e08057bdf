"""Node code that harms what it runs in: no other call pays for it. Nearly all of it with the worker as a process."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from nodetool_worker.outbox import Outbox
from tests.ipc.support import PATIENCE, Watch, gate
from tests.nodetool.sessionkit import PaperPipe
from tests.nodetool.support import (
    READY,
    Worker,
    cancel,
    command,
    discover,
    error_of,
    execute,
    logs_of,
    message,
    outputs_of,
    status,
)

#: A node that any other node should leave as it is, for the end of a source.
ADD = """
        @node
        def add(a: int) -> int:
            return a + 1
        """


# Finalisers and forks


def test_finalisers_that_print_block_nothing(tmp_path: Path) -> None:
    """UPD-15, UPD-18, RID-11: the collector may run one at any step, also while a lock of the worker's is held."""
    source = """
        import gc

        gc.set_threshold(1)

        class Loud:
            def __init__(self) -> None:
                self.me = self  # only the collector can free it

            def __del__(self) -> None:
                print("closed")

        @node
        def talk(count: int, *, ctx: Context) -> int:
            for number in range(count):
                Loud()
                ctx.progress(number, count)
                ctx.log("log")
                print("text")
            return count
        """
    with Worker(tmp_path, source) as worker:
        worker.send(*(execute("Talk", id_, count=300) for id_ in "ab"), status())
        assert worker.until_end("status")
        closed = 0
        for id_ in "ab":
            frames = worker.until_end(id_)
            assert outputs_of(frames) == {"output": 300}
            said = "".join(logs_of(frames))  # a finaliser may print between a text and its line end
            assert (said.count("log"), said.count("text")) == (300, 300)
            closed += said.count("closed")
        assert closed
        assert worker.finish().status == 0


def test_a_finaliser_that_prints_may_run_at_any_step_of_the_outbox() -> None:
    """UPD-15, UPD-19, FRM-19: where frames are chosen, and where they are written; all come, each of them whole."""
    pipe = PaperPipe()
    outbox = Outbox(pipe, lambda: None)

    def finalise(mark: bytes) -> None:
        outbox.put(mark * (2 << 20))  # more than may wait, so that whoever adds it is held up
        outbox.pump()
        outbox.nudge()
        outbox.wait_for_room()

    class Chosen:
        is_put = False

        @property
        def size(self) -> int:
            if self.is_put:
                self.is_put = False
                finalise(b"b")
            return 1

        def take(self) -> bytes:
            finalise(b"c")
            return b"a"

    entry = Chosen()
    outbox.put(entry)  # type: ignore[arg-type]  # a size that can't be set is as good
    entry.is_put = True
    ended = threading.Event()

    def pump() -> None:
        outbox.pump()
        ended.set()

    threading.Thread(target=pump, daemon=True).start()
    assert ended.wait(PATIENCE)
    assert outbox.is_empty
    assert pipe.written == b"a" + b"b" * (2 << 20) + b"c" * (2 << 20)


def test_a_child_that_an_async_node_forks_takes_nothing_from_the_loop(tmp_path: Path) -> None:
    """RID-11, FRM-20: it returns from the node as its parent does, and the loop waits on what the two would share."""
    source = """
        import asyncio, warnings

        warnings.simplefilter("ignore")  # newer versions of Python warn of forks beside threads

        @node
        async def fork() -> int:
            return os.fork()

        @node
        async def after(a: int) -> int:
            await asyncio.sleep(0)
            return a
        """
    with Worker(tmp_path, source) as worker:
        watches = [Watch(outputs_of(worker.call("Fork", id_))["output"]) for id_ in "ab"]
        for number in range(50):
            assert outputs_of(worker.call("After", a=number)) == {"output": number}
        assert all(watch.ends() for watch in watches)
        outcome = worker.finish()
    assert (outcome.status, outcome.answers) == (0, [])


# Signals


@pytest.mark.parametrize(("busy", "every"), [(0, 0.004), (8, 0.001)])
def test_a_signal_handler_that_raises_costs_no_call(tmp_path: Path, busy: int, every: float) -> None:
    """FRM-19, END-5: again and again, while frames are written for a host that reads late, up to the end."""
    source = """
        import asyncio, signal

        class Tick(Exception):
            pass

        def tick(*_args: object) -> None:
            raise Tick

        signal.signal(signal.SIGALRM, tick)

        @node
        def arm(every: float) -> None:
            signal.setitimer(signal.ITIMER_REAL, every, every)

        @node
        def spin(*, ctx: Context) -> None:
            while not ctx.cancelled:
                pass

        @node
        async def tell(count: int, *, ctx: Context) -> int:
            for number in range(count):
                ctx.log(f"{number} " + "x" * 300)
                if number % 50 == 0:
                    await asyncio.sleep(0)
            return count
        """
    count = 500 if busy else 2500
    spins = [str(number) for number in range(busy)]
    with Worker(tmp_path, source, reads=("stderr",)) as worker:
        worker.send(execute("Arm", every=every), *(execute("Spin", id_) for id_ in spins))
        worker.send(*(execute("Tell", id_, count=count) for id_ in "ab"))
        worker.wait_for("a signal handler raised Tick", 20)
        worker.read_stdout()
        for id_ in "ab":
            frames = worker.until_end(id_)
            assert outputs_of(frames) == {"output": count}
            assert [int(text.split()[0]) for text in logs_of(frames)] == list(range(count))
        worker.send(*map(cancel, spins))
        for id_ in spins:
            assert worker.until_end(id_)
        assert outputs_of(worker.until_end()) == {}
        outcome = worker.finish()  # the timer is still running
    assert (outcome.status, outcome.answers) == (0, []), outcome.stderr[-2000:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_node_code_that_sets_a_signal_back_keeps_no_end_from_being_clean(
    tmp_path: Path, number: signal.Signals
) -> None:
    """END-6, END-10, END-11: the call is answered, and neither its child nor its folder stays."""
    source = f"""
        import signal, subprocess

        signal.signal(signal.{number.name}, signal.SIG_DFL)

        @node
        def breed(*, ctx: Context) -> None:
            ctx.log(f"{{subprocess.Popen(['sleep', '1000']).pid}} {{ctx.temp_dir}}")
            threading.Event().wait(3600)
        """
    with Worker(tmp_path, source, "--grace", 0, TMPDIR=str(tmp_path)) as worker:
        worker.send(execute("Breed"))
        pid, folder = worker.frame()["data"]["content"].split()
        watch = Watch(int(pid))
        worker.process.send_signal(number)
        assert "the worker is ending" in error_of(worker.until_end())
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr
        assert watch.ends()
        assert not Path(folder).exists()


def test_a_closed_stderr_ends_no_worker_though_node_code_sets_sigpipe_back(tmp_path: Path) -> None:
    """FRM-28: scripts for a terminal do so, and would then die of their next line."""
    source = f"""
        import signal

        signal.signal(signal.SIGPIPE, signal.SIG_DFL)

        @node
        def speak() -> str:
            print("hello")
            return "spoken"
        {ADD}"""
    read_fd, write_fd = os.pipe()
    with Worker(tmp_path, source, stderr=write_fd) as worker:
        os.close(write_fd)
        with os.fdopen(read_fd, "rb") as errors:
            assert errors.readline().decode() == f"{READY}\n"
        assert outputs_of(worker.call("Speak")) == {"output": "spoken"}
        assert outputs_of(worker.call("Add", a=1)) == {"output": 2}
        assert worker.finish().status == 0


# What a node does to its thread, and to all of them


@pytest.mark.parametrize("error", ["TimeoutError", "KeyError", "SystemExit"])
def test_an_exception_that_is_sent_to_the_thread_that_reads_is_told_and_ends_the_worker(
    tmp_path: Path, error: str
) -> None:
    """END-5, RID-11: as timeouts by force send it, late; what was read is lost, and a host sees the end at once."""
    source = f"""
        import ctypes, sys

        set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
        set_error.argtypes = [ctypes.c_ulong, ctypes.py_object]

        def send_late() -> None:
            reading = []
            while not reading:
                frames = sys._current_frames().items()
                reading = [ident for ident, frame in frames if frame.f_code.co_name == "read_payloads"]
            set_error(reading[0], {error})
            print("sent")

        @node
        def hostile() -> None:
            threading.Thread(target=send_late, daemon=True).start()
        """
    with Worker(tmp_path, source, "--grace", 0) as worker:
        assert outputs_of(worker.call("Hostile")) == {}
        worker.wait_for("sent")
        with suppress(BrokenPipeError):  # it has ended already
            worker.send(status())  # the thread comes back to Python code with it
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr
        assert error in worker.stderr.partition("sent")[2]


@pytest.mark.parametrize("end", ["return 1", "raise ValueError('x')"])
def test_a_recursion_limit_that_a_node_lowers_fails_no_other_call(tmp_path: Path, end: str) -> None:
    """EXE-19: it is one for all threads."""
    source = f"""
        @node
        def lower() -> int:
            depth, frame = 0, sys._getframe()
            while frame is not None:
                depth, frame = depth + 1, frame.f_back
            sys.setrecursionlimit(depth + 6)
            {end}
        {ADD}"""
    with Worker(tmp_path, source, "--concurrency", 2) as worker:
        for number in range(5):
            assert worker.call("Lower", "low")
            assert outputs_of(worker.call("Add", a=number)) == {"output": number + 1}
        worker.send(status(), discover())
        assert worker.until_end("status")[-1]["type"] == "result"
        assert worker.until_end("discover")
        assert worker.finish().status == 0


def test_a_host_waits_for_few_turns_of_the_nodes_that_compute(tmp_path: Path) -> None:
    """DSC-6, CAN-4: eight answers and a cancel come before any of 32 nodes has had its sixty milliseconds."""
    source = """
        import time

        spinning = []

        @node
        def spin(*, ctx: Context) -> None:
            spinning.append(ctx.request_id)
            while len(spinning) < 32:
                pass
            if ctx.request_id == "0":
                print("all spin")
            end = time.thread_time() + 0.06  # its own time on the processor, whatever else the machine does
            while time.thread_time() < end and not ctx.cancelled:
                pass
        """
    with Worker(tmp_path, source) as worker:
        worker.send(*(execute("Spin", str(number)) for number in range(32)))
        worker.wait_for("all spin")
        assert worker.frame("0")["type"] == "update"
        for number in range(8):
            worker.send(status(f"status {number}"))
            assert worker.answer()["request_id"] == f"status {number}"
        worker.send(cancel("31"))
        assert worker.answer()["request_id"] == "31"
        worker.send(*(cancel(str(number)) for number in range(31)))
        assert all(worker.until_end(str(number)) for number in range(31))


def test_a_default_factory_that_takes_long_runs_before_the_worker_says_that_it_is_ready(tmp_path: Path) -> None:
    """EXE-33, DSC-6, FRM-27: on the main thread and never on the one that reads; what was sent meanwhile is served."""
    source = f"""
        from typing import Annotated
        from octonode_sdk import Field

        def slow() -> list[int]:
            print("factory on", threading.current_thread().name, flush=True)
            open("gate", "rb", buffering=0).read(1)
            return []

        @node
        def length(x: Annotated[list[int], Field(default_factory=slow)]) -> int:
            return len(x)
        {ADD}"""
    with gate(tmp_path) as waiting, Worker(tmp_path, source) as worker:
        worker.wait_for("factory on MainThread")
        worker.send(discover(), status(), execute("Add", a=1), execute("Length", "length", x=[1]))
        assert READY not in worker.stderr
        waiting.let_pass(100)
        assert worker.until_end("discover")
        assert worker.until_end("status")
        assert outputs_of(worker.until_end()) == {"output": 2}
        assert outputs_of(worker.until_end("length")) == {"output": 1}
        outcome = worker.finish()
    assert outcome.status == 0
    assert outcome.stderr.endswith(f"factory on MainThread\n{READY}\n")
    assert outcome.stderr.count("factory on") == outcome.stderr.count("factory on MainThread")


# Isolated nodes

ISOLATED = """
from octonode_sdk import node

@node(isolated=True)
def where(a: int) -> str:
    import os
    try:
        return os.getcwd()
    except OSError:
        return "gone"
"""


def where(id_: str) -> bytes:
    """Return the frame that asks for a call of the node of ISOLATED, in `other.py`."""
    return message("execute", id_, {"node_type": "other.Where", "fields": {"a": 1}})


def test_an_isolated_call_runs_in_the_folder_of_the_start_wherever_other_nodes_have_gone(tmp_path: Path) -> None:
    """ISO-4: where targets of `--nodes` without a folder are found."""
    (tmp_path / "other.py").write_text(ISOLATED, encoding="utf-8")
    source = "    @node\n    def move() -> str:\n        os.chdir('/')\n        return os.getcwd()\n"
    with Worker(tmp_path, source, "--nodes=other.py") as worker:
        assert outputs_of(worker.call("Move")) == {"output": "/"}
        for id_ in "ab":
            worker.send(where(id_))
            assert outputs_of(worker.until_end(id_)) == {"output": str(tmp_path)}
        assert worker.finish().status == 0


def test_an_isolated_call_runs_though_the_folder_of_the_start_is_gone(tmp_path: Path) -> None:
    """ISO-1: as that of a host whose temporary folder was cleaned up."""
    (tmp_path / "other.py").write_text(ISOLATED, encoding="utf-8")
    shell = ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh", *command()]
    with Worker(tmp_path, ADD, f"--nodes={tmp_path / 'other.py'}", line=shell) as worker:
        assert outputs_of(worker.call("Add", a=1)) == {"output": 2}
        worker.send(where("a"))
        assert outputs_of(worker.until_end("a")) == {"output": "gone"}
        assert worker.finish().status == 0


def test_an_isolated_call_runs_though_no_process_can_be_started_for_the_next_one(tmp_path: Path) -> None:
    """ISO-1, ISO-3: and where its own can't be, that call alone fails."""
    source = f"""
        import subprocess

        starts: list[bool] = []

        class Popen(subprocess.Popen):
            def __init__(self, *arguments, **options) -> None:
                if starts and not starts.pop(0):
                    raise OSError(24, "Too many open files")
                super().__init__(*arguments, **options)

        subprocess.Popen = Popen

        @node
        def let_start(these: list[bool]) -> None:
            starts[:] = these

        @node(isolated=True)
        def pid() -> int:
            return os.getpid()
        {ADD}"""
    with Worker(tmp_path, source) as worker:
        worker.call("LetStart", these=[True, False] * 3 + [False])
        pids = {outputs_of(worker.call("Pid", id_))["output"] for id_ in "abc"}
        assert len(pids - {worker.pid}) == 3
        assert "Too many open files" in error_of(worker.call("Pid", "d"))
        assert outputs_of(worker.call("Pid", "e"))["output"] not in {*pids, worker.pid}
        assert outputs_of(worker.call("Add", a=1)) == {"output": 2}
        assert worker.finish().status == 0
