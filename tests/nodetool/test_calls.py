"""One call, in memory, from its request to its terminal frame: what comes in, and what its values become."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.nodetool.sessionkit import Host

NODES = """
import asyncio, enum, os, threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, Optional, TypedDict
import numpy as np
from octonode_sdk import Context, NodeError, node

def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value

def cyclic():
    value = {"a": []}
    value["a"].append(value)
    return value

class Side(enum.Enum):
    LEFT = "left"

VALUES = {
    "none": lambda: None,
    "nan": lambda: [float("nan"), float("inf"), float("-inf")],
    "beyond 64 bits": lambda: {"a": [2**64]},
    "below 64 bits": lambda: -(2**63) - 1,
    "beyond 53 bits": lambda: 2**53 + 1,
    "53 bits": lambda: [2**53, -(2**53)],
    "keys": lambda: {1: "a", 1.5: "b", True: "c", None: "d", (1, 2): "e"},
    "bytes as key": lambda: {b"a": 1},
    "object as key": lambda: {object(): 1},
    "numpy": lambda: [np.float32(1.5), np.array(2), np.array([3]), np.array([[1, 2]])],
    "naive time": lambda: __import__("datetime").datetime(2024, 2, 29),
    "time": lambda: __import__("datetime").datetime(2024, 2, 29, tzinfo=__import__("datetime").timezone.utc),
    "duration": lambda: __import__("datetime").timedelta(hours=1),
    "path": lambda: __import__("pathlib").PurePosixPath("a/b"),
    "complex": lambda: {"a": [1j]},
    "object": lambda: object(),
    "file": lambda: {"log": open(os.devnull)},
    "tuple": lambda: (1, ("a",), Side.LEFT),
    "surrogate": lambda: ["ok", {"a": "x\\udc80y", "\\ud800": 1}],
    "cycle": cyclic,
    "list cycle": lambda: (lambda a: a.append(a) or a)([]),
    "nested 300": lambda: nested(300),
    "nested 1500": lambda: nested(1500),
    "half a character and nested 1500": lambda: ["\\udc80", nested(1500)],
    "nested 5000": lambda: nested(5000),
    "bytes": lambda: [b"a", bytearray(b"b"), memoryview(b"c")],
    "large": lambda: b"x" * 100_000,
    "wide view": lambda: memoryview(np.zeros(20_000)),
}

@node
def give(name: str) -> Any:
    return VALUES[name]()

@node(big_integers="text")
def give_text(name: str) -> Any:
    return VALUES[name]()

@node
def give_each(name: str) -> Iterator[Any]:
    yield 1
    yield VALUES[name]()

@node
def one_number() -> int:
    return "five"

class Two(TypedDict):
    text: Optional[str]
    done: Optional[bool]

@node
def two() -> Two:
    return {"text": "a", "done": None}

@node
def nothing() -> None: ...

@node
def parts() -> Iterator[Two]:
    yield {"text": "hel", "done": None}
    yield {"text": None, "done": True}

@node
async def parts_late() -> AsyncIterator[Two]:
    yield {"text": "hel", "done": None}
    yield {"text": None, "done": True}

@node
def empty() -> Iterator[Optional[int]]:
    return
    yield

@node
def maybe() -> Iterator[Optional[int]]:
    yield 1
    yield None

@node
def take(number: int, size: int = 5, maybe: Optional[int] = 7, rows: list[int] = [1]) -> list[Any]:
    return [number, size, maybe, rows]

@node(dynamic=True)
def rest(a: int = 0, **more: Any) -> dict[str, Any]:
    return {"a": a, **more}

@node
def echo(value: Any = "default") -> Any:
    return value

@node
def identity(*, ctx: Context) -> list[Any]:
    return [ctx.request_id, ctx.node_id, ctx.job_id, ctx.workflow_id, ctx.user_id]

@node
def fill() -> Iterator[bytes]:
    buffer = bytearray(100_000)
    for letter in b"ab":
        buffer[:] = bytes([letter]) * 100_000
        yield buffer
        buffer.clear()
        buffer.extend(bytes(100_000))
