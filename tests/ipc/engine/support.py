"""A node that does as its inputs say, and engines around it. Every wait has a bound."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

#: Bound of each wait, in seconds: far above what any step takes on a slow machine.
PATIENCE = 30.0

#: Speaks the protocol in either mode. `do` of the inputs says what:
#: "same" answers with the inputs, "who" with its process id, "all" with the whole request; "hold" answers with the next
#: "free", the last one first; "exit" and "kill" end the process, "say" writes a raw text to stdout, "deaf" none of all.
PUPPET = """
import json, os, sys
held = []
def answer(request, outputs):
    if request["type"] == "describe":
        body = {"type": "manifest", "manifest": {"id": "puppet", "language": "python"}}
    else:
        body = {"type": "result", "outputs": outputs}
    text = json.dumps({"octonode": "1", "invocationId": request["invocationId"], "status": "ok", **body})
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()
def fail(request, error):
    print(json.dumps({"octonode": "1", "invocationId": request["invocationId"], "status": "error",
                      "type": "result", "error": error}), flush=True)
for line in iter(sys.stdin.readline, ""):
    request = json.loads(line)
    inputs = request.get("inputs", {})
    do = inputs.get("do", "same")
    if "log" in inputs:
        print(inputs["log"], file=sys.stderr, flush=True)
    if do == "same":
        answer(request, inputs)
    elif do == "who":
        answer(request, os.getpid())
    elif do == "all":
        answer(request, request)
    elif do == "hold":
        held.append(request)
    elif do == "free":
        for one in [*reversed(held), request]:
            answer(one, one["inputs"])
        held.clear()
    elif do == "exit":
        sys.exit(inputs["status"])
    elif do == "kill":
        os.kill(os.getpid(), inputs["signal"])
    elif do == "say":
        sys.stdout.write(inputs["text"])
        sys.stdout.flush()
    elif do == "fail":
        fail(request, inputs["error"])
    elif do == "fail-first":
        if request["context"]["attempt"] < inputs["until"]:
            fail(request, {"code": "RUNTIME_ERROR", "message": "not yet", "retryable": True})
        else:
            answer(request, request["context"]["attempt"])
"""


def puppet(interpreter: str) -> list[str]:
    """Return the command of the node."""
    return [interpreter, "-I", "-S", "-c", PUPPET]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until something is so; it is looked at again and again, as there is no event for it."""
    until = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not is_so():
        assert time.monotonic() < until, f"it never came to this: {what}"
        pause.wait(0.005)


def is_alive(pid: int) -> bool:
    """Tell whether a process is there, and no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return os.path.isdir("/proc/self") is False


def envelope(**keys: Any) -> dict[str, Any]:
    """Return the answer to a call with the id "i"; `keys` change it, and `...` takes one away."""
    made: dict[str, Any] = {"octonode": "1", "type": "result", "invocationId": "i", "status": "ok", "outputs": {}}
    made |= keys
    return {key: value for key, value in made.items() if value is not ...}
