"""Answers an invoke with a manifest."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    manifest = {"id": "a", "language": "python"}
    answer = {"octonode": "1", "type": "manifest", "invocationId": request["invocationId"], "status": "ok"}
    text = json.dumps({**answer, "manifest": manifest})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
