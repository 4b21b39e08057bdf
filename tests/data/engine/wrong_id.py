"""Answers under an id that nobody has."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    if not request["inputs"].get("well"):
        text = json.dumps({**answer, "invocationId": "nobody"})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