"""


@pytest.fixture
def module(new_module: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The names of the nodes."""
    return new_module("t_calls", NODES)


@pytest.fixture
def host(module: dict[str, Any]) -> Host:
    """A session with the nodes."""
    return Host(module)


# What comes in


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ({"number": 1}, [1, 5, 7, [1]]),
        ({"number": 2.0, "size": 2.0**32}, [2, 2**32, 7, [1]]),
        ({"number": 1, "size": None, "maybe": None, "rows": None}, [1, 5, None, [1]]),
        ({"number": 1, "rows": []}, [1, 5, 7, []]),
        ({"number": 1, "unknown": {"a": 1}}, [1, 5, 7, [1]]),
    ],
)
def test_inputs_are_what_the_host_gives_or_their_defaults(host: Host, fields: Any, output: list[Any]) -> None:
    """VAL-3, VAL-6, VAL-8, EXE-6, EXE-8."""
    made = host.outputs("Take", **fields)["output"]
    assert made == output
    assert [type(one) for one in made] == [type(one) for one in output]


@pytest.mark.parametrize(
    "fields", [{"number": "5"}, {"number": True}, {"number": 1.5}, {"number": 1, "rows": 1}, {}, {"number": None}]
)
def test_inputs_are_not_bent_to_fit(host: Host, fields: Any) -> None:
    """VAL-7, EXE-8: a required input that is missing is named."""
    assert ("$.rows" if "rows" in fields else "$.number") in host.error("Take", **fields)


def test_a_node_with_a_required_input_runs_where_it_is_given() -> None:
    """EXE-8: the subject of `test_inputs_are_what_the_host_gives_or_their_defaults`, for a node without defaults."""
    names: dict[str, Any] = {"__name__": "t_required"}
    exec("from octonode_sdk import node\n@node\ndef need(text: str) -> str:\n    return text", names)
    assert Host(names).outputs("Need", text="a") == {"output": "a"}


def test_a_dynamic_node_gets_the_fields_that_no_input_has(host: Host) -> None:
    """EXE-7."""
    assert host.outputs("Rest", a=1, b="x", c=None)["output"] == {"a": 1, "b": "x", "c": None}


def test_absent_maps_are_empty_and_a_blob_is_the_value_of_its_input(host: Host) -> None:
    """EXE-4, BLB-2, VAL-10."""
    for data in ({"node_type": "t.Echo"}, {"node_type": "t.Echo", "fields": None, "secrets": None, "blobs": None}):
        host.serve(host.send("execute", "q", data))  # type: ignore[arg-type]  # it is a call
    assert [frame["data"]["outputs"] for frame in host.frames("q")] == [{"output": "default"}] * 2
    more = {"blobs": {"value": b"blob"}}
    assert host.outputs("Echo", value="field", more=more) == {"output": b"blob"}


def test_a_map_with_keys_that_are_no_texts_reaches_the_node(host: Host) -> None:
    """VAL-5, VAL-13: a host's Map with integers as keys, which is no reason to refuse the frame."""
    assert host.outputs("Echo", value={1: "a", 2.5: {True: "b"}}) == {"output": {"1": "a", "2.5": {"true": "b"}}}


def test_the_context_knows_who_asked(host: Host) -> None:
    """EXE-30, EXE-31, EXE-32."""
    known = {"node_id": "n", "job_id": "j", "workflow_id": "w", "user_id": "u", "requires_vram_gb": "much"}
    assert host.outputs("Identity", id_="i", more=known)["output"] == ["i", "n", "j", "w", "u"]
    more: dict[str, Any] = {"node_id": 5, "job_id": "", "user_id": None}
    assert host.outputs("Identity", id_="i", more=more)["output"] == ["i", "", None, None, None]


