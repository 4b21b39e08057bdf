"""Answers with more keys than the protocol has."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    text = json.dumps({**answer, "took": 5, "error": None, "node": {"version": "9"}})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
