"""Fails with the error that its inputs give, until the attempt that they name."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    attempt = request["context"]["attempt"]
    if attempt < request["inputs"]["until"]:
        text = json.dumps({**answer, "status": "error", "error": request["inputs"]["error"]})
    else:
        text = json.dumps({**answer, "outputs": request["context"]})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
