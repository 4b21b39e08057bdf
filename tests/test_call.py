"""One call: the shape of outputs follows the declaration, generators give the last value of each port."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, NamedTuple, NotRequired, Optional

import pytest
from typing_extensions import TypedDict

from octonode_sdk import Context, node
from octonode_sdk.call import Collector, Plan
from octonode_sdk.errors import CallCancelledError, CredentialError, InputsError, OutputsError
from octonode_sdk.lanes import LoopThread, run_call
from octonode_sdk.nodes import node_of
from octonode_sdk.secrets import Secret, forget_secrets

LOOP = LoopThread()


def outputs(fn: Any, context: Context | None = None, **inputs: Any) -> dict[str, Any]:
    """Run a node as a runner does, on this thread."""
    return run_call(Plan(node_of(fn)), inputs, context, LOOP)


class Two(TypedDict):
    text: str
    count: int


class Partly(TypedDict, total=False):
    text: str
    count: Optional[int]


@dataclasses.dataclass
class Result:
    text: str
    count: int = 1


class Pair(NamedTuple):
    text: str
    count: int = 1  # type: ignore[assignment]  # hides the method of tuples


@pytest.mark.parametrize("value", [{}, {"a": 1}, {"a": 1, "b": 2}, {"output": 1}, {"output": 1, "x": 2}], ids=str)
def test_a_plain_mapping_is_one_output_whatever_its_keys(value: dict[str, int]) -> None:
    """RES-14 (C091): the shape follows the declaration, never the value."""

    @node
    def plain() -> dict[str, int]:
        return value

    @node(output="named")
    def named() -> dict[str, int]:
        return value

    assert outputs(plain) == {"output": value}
    assert outputs(named) == {"named": value}


@pytest.mark.parametrize("value", [("a", "b"), ["a"], [], ("output", "x")], ids=str)
def test_a_list_is_one_output_whatever_its_length(value: Any) -> None:
    """RES-14: a tuple does not spread over ports."""

    @node
    def listed() -> list[str]:
        return value  # type: ignore[no-any-return]  # a tuple is taken for a list

    assert outputs(listed) == {"output": list(value)}


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Two, {"text": "a", "count": 1}),
        (Result, Result("a")),
        (Result, {"text": "a"}),
        (Result, {"text": "a", "count": 1}),
        (Pair, Pair("a")),
        (Pair, {"text": "a"}),
    ],
    ids=str,
)
def test_a_declared_record_is_one_output_a_field(hint: Any, value: Any) -> None:
    """RES-14: and the port is always there, also where a dict left out what the class would fill in."""

    def fields() -> Any:
        return value

    fields.__annotations__["return"] = hint
    assert outputs(node(fields)) == {"text": "a", "count": 1}


def test_a_record_under_a_name_is_one_output() -> None:
    """RES-14: `output=` makes one port of it."""

    @node(output="result")
    def named() -> Result:
        return Result("a")

    assert outputs(named) == {"result": {"text": "a", "count": 1}}


def test_a_key_that_may_be_missing_is_missing() -> None:
    """RES-9: absent, not null; and null where the node says null."""

    @node
    def some() -> Partly:
        return {"count": None}

    assert outputs(some) == {"count": None}


def test_a_node_that_returns_none_has_no_outputs() -> None:
    """RES-14: `{}`; and a value where none is declared is a fault."""

    @node
    def nothing() -> None: ...

    @node
    def something() -> None:
        return 5  # type: ignore[return-value]  # the fault itself

    assert outputs(nothing) == {}
    with pytest.raises(OutputsError, match=r"\$: the node is declared to return None, but returned the integer 5"):
        outputs(something)


def test_a_missing_or_unknown_output_is_told_with_its_port() -> None:
    """RES-16, ERR-18: both, in one go."""

    @node
    def wrong() -> Two:
        return {"text": "a", "size": 1}  # type: ignore[typeddict-item]  # the fault itself

    with pytest.raises(OutputsError) as caught:
        outputs(wrong)
    assert [fault.path for fault in caught.value.faults] == ["$.size", "$.count"]


def test_async_nodes_and_awaitables_are_awaited() -> None:
    """Our own choice: `async def`, and a function that returns a coroutine."""

    @node
    async def late(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    @node
    def wrapped(x: int) -> "int":
        return late(x)  # type: ignore[return-value]  # a decorator that forgot to be async

    assert outputs(late, x=1) == {"output": 2}
    assert outputs(wrapped, x=1) == {"output": 2}


def test_a_generator_gives_the_last_value_of_its_port() -> None:
    """RES-15 (C094): drained, sync and async."""

    @node
    def counted() -> Iterator[int]:
        yield from range(5)

    @node
    async def counted_late() -> AsyncIterator[int]:
        for number in range(5):
            yield number

    assert outputs(counted) == {"output": 4}
    assert outputs(counted_late) == {"output": 4}


def test_a_generator_gives_the_last_value_of_each_port() -> None:
    """RES-15: a yielded dict may hold a part of the ports; a record of all of them counts too."""

    @node
    def parts() -> Iterator[Two]:
        yield {"text": "a"}  # type: ignore[typeddict-item]  # a part
        yield {"count": 1}  # type: ignore[typeddict-item]  # a part
        yield {"text": "b"}  # type: ignore[typeddict-item]  # a part

    @node
    def whole() -> Iterator[Result]:
        yield Result("a", 1)
        yield Result("b", 2)

    @node
    async def mixed() -> AsyncIterator[Pair]:
        yield Pair("a", 1)
        yield {"count": 3}  # type: ignore[misc]  # a part

    assert outputs(parts) == {"text": "b", "count": 1}
    assert outputs(whole) == {"text": "b", "count": 2}
    assert outputs(mixed) == {"text": "a", "count": 3}


def test_a_yielded_mapping_is_one_value_where_one_output_is_declared() -> None:
    """RES-14 (C091): also in a generator."""

    @node
    def mappings() -> Iterator[dict[str, int]]:
        yield {"output": 1}
        yield {"a": 2}

    assert outputs(mappings) == {"output": {"a": 2}}


def test_each_yielded_part_is_given_by_port_as_it_comes() -> None:
    """RES-15: for hosts that stream."""

    @node
    def parts() -> Iterator[Two]: ...  # type: ignore[empty-body]  # never called

    collector = Collector(Plan(node_of(parts)))
    assert collector.take({"text": "a"}) == {"text": "a"}
    assert collector.take({"count": 2, "text": "b"}) == {"text": "b", "count": 2}
    assert collector.outputs() == {"text": "b", "count": 2}


def test_a_port_that_was_never_yielded_is_a_fault_unless_it_may_be_missing() -> None:
    """RES-14: one fault a port."""

    @node
    def empty() -> Iterator[Two]:
        return
        yield

    @node
    def silent() -> Iterator[Partly]:
        return
        yield

    @node
    def single() -> Iterator[int]:
        return
        yield

    with pytest.raises(OutputsError) as caught:
        outputs(empty)
    assert [fault.path for fault in caught.value.faults] == ["$.text", "$.count"]
    assert outputs(silent) == {}
    with pytest.raises(OutputsError, match=r"\$\.output: the generator ended without a value for it"):
        outputs(single)


@pytest.mark.parametrize(
    ("value", "path"),
    [({"text": 1}, "$.text"), ({"size": 1}, "$.size"), ({"count": float("nan")}, "$.count"), (5, "$")],
    ids=str,
)
def test_a_part_that_does_not_fit_ends_the_call_and_closes_the_generator(value: Any, path: str) -> None:
    """RES-16: with the place, and the node's own clean-up runs."""
    closed = []

    @node
    def parts() -> Iterator[Two]:
        try:
            yield value
            raise AssertionError("went on")
        finally:
            closed.append(True)

    with pytest.raises(OutputsError) as caught:
        outputs(parts)
    assert [fault.path for fault in caught.value.faults] == [path]
    assert closed == [True]


