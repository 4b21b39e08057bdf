"""A worker as a process: start it on a node file, send messages, read frames. Every wait has a bound.

The wire is read here as the published page describes it, with `struct` and `msgpack` alone, and each frame is held to
what a host checks under NODETOOL_VALIDATE_BRIDGE_FRAMES.
"""

import os
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, NoReturn

import msgpack

from tests.ipc.support import PATIENCE, Outcome, Process, clean_environment, inherited_signals, write_nodes

__all__ = [
    "CANCELLED",
    "READY",
    "Frame",
    "Worker",
    "cancel",
    "command",
    "discover",
    "environment_of",
    "error_of",
    "execute",
    "framed",
    "kinds_of",
    "logs_of",
    "memory_of",
    "message",
    "outputs_of",
    "read_frame",
    "status",
]

Frame = dict[str, Any]

READY = "NODETOOL_STDIO_READY"

#: The text of the error that ends a cancelled call (CAN-6).
CANCELLED = "Node execution was cancelled"

_LENGTH = Struct(">I")
_TERMINAL = ("result", "error", "discover")
_TYPES = (*_TERMINAL, "chunk", "progress", "update")


# What the host sends


def framed(payload: bytes) -> bytes:
    """Return the frame of a payload."""
    return _LENGTH.pack(len(payload)) + payload


def message(type_: str, id_: Any = "i", data: Any = None) -> bytes:
    """Return the frame of a message."""
    packed: bytes = msgpack.packb({"type": type_, "request_id": id_, "data": {} if data is None else data})
    return framed(packed)


def execute(node: str, id_: str = "i", *, stream: bool = False, more: Frame | None = None, **fields: Any) -> bytes:
    """Return the frame that asks for a call of a node of the node file; `more` are further keys of its data."""
    data = {"node_type": f"nodes.{node}", "fields": fields, "secrets": {}, "blobs": {}, **(more or {})}
    return message("execute.stream" if stream else "execute", id_, data)


def cancel(id_: str = "i") -> bytes:
    """Return the frame that cancels a request."""
    return message("cancel", id_)


def discover(id_: str = "discover") -> bytes:
    """Return the frame of a `discover`."""
    return message("discover", id_)


def status(id_: str = "status") -> bytes:
    """Return the frame of a `worker.status`."""
    return message("worker.status", id_)


# What the worker sends


def read_frame(stream: BinaryIO) -> Frame | None:
    """Read one frame; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    assert len(head) == _LENGTH.size, "the stream ends inside a length (FRM-19)"
    (size,) = _LENGTH.unpack(head)
    payload = stream.read(size)
    assert len(payload) == size, f"the stream ends inside a payload of {size} bytes, after {len(payload)} (FRM-19)"
    return check_frame(msgpack.unpackb(payload, ext_hook=_refuse_ext, timestamp=0, strict_map_key=True))


def _refuse_ext(code: int, data: bytes) -> NoReturn:
    raise AssertionError(f"an ext value of type {code}: {data!r} (VAL-12)")


def check_frame(frame: Any) -> Frame:
    """Hold a frame to what a host that validates asks of it (FRM-18, BRG-12), and return it."""
    assert isinstance(frame, dict)
    assert set(frame) == {"type", "request_id", "data"}
    type_, id_, data = frame["type"], frame["request_id"], frame["data"]
    assert type_ in _TYPES
    assert isinstance(data, dict)
    assert (isinstance(id_, str) and id_) or (id_ is None and type_ == "error"), shown(frame)
    if type_ == "error":
        assert isinstance(data["error"], str) and data["error"]  # noqa: PT018  # one fact: a text that says something
        assert isinstance(data.get("traceback", ""), str)  # absent and never nil
        assert set(data) <= {"error", "traceback"}
    elif type_ == "chunk":
        assert isinstance(data["outputs"], dict)
        assert isinstance(data["blobs"], dict)
    elif type_ == "progress":
        assert set(data) == {"progress", "total", "message"}
        assert all(type(data[name]) in (int, float) for name in ("progress", "total"))
    elif type_ == "update":
        assert data["type"] in ("log_update", "preview_update", "binary_update")
    elif type_ == "discover":
        assert all(isinstance(node["node_type"], str) for node in data["nodes"])
        assert all(isinstance(error["error"], str) for error in data["load_errors"])
    return frame


def shown(frame: Frame) -> str:
    """Return the beginning of what a frame says."""
    return repr(frame)[:2000]


def kinds_of(frames: list[Frame]) -> list[str]:
    """Return the types of frames."""
    return [frame["type"] for frame in frames]


def outputs_of(frames: list[Frame]) -> Any:
    """Return the outputs of a request that has succeeded."""
    last = frames[-1]
    assert last["type"] == "result", shown(last)
    assert last["data"]["blobs"] == {}
    return last["data"]["outputs"]


def error_of(frames: list[Frame]) -> str:
    """Return the text of the error of a request that has failed."""
    last = frames[-1]
    assert last["type"] == "error", shown(last)
    text: str = last["data"]["error"]
    return text


def logs_of(frames: list[Frame]) -> list[str]:
    """Return the texts of the log updates among frames."""
    updates = [frame["data"] for frame in frames if frame["type"] == "update"]
    return [data["content"] for data in updates if data["type"] == "log_update"]


# The process


def command(*arguments: object) -> list[str]:
    """Return the command line of a worker."""
    return [sys.executable, "-m", "nodetool_worker", "--stdio", *map(str, arguments)]


def environment_of(**more: str) -> dict[str, str]:
    """Return the environment without variables that change what is tested."""
    kept = clean_environment()
    return {name: value for name, value in kept.items() if not name.startswith("NODETOOL_")} | more


def memory_of(pid: int, field: str = "VmRSS") -> int:
    """Return a size of a process's memory in bytes, by the name that it has in /proc/PID/status."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith(field + ":")]
    return int(line.split()[1]) * 1024


