"""Context: what a call is told, and what it says to its host."""

import dataclasses
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from octonode_sdk import CallCancelledError, Context, NodeError, node
from octonode_sdk.context import LEVELS


@dataclasses.dataclass
class Recorder:
    """A sink that keeps what it is given."""

    said: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)

    def progress(self, context: Context, done: float, total: float | None, message: str | None) -> None:
        self.said.append((done, total, message))

    def log(self, context: Context, level: str, text: str) -> None:
        self.said.append((level, text))

    def preview(self, context: Context, value: Any) -> None:
        self.said.append((value,))


def test_a_context_without_arguments_serves_a_direct_call() -> None:
    """CTX-10 (C095): a node is called like any function in its own tests."""

    @node
    def greet(name: str, *, ctx: Context) -> str:
        ctx.progress(1, 2)
        ctx.log("hello")
        ctx.preview(name)
        ctx.check_cancelled()
        return f"{name} {ctx.attempt}"

    context = Context()
    assert greet("Ada", ctx=context) == "Ada 1"
    assert (context.config, context.env, context.run_id, context.deadline) == ({}, None, None, None)
    assert (context.request_id, context.invocation_id, context.node_id) == ("", "", "")
    assert (context.job_id, context.workflow_id, context.user_id, context.remaining) == (None, None, None, None)


def test_a_context_holds_what_it_was_given() -> None:
    """CTX-10: and a copy of the configuration, so that a call changes no other call's."""
    config = {"a": 1}
    context = Context(config=config, attempt=3, env="dev", run_id="r", request_id="i", node_id="n", deadline=5.0)
    context.config["b"] = 2
    assert config == {"a": 1}
    assert (context.attempt, context.env, context.run_id, context.invocation_id) == (3, "dev", "r", "i")
    assert context.deadline == 5.0


def test_the_time_that_is_left_counts_down_to_the_deadline() -> None:
    """CTX-9, CTX-10: on the monotonic clock, and below zero behind it."""
    assert Context(deadline=monotonic() - 1).remaining < 0  # type: ignore[operator]  # there is a deadline
    remaining = Context(deadline=monotonic() + 100).remaining
    assert remaining is not None
    assert 0 < remaining <= 100


@pytest.mark.parametrize(
    ("done", "total", "said"),
    [
        (3, 10, (3, 10, None)),
        (3, 0, (3, None, None)),
        (5, None, (5, None, None)),
        (3, -1, (3, None, None)),
        (3, float("nan"), (3, None, None)),
        (3, float("inf"), (3, None, None)),
        (3, 10**400, (3, None, None)),
        (0, 10, (0, 10, None)),
        (12, 10, (12, 10, None)),
        (float("nan"), 100, None),
        (float("-inf"), 100, None),
        (10**400, 100, None),
        (-(10**400), None, None),
    ],
    ids=lambda value: str(value)[:12],
)
def test_progress_holds_finite_numbers_only(done: float, total: float | None, said: Any) -> None:
    """Our own choice: a total that says nothing is left out, a value that says nothing is not shown."""
    sink = Recorder()
    Context(sink=sink).progress(done, total)
    assert sink.said == ([] if said is None else [said])


def test_progress_may_go_back() -> None:
    """Our own choice: a node that starts over says so."""
    sink = Recorder()
    context = Context(sink=sink)
    context.progress(5, 10, "first")
    context.progress(1, 10)
    assert sink.said == [(5, 10, "first"), (1, 10, None)]


def test_log_takes_the_four_levels_and_anything_that_has_a_text() -> None:
    """Our own choice: another level is a mistake of the author's."""
    sink = Recorder()
    context = Context(sink=sink)
    for level in LEVELS:
        context.log(5, level)
    context.log("x")
    assert sink.said == [*((level, "5") for level in LEVELS), ("info", "x")]
    with pytest.raises(ValueError, match="unknown log level 'loud'; use one of debug, info, warning, error"):
        context.log("x", "loud")


def test_a_declared_secret_is_read_and_another_is_refused() -> None:
    """CTX-11: with the names that are declared, never with values."""
    context = Context(secrets={"API_KEY": "dummy", "PROXY": ""})
    assert context.secret("API_KEY") == "dummy"
    assert context.secret("PROXY") is None
    with pytest.raises(NodeError) as caught:
        context.secret("OTHER")
    text = "the secret 'OTHER' is not declared; say @node(secrets=['OTHER']) (declared: API_KEY, PROXY)"
    assert str(caught.value) == text
    with pytest.raises(NodeError, match="declared: none"):
        Context().secret("OTHER")


def test_a_cancelled_call_stops_where_it_looks() -> None:
    """Our own choice: an `except Exception` on the way does not swallow it."""
    context = Context()
    stopped = []
    context.on_cancel = lambda: stopped.append(True)
    context.check_cancelled()
    context.cancel()
    assert context.cancelled
    assert stopped == [True]

    def careless() -> None:
        try:
            context.check_cancelled()
        except Exception:  # noqa: BLE001  # the subject
            pytest.fail("swallowed")

    with pytest.raises(CallCancelledError):
        careless()


def test_the_temporary_folder_is_made_once_and_goes_with_the_call() -> None:
    """Our own choice (C034): also if the node has removed it itself, and none is made for a call that wants none."""
    context = Context()
    context.close()
    folder = context.temp_dir
    (folder / "a").write_text("x", encoding="utf-8")
    assert context.temp_dir == folder
    context.close()
    assert not folder.exists()
    again: Path = context.temp_dir
    again.rmdir()
    context.close()
    assert again != folder


def test_threads_of_one_call_share_its_temporary_folder() -> None:
    """Our own choice: so that it goes with the call, and what one of them has written is there for the others."""
    for _ in range(20):
        context, together = Context(), threading.Barrier(8)
        folders: list[Path] = []

        def ask(context: Context = context, together: Any = together, folders: list[Path] = folders) -> None:
            together.wait(30)
            folders.append(context.temp_dir)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        context.close()
        assert len(folders) == 8
        assert len(set(folders)) == 1
        assert not folders[0].exists()
