"""Can't describe itself."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "manifest", "invocationId": request["invocationId"], "status": "error"}
    error = {"code": "VALIDATION_ERROR", "message": "there is no node of that name", "retryable": False}
    text = json.dumps({**answer, "error": error})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