class Worker(Process):
    """A worker that goes on while the test looks at it; see `Process`, whose lines are frames here.

    Args:
        folder: Where the node file is, and the process's folder.
        source: The node file, without HEAD.
        arguments: What follows `--nodes FILE` on the command line.
        reads: Whether threads read stdout and stderr; without one its pipe fills up.
        ignores: Signals that the process starts with as ignored.
        line: The command line before `--nodes`, instead of that of `command`.
        stderr: Where stderr goes instead of a pipe: a descriptor.
        environment: Variables to add.
    """

    def __init__(
        self,
        folder: Path,
        source: str,
        *arguments: object,
        reads: tuple[str, ...] = ("stdout", "stderr"),
        ignores: tuple[int, ...] = (),
        line: list[str] | None = None,
        stderr: int = subprocess.PIPE,
        **environment: str,
    ) -> None:
        path = write_nodes(folder, source)
        with inherited_signals(ignores):
            self.process = subprocess.Popen(
                [*(line or command()), f"--nodes={path}", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder,
                env=environment_of(**environment),
            )
        if self.process.stderr is None:
            self.process.stderr = open(os.devnull, "rb")  # noqa: SIM115  # closed with the other streams
        self._errors = bytearray()
        self._told = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._frames: deque[Frame | None] = deque()
        self._fault: BaseException | None = None
        self._came = threading.Condition()
        if "stdout" in reads:
            self.read_stdout()
        if "stderr" in reads and stderr == subprocess.PIPE:
            self.read_stderr()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def _read_stdout(self) -> None:
        frame: Frame | None = {}
        while frame is not None:
            try:
                frame = read_frame(self.stdout)  # type: ignore[arg-type]  # IO[bytes] is the same by another name
            except Exception as error:  # noqa: BLE001  # told to the test by its next wait
                self._fault, frame = error, None
            with self._came:
                self._frames.append(frame)
                self._came.notify_all()

    def send(self, *messages: bytes) -> None:
        """Send frames."""
        self.stdin.write(b"".join(messages))
        self.stdin.flush()

    def _take(self, id_: str | None, *, any_id: bool = False) -> Frame | None:
        """Return the next frame with an id, or of any; None at the end of stdout."""

        def find() -> int:
            for at, frame in enumerate(self._frames):
                if frame is None or any_id or frame["request_id"] == id_:
                    return at
            return -1

        with self._came:
            came = self._came.wait_for(lambda: find() >= 0, PATIENCE)
            assert came, f"no frame for {id_!r}; stderr: ...{self.stderr[-2000:]}"
            at = find()
            frame = self._frames[at]
            if frame is not None:
                del self._frames[at]
        if self._fault is not None:
            raise self._fault
        return frame

    def answer(self) -> Frame:
        """Return the next frame, whatever its id."""
        frame = self._take(None, any_id=True)
        assert frame is not None, f"stdout has ended; stderr: ...{self.stderr[-2000:]}"
        return frame

    def frame(self, id_: str | None = "i") -> Frame:
        """Return the next frame with this id; those of others stay."""
        frame = self._take(id_)
        assert frame is not None, f"stdout has ended before {id_!r} had its answer; stderr: ...{self.stderr[-2000:]}"
        return frame

    def until_end(self, id_: str = "i") -> list[Frame]:
        """Return the frames of a request, its terminal frame the last."""
        frames = [self.frame(id_)]
        while frames[-1]["type"] not in _TERMINAL:
            frames.append(self.frame(id_))
        return frames

    def call(self, node: str, id_: str = "i", **fields: Any) -> list[Frame]:
        """Execute a node and return the frames of the call."""
        self.send(execute(node, id_, **fields))
        return self.until_end(id_)

    def rest(self) -> list[Frame]:
        """Return the frames that are left, up to the end of stdout."""
        found = []
        while (frame := self._take(None, any_id=True)) is not None:
            found.append(frame)
        return found

    def finish(self) -> Outcome:
        """End the input, wait for the process, and return what it left; frames that were taken are not among it."""
        self.close()
        return self.outcome()

    def outcome(self) -> Outcome:
        """Wait for the process and return what it left."""
        code = self.wait()
        frames = self.rest()
        for thread in self._threads:
            thread.join(PATIENCE)
        return Outcome(code, b"", self.stderr, frames)
