"""The runner as a process: how it ends, what it takes along, and how much it does at once."""

import os
import select
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.ipc.support import (
    PATIENCE,
    Process,
    Watch,
    clean_environment,
    command,
    describe,
    gate,
    invoke,
    read_answer,
    serve,
    to_bytes,
    write_nodes,
)

#: A node that waits at the gate, and one that waits for ever.
WAIT = """
    @node
    def wait(number: int = 0) -> int:
        print(f"started {number}", flush=True)
        open("gate", "rb", buffering=0).read(1)
        return number

    @node
    def quick() -> str:
        return "quick"

    @node
    def sleep() -> None:
        import time
        print("asleep")
        time.sleep(3600)

    @node
    async def sleep_async() -> None:
        import asyncio
        print("asleep")
        await asyncio.sleep(3600)
    """

#: A node that leaves processes behind: a child, and a grandchild whose own parent has ended.
BREED = """
    import subprocess

    @node
    def breed() -> list[int]:
        child = subprocess.Popen(["sleep", "1000"])
        shell = subprocess.run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, check=True)
        return [child.pid, int(shell.stdout)]

    @node
    def sleep() -> None:
        import time
        print("asleep")
        time.sleep(3600)
    """


# The end of input


def test_the_end_of_input_cancels_nothing(tmp_path: Path) -> None:
    """LIFE-3, LIFE-4, LINE-5, C020: one-shot hosts close at once; the node goes on and is answered."""
    with gate(tmp_path) as waiting, Process(tmp_path, WAIT, "--grace", 0) as runner:
        runner.send(invoke("wait", "a", number=1), to_bytes(invoke("wait", "b", number=2))[:-1])
        runner.close()
        runner.wait_for("started", 2)
        waiting.let_pass(2)
        assert {answer["outputs"]["output"] for answer in runner.answers(2).values()} == {1, 2}
        assert runner.wait() == 0
        assert runner.rest() == []


def test_calls_that_wait_for_their_turn_are_served_after_the_end_of_input(tmp_path: Path) -> None:
    """LIFE-3, LIFE-18."""
    outcome = serve(tmp_path, WAIT, *(invoke("quick", str(n)) for n in range(300)), arguments=("--concurrency", 2))
    assert len(outcome.by_id()) == 300
    assert outcome.status == 0


def test_failed_calls_do_not_change_the_status(tmp_path: Path) -> None:
    """LIFE-4, ERR-22."""
    outcome = serve(tmp_path, "@node\ndef fail() -> None:\n    raise ValueError\n", invoke(), b"bad\n")
    assert [answer["status"] for answer in outcome.answers] == ["error", "error"]
    assert outcome.status == 0


@pytest.mark.parametrize(
    "line",
    [
        "threading.Thread(target=threading.Event().wait).start()",
        "threading.Thread(target=lambda: [print('x') for _ in iter(int, 1)], daemon=True).start()",
        "import atexit; atexit.register(threading.Event().wait)",
        "from concurrent.futures import ThreadPoolExecutor; ThreadPoolExecutor(1).submit(threading.Event().wait)",
        "import multiprocessing as m; m.get_context('fork').Process(target=threading.Event().wait).start()",
    ],
)
def test_what_a_node_leaves_running_does_not_keep_the_process(tmp_path: Path, line: str) -> None:
    """LIFE-4, LIFE-7: a thread, one that prints, an exit hook, a pool, a process that never end."""
    source = f"""
        @node
        def leave() -> str:
            {line}
            return "left"
        """
    outcome = serve(tmp_path, source, invoke(), arguments=("--grace", 0.2))
    assert outcome.outputs == {"output": "left"}
    assert outcome.status == 0


def test_exit_hooks_run_at_the_end(tmp_path: Path) -> None:
    """LIFE-7: within the grace, as in any Python process."""
    outcome = serve(
        tmp_path, "import atexit\natexit.register(print, 'hook')\n\n@node\ndef a() -> None:\n    pass\n", invoke()
    )
    assert outcome.stderr == "hook\n"


