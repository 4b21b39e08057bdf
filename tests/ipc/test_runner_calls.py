"""The runner as a process: what a call sees, what comes of its values, and how many run at once."""

from pathlib import Path
from typing import Any

from tests.ipc.support import Process, gate, invoke, serve

# Context


def test_a_context_tells_the_node_what_the_request_said(tmp_path: Path) -> None:
    """CTX-2 to CTX-6, CTX-10: and the request's id."""
    source = """
        import time
        from typing import Any

        @node
        def look(*, ctx: Context) -> dict[str, Any]:
            left = None if ctx.deadline is None else ctx.deadline - time.monotonic()
            return {
                "config": ctx.config, "attempt": ctx.attempt, "env": ctx.env, "run_id": ctx.run_id,
                "request_id": ctx.request_id, "invocation_id": ctx.invocation_id, "node_id": ctx.node_id,
                "deadline": left if left is None else 0 < left <= 60 and left > 30,
            }
        """
    full = {"config": {"a": [1]}, "attempt": 2.0, "env": "dev", "runId": "r", "deadlineMs": 60_000, "more": None}
    outcome = serve(tmp_path, source, invoke(id_="a", context=full), invoke(id_="b"), invoke(id_="c", context={}))
    answers = {id_: answer["outputs"]["output"] for id_, answer in outcome.by_id().items()}
    assert answers["a"] == {
        "config": {"a": [1]},
        "attempt": 2,
        "env": "dev",
        "run_id": "r",
        "request_id": "a",
        "invocation_id": "a",
        "node_id": "look",
        "deadline": True,
    }
    nothing = {"config": {}, "attempt": 1, "env": None, "run_id": None, "node_id": "look", "deadline": None}
    for id_ in "bc":
        assert answers[id_] == {**nothing, "request_id": id_, "invocation_id": id_}


def test_a_deadline_stops_nothing(tmp_path: Path) -> None:
    """CTX-9, RES-13: it is the engine that gives up; here the node waits until its deadline is over."""
    source = """
        import time

        @node
        def late(*, ctx: Context) -> bool:
            while time.monotonic() < ctx.deadline:
                time.sleep(0.001)
            return ctx.cancelled
        """
    outcome = serve(tmp_path, source, invoke(context={"deadlineMs": 5}))
    assert outcome.outputs == {"output": False}


def test_a_deadline_beyond_every_clock_is_no_trouble(tmp_path: Path) -> None:
    """CTX-6."""
    source = "@node\ndef far(*, ctx: Context) -> bool:\n    return ctx.deadline > 1e6\n"
    line = b'{"octonode":"1","type":"invoke","invocationId":"i","context":{"deadlineMs":1' + b"0" * 400 + b"}}\n"
    assert serve(tmp_path, source, line).outputs == {"output": True}


def test_the_temporary_folder_of_a_call_is_gone_after_it(tmp_path: Path) -> None:
    """Our own choice: also where the node has removed it, and where it failed."""
    source = r"""
        import shutil

        @node
        def keep(remove: bool, fail: bool, *, ctx: Context) -> str:
            folder = ctx.temp_dir
            (folder / "file").write_text("x", encoding="utf-8")
            if remove:
                shutil.rmtree(folder)
            sys.stdout.write(f"folder={folder}\n")
            if fail:
                raise ValueError("failed")
            return str(folder)
        """
    calls = [invoke(id_=f"{a}{b}", remove=a, fail=b) for a in (True, False) for b in (True, False)]
    outcome = serve(tmp_path, source, *calls)
    folders = [line.partition("folder=")[2] for line in outcome.stderr.splitlines() if "folder=" in line]
    assert len(set(folders)) == 4
    assert not [folder for folder in folders if Path(folder).exists()]
    assert outcome.status == 0


