"""Answers, closes its stdout, and goes on."""

import json
import os
import signal
import sys

request = json.loads(sys.stdin.readline())
answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
os.write(1, json.dumps({**answer, "outputs": request["inputs"]}).encode() + b"\n")
os.close(1)
signal.pause()