# What goes out


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("none", None),
        ("53 bits", [2**53, -(2**53)]),
        ("keys", {"1": "c", "1.5": "b", "null": "d", "1,2": "e"}),  # Python itself has 1 and True as one key
        ("numpy", [1.5, 2, [3], [[1, 2]]]),
        ("naive time", "2024-02-29T00:00:00"),
        ("time", "2024-02-29T00:00:00+00:00"),
        ("duration", "PT1H"),
        ("path", "a/b"),
        ("tuple", [1, ["a"], "left"]),
        ("bytes", [b"a", b"b", b"c"]),
        ("large", b"x" * 100_000),
        ("wide view", bytes(160_000)),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_value_goes_out_by_the_table(host: Host, name: str, output: Any, stream: bool) -> None:
    """VAL-10 to VAL-14, VAL-19, EXE-13."""
    assert host.outputs("Give", name=name) == {"output": output}
    if stream:
        chunk = host.run("GiveEach", name=name, stream=True)[1]
        assert (chunk["type"], chunk["data"]) == ("chunk", {"outputs": {"output": output}, "blobs": {}})


def test_numbers_that_json_does_not_have_are_kept(host: Host) -> None:
    """VAL-9."""
    nan, *infinite = host.outputs("Give", name="nan")["output"]
    assert math.isnan(nan)
    assert infinite == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("beyond 64 bits", "$.output.a[0]: the integer is beyond 2**53"),
        ("below 64 bits", "$.output: the integer is beyond 2**53"),
        ("beyond 53 bits", "$.output: the integer is beyond 2**53"),
        ("bytes as key", "the key b'a' is a bytes"),
        ("object as key", "is a object"),
        ("complex", "$.output.a[0]: a value of type complex has no JSON form"),
        ("object", "$.output: a value of type object has no JSON form"),
        ("file", "$.output.log: a value of type TextIOWrapper has no JSON form"),
        ("cycle", "$.output.a[0]: contains itself"),
        ("list cycle", "$.output[0]: contains itself"),
        ("nested 5000", "$.output: is nested too deep"),
    ],
)
@pytest.mark.parametrize("node", ["Give", "GiveEach"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_value_that_has_no_form_is_an_error_that_names_the_slot(
    host: Host, name: str, text: str, node: str, stream: bool
) -> None:
    """VAL-13, VAL-15, VAL-17, VAL-18, EXE-16: and no traceback, since node code did not raise (EXE-23)."""
    found = host.run(node, name=name, stream=stream)
    chunks = 1 if stream and node == "GiveEach" else 0
    assert [one["type"] for one in found if one["type"] != "update"] == ["chunk"] * chunks + ["error"]
    data = found[-1]["data"]
    assert text in data["error"]
    assert "traceback" not in data
    assert host.outputs("Echo") == {"output": "default"}


def test_a_big_integer_is_digits_where_the_node_says_so(host: Host) -> None:
    """VAL-15."""
    assert host.outputs("GiveText", name="beyond 64 bits") == {"output": {"a": [str(2**64)]}}


@pytest.mark.parametrize("name", ["nested 1500", "half a character and nested 1500"])
@pytest.mark.parametrize("node", ["Give", "GiveEach"])
def test_a_value_that_only_the_packer_finds_too_deep_is_named_by_its_slot(host: Host, node: str, name: str) -> None:
    """VAL-18: where Python itself would go on."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        data = host.data(node, name=name, stream=True)
    finally:
        sys.setrecursionlimit(limit)
    assert list(data) == ["error"]
    assert "$.output: is nested too deep" in data["error"]


def test_a_value_as_deep_as_passes_passes(host: Host) -> None:
    """VAL-18."""
    value = host.outputs("Give", name="nested 300")["output"]
    for _ in range(300):
        [value] = value
    assert value == []


@pytest.mark.parametrize(("node", "stream"), [("Give", False), ("GiveEach", True)])
def test_half_a_character_in_an_output_is_replaced_and_told(host: Host, node: str, stream: bool) -> None:
    """VAL-16: keys included; before the frame that it is about."""
    found = host.run(node, name="surrogate", stream=stream)
    with_values = next(frame for frame in found if frame["data"].get("outputs", {}).get("output") not in (None, 1))
    assert with_values["data"]["outputs"]["output"] == ["ok", {"a": "x\ufffdy", "\ufffd": 1}]
    assert host.logs() == [
        ("warning", '$.output[1]["\\\\ud800"] holds half a character (a lone surrogate); it is sent as U+FFFD')
    ]
    assert found.index(with_values) == found.index(next(one for one in found if one["type"] == "update")) + 1


@pytest.mark.parametrize(("node", "stream"), [("Give", False), ("GiveEach", True)])
def test_outputs_over_the_frame_limit_are_an_error_with_both_numbers(
    module: dict[str, Any], node: str, stream: bool
) -> None:
    """FRM-5, EXE-16: and the worker goes on."""
    host = Host(module, limit_bytes=50_000)
    text = host.error(node, name="large", stream=stream)
    assert text.startswith("Outgoing bridge frame exceeds max size (100")
    assert "> 50000)" in text
    assert host.outputs("Echo") == {"output": "default"}


def test_large_bytes_leave_from_their_own_memory() -> None:
    """VAL-14: the pipe gets the very value."""
    value = b"y" * 100_000
    names: dict[str, Any] = {"__name__": "t_large", "VALUE": value}
    exec("from octonode_sdk import node\n@node\ndef large() -> bytes:\n    return VALUE", names)
    host = Host(names)
    seen: list[Any] = []
    write = host.pipe.write

    def watch(pieces: list[bytes | memoryview], *, block: bool) -> bool:
        seen.extend(piece.obj for piece in pieces if isinstance(piece, memoryview))
        return write(pieces, block=block)

    host.pipe.write = watch  # type: ignore[method-assign]  # watched
    host.serve(host.ask("Large"))
    assert len(seen) == 1
    assert seen[0] is value


def test_a_buffer_that_is_filled_again_does_not_change_what_waits(host: Host) -> None:
    """VAL-14, EXE-13: chunks that are not written yet are as they were yielded."""
    call = host.ask("Fill", stream=True)
    host.outbox._writing.acquire()  # another thread writes, and does not come to an end
    ended = host.start(call)
    assert ended.wait(30)
    host.outbox._writing.release()
    host.outbox.pump()
    found = host.frames("q")
    assert [frame["data"]["outputs"].get("output", b"")[:3] for frame in found] == [b"aaa", b"bbb", b""]


def test_the_shape_of_the_outputs_follows_the_declaration(host: Host) -> None:
    """EXE-1, EXE-10: `blobs` is always there."""
    assert host.outputs("Two") == {"text": "a", "done": None}
    assert host.outputs("Nothing") == {}
    assert host.outputs("Give", name="tuple") == {"output": [1, ["a"], "left"]}


@pytest.mark.parametrize("node", ["Parts", "PartsLate"])
def test_a_stream_is_a_chunk_for_each_yield_and_an_empty_result(host: Host, node: str) -> None:
    """EXE-13, EXE-14, C068: a None that was yielded is kept."""
    chunks = [{"text": "hel", "done": None}, {"text": None, "done": True}]
    found = host.run(node, stream=True)
    assert [(frame["type"], frame["data"]) for frame in found] == [
        *(("chunk", {"outputs": one, "blobs": {}}) for one in chunks),
        ("result", {"outputs": {}, "blobs": {}}),
    ]


@pytest.mark.parametrize("node", ["Parts", "PartsLate"])
def test_without_a_stream_a_generator_gives_the_last_value_of_each_slot(host: Host, node: str) -> None:
    """EXE-12, C068: a None beside other slots takes nothing away."""
    assert host.outputs(node) == {"text": "hel", "done": True}


def test_a_none_is_the_last_value_where_it_stands_for_nothing_else(host: Host) -> None:
    """EXE-12: one slot; and a generator without a value is an error that names it."""
    assert host.outputs("Maybe") == {"output": None}
    assert "$.output: the generator ended without a value" in host.error("Empty")
    assert [frame["type"] for frame in host.run("Empty", stream=True)] == ["result"]


@pytest.mark.parametrize("node", ["Two", "Nothing"])
def test_a_node_that_does_not_stream_has_its_outputs_in_the_result(host: Host, node: str) -> None:
    """EXE-15."""
    assert host.run(node, stream=True) == host.run(node)


def test_numpy_is_what_the_cases_take_it_for() -> None:
    """Our own choice: the cases above need arrays of one and of no dimension."""
    assert (np.array(2).ndim, np.array([3]).shape) == (0, (1,))