def test_a_cancelled_call_stops_between_two_values_of_a_generator() -> None:
    """Our own choice: cancelling closes a generator."""
    closed = []

    @node
    def endless(*, ctx: Context) -> Iterator[int]:
        try:
            for number in range(1000):
                if number == 3:
                    ctx.cancel()
                yield number
        finally:
            closed.append(True)

    @node
    async def endless_late(*, ctx: Context) -> AsyncIterator[int]:
        try:
            while True:
                ctx.cancel()
                yield 1
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            closed.append(True)

    for fn in (endless, endless_late):
        with pytest.raises(CallCancelledError):
            outputs(fn, Context())
    assert closed == [True, True]


def test_a_cancelled_async_call_ends_when_its_clean_up_has_ended() -> None:
    """RES-10: nothing is said or done for a call behind its answer."""
    closed = []

    @node
    async def waiting(*, ctx: Context) -> None:
        try:
            ctx.cancel()
            await asyncio.Event().wait()
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            closed.append(True)

    with pytest.raises(CallCancelledError):
        outputs(waiting, Context())
    assert closed == [True]


def test_a_second_cancel_does_not_cut_the_clean_up_short() -> None:
    """Our own choice: a host may say it twice."""
    closed = []

    @node
    async def waiting(*, ctx: Context) -> None:
        try:
            ctx.cancel()
            await asyncio.Event().wait()
        finally:
            ctx.cancel()
            for _ in range(100):
                await asyncio.sleep(0)
            closed.append(True)

    with pytest.raises(CallCancelledError):
        outputs(waiting, Context())
    assert closed == [True]


