"""Answers with JSON that is no envelope."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    text = json.dumps({"greeting": "Hello", "answer": answer})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
