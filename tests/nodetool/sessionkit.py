"""A session in memory: nodes of a source, an outbox over a pipe on paper, and what the host would have read."""

import threading
from contextvars import copy_context
from typing import Any

import msgpack

from nodetool_worker.calls import Call
from nodetool_worker.frames import FrameSplitter
from nodetool_worker.inventory import Inventory, Listed
from nodetool_worker.metadata import node_type_of
from nodetool_worker.outbox import Outbox
from nodetool_worker.worker import Session, Worker
from octonode_sdk.lanes import LoopThread
from octonode_sdk.nodes import node_of

__all__ = ["PATIENCE", "TERMINAL", "Frame", "Host", "PaperPipe", "inventory_of"]

Frame = dict[str, Any]

#: Bound of each wait, in seconds.
PATIENCE = 30.0

TERMINAL = ("result", "error", "discover")


class PaperPipe:
    """A pipe that keeps what is written; it may be shut, and have room for so many bytes only."""

    def __init__(self) -> None:
        self._written = bytearray()
        self.writes = self.waits = 0
        #: Bytes that still fit; None for any number.
        self.room: int | None = None
        #: Room that each further write which must not wait finds.
        self.room_steps: list[int] = []
        self.is_waited_for = threading.Event()
        self._is_open = threading.Event()
        self._is_open.set()
        self._is_dead = False
        self._users = threading.Lock()

    @property
    def written(self) -> bytes:
        """All that was written."""
        return bytes(self._written)

    def shut(self) -> None:
        """Let writes wait, as where the host does not read."""
        self._is_open.clear()
        self.is_waited_for.clear()

    def open(self) -> None:
        """Let writes go on."""
        self._is_open.set()

    def die(self) -> None:
        """Let nobody be there any more who reads."""
        self._is_dead = True

    def write(self, pieces: list[bytes | memoryview], *, block: bool) -> bool:
        """Write pieces, as `Pipe` says."""
        assert self._users.acquire(blocking=False), "two threads write at once"
        try:
            return self._write(pieces, block=block)
        finally:
            self._users.release()

    def _write(self, pieces: list[bytes | memoryview], *, block: bool) -> bool:
        if self._is_dead:
            pieces.clear()
            return True
        if pieces:
            self.writes += 1
        if not self._is_open.is_set():
            if not block:
                return not pieces
            self.waits += 1
            self.is_waited_for.set()
            assert self._is_open.wait(PATIENCE), "the pipe was never opened"
        room = self.room if self.room is None or not block else None
        if not block and self.room_steps:
            room = self.room_steps.pop(0)
        while pieces:
            piece = memoryview(pieces[0])
            count = len(piece) if room is None else min(room, len(piece))
            self._written += piece[:count]
            if room is not None:
                room -= count
                self.room = room if self.room is not None else None
            if count < len(piece):
                pieces[0] = piece[count:]
                return False
            del pieces[0]
        return True


def inventory_of(names: dict[str, Any], namespace: str = "t") -> Inventory:
    """Return the nodes of a module's names."""
    found: dict[str, Listed] = {}
    for value in names.values():
        try:
            node = node_of(value)
        except (KeyError, AttributeError, TypeError):  # no node
            continue
        found[node_type_of(node, namespace)] = Listed(node, namespace, "t")
    return Inventory(found, [], [namespace])


#: The loop for all tests: like the worker's, it runs for as long as the process.
_LOOP = LoopThread()


class Host:
    """A session with these nodes, and what a host sends to it and reads from it.

    Args:
        names: The names of a module of nodes; a node `run_it` is there as `t.RunIt`.
        limit_bytes: Most bytes of a payload.
    """

    def __init__(self, names: dict[str, Any], *, limit_bytes: int = 1 << 28) -> None:
        self.pipe = PaperPipe()
        self.woken = threading.Event()
        self.outbox = Outbox(self.pipe, self.woken.set)
        self.inventory = inventory_of(names)
        self.worker = Worker(self.inventory, _LOOP, limit_bytes=limit_bytes, transport="stdio")
        self.session = Session(self.worker, self.outbox)
        self._splitter = FrameSplitter(1 << 30)
        self._read = 0
        self._frames: list[Frame] = []

    def send(self, type_: Any, id_: Any = "q", data: Any = None, **more: Any) -> Call | None:
        """Send a message; return the call that is to be served."""
        message = {"type": type_, "request_id": id_, "data": {} if data is None else data, **more}
        return self.session.take(msgpack.packb(message))

    def ask(self, node: str, id_: str = "q", *, stream: bool = False, more: Frame | None = None, **fields: Any) -> Any:
        """Ask for a call of a node; return it, to be served."""
        data = {"node_type": f"t.{node}", "fields": fields, **(more or {})}
        return self.send("execute.stream" if stream else "execute", id_, data)

    def serve(self, call: Call) -> None:
        """Serve a call, as a lane does."""
        copy_context().run(self.session.serve, call)
        self.outbox.pump()

    def start(self, call: Call) -> threading.Event:
        """Serve a call on a thread; return the event of its end."""
        ended = threading.Event()

        def run() -> None:
            self.serve(call)
            ended.set()

        threading.Thread(target=run, daemon=True).start()
        return ended

    def run(self, node: str, *, id_: str = "q", stream: bool = False, more: Frame | None = None, **fields: Any) -> Any:
        """Ask for a call, serve it, and return its frames; the last one is its terminal frame, and the only one."""
        before = len(self.frames(id_))
        self.serve(self.ask(node, id_, stream=stream, more=more, **fields))
        found = self.frames(id_)[before:]
        assert [frame["type"] in TERMINAL for frame in found] == [False] * (len(found) - 1) + [True]
        return found

    def data(self, node: str, **arguments: Any) -> Frame:
        """Return the data of the terminal frame of a call."""
        found: Frame = self.run(node, **arguments)[-1]["data"]
        return found

    def outputs(self, node: str, **arguments: Any) -> Frame:
        """Return the outputs of a call that succeeds."""
        found = self.data(node, **arguments)
        assert "outputs" in found, found
        assert found["blobs"] == {}
        outputs: Frame = found["outputs"]
        return outputs

    def error(self, node: str, **arguments: Any) -> str:
        """Return the text of a call that fails."""
        found = self.data(node, **arguments)
        assert "error" in found, found
        assert isinstance(found.get("traceback", ""), str)
        text: str = found["error"]
        assert text
        return text

    def frames(self, id_: str | None = None) -> list[Frame]:
        """Return the frames that were written so far, or those of one request."""
        self.outbox.settle()
        written = self.pipe.written[self._read :]
        self._read += len(written)
        self._frames += [msgpack.unpackb(payload) for payload in self._splitter.feed(written)]
        return [frame for frame in self._frames if id_ is None or frame["request_id"] == id_]

    def logs(self, id_: str = "q") -> list[tuple[str, str]]:
        """Return severity and text of each log update of a request."""
        found = [frame["data"] for frame in self.frames(id_) if frame["type"] == "update"]
        return [(one["severity"], one["content"]) for one in found if one["type"] == "log_update"]
