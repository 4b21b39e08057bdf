"""Answers a request that it has not read, and ends."""

import json
import sys

sys.stdout.write(
    json.dumps({"octonode": "1", "type": "result", "invocationId": "unread", "status": "ok", "outputs": 1})
)
