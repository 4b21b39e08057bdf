"""From an exception to what the wire says of it: code, text, details, stack."""

import asyncio
import concurrent.futures
import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octonode_sdk import Context, NodeError, node
from octonode_sdk.call import Plan
from octonode_sdk.errors import (
    CODES,
    CallCancelledError,
    CredentialError,
    DefinitionError,
    Fault,
    InputsError,
    LoadError,
    OutputsError,
    RemoteProtocolError,
)
from octonode_sdk.failures import Failure, failure_of, scrub, stack_of
from octonode_sdk.lanes import LoopThread, run_call
from octonode_sdk.nodes import node_of
from octonode_sdk.secrets import forget_secrets, remember_secrets

LOOP = LoopThread()


@pytest.fixture
def secret() -> Iterator[str]:
    """A value that is masked for the time of a test."""
    value = "dummy-value-123"
    remember_secrets([value])
    yield value
    forget_secrets()


def failure(fn: Any, context: Context | None = None, **inputs: Any) -> Failure:
    """Run a node that fails, as a runner does."""
    plan = Plan(node_of(fn))
    with pytest.raises(BaseException) as caught:  # noqa: PT011  # any exception at all is the subject
        run_call(plan, inputs, context, LOOP)
    error = caught.value
    assert error.__traceback__ is not None
    return failure_of(error.with_traceback(error.__traceback__.tb_next), plan.node)  # without the frame of this test


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class LeavingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class QuietError(NodeError):
    def __init__(self) -> None:
        """Leave the base class out, as authors do."""


_CANCELLED = "CancelledError: a task that the node waited for was cancelled by its own library"

#: (exception, code, retryable, message).
MAPPING: list[tuple[BaseException, str, bool, str]] = [
    (NodeError("no such colour"), "NON_RETRYABLE", False, "no such colour"),
    (NodeError("busy", retryable=True), "RUNTIME_ERROR", True, "busy"),
    (NodeError("busy", True), "RUNTIME_ERROR", True, "busy"),
    (NodeError(), "NON_RETRYABLE", False, "NodeError"),
    (QuietError(), "NON_RETRYABLE", False, "QuietError"),
    (ValueError("bad"), "RUNTIME_ERROR", False, "ValueError: bad"),
    (ValueError(), "RUNTIME_ERROR", False, "ValueError"),
    (KeyError("a"), "RUNTIME_ERROR", False, "KeyError: 'a'"),
    (ConnectionResetError("gone"), "RUNTIME_ERROR", True, "ConnectionResetError: gone"),
    (TimeoutError("late"), "RUNTIME_ERROR", False, "TimeoutError: late"),
    (SystemExit(3), "RUNTIME_ERROR", False, "SystemExit: 3"),
    (SystemExit(), "RUNTIME_ERROR", False, "SystemExit"),
    (KeyboardInterrupt(), "RUNTIME_ERROR", False, "KeyboardInterrupt"),
    (GeneratorExit(), "RUNTIME_ERROR", False, "GeneratorExit"),
    (StopIteration(5), "RUNTIME_ERROR", False, "StopIteration: 5"),
    (asyncio.CancelledError(), "RUNTIME_ERROR", False, _CANCELLED),
    (concurrent.futures.CancelledError(), "RUNTIME_ERROR", False, _CANCELLED),
    (CallCancelledError("stop"), "RUNTIME_ERROR", True, "the call was cancelled"),
    (RecursionError("too deep"), "RUNTIME_ERROR", False, "RecursionError: too deep"),
    (MemoryError(), "RUNTIME_ERROR", False, "MemoryError"),
    (
        ExceptionGroup("two", [ValueError("a"), TypeError("b")]),
        "RUNTIME_ERROR",
        False,
        "ExceptionGroup: two (2 sub-exceptions) [ValueError: a; TypeError: b]",
    ),
    (BrokenError(), "RUNTIME_ERROR", False, "BrokenError: <its text can't be made: RuntimeError>"),
    (LeavingError(), "RUNTIME_ERROR", False, "LeavingError: <its text can't be made: SystemExit>"),
    (ValueError("a\ud800b"), "RUNTIME_ERROR", False, "ValueError: a\\ud800b"),
]


