"""Answers in the reverse order of the requests, once it has as many as they say, with its inputs and its id."""

import json
import os
import sys
from typing import Any

waiting: list[dict[str, Any]] = []
for line in sys.stdin:
    request = json.loads(line)
    waiting.append(request)
    if len(waiting) == request["inputs"]["count"]:
        while waiting:
            last = waiting.pop()
            answer = {"octonode": "1", "type": "result", "invocationId": last["invocationId"], "status": "ok"}
            outputs = {**last["inputs"], "pid": os.getpid()}
            sys.stdout.write(json.dumps({**answer, "outputs": outputs}) + "\n")
        sys.stdout.flush()
