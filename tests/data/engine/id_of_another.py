"""Answers under the id that its inputs name, which may be that of another call."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    text = json.dumps({**answer, "invocationId": request["inputs"]["as"]})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