@pytest.mark.parametrize(
    ("error", "code", "retryable", "message"),
    MAPPING,
    ids=[f"{type(row[0]).__name__} {row[1]} {index}" for index, row in enumerate(MAPPING)],
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_exception_of_the_node_becomes_its_code(
    kind: str, error: BaseException, code: str, retryable: bool, message: str
) -> None:
    """ERR-2, ERR-12 to ERR-15: whatever leaves the node is an answer, and the next call works as well."""
    if kind == "async" and isinstance(error, GeneratorExit):
        pytest.skip("Python itself takes it for the end of a coroutine")

    @node(retry_on=(ConnectionError,))
    def sync() -> None:
        raise error

    @node(retry_on=(ConnectionError,))
    async def late() -> None:
        raise error

    for _ in range(2):
        found = failure(sync if kind == "sync" else late)
        assert (found.code, found.retryable, found.message) == (code, retryable, message)
        assert found.details is None
        if not isinstance(error, CallCancelledError):
            assert found.stack is not None


@pytest.mark.parametrize(
    ("error", "code", "details"),
    [
        (
            InputsError([Fault("$.a", "is required: a text")]),
            "VALIDATION_ERROR",
            {"errors": [{"path": "$.a", "message": "is required: a text"}]},
        ),
        (
            OutputsError([Fault("$.a", "x"), Fault("$.b", "y")]),
            "VALIDATION_ERROR",
            {"errors": [{"path": "$.a", "message": "x"}, {"path": "$.b", "message": "y"}]},
        ),
        (RemoteProtocolError("the line is no JSON"), "VALIDATION_ERROR", None),
        (LoadError("there is no node 'a'"), "VALIDATION_ERROR", None),
        (CredentialError(["API_KEY"], node="a"), "NON_RETRYABLE", {"missing": ["API_KEY"]}),
        (DefinitionError("has no annotation", node="a"), "RUNTIME_ERROR", None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fault_that_is_not_the_nodes_has_no_stack(error: Exception, code: str, details: Any) -> None:
    """ERR-6, ERR-8 to ERR-11, ERR-17: all faults, each with its path."""
    found = failure_of(error)
    assert (found.code, found.retryable, found.details, found.stack) == (code, False, details, None)
    assert found.message == str(error)


def test_the_details_hold_every_fault_and_the_message_a_few() -> None:
    """ERR-18: the list is whole, however long it is."""
    found = failure_of(InputsError([Fault(f"$.a[{index}]", "wrong") for index in range(100)]))
    assert len(found.details["errors"]) == 100
    assert "(and 97 more)" in found.message


def test_only_the_four_codes_come_out_and_never_timeout() -> None:
    """ERR-1, RES-13 (C014): the author's own code is kept in the details."""
    for error, *_ in MAPPING:
        assert failure_of(error).code in set(CODES) - {"TIMEOUT"}
    found = failure_of(NodeError("slow down", retryable=True, code="RATE_LIMITED"))
    assert (found.code, found.retryable, found.details) == ("RUNTIME_ERROR", True, {"code": "RATE_LIMITED"})


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"wait": 5}, {"code": "LATE", "wait": 5}),
        ({"code": "theirs", "wait": 5}, {"code": "LATE", "wait": 5}),
        ([1, 2], {"code": "LATE", "details": [1, 2]}),
        ("text", {"code": "LATE", "details": "text"}),
        (None, {"code": "LATE"}),
        (0, {"code": "LATE", "details": 0}),
    ],
    ids=str,
)
def test_the_authors_code_stands_beside_the_authors_details(details: Any, expected: Any) -> None:
    """ERR-16: and wins over a key of the same name."""
    assert failure_of(NodeError("late", details=details, code="LATE")).details == expected


class Hostile(dict[str, Any]):
    def items(self) -> NoReturn:
        raise RuntimeError("no items")


