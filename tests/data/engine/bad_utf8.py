"""Answers with a byte that is no UTF-8 inside of a text."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    sys.stdout.buffer.write(text.replace("Ada", "\x00").encode().replace(b"\0", b"\xff") + b"\n")
    sys.stdout.buffer.flush()
