"""Begins its stdout with a byte-order mark."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    sys.stdout.buffer.write(b"\xef\xbb\xbf" + text.encode() + b"\n")
    sys.stdout.buffer.flush()