def _cycle() -> list[Any]:
    cycle: list[Any] = [1]
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"a": float("nan"), "b": 2**60}, {"a": "NaN", "b": "1152921504606846976"}),
        ({"a": 1, "b": b"\x00"}, {"a": 1, "b": "b'\\x00'"}),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        ({"a": [1, 1j, {"b": {2, 1}}]}, {"a": [1, "1j", {"b": [1, 2]}]}),
        (_cycle(), "[1, [...]]"),
        (Hostile(a=1), "{'a': 1}"),
        ("a\ud800", "a\\ud800"),
    ],
    ids=ascii,
)
def test_details_that_are_not_json_go_as_text(details: Any, expected: Any) -> None:
    """ERR-20: the rest of them as it is, and the error is sent in any case."""
    found = failure_of(NodeError("bad", details=details))
    assert found.message == "bad"
    assert found.details == expected or (isinstance(details, list) and isinstance(found.details, str))
    json.dumps(found.details, allow_nan=False).encode("utf-8")


_DETAILS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.complex_numbers()
    | st.builds(BrokenError)
    | st.builds(Hostile, a=st.just(1))
    | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text() | st.none(), inner, max_size=3)
    ),
)


@given(_DETAILS, st.text(st.characters()))
def test_whatever_an_error_holds_its_failure_can_be_sent(details: Any, text: str) -> None:
    """ERR-20: JSON in UTF-8, whatever the author attached."""
    found = failure_of(NodeError(text, details=details))
    assert found.message
    for part in (found.message, found.details, found.stack):
        json.dumps(part, ensure_ascii=False, allow_nan=False).encode("utf-8")


class ImpossibleError(NodeError):
    @property
    def retryable(self) -> bool:
        raise LookupError

    @retryable.setter
    def retryable(self, value: bool) -> None: ...


def test_an_exception_that_breaks_its_own_report_is_named_by_its_class() -> None:
    """ERR-20: there is always an answer."""
    found = failure_of(ImpossibleError("x"))
    assert (found.code, found.message) == ("RUNTIME_ERROR", "ImpossibleError: its report can't be made (LookupError)")


# The stack


def helper(x: int) -> NoReturn:
    """Fail, one frame below the node."""
    raise ValueError(f"no {x}")


@node
def failing(x: int) -> int:
    """Fail in a helper."""
    helper(x)


@node
async def failing_late(x: int) -> int:
    """Fail in a helper, on the loop."""
    await asyncio.sleep(0)
    helper(x)


@node
def failing_stream(x: int) -> Iterator[int]:
    """Fail in the middle of a stream."""
    yield x
    helper(x)


def frames(stack: str) -> list[str]:
    """Return the functions that a stack shows, in order."""
    return [line.rpartition(" in ")[2] for line in stack.splitlines() if line.lstrip(" |").startswith('File "')]


@pytest.mark.parametrize("fn", [failing, failing_late, failing_stream], ids=lambda fn: fn.__name__)
def test_a_stack_starts_at_the_authors_first_frame(fn: Callable[..., Any]) -> None:
    """ERR-6, ERR-7: frames of the SDK, of the event loop and of its threads are left out."""
    stack = failure(fn, x=1).stack
    assert stack is not None
    assert frames(stack) == [fn.__name__, "helper"]
    assert stack.startswith("Traceback (most recent call last):\n")
    assert stack.endswith("ValueError: no 1\n")


def test_causes_and_contexts_are_kept_and_trimmed() -> None:
    """ERR-7: also where the cause came through another node or out of the loop."""

    @node
    def outer(x: int) -> int:
        try:
            run_call(Plan(node_of(failing_late)), {"x": x}, None, LOOP)
        except ValueError as error:
            raise NodeError("gave up") from error
        return 1

    @node
    def second(x: int) -> int:
        try:
            helper(x)
        except ValueError:
            return {"a": 1}["b"]

    stack = failure(outer, x=1).stack
    assert stack is not None
    assert "direct cause" in stack
    assert "helper" in frames(stack)
    assert frames(stack)[-1] == "outer"
    other = failure(second, x=1).stack
    assert other is not None
    assert "another exception occurred" in other
    assert frames(other) == ["second", "helper", "second"]


def caught_by_the_sdk(fn: Any) -> BaseException:
    """Return what a node raises, with the traceback that the SDK's own frames would see."""
    with pytest.raises(ValueError, match="no 1") as caught:
        run_call(Plan(node_of(fn)), {"x": 1}, None, LOOP)
    error = caught.value
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


