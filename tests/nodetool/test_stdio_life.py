"""The worker as a process: how it ends, and what it takes along."""

import os
import resource
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.ipc.support import PATIENCE, Watch, gate, write_nodes
from tests.nodetool.support import (
    CANCELLED,
    READY,
    Worker,
    command,
    discover,
    environment_of,
    error_of,
    execute,
    outputs_of,
    read_frame,
    status,
)

#: Nodes that wait at the gate, for ever, and until they are told to stop.
WAIT = """
    @node
    def wait(number: int = 0) -> int:
        print("started", flush=True)
        open("gate", "rb", buffering=0).read(1)
        return number

    @node
    def quick() -> str:
        return "quick"

    @node
    def ignore() -> None:
        import time
        print("asleep")
        time.sleep(3600)

    @node
    def check(*, ctx: Context) -> None:
        import time
        print("asleep")
        while True:
            ctx.check_cancelled()
            time.sleep(0.001)

    @node
    async def nap() -> None:
        import asyncio
        print("asleep")
        await asyncio.sleep(3600)

    @node
    def spin() -> None:
        print("asleep")
        while True:
            pass

    @node
    def fail() -> None:
        raise ValueError("no")
    """

#: A node that leaves processes behind: a child, and a grandchild whose own parent has ended; and a folder.
BREED = """
    import subprocess

    @node
    def breed(*, ctx: Context) -> None:
        child = subprocess.Popen(["sleep", "1000"])
        shell = subprocess.run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, check=True)
        ctx.log(f"{child.pid} {int(shell.stdout)} {ctx.temp_dir}")
        print("asleep")
        threading.Event().wait(3600)
    """


# The end of stdin


def test_an_idle_worker_ends_at_once_with_its_stdin(tmp_path: Path) -> None:
    """END-2, END-5: without any of its grace, used or not."""
    with Worker(tmp_path, WAIT, "--grace", 1000) as worker:
        worker.wait_for(READY)
        outcome = worker.finish()
        assert (outcome.status, outcome.answers, outcome.stderr) == (0, [], READY + "\n")
    with Worker(tmp_path, WAIT, "--grace", 1000) as worker:
        assert outputs_of(worker.call("Quick")) == {"output": "quick"}
        assert error_of(worker.call("Fail")) == "ValueError: no"
        outcome = worker.finish()
    assert (outcome.status, outcome.answers) == (0, [])


def test_what_is_in_flight_at_the_end_of_stdin_is_answered(tmp_path: Path) -> None:
    """END-1, END-2, END-5: queued requests as well; then the process ends without the rest of its grace."""
    with gate(tmp_path) as waiting, Worker(tmp_path, WAIT, "--grace", 1000, "--concurrency", 2) as worker:
        worker.send(*(execute("Wait", str(number), number=number) for number in range(8)))
        worker.wait_for("started", 2)
        worker.close()
        waiting.let_pass(8)
        assert [outputs_of(worker.until_end(str(number)))["output"] for number in range(8)] == list(range(8))
        assert (worker.wait(), worker.rest()) == (0, [])


@pytest.mark.parametrize("grace", ["0", "0.05"])
def test_what_goes_on_beyond_the_grace_is_cancelled_and_then_cut_off(tmp_path: Path, grace: str) -> None:
    """END-3, END-4, END-5: async and sync nodes, one that never looks, and one that waits for its turn behind it."""
    with Worker(tmp_path, WAIT, "--concurrency", 3, OCTONODE_GRACE=grace) as worker:
        worker.send(*(execute(node, node) for node in ("Nap", "Check", "Ignore", "Quick")), discover())
        worker.wait_for("asleep", 3)
        assert worker.frame("discover")  # so the others have been read
        worker.close()
        assert error_of(worker.until_end("Nap")) == CANCELLED
        assert error_of(worker.until_end("Check")) == CANCELLED
        assert error_of(worker.until_end("Quick")) == CANCELLED
        assert "the worker is ending" in error_of(worker.until_end("Ignore"))
        assert (worker.wait(), worker.rest()) == (0, [])


