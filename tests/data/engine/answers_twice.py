"""Answers each request twice."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    sys.stdout.write(f"{text}\n{text}\n")
    sys.stdout.flush()
