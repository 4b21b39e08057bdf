"""The worker's frames as a host sends and reads them. Pure: nothing here knows of a process.

A frame is the length of the message, 4 bytes big-endian, and the message: `{type, request_id, data}` in MessagePack.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final
from uuid import UUID

import msgpack

from contenders import ContenderError

HEADER: Final = Struct(">I")

ADDEND: Final = 0.5
"""What each request adds to its own number. A fraction, so that each sum has its 8 bytes."""


def frame(kind: str, request_id: str, data: Mapping[str, Any]) -> bytes:
    """Return one message with its length before it."""
    payload: bytes = msgpack.packb({"type": kind, "request_id": request_id, "data": data})
    return HEADER.pack(len(payload)) + payload


def request_id(number: int) -> str:
    """Return a request id in the form that the host uses."""
    return str(UUID(int=number))


def execute(kind: str, number: int, node_type: str, fields: Mapping[str, Any]) -> bytes:
    """Return a request to run a node, with the four keys that the host always sends."""
    data = {"node_type": node_type, "fields": fields, "secrets": {}, "blobs": {}}
    return frame(kind, request_id(number), data)


def additions(node_type: str, count: int, *, first: int = 0) -> list[bytes]:
    """Return `count` requests to add `ADDEND` to a number; numbers and ids count from `first` on."""
    return [
        execute("execute", number, node_type, {"a": float(number), "b": ADDEND})
        for number in range(first, first + count)
    ]


def is_whole(answer: bytes) -> bool:
    """Tell whether `answer` holds its first frame to the end.

    Example:
        >>> [is_whole(piece) for piece in (b"", b"\\0\\0\\0\\2a", b"\\0\\0\\0\\2ab", b"\\0\\0\\0\\2abc")]
        [False, False, True, True]
    """
    return len(answer) >= 4 and len(answer) >= 4 + HEADER.unpack_from(answer)[0]


def count_whole(buffer: bytes) -> tuple[int, int]:
    """Count the whole frames at the start of `buffer`.

    Returns:
        How many, and how many bytes they take.

    Example:
        >>> count_whole(b"\\0\\0\\0\\1a\\0\\0\\0\\0\\0\\0\\0\\2b")
        (2, 9)
    """
    count, start, end = 0, 0, len(buffer)
    unpack = HEADER.unpack_from
    while end - start >= 4:
        after = start + 4 + unpack(buffer, start)[0]
        if after > end:
            break
        count, start = count + 1, after
    return count, start


def messages(contender: str, answers: bytes) -> list[dict[str, Any]]:
    """Return the messages of all frames in `answers`.

    Raises:
        ContenderError: A frame is cut short, or holds no map.
    """
    found: list[dict[str, Any]] = []
    start, end = 0, len(answers)
    while start < end:
        body = start + HEADER.size
        after = body + HEADER.unpack_from(answers, start)[0] if body <= end else body
        if after > end:
            raise ContenderError(contender, "the last frame is cut short")
        found.append(message(contender, answers[body:after]))
        start = after
    return found


def message(contender: str, payload: bytes) -> dict[str, Any]:
    """Return the message in `payload`, a frame without its length.

    Raises:
        ContenderError: It is no map in MessagePack.
    """
    try:
        value = msgpack.unpackb(payload)
    except ValueError as error:
        raise ContenderError(contender, f"an answer is not MessagePack: {payload[:200]!r}") from error
    if not isinstance(value, dict):
        raise ContenderError(contender, f"an answer is not a map: {payload[:200]!r}")
    return value


def check_sums(contender: str, answers: bytes, *, count: int, first: int = 0) -> None:
    """Refuse answers to `additions` that are not one right result for each request, in any order.

    Raises:
        ContenderError: The count, an id or a sum is wrong.
    """
    open_sums = {request_id(number): number + ADDEND for number in range(first, first + count)}
    for answer in messages(contender, answers):
        total = open_sums.pop(answer.get("request_id", ""), None)
        if total is None:
            raise ContenderError(contender, f"answered twice, or never asked: {answer!r:.500}")
        right = {
            "type": "result",
            "request_id": answer["request_id"],
            "data": {"outputs": {"output": total}, "blobs": {}},
        }
        if answer != right:
            raise ContenderError(contender, f"wrong answer to {total - ADDEND} + {ADDEND}: {answer!r:.500}")
    if open_sums:
        raise ContenderError(contender, f"{len(open_sums)} of {count} requests have no answer")


def nodes(contender: str, discovered: Mapping[str, Any]) -> list[str]:
    """Return the type of each node in the answer to `discover`.

    Raises:
        ContenderError: There is none, or something could not be loaded.
    """
    types = [entry["node_type"] for entry in discovered.get("nodes", ())]
    errors = discovered.get("load_errors")
    if errors or not types:
        raise ContenderError(contender, f"offers {len(types)} nodes; errors: {errors!r:.500}")
    return types


def node_type(contender: str, discovered: Mapping[str, Any], name: str) -> str:
    """Return the full type of the node whose last part is `name`, from the answer to `discover`.

    Raises:
        ContenderError: It is not there exactly once.
    """
    types = nodes(contender, discovered)
    fitting = [kind for kind in types if kind.rpartition(".")[2] == name]
    if len(fitting) != 1:
        raise ContenderError(contender, f"offers {fitting or types} where one {name!r} is expected")
    return fitting[0]
