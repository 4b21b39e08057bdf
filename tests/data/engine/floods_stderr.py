"""Writes 100 MB to stderr, then answers."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    for number in range(100):
        sys.stderr.write(f"{number} " + "x" * 1_000_000 + "\n")
    sys.stderr.write("done with it\n")
    sys.stderr.flush()
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