def test_progress_log_and_preview_are_lines_on_stderr(tmp_path: Path) -> None:
    """LINE-19, LINE-13: with the node and the call in front."""
    source = """
        @node
        def work(*, ctx: Context) -> None:
            ctx.progress(1, 4, "first")
            ctx.log("one\\ntwo", level="warning")
            ctx.preview({"a": 1})
        """
    outcome = serve(tmp_path, source, invoke(id_="call-1"))
    assert outcome.outputs == {}
    assert outcome.stderr.splitlines() == [
        "[work call-1] progress 1/4 (25%) first",
        "[work call-1] warning: one",
        "    two",
        "[work call-1] preview: {'a': 1}",
    ]


def test_context_variables_reach_threads_and_pools_and_stay_inside_their_call(tmp_path: Path) -> None:
    """Our own choice: what a node sets is seen by the threads that it starts, and by no other call."""
    source = """
        import contextvars
        from concurrent.futures import ThreadPoolExecutor

        variable = contextvars.ContextVar("variable", default="unset")
        pool = ThreadPoolExecutor(1)

        @node
        def look(name: str) -> list[str]:
            before = variable.get()
            variable.set(name)
            seen = []
            thread = threading.Thread(target=lambda: seen.append(variable.get()))
            thread.start()
            thread.join()
            return [before, *seen, pool.submit(variable.get).result()]

        @node
        async def later(name: str) -> list[str]:
            import asyncio
            before = variable.get()
            variable.set(name)
            task = asyncio.create_task(inner())
            return [before, await task, await asyncio.to_thread(variable.get)]

        async def inner() -> str:
            return variable.get()
        """
    calls = [invoke(node, f"{node} {n}", name=str(n)) for n in range(4) for node in ("look", "later")]
    for arguments in ((), ("--concurrency", 1)):
        outcome = serve(tmp_path, source, *calls, arguments=arguments)
        for id_, answer in outcome.by_id().items():
            number = id_.split()[1]
            assert answer["outputs"] == {"output": ["unset", number, number]}


# Inputs and outputs


def test_defaults_are_merged_before_inputs_are_validated_and_the_code_runs_only_if_they_fit(tmp_path: Path) -> None:
    """REQ-10, REQ-16, REQ-17, ERR-10, ERR-17, ERR-18: and every fault is listed."""
    source = """
        @node
        def add(a: int, b: int = 2, c: list[int] = [3]) -> int:
            print("ran")
            return a + b + sum(c)
        """
    outcome = serve(
        tmp_path, source, invoke(id_="ok", a=1), invoke(id_="none"), invoke(id_="bad", a="1", b=True, c=[1, "x"])
    )
    answers = outcome.by_id()
    assert answers["ok"]["outputs"] == {"output": 6}
    assert [fault["path"] for fault in answers["none"]["error"]["details"]["errors"]] == ["$.a"]
    error = answers["bad"]["error"]
    assert (error["code"], error["retryable"]) == ("VALIDATION_ERROR", False)
    assert [fault["path"] for fault in error["details"]["errors"]] == ["$.a", "$.b", "$.c[1]"]
    assert "stack" not in error
    assert outcome.stderr == "ran\n"


def test_nothing_is_converted_to_make_it_fit(tmp_path: Path) -> None:
    """REQ-18."""
    source = """
        from typing import Any

        @node
        def take(number: int = 0, real: float = 0.5, flag: bool = False, text: str = "") -> list[str]:
            return [repr(value) for value in (number, real, flag, text)]
        """
    good: dict[str, Any] = {"number": 3.0, "real": 2, "text": "12345"}
    bad: list[dict[str, Any]] = [
        {"number": "5"},
        {"number": True},
        {"number": 1.5},
        {"real": "1"},
        {"real": False},
        {"flag": 1},
        {"flag": "true"},
        {"text": 5},
        {"text": ["a"]},
    ]
    outcome = serve(
        tmp_path, source, invoke(id_="good", **good), *(invoke(id_=str(n), **one) for n, one in enumerate(bad))
    )
    answers = outcome.by_id()
    assert answers["good"]["outputs"]["output"][0] == "3"
    assert answers["good"]["outputs"]["output"][3] == "'12345'"
    for number, one in enumerate(bad):
        (fault,) = answers[str(number)]["error"]["details"]["errors"]
        assert fault["path"] == "$." + next(iter(one))


