"""Pure: when a call is tried again, and the limits that an engine is given."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octonode_sdk.errors import CODES
from octonode_sdk.ipc.engine import Answer, Limits, RetryPolicy
from octonode_sdk.ipc.engine.retry import ONCE
from tests.ipc.engine.support import envelope


def failed(code: str = "RUNTIME_ERROR", **error: Any) -> Answer:
    return Answer(envelope(status="error", error={"code": code, "message": "no", **error}, outputs=...))


@pytest.mark.parametrize("code", CODES)
def test_the_flag_decides_and_never_the_code(code: str) -> None:
    """ENG-12, ERR-3: no flag is false."""
    policy = RetryPolicy()
    for error, is_tried in (({"retryable": True}, True), ({"retryable": False}, False), ({}, False)):
        wait = policy.wait_after(failed(code, **error), 1, left=None, random=lambda: 0.5)
        assert (wait is not None) is is_tried


def test_a_success_is_not_tried_again() -> None:
    """ENG-12: there is nothing to mend."""
    assert RetryPolicy().wait_after(Answer(envelope()), 1, left=None, random=lambda: 0.5) is None


def test_attempts_are_bounded() -> None:
    """ENG-29: the first one is one of them."""
    policy, answer = RetryPolicy(attempts=2), failed(retryable=True)
    assert policy.wait_after(answer, 1, left=None, random=lambda: 0.5) is not None
    assert policy.wait_after(answer, 2, left=None, random=lambda: 0.5) is None
    assert ONCE.wait_after(answer, 1, left=None, random=lambda: 0.5) is None


def test_waits_grow_up_to_the_longest_and_chance_moves_them() -> None:
    """ENG-29: each is the factor times the one before, shorter or longer by the jitter."""
    policy = RetryPolicy(backoff=1, factor=2, jitter=0.5, longest=6)
    assert [policy.wait_before(attempt, 0.5) for attempt in (2, 3, 4, 5, 5000)] == [1, 2, 4, 6, 6]
    assert [policy.wait_before(3, chance) for chance in (0, 1)] == [1, 3]


def test_a_wait_that_reaches_the_deadline_is_none() -> None:
    """ENG-29: the error that there is says more than a TIMEOUT."""
    policy, answer = RetryPolicy(backoff=1, jitter=0), failed(retryable=True)
    assert policy.wait_after(answer, 1, left=1.5, random=lambda: 0.5) == 1
    assert policy.wait_after(answer, 1, left=1.0, random=lambda: 0.5) is None


@given(st.integers(2, 10**6), st.floats(0, 1), st.floats(0, 100), st.floats(1, 1e6), st.floats(0, 1), st.floats(0, 100))
def test_a_wait_is_never_negative_and_never_too_long(
    attempt: int, chance: float, backoff: float, factor: float, jitter: float, longest: float
) -> None:
    """ENG-29: whatever the policy."""
    policy = RetryPolicy(backoff=backoff, factor=factor, jitter=jitter, longest=longest)
    assert 0 <= policy.wait_before(attempt, chance) <= longest


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"attempts": 0}, ValueError),
        ({"attempts": 1.5}, TypeError),
        ({"attempts": True}, TypeError),
        ({"backoff": -1}, ValueError),
        ({"backoff": float("nan")}, ValueError),
        ({"factor": 0.5}, ValueError),
        ({"jitter": 2}, ValueError),
        ({"longest": "x"}, TypeError),
    ],
)
def test_a_policy_that_can_not_be_is_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    """Our own choice: the message names the argument and the value."""
    with pytest.raises(error, match=f"{next(iter(arguments))} is"):
        RetryPolicy(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"max_answer_bytes": 0}, {"stderr_lines": -1}, {"drain_seconds": -1}, {"exit_seconds": float("inf")}]
)
def test_limits_that_can_not_be_are_refused(arguments: dict[str, Any]) -> None:
    """Our own choice: the message names the argument and the value."""
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} is"):
        Limits(**arguments)
