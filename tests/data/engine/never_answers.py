"""Reads its requests and never answers those that are not well."""

import json
import signal
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    if request["inputs"].get("well"):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
signal.pause()  # the end of stdin does not end it either