def test_frames_of_the_sdk_are_left_out_of_causes_contexts_and_members_of_groups() -> None:
    """ERR-7: however deep they hang."""
    cause, context, member = (caught_by_the_sdk(fn) for fn in (failing, failing_late, failing_stream))
    assert isinstance(member, Exception)
    inner = NodeError("inner")
    inner.__cause__ = cause
    inner.__context__ = context
    outer = ExceptionGroup("outer", [inner, member])
    stack = stack_of(outer)
    assert stack is not None
    shown = frames(stack)
    assert shown == ["failing", "helper", "failing_stream", "helper"]
    inner.__cause__ = None
    inner.__suppress_context__ = False  # which setting a cause has switched on
    stack = stack_of(inner)
    assert stack is not None
    assert frames(stack) == ["failing_late", "helper"]


def test_members_of_an_exception_group_are_shown() -> None:
    """ERR-7: the faults of a task group have tracebacks of their own."""

    @node
    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(failing_late(1))

    stack = failure(grouped).stack
    assert stack is not None
    assert "ValueError: no 1" in stack
    assert "asyncio" not in stack.partition("ValueError: no 1")[0].rpartition("+-")[2]


def test_a_stack_of_thousands_of_causes_or_frames_has_a_bound() -> None:
    """ERR-20: an answer has to stay sendable."""

    @node
    def retrying() -> None:
        last: Exception | None = None
        for number in range(3000):
            try:
                raise ValueError(f"try {number}") from last
            except ValueError as error:
                last = error
        assert last is not None
        raise last

    @node
    def recursive(x: int) -> int:
        return recursive(x + 1)

    many = failure(retrying).stack
    assert many is not None
    assert 1000 < len(many) < 250_000
    assert many.endswith("ValueError: try 2999\n")
    deep = failure(recursive, x=1).stack
    assert deep is not None
    assert len(deep) < 20_000
    assert "RecursionError" in deep


def test_an_exception_whose_text_cannot_be_made_still_has_a_stack() -> None:
    """ERR-20: its frames are there; the text is not."""

    @node
    def broken() -> None:
        raise BrokenError

    @node
    def leaving() -> None:
        raise LeavingError

    stack = failure(broken).stack
    assert stack is not None
    assert frames(stack)[:1] == ["broken"]
    assert frames(failure(leaving).stack or "")[:1] == ["leaving"]


# Secrets


def test_a_secret_is_masked_in_every_part_of_a_failure(secret: str) -> None:
    """ERR-21 (C103): message, details with their keys, stack, causes and notes."""

    @node
    def leaking() -> None:
        try:
            raise ValueError(f"401 for {secret}")
        except ValueError as error:
            raised = NodeError(f"denied: {secret}", details={"header": [secret], secret: 1}, code=secret)
            raised.add_note(f"note {secret}")
            raise raised from error

    found = failure(leaking)
    whole = repr((found.message, found.details, found.stack))
    assert secret not in whole
    assert found.message == "denied: ***"
    assert found.details == {"code": "***", "header": ["***"], "***": 1}
    assert found.stack is not None
    assert "401 for ***" in found.stack


def test_a_secret_is_masked_in_the_faults_of_values() -> None:
    """ERR-21: an output that does not fit shows the value, also one that is cut for its length."""
    long = "header-" + "0123456789" * 20
    remember_secrets(["short-one", long])
    try:

        @node
        def leaking(x: str) -> int:
            return x  # type: ignore[return-value]  # the fault itself

        for value in ("short-one", long, f"Bearer {long}"):
            found = failure(leaking, x=value)
            assert "0123456789" not in repr((found.message, found.details))
            assert "short-one" not in repr((found.message, found.details))
            assert "***" in found.message
    finally:
        forget_secrets()


def test_scrubbed_text_is_unicode() -> None:
    """ERR-20: half a character is written as its escape."""
    assert scrub("a\ud800é") == "a\\ud800é"


def test_a_stack_needs_no_node() -> None:
    """Our own choice: an error at load is shown the same way."""
    try:
        helper(3)
    except ValueError as error:
        stack = stack_of(error)
    assert stack is not None
    assert frames(stack)[-1] == "helper"
