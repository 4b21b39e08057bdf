"""The runner as a process: nodes that fork, raise what is hardly an exception, or leave threads behind."""

from pathlib import Path

from tests.ipc.support import Process, gate, invoke, serve

FORKS = """
    import os

    @node
    def forks(how: str) -> int:
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if how == "exit":
            sys.exit(3)
        if how == "raise":
            raise ValueError("in the child")
        return -1
"""


def test_a_forked_child_that_comes_back_from_the_node_ends(tmp_path: Path) -> None:
    """LIFE-21: it has no requests to serve; its status is what the exception says."""
    outcome = serve(tmp_path, FORKS, *(invoke(id_=how, how=how) for how in ("exit", "raise", "return")))
    assert {id_: answer["outputs"] for id_, answer in outcome.by_id().items()} == {
        "exit": {"output": 3},
        "raise": {"output": 1},
        "return": {"output": 0},
    }
    assert outcome.status == 0


WEIRD = """
    class Weird(Exception):
        @property
        def __class__(self):
            raise RuntimeError("no class")

    class Weirder(Exception):
        def __getattribute__(self, name):
            raise RuntimeError("no attribute")

    @node
    def raises(which: int) -> int:
        raise (Weird, Weirder)[which]("odd")
"""


def test_an_exception_that_can_hardly_be_looked_at_is_an_answer(tmp_path: Path) -> None:
    """ERR-20: every call is answered, whatever the exception is made of."""
    outcome = serve(tmp_path, WEIRD, invoke(id_="a", which=0), invoke(id_="b", which=1))
    assert {id_: answer["error"]["code"] for id_, answer in outcome.by_id().items()} == {
        "a": "RUNTIME_ERROR",
        "b": "RUNTIME_ERROR",
    }
    assert outcome.status == 0


SECRET_AT_IMPORT = """
    import os

    @node(secrets=["TOKEN"])
    def fetch() -> int:
        return 1

    raise RuntimeError("login failed for " + os.environ["TOKEN"])
"""


def test_a_secret_in_an_error_at_import_is_masked(tmp_path: Path) -> None:
    """ERR-21, C103: on the wire and on stderr."""
    outcome = serve(tmp_path, SECRET_AT_IMPORT, invoke(), TOKEN="tok-9f8e7d6c5b4a")
    assert "login failed for ***" in outcome.error["message"]
    assert "tok-9f8e7d6c5b4a" not in outcome.stderr + repr(outcome.answer)


GATED = """
    @node
    def passes(gate: str) -> str:
        return open(gate, "rb", buffering=0).read(1).decode()
"""


def test_an_answer_never_waits_for_the_calls_behind_it(tmp_path: Path) -> None:
    """RES-11, LIFE-2: with more requests than places, each is answered as soon as its call is done."""
    with (
        gate(tmp_path, "one") as one,
        gate(tmp_path, "two") as two,
        gate(tmp_path, "three") as three,
        Process(tmp_path, GATED, "--concurrency", 1) as process,
    ):
        names = ("one", "two", "three")
        process.send(*(invoke(id_=name, gate=str(tmp_path / name)) for name in names))
        for name, each in zip(names, (one, two, three), strict=True):
            each.let_pass()
            assert process.answer()["invocationId"] == name
        process.close()
        assert process.wait() == 0


LEAVES_A_THREAD = """
    @node
    def starts(gate: str, path: str) -> bool:
        def late():
            open(gate, "rb", buffering=0).read(1)
            with open(path, "w") as file:
                file.write("done")
        thread = threading.Thread(target=late)
        thread.start()
        return thread.daemon
"""


def test_a_thread_that_a_node_starts_is_no_daemon_and_is_waited_for(tmp_path: Path) -> None:
    """LIFE-7: as in a plain program, within the bound of the grace."""
    with (
        gate(tmp_path, "gate") as late,
        Process(tmp_path, LEAVES_A_THREAD, "--grace", 30) as process,
    ):
        process.send(invoke(gate=str(tmp_path / "gate"), path=str(tmp_path / "out")))
        assert process.answer()["outputs"] == {"output": False}
        process.close()
        late.let_pass()
        assert process.wait() == 0
    assert (tmp_path / "out").read_text(encoding="utf-8") == "done"


WAITS_IN_LINE = """
    import time

    @node
    def first(gate: str) -> float:
        open(gate, "rb", buffering=0).read(1)
        return time.monotonic()

    @node
    def second(*, ctx: Context) -> float:
        return ctx.deadline
"""


def test_the_deadline_counts_from_the_arrival_of_the_request(tmp_path: Path) -> None:
    """CTX-6: a call that waits for its turn has less time left."""
    with gate(tmp_path, "gate") as held, Process(tmp_path, WAITS_IN_LINE, "--concurrency", 1) as process:
        late = invoke("second", id_="second", context={"deadlineMs": 1_000_000})
        process.send(invoke("first", id_="first", gate=str(tmp_path / "gate")), late)
        held.let_pass()
        answers = process.answers(2)
        process.close()
        assert process.wait() == 0
    ended, deadline = (answers[name]["outputs"]["output"] for name in ("first", "second"))
    assert deadline - 1000 < ended