def test_a_call_that_was_cancelled_before_it_ran_does_not_run() -> None:
    """Our own choice (C058): it was told to stop while it waited in line."""
    ran = []

    @node
    def soon(*, ctx: Context) -> None:
        ran.append(True)

    @node
    async def late(*, ctx: Context) -> None:
        ran.append(True)

    context = Context()
    context.cancel()
    for fn in (soon, late):
        with pytest.raises(CallCancelledError):
            outputs(fn, context)
    assert ran == []


def test_a_plain_function_may_return_any_iterable_that_it_declares() -> None:
    """RES-14: a generator object, a view of a dict and a range are lists on the wire."""

    @node
    def rows(kind: str) -> Iterable[int]:
        kinds: dict[str, Iterable[int]] = {
            "generator": (number for number in (1, 2)),
            "map": map(int, "12"),
            "range": range(1, 3),
            "keys": {1: "", 2: ""}.keys(),
            "tuple": (1, 2),
        }
        return kinds[kind]

    for kind in ("generator", "map", "range", "keys", "tuple"):
        assert outputs(rows, kind=kind) == {"output": [1, 2]}


def test_the_context_is_injected_by_its_type_whatever_the_place() -> None:
    """CTX-10: it is no input, and inputs of its name do not replace it."""

    @node
    def first(ctx: Context, /, x: int) -> str:
        return f"{ctx.env} {x}"

    @node(dynamic=True)
    def rest(*, surroundings: Context, **more: Any) -> str:
        return f"{surroundings.env} {sorted(more)}"

    context = Context(env="dev")
    assert outputs(first, context, x=1) == {"output": "dev 1"}
    assert outputs(rest, context, surroundings="mine", a=1)["output"].startswith("dev ")


def test_missing_secrets_are_named_all_before_the_node_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """PLG-23: an optional one may be missing."""

    @node(secrets=["FIRST_KEY", "SECOND_KEY", "THIRD_KEY", Secret("PROXY", required=False)])
    def secretive(*, ctx: Context) -> None: ...

    found = {"FIRST_KEY": "value", "SECOND_KEY": "", "THIRD_KEY": "", "PROXY": ""}
    for name in found:
        monkeypatch.delenv(name, raising=False)
    plan = Plan(node_of(secretive))
    with pytest.raises(CredentialError) as caught:
        plan.secrets(found)
    assert caught.value.names == ["SECOND_KEY", "THIRD_KEY"]
    found |= {"SECOND_KEY": "b", "THIRD_KEY": "c"}
    assert plan.secrets({**found, "UNDECLARED": "d"}) == found
    monkeypatch.setenv("PROXY", "from the environment")
    assert plan.secrets(found) == {**found, "PROXY": "from the environment"}
    forget_secrets()


def test_a_required_key_of_a_partial_type_has_to_come() -> None:
    """RES-14: NotRequired is per key."""

    class Mixed(TypedDict):
        text: str
        note: NotRequired[str]

    def mixed() -> Iterator[Any]:
        yield {"text": "a"}

    mixed.__annotations__["return"] = Iterator[Mixed]
    assert outputs(node(mixed)) == {"text": "a"}


def test_an_unknown_input_is_offered_for_the_one_that_is_missing() -> None:
    """REQ-12: a host does not read stderr, where it is told that the input was ignored."""

    @node
    def scale(width: int, height: int = 1) -> int:
        return width * height

    with pytest.raises(InputsError) as caught:
        outputs(scale, wdith=3)
    assert [str(fault.message) for fault in caught.value.faults] == [
        "is required: an integer; did you mean it by 'wdith', which the node does not have?"
    ]
    with pytest.raises(InputsError) as caught:
        outputs(scale, zzz=3)
    assert [str(fault.message) for fault in caught.value.faults] == ["is required: an integer"]


def test_a_forgotten_return_is_told_as_what_it_is() -> None:
    """RES-16."""

    @node
    def forgetful() -> int:  # type: ignore[return]  # the purpose
        1 + 1  # noqa: B018  # the purpose

    with pytest.raises(OutputsError, match="the function returned None: is a `return` missing"):
        outputs(forgetful)


def test_a_fraction_for_an_integer_or_a_text_is_told_both() -> None:
    """ERR-17: naming one of them would send the reader the wrong way."""

    @node
    def either(value: int | str) -> None: ...

    with pytest.raises(InputsError, match=r"expected an integer or a text, got the number 1\.5"):
        outputs(either, value=1.5)
