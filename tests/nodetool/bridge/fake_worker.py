"""A worker that does what it is told, faults included. Started as a script; it uses nothing of the packages.

How it starts is said by its arguments, what it answers by the request: `execute` of the node type `fake.Frames` sends
the frames in `fields["frames"]`, each with the request's id unless it has one.
"""

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from typing import Any

import msgpack

FAULTS = set(sys.argv[1:])
OUT = os.dup(1)
os.dup2(2, 1)
LOCK = threading.Lock()


def send_bytes(data: bytes) -> None:
    """Write bytes to the host, whole."""
    view = memoryview(data)
    with LOCK:
        while view:
            view = view[os.write(OUT, view) :]


def send(message: Any) -> None:
    """Write a frame."""
    payload = msgpack.packb(message)
    send_bytes(struct.pack(">I", len(payload)) + payload)


def log(text: str) -> None:
    """Write to stderr."""
    os.write(2, text.encode())


def read_exactly(count: int) -> bytes | None:
    """Read so many bytes of stdin; None at its end."""
    data = bytearray()
    while len(data) < count:
        more = os.read(0, min(1 << 20, count - len(data)))
        if not more:
            return None
        data += more
    return bytes(data)


def read() -> Any:
    """Read a message; None at the end."""
    head = read_exactly(4)
    if head is None:
        return None
    payload = read_exactly(struct.unpack(">I", head)[0])
    return None if payload is None else msgpack.unpackb(payload, max_bin_len=1 << 30)


def version() -> dict[str, Any]:
    """Return the version that it was told to have."""
    for fault in FAULTS:
        if fault.startswith("version="):
            return {"protocol_version": int(fault.partition("=")[2])}
    return {} if "no-version" in FAULTS else {"protocol_version": 6}


def execute(request_id: str, data: dict[str, Any]) -> None:
    """Answer a call."""
    fields = data["fields"]
    name = data["node_type"].partition(".")[2]
    result: dict[str, Any] = {"type": "result", "request_id": request_id, "data": {"outputs": {}, "blobs": {}}}
    if name == "Echo":
        result["data"] = {"outputs": fields, "blobs": data["blobs"]}
        send(result)
    elif name == "Ask":
        result["data"]["outputs"] = {"asked": {key: value for key, value in data.items() if key != "blobs"}}
        send(result)
    elif name == "Frames":
        for frame in fields["frames"]:
            send({"request_id": request_id, **frame})
    elif name == "Bytes":
        send_bytes(fields["bytes"])
    elif name == "Exit":
        log(fields.get("says", "about to leave\n"))
        os._exit(fields["status"])
    elif name == "Kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "Half":
        send_bytes(struct.pack(">I", 100) + b"half of it")
        os._exit(0)
    elif name == "Flood":
        for number in range(fields["lines"]):
            log(f"{number} " + "x" * 100 + "\n")
        send(result)
    elif name == "CloseStdout":
        os.close(OUT)
    elif name == "Child":
        child = subprocess.Popen(["sleep", "1000"], stdout=OUT if fields.get("holds_stdout") else None)
        result["data"]["outputs"] = {"pid": child.pid}
        send(result)
    elif name != "Never":
        error = {"error": f"Unknown node type: {data['node_type']}"}
        send({"type": "error", "request_id": request_id, "data": error})


def answer(message: dict[str, Any]) -> None:
    """Answer a message."""
    type_, request_id = message["type"], message["request_id"]
    if type_ == "discover":
        nodes = [{"node_type": "fake.Echo", "requires_vram_gb": 2.5}, {"node_type": "fake.Ask"}]
        send({"type": "discover", "request_id": request_id, "data": {**version(), "nodes": nodes, "load_errors": []}})
    elif type_ == "worker.status" and "no-status" not in FAULTS:
        status = {**version(), "node_count": 2, "comfy": {"enabled": True}, "blender": {"enabled": "blender" in FAULTS}}
        status["model_prepare_backends"] = ["wan"]
        send({"type": "result", "request_id": request_id, "data": status})
    elif type_ in ("execute", "execute.stream"):
        execute(request_id, message["data"])
    elif type_ == "cancel":
        log(f"cancel {request_id}\n")
        send({"type": "error", "request_id": request_id, "data": {"error": "Node execution was cancelled"}})
    else:
        error = {"error": f"Unknown message type: {type_}"}
        send({"type": "error", "request_id": request_id, "data": error})


def main() -> int:
    """Start as told, and answer until the end of stdin."""
    if "die" in FAULTS:
        log("first line\nlast line")
        return 3
    if "no-stdio" in FAULTS:
        log("usage: worker [-h]\nworker: error: unrecognized arguments: --stdio\n")
        return 2
    if "ignore-term" in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "split-ready" in FAULTS:
        for piece in ("Loading...\nsome line NODETOOL_ST", "DIO_RE", "ADY"):
            log(piece)
            time.sleep(0.05)  # so that each comes in a read of its own
    elif "never-ready" in FAULTS:
        log("importing a very large package\n")
    else:
        log("NODETOOL_STDIO_READY\n")
    while (message := read()) is not None:
        answer(message)
    if "ignore-end" in FAULTS:
        log("stays\n")
        while True:
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
