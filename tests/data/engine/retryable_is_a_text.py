"""Answers with an error whose `retryable` is a text."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "error"}
    text = json.dumps({**answer, "error": {"code": "RUNTIME_ERROR", "message": "no", "retryable": "yes"}})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
