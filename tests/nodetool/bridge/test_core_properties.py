"""The client's core under random bytes, orders and cuts."""

import hashlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodetool_worker.bridge.core import Answered, Failed, Lost, Part
from nodetool_worker.errors import BridgeError, WorkerDiedError
from nodetool_worker.responses import Result
from tests.nodetool.bridge.support import frame, new_core, open_request, wire

_TEXTS = st.text(max_size=5)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | _TEXTS | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_TYPES = ["discover", "result", "error", "chunk", "progress", "update", "blob.start", "blob.chunk", "blob.end", "new"]
_KEYS = st.sampled_from(["outputs", "blobs", "error", "traceback", "nodes", "name", "size", "offset", "bytes", "type"])
#: Messages that look like a worker's, with anything in them.
_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(_TYPES) | _VALUES,
        "request_id": st.sampled_from(["r1", "r2", "r9", "", None]) | _VALUES,
        "data": st.dictionaries(_KEYS, _VALUES, max_size=4) | _VALUES,
    },
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return the pieces of some bytes."""
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[start:stop] for start, stop in zip([0, *at], [*at, len(data)], strict=True)]


def feed_all(core: Any, data: bytes, places: list[int]) -> list[Any]:
    """Feed some bytes in pieces."""
    return [one for piece in cut(data, places) for one in core.feed(piece, 0.0)]


@given(st.binary(max_size=60), st.lists(st.integers(0, 100), max_size=5), st.booleans())
def test_random_bytes_are_happenings_or_the_end(data: bytes, places: list[int], validate: bool) -> None:
    """BRG-13: nothing is raised, nobody waits for ever, and the pieces do not matter."""
    shown = []
    for cuts in ([], places):
        core = new_core(validate=validate, frame_bytes=1000)
        open_request(core)
        happenings = feed_all(core, data, cuts)
        shown.append([type(one) for one in happenings])
        ended = happenings + core.end(lambda _request: WorkerDiedError("died"))
        assert sum(isinstance(one, (Answered, Failed)) for one in ended) == 1
        assert core.pending == []
        lost = [place for place, one in enumerate(happenings) if isinstance(one, Lost)]
        assert lost in ([], [len(happenings) - 1])
    assert shown[0] == shown[1]


@given(st.lists(_MESSAGES, max_size=8), st.lists(st.integers(0, 500), max_size=5), st.booleans())
def test_whatever_a_worker_sends_each_request_ends_once(messages: list[Any], places: list[int], validate: bool) -> None:
    """BRG-12, BRG-16: and an error is one of the tree."""
    core = new_core(validate=validate)
    ids = [open_request(core), open_request(core, kind="execute.stream")]
    happenings = feed_all(core, b"".join(map(wire, messages)), places)
    happenings += core.end(lambda _request: WorkerDiedError("died"))
    ends = [one for one in happenings if isinstance(one, (Answered, Failed))]
    assert sorted(one.owner for one in ends) == ids
    assert all(isinstance(one.error, BridgeError) for one in ends if isinstance(one, Failed))
    for id_ in ids:
        own = [one for one in happenings if getattr(one, "owner", None) == id_]
        assert not isinstance(own[-1], Part)


def conversation(request_id: str, contents: list[bytes], chunk_size: int) -> list[bytes]:
    """Return the frames that answer a call: some progress, its blobs in chunks, and its result."""
    frames = [frame("progress", request_id, {"progress": 1, "total": 2})]
    for number, content in enumerate(contents):
        name = f"b{number}"
        frames.append(frame("blob.start", request_id, {"name": name, "size": len(content)}))
        for offset in range(0, len(content), chunk_size):
            data = {"name": name, "offset": offset, "bytes": content[offset : offset + chunk_size]}
            frames.append(frame("blob.chunk", request_id, data))
        end = {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        frames.append(frame("blob.end", request_id, end))
    frames.append(frame("result", request_id, {"outputs": {"id": request_id}, "blobs": {}}))
    return frames


@given(st.data())
def test_answers_of_many_requests_may_be_mixed_and_cut_anywhere(data: st.DataObject) -> None:
    """BRG-11, BLB-5: each request gets its own blobs and its own result."""
    core = new_core()
    wanted, queues = {}, []
    for _ in range(data.draw(st.integers(1, 4))):
        id_ = open_request(core)
        wanted[id_] = data.draw(st.lists(st.binary(max_size=20), max_size=3))
        queues.append(conversation(id_, wanted[id_], data.draw(st.integers(1, 8))))
    mixed = bytearray()
    while queues:
        queue = queues[data.draw(st.integers(0, len(queues) - 1))]
        mixed += queue.pop(0)
        if not queue:
            queues.remove(queue)
    happenings = feed_all(core, bytes(mixed), data.draw(st.lists(st.integers(0, 1000), max_size=10)))
    found = {}
    for one in happenings:
        if isinstance(one, Answered):
            assert isinstance(one.response, Result)
            assert one.response.outputs == {"id": one.owner}
            found[one.owner] = [bytes(blob) for _, blob in sorted(one.response.blobs.items())]
        else:
            assert isinstance(one, Part)
    assert found == wanted
