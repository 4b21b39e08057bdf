"""Progress, logs and previews as lines for people."""

from typing import Any

import pytest

from octonode_sdk.context import Context
from octonode_sdk.ipc.sink import LogSink
from octonode_sdk.secrets import forget_secrets, remember_secrets


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make(request_id: str = "call-12345678") -> tuple[Context, list[str], Clock]:
    """Return a context, the lines that come out of it, and the clock of its sink."""
    lines: list[str] = []
    clock = Clock()
    return Context(node_id="n", request_id=request_id, sink=LogSink(lines.append, clock=clock)), lines, clock


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1, 4), "progress 1/4 (25%)"),
        ((1, 4, "resizing"), "progress 1/4 (25%) resizing"),
        ((0.5, 2.0), "progress 0.5/2 (25%)"),
        ((5, None), "progress 5"),
        ((3, 0), "progress 3"),
        ((3, float("inf"), "far"), "progress 3 far"),
        ((0, 10), "progress 0/10 (0%)"),
    ],
)
def test_progress_is_a_line_with_the_share_where_the_total_is_known(arguments: Any, text: str) -> None:
    """LINE-19, C064: a total of zero is an unknown one."""
    context, lines, _ = make()
    context.progress(*arguments)
    assert lines == [f"[n call-123] {text}\n"]


def test_progress_that_is_not_finite_is_not_shown() -> None:
    """LINE-19, C064."""
    context, lines, _ = make()
    context.progress(float("nan"), 100)
    assert lines == []


def test_progress_is_limited_in_rate_and_its_last_step_is_always_told() -> None:
    """LINE-19."""
    context, lines, clock = make()
    for done in range(1001):
        context.progress(done, 1000)
        clock.now += 0.001
    assert 10 <= len(lines) <= 13
    assert lines[-1] == "[n call-123] progress 1000/1000 (100%)\n"


def test_previews_are_limited_in_rate_and_in_length() -> None:
    """LINE-19."""
    context, lines, clock = make()
    for _ in range(100):
        context.preview("x" * 10_000)
        clock.now += 0.01
    assert 9 <= len(lines) <= 12
    assert all(len(line) < 200 for line in lines)


def test_log_lines_are_limited_in_rate_and_what_is_left_out_is_told() -> None:
    """LINE-19: warnings and errors are never left out."""
    context, lines, clock = make()
    for number in range(10_000):
        context.log(number, "debug")
    context.log("important", "warning")
    context.log("worse", "error")
    assert lines[0] == "[n call-123] debug: 0\n"
    assert len(lines) == 503
    assert "leaving out some" in lines[500]
    assert lines[-2:] == ["[n call-123] warning: important\n", "[n call-123] error: worse\n"]
    clock.now += 1.5
    context.log("later")
    assert lines[-2:] == ["[n call-123] warning: 9500 lines of log were left out\n", "[n call-123] info: later\n"]


def test_lines_of_a_log_are_indented_below_the_first() -> None:
    """LINE-19: so that the next line of the log stands out."""
    context, lines, _ = make()
    context.log("one\ntwo\n\nthree")
    assert lines == ["[n call-123] info: one\n    two\n    \n    three\n"]


def test_an_id_that_holds_a_line_break_does_not_break_the_line() -> None:
    """LINE-19: the host chooses the id."""
    context, lines, _ = make("a\nb\x1b[31m")
    context.log("text")
    assert lines == ["[n a\\nb\\x1b[31m] info: text\n"]


def test_a_secret_is_masked_before_its_lines_are_indented() -> None:
    """ERR-21."""
    remember_secrets(["first line\nsecond line"])
    try:
        context, lines, _ = make()
        context.log("got first line\nsecond line!")
        context.preview("first line\nsecond line")
    finally:
        forget_secrets()
    assert lines == ["[n call-123] info: got ***!\n", "[n call-123] preview: '***'\n"]