# The end of the reader


@pytest.mark.parametrize(
    ("busy", "stdin"), [("", "open"), *((b, s) for b in ("sleep", "sleep_async") for s in ("open", "closed"))]
)
def test_a_process_whose_answers_nobody_reads_is_gone(tmp_path: Path, busy: str, stdin: str) -> None:
    """LIFE-8, C022: noticed without writing, while idle and in the middle of a node that sleeps for an hour."""
    with Process(tmp_path, WAIT, reads=("stderr",)) as runner:
        runner.send(describe("quick"))
        assert runner.stdout.readline()
        if busy:
            runner.send(invoke(busy))
            runner.wait_for("asleep")
        if stdin == "closed":
            runner.close()
        runner.stdout.close()
        assert runner.wait() == 141


def test_a_process_that_is_stuck_in_a_big_answer_is_gone_when_its_reader_is(tmp_path: Path) -> None:
    """LIFE-8: the pipe is full, and a thread waits in the write."""
    source = "@node\ndef big() -> str:\n    print('made')\n    return 'x' * 5_000_000\n"
    with Process(tmp_path, source, reads=("stderr",)) as runner:
        runner.send(*(invoke(id_=str(n)) for n in range(40)))
        runner.wait_for("made")
        assert runner.stdout.read(1) == b"{"
        runner.stdout.close()
        assert runner.wait() == 141


def test_a_host_that_dies_takes_the_process_with_it(tmp_path: Path, interpreter: str) -> None:
    """LIFE-8, LIFE-14, C022: killed hard, so that nobody closes anything on purpose."""
    path = write_nodes(tmp_path, WAIT)
    host = f"""
import subprocess, sys
runner = subprocess.Popen({command(path)!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
runner.stdin.write({to_bytes(invoke("sleep"))!r})
runner.stdin.flush()
assert b"asleep" in runner.stderr.readline()
print(runner.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [interpreter, "-c", host], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()
    ) as process:
        assert process.stdout is not None
        runner = Watch(int(process.stdout.readline()))
        process.kill()
        process.wait(PATIENCE)
        assert runner.ends()


# Signals


def test_a_signal_ends_an_idle_process_at_once(tmp_path: Path) -> None:
    """LIFE-10, LIFE-11, LIFE-13: without any grace, since nothing is in flight."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with Process(tmp_path, WAIT, "--grace", 1000) as runner:
            runner.send(invoke("quick"))
            assert runner.answer()["outputs"] == {"output": "quick"}
            runner.process.send_signal(number)
            assert runner.wait() == 128 + number
            assert runner.rest() == []


def test_a_call_that_ends_within_the_grace_is_answered_and_no_further_one_is_taken(tmp_path: Path) -> None:
    """LIFE-10, LIFE-11, LIFE-13: the process does not wait for the rest of the grace."""
    with gate(tmp_path) as waiting, Process(tmp_path, WAIT, "--grace", 1000) as runner:
        runner.send(invoke("wait", "a"))
        runner.wait_for("started")
        runner.process.terminate()
        waiting.let_pass()
        assert runner.answer()["outputs"] == {"output": 0}
        assert runner.wait() == 143, runner.stderr
        assert runner.rest() == []


@pytest.mark.parametrize("grace", ["0", "0.05"])
def test_what_is_in_flight_at_the_end_of_the_grace_gets_an_error_worth_a_retry(tmp_path: Path, grace: str) -> None:
    """LIFE-10, LIFE-12, LIFE-13: those that wait for their turn as well."""
    with gate(tmp_path), Process(tmp_path, WAIT, "--concurrency", 2, OCTONODE_GRACE=grace) as runner:
        runner.send(*(invoke("wait", str(n), number=n) for n in range(6)))
        runner.wait_for("started", 2)
        runner.send(describe("quick", "seen"))  # behind the others, so they are in memory once it is answered
        assert runner.answer()["invocationId"] == "seen"
        runner.process.terminate()
        assert runner.wait() == 143, runner.stderr
        rest = {answer["invocationId"]: answer["error"] for answer in runner.rest()}
    assert set(rest) == set("012345")
    for error in rest.values():
        assert (error["code"], error["retryable"]) == ("RUNTIME_ERROR", True)
        assert "told to stop" in error["message"]


