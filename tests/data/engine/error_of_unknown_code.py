"""Answers with an error of a code that the protocol does not know."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "error"}
    text = json.dumps({**answer, "error": {"code": "OUT_OF_MEMORY", "message": "no", "retryable": True}})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