def test_the_shape_of_the_outputs_follows_the_declaration(tmp_path: Path) -> None:
    """RES-14."""
    source = """
        from typing import Any, NamedTuple, TypedDict

        class Two(TypedDict):
            left: int
            right: str

        class Pair(NamedTuple):
            first: int
            second: int

        @node
        def one() -> dict[str, Any]:
            return {"left": 1, "right": "a"}

        @node
        def two() -> Two:
            return {"left": 1, "right": "a"}

        @node
        def pair() -> Pair:
            return Pair(1, 2)

        @node(output="sum")
        def named() -> int:
            return 3

        @node
        def nothing() -> None:
            pass
        """
    outcome = serve(tmp_path, source, *(invoke(name, name) for name in ("one", "two", "pair", "named", "nothing")))
    outputs = {id_: answer["outputs"] for id_, answer in outcome.by_id().items()}
    assert outputs == {
        "one": {"output": {"left": 1, "right": "a"}},
        "two": {"left": 1, "right": "a"},
        "pair": {"first": 1, "second": 2},
        "named": {"sum": 3},
        "nothing": {},
    }


def test_outputs_that_do_not_fit_or_that_json_would_change_are_errors_with_their_path(tmp_path: Path) -> None:
    """RES-16, RES-17, RES-18, ERR-11, C017, C049: none is sent in another form."""
    source = """
        from typing import Any

        def loop():
            made = []
            made.append(made)
            return made

        VALUES = {
            "nan": {"a": {"b": float("nan")}},
            "inf": {"a": {"b": float("-inf")}},
            "big": {"a": {"b": 2**53 + 1}},
            "seed": {"a": {"b": 2**64 - 1}},
            "key": {"a": {1: "x"}},
            "bytes": {"a": {"b": b"x"}},
            "object": {"a": {"b": object()}},
            "loop": {"a": {"b": loop()}},
            "surrogate": {"a": {"b": "\\ud800"}},
        }

        @node
        def give(name: str) -> dict[str, Any]:
            return VALUES[name]

        @node
        def fine() -> list[int]:
            return [2**53, -(2**53), 0]

        @node
        def wrong() -> int:
            return "5"

        @node
        def extra() -> None:
            return 1
        """
    names = ("nan", "inf", "big", "seed", "key", "bytes", "object", "loop", "surrogate")
    outcome = serve(
        tmp_path,
        source,
        *(invoke("give", name, name=name) for name in names),
        *(invoke(name, name) for name in ("fine", "wrong", "extra")),
    )
    answers = outcome.by_id()
    for name in names:
        error = answers[name]["error"]
        assert (error["code"], error["retryable"]) == ("VALIDATION_ERROR", False), name
        assert "$.output.a" in error["message"], name
        assert all(fault["path"].startswith("$.output.a") for fault in error["details"]["errors"]), name
    assert answers["fine"]["outputs"] == {"output": [2**53, -(2**53), 0]}
    assert answers["wrong"]["error"]["details"]["errors"][0]["path"] == "$.output"
    assert answers["extra"]["error"]["code"] == "VALIDATION_ERROR"
    assert outcome.status == 0


def test_generators_of_both_kinds_answer_with_the_last_value_of_each_port(tmp_path: Path) -> None:
    """RES-15: they are run to their end, and cleaned up."""
    source = """
        from collections.abc import AsyncIterator, Iterator
        from typing import TypedDict

        class Ports(TypedDict):
            text: str
            count: int

        @node
        def numbers(n: int) -> Iterator[int]:
            try:
                yield from range(n)
            finally:
                print("closed sync")

        @node
        async def ports() -> AsyncIterator[Ports]:
            try:
                yield {"text": "a"}
                yield {"count": 1}
                yield {"text": "b"}
            finally:
                print("closed async")

        @node
        def broken() -> Iterator[int]:
            try:
                yield 1
                yield "x"
                print("went on")
            finally:
                print("closed broken")
        """
    outcome = serve(
        tmp_path,
        source,
        invoke("numbers", "three", n=3),
        invoke("numbers", "none", n=0),
        invoke("ports", "ports"),
        invoke("broken", "broken"),
    )
    answers = outcome.by_id()
    assert answers["three"]["outputs"] == {"output": 2}
    assert answers["none"]["error"]["details"]["errors"][0]["path"] == "$.output"
    assert answers["ports"]["outputs"] == {"text": "b", "count": 1}
    assert answers["broken"]["error"]["code"] == "VALIDATION_ERROR"
    assert sorted(outcome.stderr.splitlines()) == ["closed async", "closed broken", "closed sync", "closed sync"]


