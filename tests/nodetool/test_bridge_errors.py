"""The errors of the client: their texts, one by one, and that they survive a copy."""

import copy
import pickle

import pytest

from nodetool_worker import bridge
from nodetool_worker.errors import (
    BlobTransferError,
    BridgeClosedError,
    BridgeError,
    BridgeTimeoutError,
    FrameRejectedError,
    IncompatibleWorkerError,
    RequestCancelledError,
    RequestFailedError,
    StreamLostError,
    WorkerDiedError,
    WorkerStartError,
)

CASES: list[tuple[BridgeError, str]] = [
    (
        WorkerStartError(
            "ended with status 2", command=["py", "-m", "w"], status=2, stderr_tail=["a", "b"], way_out="do x"
        ),
        "the worker `py -m w` ended with status 2; do x; the last lines on its stderr:\n  a\n  b",
    ),
    (
        IncompatibleWorkerError(0, 1),
        "the worker speaks bridge protocol 0, and 1 is the oldest that can be used; install the worker's Python "
        "environment again, with a current octonode-sdk or nodetool-core",
    ),
    (
        WorkerDiedError("ended with status 1", status=1, stderr_tail=[str(n) for n in range(200)], request_id="r1"),
        "the worker ended with status 1; the last lines on its stderr:\n"
        + "\n".join(f"  {n}" for n in range(190, 200)),
    ),
    (
        StreamLostError("a frame can't be read", request_id="r1"),
        "lost track of the worker's frames: a frame can't be read; it was ended",
    ),
    (BridgeClosedError(), "the bridge is closed; make a new one with Bridge.spawn() or Bridge.attach()"),
    (
        FrameRejectedError("`data` is 5; expected a map", type="result", request_id="r1"),
        "the worker sent a frame of type 'result' for the request 'r1' that does not fit: `data` is 5; expected a map",
    ),
    (FrameRejectedError("no map"), "the worker sent a frame without a type that does not fit: no map"),
    (
        BlobTransferError("the blob 'a' was not started", type="blob.chunk", request_id="r1"),
        "the worker sent a frame of type 'blob.chunk' for the request 'r1' that does not fit: the blob 'a' was not "
        "started",
    ),
    (
        BridgeTimeoutError("execute", 1.5, request_id="r1", way_out="wait longer"),
        "the request 'r1' (execute) got no frame for 1.5 s and was cancelled; wait longer",
    ),
    (RequestFailedError("why", "where", request_id="r1"), "why"),
    (RequestFailedError(""), "the worker gave no reason"),
    (RequestCancelledError("Node execution was cancelled"), "Node execution was cancelled"),
]


@pytest.mark.parametrize(
    ("error", "text"), CASES, ids=[type(error).__name__ + str(n) for n, (error, _) in enumerate(CASES)]
)
def test_an_error_says_what_and_why_and_survives_a_copy(error: BridgeError, text: str) -> None:
    """BRG-4, BRG-8, BRG-13, BRG-15, BRG-16, BRG-17: with all of its fields."""
    assert isinstance(error, BridgeError)
    for made in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(made) is type(error)
        assert str(made) == text
        assert made.__dict__ == error.__dict__


@pytest.mark.parametrize("name", bridge.__all__)
def test_the_room_hands_out_what_it_lists(name: str) -> None:
    """Our own choice: loaded on first use."""
    assert getattr(bridge, name).__name__ == name
    assert name in dir(bridge)


def test_the_room_has_nothing_else() -> None:
    """Our own choice: a slip in a name is an error."""
    with pytest.raises(AttributeError, match="has no attribute 'Bridges'"):
        bridge.Bridges  # noqa: B018  # the access is the test
