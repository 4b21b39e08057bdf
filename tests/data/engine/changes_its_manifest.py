"""Describes itself differently each time."""

import json
import os
import sys

for line in sys.stdin:
    request = json.loads(line)
    manifest = {"id": f"node{os.getpid()}", "language": "python"}
    answer = {"octonode": "1", "type": "manifest", "invocationId": request["invocationId"], "status": "ok"}
    text = json.dumps({**answer, "manifest": manifest})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
