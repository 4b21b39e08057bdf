"""Answers a moment after the deadline."""

import json
import sys
import time

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    if "deadlineMs" in request["context"] and not request["inputs"].get("well"):
        time.sleep(request["context"]["deadlineMs"] / 1000 + 0.2)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