def test_a_status_is_answered_though_stdin_ends_behind_it(tmp_path: Path) -> None:
    """END-1, DSC-6: all that a host has sent before it closed."""
    with Worker(tmp_path, WAIT) as worker:
        worker.send(discover(), status(), execute("Quick"))
        assert {frame["request_id"] for frame in worker.finish().answers} == {"discover", "status", "i"}


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_signal_lets_work_in_flight_end_and_takes_no_more(tmp_path: Path, number: signal.Signals, busy: bool) -> None:
    """END-2, END-6: an idle worker ends at once."""
    with gate(tmp_path) as waiting, Worker(tmp_path, WAIT, "--grace", 1000) as worker:
        worker.wait_for(READY)
        if busy:
            worker.send(execute("Wait", number=5))
            worker.wait_for("started")
        worker.process.send_signal(number)
        if busy:
            waiting.let_pass()
            assert outputs_of(worker.until_end()) == {"output": 5}
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr


def test_a_signal_while_nodes_are_imported_ends_the_worker(tmp_path: Path) -> None:
    """END-6: once they are there, or sooner where they never are."""
    with gate(tmp_path) as waiting, Worker(tmp_path, "    print('here'); open('gate', 'rb').read(1)\n") as worker:
        worker.wait_for("here")
        worker.process.terminate()
        waiting.let_pass()
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr
    with gate(tmp_path, "other"), Worker(tmp_path, "    print('here'); open('other').read()\n", "--grace=0") as worker:
        worker.wait_for("here")
        worker.process.terminate()
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr


@pytest.mark.parametrize("closed", [False, True], ids=["alone", "during the grace"])
def test_a_signal_shortens_the_grace(tmp_path: Path, closed: bool) -> None:
    """END-3, END-6, END-7: to two seconds, also where the end of stdin has given more."""
    with Worker(tmp_path, WAIT, "--grace", 1000) as worker:
        worker.send(execute("Nap"))
        worker.wait_for("asleep")
        if closed:
            worker.close()
        worker.process.terminate()
        assert error_of(worker.until_end()) == CANCELLED
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr


def test_a_short_grace_is_not_made_longer_by_a_signal(tmp_path: Path) -> None:
    """END-3, END-4, END-6."""
    with Worker(tmp_path, WAIT, "--grace", 0) as worker:
        worker.send(execute("Nap", "a"), execute("Ignore", "b"))
        worker.wait_for("asleep", 2)
        worker.process.terminate()
        assert error_of(worker.until_end("a")) == CANCELLED
        assert "the worker is ending" in error_of(worker.until_end("b"))
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    """END-8: as people press a key twice."""
    with Worker(tmp_path, WAIT, "--grace", 1000) as worker:
        worker.send(execute("Ignore"))
        worker.wait_for("asleep")
        # Two of one kind at the same moment are one signal, so they are of two kinds.
        worker.process.send_signal(signal.SIGTERM)
        worker.process.send_signal(signal.SIGINT)
        assert worker.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)


@pytest.mark.parametrize(
    "handler", ["lambda *_: print('own handler')", "lambda *_: sys.exit(3)", "signal.SIG_IGN", "lambda *_: 1 / 0"]
)
def test_a_handler_of_the_node_s_own_does_not_keep_the_worker(tmp_path: Path, handler: str) -> None:
    """END-6, C004: it runs, and the signal still ends the worker, with its grace and with status 0."""
    source = f"    import signal\n    signal.signal(signal.SIGTERM, {handler})\n{WAIT}"
    with gate(tmp_path) as waiting, Worker(tmp_path, source, "--grace", 1000) as worker:
        worker.send(execute("Wait", number=5))
        worker.wait_for("started")
        worker.process.terminate()
        if "print" in handler:
            worker.wait_for("own handler")
        waiting.let_pass()
        assert outputs_of(worker.until_end()) == {"output": 5}
        if "IGN" in handler:  # the node's own wish
            worker.close()
        assert (worker.wait(), worker.rest()) == (0, []), worker.stderr


