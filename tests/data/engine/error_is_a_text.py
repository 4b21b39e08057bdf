"""Answers with an error that is a text."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "error"}
    text = json.dumps({**answer, "error": "it did not work"})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