def test_an_async_call_gets_its_error_at_the_end_of_the_grace(tmp_path: Path) -> None:
    """LIFE-12."""
    with Process(tmp_path, WAIT, "--grace", 0) as runner:
        runner.send(invoke("sleep_async"))
        runner.wait_for("asleep")
        runner.process.terminate()
        assert runner.wait() == 143, runner.stderr
        assert [answer["error"]["retryable"] for answer in runner.rest()] == [True]


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    """LIFE-10, LIFE-13: our own choice, as people press a key twice."""
    with Process(tmp_path, WAIT, "--grace", 1000) as runner:
        runner.send(invoke("sleep"))
        runner.wait_for("asleep")
        # Two of one kind at the same moment are one signal, so they are of two kinds.
        runner.process.send_signal(signal.SIGTERM)
        runner.process.send_signal(signal.SIGINT)
        assert runner.wait() in (143, 130)


@pytest.mark.parametrize(
    "handler", ["lambda *_: print('own handler')", "lambda *_: sys.exit(0)", "signal.SIG_DFL", "lambda *_: 1 / 0"]
)
def test_a_handler_of_the_node_s_own_does_not_keep_the_process(tmp_path: Path, handler: str) -> None:
    """LIFE-10 to LIFE-13, C004: it runs, and the signal still ends the process; an answer is not lost to `sys.exit`."""
    source = "import signal\nsignal.signal(signal.SIGTERM, " + handler + ")\n" + WAIT.replace("\n    ", "\n")
    with gate(tmp_path) as waiting, Process(tmp_path, source, "--grace", 1000) as runner:
        runner.send(invoke("wait"))
        runner.wait_for("started")
        runner.process.terminate()
        if "SIG_DFL" in handler:  # the node's own wish
            assert runner.wait() == -signal.SIGTERM
            return
        if "print" in handler:
            runner.wait_for("own handler")
        waiting.let_pass()
        assert runner.answer()["outputs"] == {"output": 0}
        assert runner.wait() == 143, runner.stderr


def test_a_signal_that_the_host_ignores_on_purpose_stays_ignored(tmp_path: Path) -> None:
    """Our own choice: `nohup` works."""
    with Process(tmp_path, WAIT, ignores=(signal.SIGHUP,)) as runner:
        runner.send(invoke("quick", "a"))
        assert runner.answer()["invocationId"] == "a"
        runner.process.send_signal(signal.SIGHUP)
        runner.send(invoke("quick", "b"))
        assert runner.answer()["invocationId"] == "b"
        assert runner.finish().status == 0


def test_a_signal_ends_a_process_whose_reader_has_stopped_reading(tmp_path: Path) -> None:
    """LIFE-10, LIFE-13, LIFE-19: threads are stuck in writes to a full pipe."""
    source = "@node\ndef big() -> str:\n    print('made')\n    return 'x' * 5_000_000\n"
    with Process(tmp_path, source, "--grace", 0, reads=("stderr",)) as runner:
        runner.send(*(invoke(id_=str(n)) for n in range(10)))
        runner.wait_for("made")
        assert os.read(runner.stdout.fileno(), 1) == b"{"
        runner.process.terminate()
        assert runner.wait() == 143, runner.stderr


# Children


