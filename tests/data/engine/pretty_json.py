"""Answers with JSON over several lines."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    sys.stdout.buffer.write(json.dumps(answer, indent=2).encode() + b"\n")
    sys.stdout.buffer.flush()
