"""The engine on a well-meant node, in either mode: answers, attempts, the pool, describes, the end."""

import asyncio
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from octonode_sdk.ipc.engine import AsyncEngine, Engine, RetryPolicy, lane, process, reactor
from octonode_sdk.ipc.engine.pool import restart_wait
from tests.ipc.engine.support import PATIENCE, PUPPET, is_alive, puppet, wait_until

MODES = ("one-shot", "worker")


@pytest.fixture
def command(interpreter: str) -> list[str]:
    """The command of the node."""
    return puppet(interpreter)


@pytest.fixture(params=["poll", "threads", "no pidfd"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a system offers: everything; no poll for pipes, as Windows; no descriptor of a process, as macOS."""
    if request.param == "threads":
        for module in (reactor, process, lane):
            monkeypatch.setattr(module, "has_poll", False)
    elif request.param == "no pidfd":
        monkeypatch.setattr(process, "_open_exit_fd", lambda _: -1)


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("mode", MODES)
def test_calls_are_answered_and_nothing_is_left_behind(command: list[str], mode: str) -> None:
    """ENG-10, ENG-11: on each kind of system."""
    with Engine(command, mode=mode, deadline=PATIENCE) as engine:
        for number in range(3):
            answer = engine.invoke({"a": number})
            assert answer.outputs == {"a": number}
            assert (answer.attempts, answer.fault) == (1, None)
        large = {"text": "x" * 3_000_000}
        assert engine.invoke(large).outputs == large
        ended = engine.invoke({"do": "exit", "status": 3, "log": "why"})
        assert (ended.fault, ended.envelope["error"]["details"]["stderr"]) == ("no-output", ["why"])  # ENG-21
        killed = engine.invoke({"do": "kill", "signal": 9})
        assert killed.error is not None
        assert (killed.fault, killed.error["retryable"]) == ("no-output", True)  # ENG-6
        late = engine.invoke({"do": "hold", "do2": 0} if mode == "worker" else {"do": "same"}, deadline=PATIENCE / 100)
        assert (late.fault == "deadline") is (mode == "worker")
        pids = engine.pids
    wait_until(lambda: not any(map(is_alive, pids)), "the processes have ended")


def test_the_request_carries_context_and_what_is_left_of_the_deadline(command: list[str]) -> None:
    """ENG-15, ENG-16: in milliseconds; CTX-2 to CTX-6."""
    with Engine(command) as engine:
        answer = engine.invoke(
            {"do": "all"},
            node="n",
            config={"c": 1},
            env="prod",
            run_id="r",
            deadline=PATIENCE,
            invocation_id="mine",
        )
    request = answer.outputs
    left = request["context"].pop("deadlineMs")
    assert 0 < left <= PATIENCE * 1000
    assert request == {
        "octonode": "1",
        "type": "invoke",
        "invocationId": "mine",
        "node": "n",
        "inputs": {"do": "all"},
        "context": {"config": {"c": 1}, "attempt": 1, "env": "prod", "runId": "r"},
    }


@pytest.mark.parametrize("mode", MODES)
def test_a_retryable_failure_is_tried_again_with_its_number(command: list[str], mode: str) -> None:
    """ENG-12, ENG-16, ENG-29: until it goes well or the attempts are used up."""
    with Engine(command, mode=mode, deadline=PATIENCE, retry=RetryPolicy(attempts=3, backoff=0.001)) as engine:
        answer = engine.invoke({"do": "fail-first", "until": 3})
        assert (answer.outputs, answer.attempts) == (3, 3)
        answer = engine.invoke({"do": "fail-first", "until": 4})
        assert (answer.ok, answer.attempts) == (False, 3)
        final = {"code": "RUNTIME_ERROR", "message": "no"}
        assert engine.invoke({"do": "fail", "error": final}).attempts == 1


def test_a_wait_between_attempts_ends_at_the_deadline(command: list[str]) -> None:
    """ENG-29: the call then has the error that it has."""
    with Engine(command, deadline=PATIENCE, retry=RetryPolicy(backoff=PATIENCE, longest=PATIENCE, jitter=0)) as engine:
        answer = engine.invoke({"do": "fail-first", "until": 2})
    assert answer.error is not None
    assert (answer.attempts, answer.error["message"]) == (1, "not yet")


@pytest.mark.parametrize("mode", MODES)
def test_a_program_that_is_not_there_is_an_envelope(mode: str, tmp_path: Path) -> None:
    """ENG-2: retryable, with the command in the message; also a folder that is not there."""
    for options in ({}, {"cwd": tmp_path / "none"}):
        with Engine([tmp_path / "no-such-program"], mode=mode, **options) as engine:  # type: ignore[arg-type]  # of either kind
            answer = engine.invoke(deadline=PATIENCE)
        assert answer.error is not None
        assert (answer.fault, answer.error["code"], answer.error["retryable"]) == ("spawn", "RUNTIME_ERROR", True)
        assert "no-such-program" in answer.error["message"]


# The pool


@pytest.mark.parametrize(("workers", "calls"), [(1, 200), (4, 1000)])
def test_many_calls_in_flight_are_each_answered_once(command: list[str], workers: int, calls: int) -> None:
    """ENG-11, ENG-22: with their own answer."""
    with Engine(command, mode="worker", workers=workers, deadline=4 * PATIENCE) as engine:
        handles = [engine.submit({"a": number}) for number in range(calls)]
        assert [handle.result(PATIENCE).outputs for handle in handles] == [{"a": number} for number in range(calls)]
        assert len(engine.pids) == workers


def test_answers_out_of_order_find_their_calls(command: list[str]) -> None:
    """ENG-11: the node here answers the last one first."""
    with Engine(command, mode="worker", deadline=PATIENCE) as engine:
        held = [engine.submit({"do": "hold", "a": number}) for number in range(5)]
        assert engine.invoke({"do": "free"}).ok
        assert [handle.result(PATIENCE).outputs["a"] for handle in held] == [0, 1, 2, 3, 4]


def test_a_call_goes_to_the_least_busy_worker(command: list[str]) -> None:
    """ENG-23: no second worker while the first one is free, and the free one afterwards."""
    with Engine(command, mode="worker", workers=2, deadline=PATIENCE) as engine:
        first = engine.invoke({"do": "who"}).outputs
        assert engine.invoke({"do": "who"}).outputs == first
        held = engine.submit({"do": "hold"})
        second = engine.invoke({"do": "who"}).outputs
        assert second != first
        assert engine.invoke({"do": "who"}).outputs == second
        assert not held.done()


def test_only_the_late_call_is_late_and_the_others_are_tried_again(command: list[str]) -> None:
    """ENG-3, ENG-20: at the worker that replaces the one that was killed."""
    policy = RetryPolicy(attempts=2, backoff=0.001)
    with Engine(command, mode="worker", retry=policy, deadline=PATIENCE) as engine:
        before = engine.invoke({"do": "who"}).outputs
        others = [engine.submit({"do": "hold", "a": number}) for number in range(3)]
        late = engine.submit({"do": "hold"}, deadline=0.2)
        answer = late.result(PATIENCE)
        assert (answer.fault, answer.attempts) == ("deadline", 1)
        wait_until(lambda: not is_alive(before), "the late worker has ended")

        def freed() -> bool:
            engine.invoke({"do": "free"})
            return all(handle.done() for handle in others)

        wait_until(freed, "the others are tried again")
        assert [(one.result().ok, one.result().attempts) for one in others] == [(True, 2)] * 3
        assert engine.invoke({"do": "who"}).outputs != before


def test_without_a_policy_the_calls_beside_a_late_one_fail_as_retryable(command: list[str]) -> None:
    """ENG-20: they are never lost."""
    with Engine(command, mode="worker", deadline=PATIENCE) as engine:
        other = engine.submit({"do": "hold"})
        assert engine.invoke({"do": "hold"}, deadline=0.2).fault == "deadline"
        answer = other.result(PATIENCE)
        assert answer.error is not None
        assert (answer.fault, answer.error["code"], answer.error["retryable"]) == ("beside", "RUNTIME_ERROR", True)


def test_waits_before_a_worker_is_started_again_grow() -> None:
    """ENG-24: the first replacement comes at once, and no wait is longer than ten seconds."""
    assert [restart_wait(deaths) for deaths in (0, 1, 2, 3, 4, 1000)] == [0, 0, 0.1, 0.2, 0.4, 10]


def test_a_worker_that_dies_is_replaced(command: list[str]) -> None:
    """ENG-24: by the next call, and again after further deaths."""
    with Engine(command, mode="worker", deadline=PATIENCE) as engine:
        for _ in range(3):
            assert engine.invoke({"do": "exit", "status": 1}).fault == "no-output"
        assert engine.invoke({"a": 1}).ok


def test_an_idle_worker_is_let_go_and_comes_back(command: list[str]) -> None:
    """ENG-25: by the end of its stdin, with nobody's call failing."""
    with Engine(command, mode="worker", idle_seconds=0.05, deadline=PATIENCE) as engine:
        pid = engine.invoke({"do": "who"}).outputs
        wait_until(lambda: not is_alive(pid), "the idle worker has ended")
        assert engine.invoke({"do": "who"}).outputs != pid


def test_recycling_loses_no_call(command: list[str]) -> None:
    """ENG-25: each worker has as many calls as it may have, and ends what it has."""
    with Engine(command, mode="worker", recycle_after=3, deadline=PATIENCE) as engine:
        handles = [engine.submit({"do": "who"}) for _ in range(30)]
        pids = [handle.result(PATIENCE).outputs for handle in handles]
    assert max(pids.count(pid) for pid in pids) == 3
    assert len(set(pids)) == 10


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_call_has_an_answer_that_says_so(command: list[str], mode: str) -> None:
    """ENG-26: in one-shot mode its process is killed, while a worker goes on."""
    hangs = {"do": "hold"} if mode == "worker" else {"do": "same"}
    program = command if mode == "worker" else ["/bin/sh", "-c", "sleep 1000"]
    with Engine(program, mode=mode, deadline=PATIENCE) as engine:
        handle = engine.submit(hangs)
        wait_until(lambda: bool(engine.pids), "the process is started")
        pids = engine.pids
        assert handle.cancel()
        assert handle.result(PATIENCE).fault == "cancelled"
        assert not handle.cancel()
        if mode == "worker":
            assert engine.invoke({"do": "free"}).ok
            assert engine.pids == pids
        else:
            wait_until(lambda: not any(map(is_alive, pids)), "the process is killed")


def test_callers_in_many_threads_each_get_their_own_answer(command: list[str]) -> None:
    """ENG-22: those that read for themselves and those that wait for the engine's thread do not mix up."""
    wrong: list[Any] = []
    with Engine(command, mode="worker", workers=2, deadline=4 * PATIENCE) as engine:

        def call(thread: int) -> None:
            for number in range(100):
                inputs = {"a": [thread, number]}
                one = engine.submit(inputs).result(PATIENCE) if number % 3 == 0 else engine.invoke(inputs)
                if one.outputs != inputs:
                    wrong.append(one)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * PATIENCE)
    assert wrong == []


# Describes


def test_a_manifest_is_asked_for_once_until_a_file_changes(interpreter: str, tmp_path: Path) -> None:
    """ENG-27: a file that the command names; `fresh` asks in any case."""
    script = tmp_path / "node.py"
    script.write_text(PUPPET, encoding="utf-8")
    with Engine([interpreter, "-I", "-S", script], mode="worker", deadline=PATIENCE) as engine:
        first, second, third = engine.describe(), engine.describe(), engine.describe(fresh=True)
        assert first.manifest == second.manifest == third.manifest == {"id": "puppet", "language": "python"}
        assert (first.attempts, second.attempts, third.attempts) == (1, 0, 1)
        assert second.manifest is not None
        second.manifest.clear()
        script.write_text(PUPPET.replace('"puppet"', '"other one"'), encoding="utf-8")
        changed = engine.describe()
        assert changed.manifest == {"id": "other one", "language": "python"}


def test_a_module_that_the_command_names_counts_as_its_file(interpreter: str, tmp_path: Path) -> None:
    """ENG-27: where its file can be known: in the folder, or where our own Python looks."""
    (tmp_path / "nodes_here.py").write_text(PUPPET, encoding="utf-8")
    with Engine([interpreter, "-m", "nodes_here"], cwd=tmp_path, deadline=PATIENCE) as engine:
        assert engine.describe().ok
        assert engine.describe().attempts == 0
        (tmp_path / "nodes_here.py").write_text(PUPPET + "# changed\n", encoding="utf-8")
        assert engine.describe().attempts == 1


def test_a_failed_describe_is_not_kept(interpreter: str, tmp_path: Path) -> None:
    """ENG-27: the next one may go well."""
    flag = tmp_path / "flag"
    code = f"import os\nif not os.path.exists({str(flag)!r}): raise SystemExit(3)\n" + PUPPET
    with Engine([interpreter, "-I", "-S", "-c", code], deadline=PATIENCE) as engine:
        assert engine.describe().fault == "no-output"
        flag.touch()
        assert engine.describe().attempts == 1


# asyncio


@pytest.mark.parametrize("mode", MODES)
def test_tasks_get_their_answers(command: list[str], mode: str) -> None:
    """ENG-11: over the same runtime as threads."""

    async def main() -> None:
        async with AsyncEngine(command, mode=mode, workers=2, deadline=PATIENCE) as engine:
            answers = await asyncio.gather(*(engine.invoke({"a": number}) for number in range(20)))
            assert [answer.outputs for answer in answers] == [{"a": number} for number in range(20)]
            assert (await engine.describe(fresh=True)).ok
            assert (await engine.describe()).attempts == 0
            handle = engine.submit({"a": 1})
            assert (await handle.result()).ok
            assert handle.done()

    asyncio.run(main())


@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_task_cancels_its_call(command: list[str], mode: str) -> None:
    """ENG-26: the process of a one-shot call is killed, and a worker's call forgotten."""

    async def main() -> None:
        program = command if mode == "worker" else ["/bin/sh", "-c", "sleep 1000"]
        async with AsyncEngine(program, mode=mode, deadline=PATIENCE) as engine:
            task = asyncio.create_task(engine.invoke({"do": "hold"}))
            async with asyncio.timeout(PATIENCE):
                await asyncio.to_thread(wait_until, lambda: bool(engine.pids), "the process is started")
            pids = engine.pids
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            if mode == "worker":
                assert (await engine.invoke({"do": "free"})).ok
            else:
                await asyncio.to_thread(wait_until, lambda: not any(map(is_alive, pids)), "the process is killed")

    asyncio.run(main())


# The interface


def test_misuse_is_the_only_thing_that_raises(command: list[str]) -> None:
    """ENG-1: and says what was expected."""
    with pytest.raises(TypeError, match="give a list"):
        Engine("python node.py")
    with pytest.raises(ValueError, match="command is empty"):
        Engine([])
    with pytest.raises(ValueError, match="'one-shot' or 'worker'"):
        Engine(command, mode="pool")
    with pytest.raises(ValueError, match="deadline is 0"):
        Engine(command, deadline=0)
    with pytest.raises(TypeError, match="expected a RetryPolicy"):
        Engine(command, retry=3)  # type: ignore[arg-type]  # the misuse
    with Engine(command, mode="worker") as engine:
        with pytest.raises(TypeError, match="the inputs is no JSON"):
            engine.invoke({"a": object()})
        with pytest.raises(TypeError, match="expected texts"):
            engine.invoke(node=3)  # type: ignore[arg-type]  # the misuse
        held = engine.submit({"do": "hold"}, invocation_id="i")
        with pytest.raises(ValueError, match="another call in flight"):
            engine.invoke(invocation_id="i")
        with pytest.raises(TimeoutError, match="no answer yet"):
            held.result(timeout=0)
    answer = held.result(PATIENCE)
    assert answer.error is not None
    assert (answer.fault, answer.error["retryable"]) == ("closed", True)
    with pytest.raises(RuntimeError, match="closed"):
        engine.invoke()
    engine.close()


# The end of the engine's process

SLEEPS = """
import time
from octonode_sdk import node
@node
def hold(do: str) -> None:
    time.sleep(1000)
"""

HOST = """
import sys
from octonode_sdk.ipc.engine import Engine
engine = Engine(sys.argv[2:], mode=sys.argv[1])
handles = [engine.submit({"do": "hold"}) for _ in range(2)]
while not engine.pids: pass
print(*engine.pids, flush=True)
handles[0].result()
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_death_of_the_engines_process_leaves_no_orphan(
    interpreter: str, mode: str, number: int, tmp_path: Path
) -> None:
    """ENG-28: nodes that read their stdin see its end; one-shot nodes of ours also leave once nobody reads them."""
    if mode == "worker":
        node = puppet(interpreter)
    else:
        path = tmp_path / "sleeps.py"
        path.write_text(SLEEPS, encoding="utf-8")
        node = [interpreter, "-m", "octonode_sdk", str(path)]
    with subprocess.Popen(
        [interpreter, "-c", HOST, mode, *node], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as host:
        assert host.stdout is not None
        pids = [int(word) for word in host.stdout.readline().split()]
        assert pids
        host.send_signal(number)
        host.wait(PATIENCE)
    wait_until(lambda: not any(map(is_alive, pids)), "the processes have ended")
