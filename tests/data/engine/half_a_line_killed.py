"""Is killed in the middle of its answer."""

import json
import os
import signal
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    sys.stdout.write(text[: len(text) // 2])
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
