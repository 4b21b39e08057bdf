"""Answers with an error that does not say whether it is retryable."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "error"}
    text = json.dumps({**answer, "error": {"code": "RUNTIME_ERROR", "message": "no"}})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