def test_a_signal_that_the_host_ignores_on_purpose_stays_ignored(tmp_path: Path) -> None:
    """Our own choice: `nohup` works."""
    with Worker(tmp_path, WAIT, ignores=(signal.SIGHUP,)) as worker:
        assert outputs_of(worker.call("Quick", "a")) == {"output": "quick"}
        worker.process.send_signal(signal.SIGHUP)
        assert outputs_of(worker.call("Quick", "b")) == {"output": "quick"}
        assert worker.finish().status == 0


def test_a_signal_ends_a_worker_whose_host_has_stopped_reading(tmp_path: Path) -> None:
    """END-6, END-9: threads are stuck in writes to a full pipe."""
    source = "    @node\n    def big() -> bytes:\n        print('made')\n        return bytes(5_000_000)\n"
    with Worker(tmp_path, source, "--grace", 0, reads=("stderr",)) as worker:
        worker.send(*(execute("Big", str(number)) for number in range(10)))
        worker.wait_for("made")
        assert os.read(worker.stdout.fileno(), 1) == b"\0"
        worker.process.terminate()
        assert worker.wait() == 0, worker.stderr


# The end of the host


@pytest.mark.parametrize(
    ("busy", "closed"),
    [("", False), *((busy, closed) for busy in ("Ignore", "Nap", "Spin") for closed in (False, True))],
)
def test_a_worker_whose_frames_nobody_reads_is_gone(tmp_path: Path, busy: str, closed: bool) -> None:
    """END-9, C022: noticed without writing, while idle and in a node that sleeps for an hour or computes for ever."""
    with Worker(tmp_path, WAIT, "--grace", 1000, reads=("stderr",)) as worker:
        worker.wait_for(READY)
        if busy:
            worker.send(execute(busy))
            worker.wait_for("asleep")
        if closed:
            worker.close()
        worker.stdout.close()
        assert worker.wait() == 141


