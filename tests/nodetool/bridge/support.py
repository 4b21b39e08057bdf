"""A worker played by the test, over pipes, and a core played on paper. Every wait has a bound."""

import os
import select
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgpack

from nodetool_worker.bridge.client import Bridge
from nodetool_worker.bridge.core import CALL, Answered, Core, Failed, Fault, Lost, Part, Send, Warned
from nodetool_worker.bridge.limits import Limits

#: Bound of each wait, in seconds: far above what any step takes on a slow machine.
PATIENCE = 30.0

FAKE_WORKER = Path(__file__).with_name("fake_worker.py")


def fake_command(*faults: str) -> list[str]:
    """Return the command line of the fake worker."""
    return [sys.executable, str(FAKE_WORKER), *faults]


def frame(type_: str, request_id: Any = "r1", data: Any = None) -> bytes:
    """Return a frame as a worker sends it."""
    return wire({"type": type_, "request_id": request_id, "data": {} if data is None else data})


def wire(message: Any) -> bytes:
    """Return the frame of any value."""
    payload = msgpack.packb(message)
    return struct.pack(">I", len(payload)) + payload


def result(request_id: str = "r1", **outputs: Any) -> bytes:
    """Return the result of a call."""
    return frame("result", request_id, {"outputs": outputs, "blobs": {}})


def read_frames(data: bytes) -> list[Any]:
    """Return the messages of whole frames."""
    found = []
    while data:
        (size,) = struct.unpack(">I", data[:4])
        found.append(msgpack.unpackb(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


def read_frame(written: Any) -> Any:
    """Return the one message of a frame that our side made."""
    (message,) = read_frames(written if isinstance(written, bytes) else b"".join(written))
    return message


def counting_ids() -> Callable[[], str]:
    """Return a maker of the ids r1, r2, r3..."""
    numbers = count(1)
    return lambda: f"r{next(numbers)}"


def new_core(*, validate: bool = False, **limits: Any) -> Core:
    """Return a core that makes the ids r1, r2, r3..."""
    return Core(new_id=counting_ids(), limits=Limits(**limits), validate=validate)


def open_request(
    core: Core, *, kind: str = CALL, type_: str = "execute", seconds: float | None = None, now: float = 0.0
) -> str:
    """Open a request whose owner is its own id, and return the id."""
    request = core.prepare(type_, {}, None, kind=kind, seconds=seconds)
    request.owner = request.request_id
    core.open(request, now)
    return request.request_id


def told(happenings: list[Any]) -> list[Any]:
    """Return happenings as plain tuples, which compare."""
    shown: list[Any] = []
    for one in happenings:
        if isinstance(one, Answered):
            shown.append(("answered", one.owner, one.response.data))
        elif isinstance(one, Failed):
            shown.append(("failed", one.owner, type(one.error).__name__, str(one.error)))
        elif isinstance(one, Part):
            shown.append(("part", one.owner, one.response.type, one.response.data))
        elif isinstance(one, Send):
            message = read_frame(one.frame)
            shown.append(("send", message["type"], message["request_id"]))
        elif isinstance(one, Fault):
            shown.append(("fault", str(one.error)))
        elif isinstance(one, Warned):
            shown.append(("warned", one.text))
        else:
            assert isinstance(one, Lost)
            shown.append(("lost", one.problem))
    return shown


class Played:
    """A worker that the test plays: it takes the requests of a bridge and answers by hand."""

    def __init__(self) -> None:
        self.requests_fd, self.bridge_writes = os.pipe()
        self.bridge_reads, self.answers_fd = os.pipe()
        self._ends = {"requests": self.requests_fd, "answers": self.answers_fd}

    def _read_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            ready, _, _ = select.select([self.requests_fd], [], [], PATIENCE)
            assert ready, "the bridge has sent nothing"
            more = os.read(self.requests_fd, size - len(data))
            assert more, "the bridge has closed its side"
            data += more
        return bytes(data)

    def take(self, type_: str | None = None) -> Any:
        """Return the next message of the bridge."""
        (size,) = struct.unpack(">I", self._read_exactly(4))
        message = msgpack.unpackb(self._read_exactly(size))
        assert type_ is None or message["type"] == type_, message
        return message

    def sees_end(self) -> bool:
        """Wait until the bridge has closed its side; return False if something else comes."""
        ready, _, _ = select.select([self.requests_fd], [], [], PATIENCE)
        return bool(ready) and os.read(self.requests_fd, 1) == b""

    def send(self, *frames: bytes) -> None:
        """Send frames, or any bytes."""
        for data in frames:
            view = memoryview(data)
            while view:
                view = view[os.write(self.answers_fd, view) :]

    def answer(self, message: Any, **outputs: Any) -> None:
        """Send the result of a request."""
        self.send(result(message["request_id"], **outputs))

    def end(self, which: str) -> None:
        """Close one of its ends: "answers" or "requests"."""
        os.close(self._ends.pop(which))

    def close(self) -> None:
        """Close both."""
        for which in list(self._ends):
            self.end(which)


@contextmanager
def played(**options: Any) -> Iterator[tuple[Played, Bridge]]:
    """Attach a bridge to a worker that the test plays; without a handshake unless asked for."""
    worker = Played()
    given: dict[str, Any] = {"handshake": False, "new_id": counting_ids(), "limits": Limits(), **options}
    bridge = Bridge.attach(worker.bridge_reads, worker.bridge_writes, **given)
    try:
        yield worker, bridge
    finally:
        worker.close()
        bridge.close(0)


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """Run something beside the test; `result(PATIENCE)` waits for it."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def plain_bytes(value: Any) -> Any:
    """Return a value of a case with `{"$bytes": "00ff"}` made into bytes."""
    if isinstance(value, dict):
        if set(value) == {"$bytes"}:
            return bytes.fromhex(value["$bytes"])
        return {key: plain_bytes(one) for key, one in value.items()}
    return [plain_bytes(one) for one in value] if isinstance(value, list) else value
