"""Workers with many calls in flight: what one does costs the others nothing, or an attempt, and never an answer."""

import asyncio
from typing import Any

import pytest

from octonode_sdk.errors import RUNTIME_ERROR
from octonode_sdk.ipc.engine import AsyncEngine, Engine, Limits, RetryPolicy
from tests.ipc.engine.brokenkit import INTERFACES, ask, command_of, new_mark, none_left
from tests.ipc.support import PATIENCE

#: Tries again at once.
AGAIN = RetryPolicy(attempts=4, backoff=0.0)

WAITS = command_of("waits_for_attempt.py")


#: Inputs with which WAITS answers at once, and such with which it never does.
WELL = {"until": 1, "then": "answer"}
NEVER = {"until": 9, "then": "wait"}


def calls_beside(then: str, *, count: int = 8, until: int = 2, deadline: float | None = None) -> list[dict[str, Any]]:
    """Return the arguments of calls that wait for their second attempt, and of one in the middle that does worse."""
    made: list[dict[str, Any]] = [{"inputs": {"until": 2, "then": "wait", "number": at}} for at in range(count)]
    made.insert(count // 2, {"inputs": {"until": until, "then": then, "number": count}, "deadline": deadline})
    return made


@pytest.mark.parametrize("interface", INTERFACES)
def test_late_call_fails_alone_and_the_calls_beside_it_are_tried_again(interface: str) -> None:
    """ENG-3, ENG-20: its worker is replaced, and the others are neither lost nor answered twice."""
    calls = calls_beside("wait", until=9, deadline=1.0)
    told = ask(interface, WAITS, calls, mode="worker", retry=AGAIN)
    late = told.answers.pop(4)
    assert late.fault == "deadline"
    assert [(one.ok, one.attempts) for one in told.answers] == [(True, 2)] * 8
    assert [one.outputs["number"] for one in told.answers] == [*range(8)]


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("then", ["wait", "die", "garbage", "flood"])
def test_calls_beside_a_fault_fail_as_retryable_where_nothing_is_tried_again(then: str, interface: str) -> None:
    """ENG-20: nobody knows how far they have come, and that it was not their fault is known."""
    calls = calls_beside(then, until=9, deadline=1.0 if then == "wait" else None)
    told = ask(interface, WAITS, calls, mode="worker", limits=Limits(max_answer_bytes=100_000))
    if then == "wait":
        del told.answers[4]
    faults = {(one.fault, one.error["code"], one.error["retryable"]) for one in told.answers if one.error is not None}
    assert faults == {("beside", RUNTIME_ERROR, True)}
    assert not any(one.ok for one in told.answers)


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("then", ["die", "garbage", "flood"])
def test_calls_beside_a_fault_are_all_answered_when_they_are_tried_again(then: str, interface: str) -> None:
    """ENG-16, ENG-20, ENG-24: a new worker gets them, with the number of the attempt."""
    calls = calls_beside(then)
    told = ask(interface, WAITS, calls, mode="worker", retry=AGAIN, limits=Limits(max_answer_bytes=100_000))
    assert [one.outputs and one.outputs["number"] for one in told.answers] == [0, 1, 2, 3, 8, 4, 5, 6, 7]
    assert {one.attempts for one in told.answers} == {2}


def test_other_workers_go_on_beside_a_late_call() -> None:
    """ENG-20, ENG-23: the fault of a worker is that of its own calls."""
    with Engine(WAITS, mode="worker", workers=2) as engine:
        late = engine.submit(NEVER, deadline=1.0)
        well = [engine.submit(WELL) for _ in range(20)]
        answers = [one.result(PATIENCE) for one in well]
        assert late.result(PATIENCE).fault == "deadline"
        again = engine.invoke(WELL, deadline=PATIENCE)
    assert all(one.ok and one.attempts == 1 for one in [*answers, again])


def test_answers_before_a_late_call_are_not_touched_by_it() -> None:
    """ENG-20: a call that has its answer keeps it."""
    with Engine(WAITS, mode="worker") as engine:
        late = engine.submit(NEVER, deadline=1.0)
        answers = [engine.invoke({**WELL, "number": number}) for number in range(20)]
        assert late.result(PATIENCE).fault == "deadline"
        again = engine.invoke(WELL)
    assert [one.outputs["number"] for one in answers] == [*range(20)]
    assert again.ok


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize(("count", "workers"), [(200, 1), (1000, 4)], ids=["200-on-one", "1000-on-four"])
def test_calls_in_flight_at_once_are_all_answered_once(count: int, workers: int, interface: str) -> None:
    """ENG-11, ENG-23: the node answers in reverse once it has its share of them, which is the same for each worker."""
    calls = [
        {"inputs": {"number": number, "count": count // workers}, "invocation_id": f"c{number}"}
        for number in range(count)
    ]
    told = ask(interface, command_of("answers_in_reverse.py"), calls, mode="worker", workers=workers)
    assert [one.envelope["invocationId"] for one in told.answers] == [f"c{number}" for number in range(count)]
    assert [one.outputs["number"] for one in told.answers] == [*range(count)]
    pids = [one.outputs["pid"] for one in told.answers]
    assert {pid: pids.count(pid) for pid in pids} == dict.fromkeys(pids, count // workers)
    assert len(set(pids)) == workers


@pytest.mark.parametrize("interface", INTERFACES)
def test_second_answers_to_calls_in_flight_are_dropped(interface: str) -> None:
    """ENG-22: the first answer counts, also where the second says something else."""
    calls = [{"inputs": {"number": number}} for number in range(50)]
    told = ask(interface, command_of("answers_twice_differently.py"), calls, mode="worker")
    assert [one.outputs for one in told.answers] == [call["inputs"] for call in calls]


def test_answer_under_the_id_of_another_call_leaves_its_own_call_without_one() -> None:
    """ENG-11, ENG-22: answers are told by their ids alone; whose answer never comes has its deadline."""
    with Engine(command_of("id_of_another.py"), mode="worker") as engine:
        one = engine.submit({"as": "two", "number": 1}, invocation_id="one", deadline=1.0)
        two = engine.submit({"as": "two", "number": 2}, invocation_id="two")
        assert two.result(PATIENCE).outputs["number"] == 1
        assert engine.invoke({"as": "three"}, invocation_id="three").ok
        assert one.result(PATIENCE).fault == "deadline"


@pytest.mark.parametrize("program", ["no_outputs.py", "error_without_message.py", "answers_a_manifest.py"])
def test_answer_that_can_be_laid_to_a_call_costs_that_call_alone(program: str) -> None:
    """ENG-7: the worker goes on, since its stream can still be followed."""
    with Engine(command_of(program), mode="worker") as engine:
        assert engine.invoke({}).fault == "no-envelope"
        (pid,) = engine.pids
        assert {engine.invoke({}).fault for _ in range(5)} == {"no-envelope"}
        assert engine.pids == [pid]


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("killed.py", "no-output"),
        ("garbage.py", "not-json"),
        ("wrong_id.py", "wrong-id"),
    ],
    ids=["killed", "garbage", "wrong-id"],
)
def test_worker_that_was_ended_is_replaced_for_the_next_call(program: str, fault: str) -> None:
    """ENG-24: the next call finds a new process, however many have died before."""
    with Engine(command_of(program), mode="worker") as engine:
        for _ in range(3):
            assert engine.invoke({}, deadline=PATIENCE).fault == fault
        assert engine.invoke({"well": True}, deadline=PATIENCE).ok


def test_cancelled_call_is_dropped_and_the_worker_goes_on() -> None:
    """ENG-26: a worker can't be told, so its answer is dropped when it comes."""
    with Engine(WAITS, mode="worker") as engine:
        call = engine.submit(NEVER)
        assert engine.invoke(WELL).ok
        (pid,) = engine.pids
        assert call.cancel()
        assert call.result(PATIENCE).fault == "cancelled"
        assert engine.invoke(WELL).ok
        assert engine.pids == [pid]


def test_task_that_is_cancelled_ends_the_process_of_its_call() -> None:
    """ENG-26: in one-shot mode the process is the call's own."""
    mark = new_mark()

    async def main() -> None:
        loop, started = asyncio.get_running_loop(), asyncio.Event()
        command = command_of("grandchild_in_its_session.py")
        tell = lambda _: loop.call_soon_threadsafe(started.set)  # noqa: E731  # a function of its own says no more
        async with AsyncEngine(command, env=mark, on_stderr=tell) as engine:
            task = asyncio.create_task(engine.invoke({}))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(none_left, mark)

    asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


@pytest.mark.parametrize("interface", INTERFACES)
def test_close_answers_what_is_open_and_leaves_nothing(interface: str) -> None:
    """ENG-1, ENG-4: a node that ignores the end of its stdin is killed as well."""
    mark = new_mark()
    command = command_of("never_answers.py")

    def in_threads() -> Any:
        with Engine(command, mode="worker", env=mark) as engine:
            call = engine.submit({})
            assert engine.invoke({"well": True}).ok
            engine.close(0.1)
            return call.result(PATIENCE)

    async def in_tasks() -> Any:
        async with AsyncEngine(command, mode="worker", env=mark) as engine:
            call = engine.submit({})
            assert (await engine.invoke({"well": True})).ok
            await engine.close(0.1)
            return await call.result()

    answer = in_threads() if interface == "sync" else asyncio.run(asyncio.wait_for(in_tasks(), PATIENCE))
    assert (answer.fault, answer.error["code"], answer.error["retryable"]) == ("closed", RUNTIME_ERROR, True)
    assert none_left(mark)
