"""The worker as a process, fed with frames that hypothesis makes: each request whose id can be read has one answer."""

import itertools
import os
import queue
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ipc.support import PATIENCE, clean_environment

NODES = """
    import asyncio
    from collections.abc import AsyncIterator, Iterator
    from typing import Any

    from octonode_sdk import Context, node

    @node
    def echo(x: Any = None) -> Any:
        return x

    @node
    def add(a: int, b: int = 1) -> int:
        return a + b

    @node
    def fail(how: str = "") -> str:
        if how == "exit":
            raise SystemExit(how)
        if how == "base":
            raise BaseException(how)
        raise ValueError(how)

    @node
    def count(n: int, *, ctx: Context) -> Iterator[int]:
        for index in range(n % 5):
            ctx.progress(index, n)
            print(index)
            yield index

    @node
    async def later(n: int, *, ctx: Context) -> AsyncIterator[int]:
        for index in range(n % 5):
            await asyncio.sleep(0)
            ctx.log(index)
            yield index
"""

#: Frames that end a request, by type.
TERMINAL = {"result", "error", "discover"}


class Worker:
    """The process, and a thread that collects its frames."""

    def __init__(self, folder: Path) -> None:
        path = folder / "any.py"
        path.write_text(dedent(NODES), encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nodetool_worker", "--stdio", "--nodes", str(path), "--concurrency", "3"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=clean_environment(),
        )
        self._frames: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while len(head := self.process.stdout.read(4)) == 4:
            payload = self.process.stdout.read(struct.unpack(">I", head)[0])
            self._frames.put(msgpack.unpackb(payload, strict_map_key=False))
        self._frames.put(None)

    def send(self, payloads: list[bytes]) -> None:
        data = b"".join(struct.pack(">I", len(one)) + one for one in payloads)
        assert self.process.stdin is not None
        while data:
            data = data[os.write(self.process.stdin.fileno(), data) :]

    def take(self) -> dict[str, Any]:
        frame = self._frames.get(timeout=PATIENCE)
        assert frame is not None, "the worker has ended"
        return frame


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    made = Worker(tmp_path_factory.mktemp("any"))
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(PATIENCE) == 0
    assert made.process.stdout is not None
    made.process.stdout.close()


numbers = itertools.count()

#: Stands for an id that is made when the payload is sent; as long as one.
PLACE = "id-000000"


def with_new_id(payload: bytes, request_id: str | None) -> tuple[bytes, str | None]:
    """Return a payload with an id that no other request has."""
    if request_id != PLACE:
        return payload, request_id
    fresh = f"id-{next(numbers):06}"
    return payload.replace(PLACE.encode(), fresh.encode()), fresh


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=4)),
    st.datetimes().map(lambda moment: msgpack.Timestamp.from_unix_nano(moment.microsecond * 1000)),
)
keys = st.one_of(st.text(max_size=4), st.integers(-9, 9), st.none(), st.floats(-9, 9), st.binary(max_size=3))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)
types = st.sampled_from(
    ["execute", "execute.stream", "discover", "worker.status", "provider.list", "provider.foo", "job.start", "foo", ""]
)
node_types = st.sampled_from(["any.Echo", "any.Add", "any.Fail", "any.Count", "any.Later", "any.Nope", "", 5, None])
fields = st.one_of(
    values,
    st.dictionaries(
        st.sampled_from(["x", "a", "b", "how", "n"]),
        values | st.integers(0, 9) | st.sampled_from(["exit", "base"]),
        max_size=4,
    ),
)
data_maps = st.fixed_dictionaries(
    {},
    optional={
        "node_type": node_types,
        "fields": fields,
        "blobs": st.one_of(values, st.dictionaries(st.text(max_size=2), st.binary(max_size=3), max_size=2)),
        "secrets": st.dictionaries(st.text(max_size=3), st.sampled_from(["", "s3cret"]), max_size=2) | scalars,
        "node_id": scalars,
        "blob_transfer": st.sampled_from(["chunked-v1", "no", None]),
    },
)
messages = st.fixed_dictionaries({"type": types | scalars}, optional={"data": data_maps | values})
ids = st.sampled_from(["usual", "usual", "usual", "again", "none", "odd"])
damages = st.sampled_from(["no", "no", "no", "no", "cut", "behind", "byte"])


@st.composite
def payloads(draw: st.DrawFn) -> tuple[bytes, str | None]:
    """Return a payload and the id that is to be answered; None where nothing is."""
    message = dict(draw(messages))
    kind, damage = draw(ids), draw(damages)
    request_id = PLACE
    if kind == "again":
        request_id = f"again{draw(st.integers(0, 2))}"
    if kind == "odd":
        message["request_id"] = draw(st.one_of(st.just(""), st.integers(-9, 9), st.binary(max_size=3), st.none()))
    elif kind != "none":
        message = (
            {"request_id": request_id, **message} if draw(st.booleans()) else {**message, "request_id": request_id}
        )
    packed: bytes = msgpack.packb(message)
    if kind in ("none", "odd") or draw(st.integers(0, 9)) == 0:
        if draw(st.booleans()):
            return draw(st.binary(max_size=12).filter(lambda data: b"request_id" not in data)), None
        return packed if kind in ("none", "odd") else packed[:0], None
    if damage == "no" or kind == "again":
        return packed, request_id
    if damage == "behind":
        return packed + b"\x00", request_id
    if damage == "byte":
        return b"\x84" + packed[1:] if packed[0] == 0x83 else packed, request_id
    at = packed.index(request_id.encode()) + len(request_id)
    return packed[: draw(st.integers(at, len(packed)))], request_id


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    sent=st.lists(payloads(), min_size=1, max_size=12),
    cancels=st.lists(st.integers(0, 11), max_size=3),
)
def test_every_request_whose_id_can_be_read_gets_one_terminal_frame(
    worker: Worker, sent: list[tuple[bytes, str | None]], cancels: list[int]
) -> None:
    """RID-11, RID-12, RID-13: whatever else the frame holds, and whatever is sent beside it."""
    sent = [with_new_id(*one) for one in sent]
    frames = [payload for payload, _ in sent]
    for index in sorted(cancels, reverse=True):
        target = sent[index % len(sent)][1]
        if target is not None:
            frames.insert(index % len(sent) + 1, msgpack.packb({"type": "cancel", "request_id": target}))
    wanted = Counter(request_id for _, request_id in sent if request_id is not None)
    closing = f"closing{next(numbers)}"
    worker.send(frames)
    got: Counter[str] = Counter()
    while sum(got.values()) < sum(wanted.values()):
        frame = worker.take()
        request_id = frame["request_id"]
        if request_id is None:
            assert frame["type"] == "error"
            continue
        assert got[request_id] < wanted[request_id], f"a frame behind the last one of its request: {frame}"
        got[request_id] += frame["type"] in TERMINAL
    assert got == wanted
    worker.send([msgpack.packb({"type": "worker.status", "request_id": closing})])
    while (frame := worker.take())["request_id"] != closing:
        assert frame["request_id"] is None, frame