@pytest.mark.parametrize("end", ["input", "reader", "signal", "grace", "two signals"])
def test_no_process_is_left_behind_whichever_way_it_ends(tmp_path: Path, end: str) -> None:
    """LIFE-14: a child, and a grandchild that the shell has left to itself."""
    grace = "0" if end == "grace" else "1000"
    with Process(tmp_path, BREED, "--grace", grace, reads=("stderr",)) as runner:
        runner.send(invoke("breed"))
        watches = [Watch(pid) for pid in read_answer(runner.stdout.readline())["outputs"]["output"]]
        if end in ("reader", "grace", "two signals"):
            runner.send(invoke("sleep"))
            runner.wait_for("asleep")
        if end == "input":
            runner.close()
        elif end == "reader":
            runner.stdout.close()
        else:
            runner.process.terminate()
            if end == "two signals":
                runner.process.send_signal(signal.SIGINT)
        status = runner.wait()
        assert status in {"input": (0,), "reader": (141,), "two signals": (143, 130)}.get(end, (143,))
        for watch in watches:
            assert watch.ends(), watch.pid


def test_no_process_of_a_one_shot_call_is_left_behind(tmp_path: Path) -> None:
    """LIFE-14: input has ended long before the node starts anything; a pool that nobody shut down, too."""
    source = (
        BREED
        + """
    @node
    def pool() -> list[int]:
        import multiprocessing
        pool = multiprocessing.get_context("spawn").Pool(2)
        keep.append(pool)
        return [pool.apply(os.getpid)]

    keep = []
    """
    )
    with gate(tmp_path), Process(tmp_path, source, "--grace", 5) as runner:
        runner.send(invoke("pool", "pool"), invoke("breed", "breed"))
        answers = runner.answers(2)
        watches = [Watch(pid) for answer in answers.values() for pid in answer["outputs"]["output"]]
        assert runner.finish().status == 0
        for watch in watches:
            assert watch.ends(), watch.pid


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_pool_works_and_starts_no_runner(tmp_path: Path, method: str) -> None:
    """LIFE-21, C026: the children import the main module again, and neither read requests nor write answers."""
    source = f"""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        def square(value: int) -> int:
            print("squaring", flush=True)
            return value * value

        @node
        def squares(values: list[int]) -> list[int]:
            context = multiprocessing.get_context("{method}")
            with ProcessPoolExecutor(2, mp_context=context) as pool:
                found = list(pool.map(square, values))
            with context.Pool(1) as pool:
                return found + pool.map(square, values)
        """
    with Process(tmp_path, source) as runner:
        runner.send(invoke(id_="a", values=[1, 2, 3]), invoke(id_="b", values=[4]))
        answers = runner.answers(2)
        assert answers["a"]["outputs"] == {"output": [1, 4, 9, 1, 4, 9]}
        assert answers["b"]["outputs"] == {"output": [16, 16]}
        outcome = runner.finish()
    assert (outcome.status, outcome.answers) == (0, [])
    assert outcome.stderr.count("squaring") == 8


def test_a_forked_worker_can_be_ended_by_a_signal(tmp_path: Path) -> None:
    """LIFE-10: the grace is the runner's; a pool that terminates its workers does not wait for it."""
    source = """
        import multiprocessing
        import time

        @node
        def end() -> int:
            process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
            process.start()
            process.terminate()
            process.join()
            return process.exitcode
        """
    outcome = serve(tmp_path, source, invoke(), arguments=("--grace", 1000))
    assert outcome.outputs == {"output": -signal.SIGTERM}


def test_a_child_that_a_node_has_waited_for_is_left_alone(tmp_path: Path) -> None:
    """LIFE-14: many quick children in many calls cost nothing at the end."""
    source = """
        import subprocess

        @node
        def run() -> str:
            return subprocess.run(["echo", "x"], capture_output=True, text=True, check=True).stdout
        """
    outcome = serve(tmp_path, source, *(invoke(id_=str(n)) for n in range(40)))
    assert all(answer["outputs"] == {"output": "x\n"} for answer in outcome.by_id().values())
    assert outcome.status == 0


# How much at once


