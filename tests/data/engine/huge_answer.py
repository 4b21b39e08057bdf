"""Answers with 40 MB."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    text = json.dumps({**answer, "outputs": "0123456789" * 4_000_000})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