def test_a_node_that_computes_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """END-9: it uses the processor for as long as the end takes, and that is less than a second."""
    source = """
        import subprocess

        @node
        def spin() -> None:
            subprocess.Popen(["sleep", "1000"])  # which has to be found among all processes
            print("asleep")
            while True:
                pass
        """
    with Worker(tmp_path, source, reads=("stderr",)) as worker:
        worker.send(execute("Spin"))
        worker.wait_for("asleep")
        ticks = (Path(f"/proc/{worker.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]).split()[11]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        worker.stdout.close()
        assert worker.wait() == 141
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        assert used - int(ticks) / os.sysconf("SC_CLK_TCK") < 1


def test_a_worker_that_is_stuck_in_a_big_frame_is_gone_when_its_reader_is(tmp_path: Path) -> None:
    """END-9: the pipe is full, and a thread waits in the write."""
    source = "    @node\n    def big() -> bytes:\n        print('made')\n        return bytes(5_000_000)\n"
    with Worker(tmp_path, source, "--grace", 1000, reads=("stderr",)) as worker:
        worker.send(*(execute("Big", str(number)) for number in range(40)))
        worker.wait_for("made")
        assert os.read(worker.stdout.fileno(), 1) == b"\0"
        worker.stdout.close()
        assert worker.wait() == 141


@pytest.mark.parametrize("busy", ["Quick", "Ignore"])
def test_a_host_that_is_killed_takes_the_worker_with_it(tmp_path: Path, interpreter: str, busy: str) -> None:
    """END-9, END-10, C022: idle, and in a node that sleeps."""
    path = write_nodes(tmp_path, WAIT)
    host = f"""
import subprocess, sys
worker = subprocess.Popen({[*command(), f"--nodes={path}", "--grace=1000"]!r}, stdin=-1, stdout=-1, stderr=-1)
worker.stdin.write({execute(busy)!r})
worker.stdin.flush()
assert worker.stderr.readline()
assert worker.stderr.readline() if {busy!r} == "Ignore" else worker.stdout.read(4)
print(worker.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [interpreter, "-c", host], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment_of()
    ) as process:
        assert process.stdout is not None
        worker = Watch(int(process.stdout.readline()))
        process.kill()
        process.wait(PATIENCE)
        assert worker.ends()


# What is left


@pytest.mark.parametrize("end", ["stdin", "reader", "signal", "two signals"])
def test_no_process_and_no_folder_is_left_behind_whichever_way_it_ends(tmp_path: Path, end: str) -> None:
    """END-10, END-11: a child, a grandchild that a shell has left to itself, and the folder of a call that goes on."""
    grace = "1000" if end in ("reader", "two signals") else "0"
    with Worker(tmp_path, BREED, "--grace", grace, reads=("stderr",), TMPDIR=str(tmp_path)) as worker:
        worker.send(execute("Breed"))
        frame = read_frame(worker.stdout)  # type: ignore[arg-type]  # IO[bytes] is the same by another name
        assert frame is not None
        *pids, folder = frame["data"]["content"].split()
        watches = [Watch(int(pid)) for pid in pids]
        assert Path(folder).is_dir()
        worker.wait_for("asleep")
        if end == "stdin":
            worker.close()
        elif end == "reader":
            worker.stdout.close()
        else:
            worker.process.terminate()
            if end == "two signals":
                worker.process.send_signal(signal.SIGINT)
        assert worker.wait() in {"reader": (141,), "two signals": (143, 130)}.get(end, (0,))
        for watch in watches:
            assert watch.ends(), watch.pid
        assert not Path(folder).exists()


@pytest.mark.parametrize(
    "line",
    [
        "threading.Thread(target=threading.Event().wait).start()",
        "threading.Thread(target=lambda: [print('x') for _ in iter(int, 1)], daemon=True).start()",
        "import atexit; atexit.register(threading.Event().wait)",
        "from concurrent.futures import ThreadPoolExecutor; ThreadPoolExecutor(1).submit(threading.Event().wait)",
        "import multiprocessing as m; m.get_context('fork').Process(target=threading.Event().wait).start()",
    ],
    ids=["thread", "thread that prints", "exit hook", "pool", "process"],
)
def test_what_a_node_leaves_running_does_not_keep_the_worker(tmp_path: Path, line: str) -> None:
    """END-12: none of these ever ends by itself."""
    source = f"""
        @node
        def leave() -> str:
            {line}
            return "left"
        """
    with Worker(tmp_path, source, "--grace", 0.2) as worker:
        assert outputs_of(worker.call("Leave")) == {"output": "left"}
        outcome = worker.finish()
    assert (outcome.status, outcome.answers) == (0, [])


@pytest.mark.parametrize("end", ["stdin", "signal"])
def test_exit_hooks_run_at_the_end(tmp_path: Path, end: str) -> None:
    """END-12, FRM-20: as in any Python process, and what they print is no frame."""
    with Worker(tmp_path, f"    import atexit\n    atexit.register(print, 'hook')\n{WAIT}") as worker:
        worker.wait_for(READY)
        if end == "signal":
            worker.process.terminate()
        else:
            worker.close()
        outcome = worker.outcome()
    assert (outcome.status, outcome.answers, outcome.stderr) == (0, [], f"{READY}\nhook\n")


# Idle


def wakings(pid: int) -> int:
    """Return how often the threads of a process have been given a processor."""
    count = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        lines = (thread / "status").read_text(encoding="utf-8").splitlines()
        count += sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches" in line)
    return count


@pytest.mark.parametrize("before", ["", "Quick", "Fail", "Nap"])
def test_an_idle_worker_sleeps(tmp_path: Path, before: str) -> None:
    """END-13: while nothing comes, none of its threads runs at all, whether or not it has served something before."""
    with Worker(tmp_path, WAIT, reads=("stderr",)) as worker:
        worker.wait_for(READY)
        if before:
            worker.send(execute(before))
            if before == "Nap":
                worker.wait_for("asleep")
            assert read_frame(worker.stdout)  # type: ignore[arg-type]  # IO[bytes] is the same by another name
        for _ in range(20):  # it may look a few times whether something follows
            count = wakings(worker.pid)
            assert not select.select([worker.stdout], [], [], 0.3)[0], "nothing was asked"
            if wakings(worker.pid) == count:
                break
        else:
            pytest.fail("some thread wakes up again and again")