@pytest.mark.parametrize(
    ("arguments", "environment", "bound"),
    [(("--concurrency", "3"), {}, 3), ((), {"OCTONODE_CONCURRENCY": "2"}, 2), ((), {}, 32)],
)
def test_at_most_so_many_calls_run_at_once(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], bound: int
) -> None:
    """LIFE-17, LIFE-18: the others wait their turn and none is refused."""
    source = """
        lock = threading.Lock()
        running = most = 0

        @node
        def count() -> int:
            global running, most
            with lock:
                running += 1
                most = max(most, running)
            print("started")
            open("gate", "rb", buffering=0).read(1)
            with lock:
                running -= 1
            return most
        """
    running = Process(tmp_path, source, *arguments, **environment)  # type: ignore[arg-type]  # its keys are variables
    with gate(tmp_path) as waiting, running as runner:
        runner.send(*(invoke(id_=str(n)) for n in range(bound * 2 + 1)))
        runner.wait_for("started", bound)
        waiting.let_pass(bound * 2 + 1)
        answers = runner.answers(bound * 2 + 1)
        assert max(answer["outputs"]["output"] for answer in answers.values()) == bound
        assert runner.finish().status == 0


def test_one_call_at_a_time_keeps_the_order(tmp_path: Path) -> None:
    """LIFE-17, LIFE-18: with a concurrency of 1 the requests are served as they came."""
    source = "seen = []\n\n@node\ndef note(n: int) -> list[int]:\n    seen.append(n)\n    return seen[-3:]\n"
    outcome = serve(tmp_path, source, *(invoke(id_=str(n), n=n) for n in range(200)), arguments=("--concurrency", 1))
    answers = outcome.by_id()
    for number in range(2, 200):
        assert answers[str(number)]["outputs"] == {"output": [number - 2, number - 1, number]}


def fill(runner: Process, data: bytes) -> int:
    """Send until the pipe stays full; return how many bytes the runner and the pipe have taken."""
    fd, sent = runner.stdin.fileno(), 0
    os.set_blocking(fd, False)
    # A second is many times what a runner that reads needs to make room.
    while sent < len(data) and select.select([], [fd], [], 1)[1]:
        sent += os.write(fd, data[sent : sent + 65536])
    os.set_blocking(fd, True)
    return sent


@pytest.mark.parametrize(("count", "size", "most"), [(4000, 1000, 2_000_000), (100, 1_000_000, 20_000_000)])
def test_requests_that_wait_in_memory_are_bounded(tmp_path: Path, count: int, size: int, most: int) -> None:
    """LIFE-18: in number and in bytes; the rest stay in the pipe, and the host waits; then all are served."""
    limits = ("--concurrency", 1, "--max-line-bytes", 2_000_000)
    with gate(tmp_path) as waiting, Process(tmp_path, WAIT, *limits) as runner:
        runner.send(invoke("wait", "first"))
        runner.wait_for("started")
        data = b"".join(to_bytes({**invoke("quick", str(n)), "padding": "x" * size}) for n in range(count))
        sent = fill(runner, data)
        assert sent < most, f"the runner took {sent} bytes of {len(data)}"
        writer = threading.Thread(target=lambda: runner.send(data[sent:]), daemon=True)
        writer.start()
        waiting.let_pass()
        assert len(runner.answers(count + 1)) == count + 1
        writer.join(PATIENCE)
        assert runner.finish().status == 0


def test_a_long_loop_ends_as_it_began(tmp_path: Path) -> None:
    """LIFE-1, LIFE-4: five thousand requests one behind the other, and no thread more than calls at once."""
    source = "@node\ndef threads() -> int:\n    return threading.active_count()\n"
    outcome = serve(tmp_path, source, *(invoke(id_=str(n)) for n in range(5000)), arguments=("--concurrency", 4))
    assert len(outcome.by_id()) == 5000
    assert max(answer["outputs"]["output"] for answer in outcome.answers) <= 6
    assert outcome.status == 0