def test_async_nodes_share_one_loop_and_run_at_the_same_time(tmp_path: Path) -> None:
    """RES-11: the first waits for the third, which could not be if they ran one after the other."""
    source = """
        import asyncio
        loops = []
        event = None

        @node
        async def meet(number: int) -> int:
            global event
            loops.append(asyncio.get_running_loop())
            if event is None:
                event = asyncio.Event()
            if number == 3:
                event.set()
            await event.wait()
            return len(set(loops))
        """
    outcome = serve(tmp_path, source, *(invoke(id_=str(n), number=n) for n in (1, 2, 3)))
    assert [answer["outputs"] for answer in outcome.by_id().values()] == [{"output": 1}] * 3


def test_a_loop_bound_client_serves_many_calls(tmp_path: Path) -> None:
    """Our own choice: the loop lives as long as the process, so what is bound to it stays usable."""
    source = """
        import asyncio
        lock = asyncio.Lock()

        @node
        async def use() -> str:
            async with lock:
                await asyncio.sleep(0)
            return "used"
        """
    with Process(tmp_path, source) as runner:
        for number in range(3):
            runner.send(invoke(id_=str(number)))
            assert runner.answer()["outputs"] == {"output": "used"}


# Many at once


def test_a_quick_call_is_not_held_back_by_a_slow_one_before_it(tmp_path: Path) -> None:
    """RES-11, RES-10: answers come out of order, each once."""
    source = """
        @node
        def wait(gate: str) -> str:
            open(gate, "rb", buffering=0).read(1)
            return gate

        @node
        def quick() -> int:
            return 1
        """
    with gate(tmp_path, "a") as first, gate(tmp_path, "b") as second, Process(tmp_path, source) as runner:
        runner.send(invoke("wait", "slow a", gate="a"), invoke("wait", "slow b", gate="b"), invoke("quick", "quick"))
        assert runner.answer()["invocationId"] == "quick"
        second.let_pass()
        assert runner.answer()["invocationId"] == "slow b"
        runner.send(invoke("quick", "again"))
        assert runner.answer()["invocationId"] == "again"
        first.let_pass()
        assert runner.answer()["invocationId"] == "slow a"
        assert runner.finish().status == 0


def test_two_requests_with_one_id_are_both_answered(tmp_path: Path) -> None:
    """RES-12: also while both are in flight."""
    source = """
        @node
        def wait(number: int) -> int:
            open("gate", "rb", buffering=0).read(1)
            return number
        """
    with gate(tmp_path) as waiting, Process(tmp_path, source) as runner:
        runner.send(invoke(id_="same", number=1), invoke(id_="same", number=2))
        waiting.let_pass(2)
        found = [runner.answer(), runner.answer()]
        assert {answer["invocationId"] for answer in found} == {"same"}
        assert {answer["outputs"]["output"] for answer in found} == {1, 2}


def test_a_thousand_requests_at_once_are_each_answered_once(tmp_path: Path) -> None:
    """RES-10, LIFE-17: sync, async and failing ones, in one burst."""
    source = """
        @node
        def double(value: int) -> int:
            return value * 2

        @node
        async def later(value: int) -> int:
            return value * 3

        @node
        def fail(value: int) -> int:
            raise ValueError(value)
        """
    calls = [invoke(("double", "later", "fail")[n % 3], str(n), value=n) for n in range(1000)]
    answers = serve(tmp_path, source, *calls).by_id()
    assert len(answers) == 1000
    for number in range(1000):
        answer = answers[str(number)]
        if number % 3 == 2:
            assert answer["error"]["message"] == f"ValueError: {number}"
        else:
            assert answer["outputs"] == {"output": number * (2 + number % 3)}
