"""Answers with the code TIMEOUT, which is the engine's."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "error"}
    text = json.dumps(
        {**answer, "error": {"code": "TIMEOUT", "message": "the service took too long", "retryable": False}}
    )
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
