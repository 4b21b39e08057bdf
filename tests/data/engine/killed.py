"""Is killed by SIGKILL before it has answered."""

import json
import os
import signal
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    if not request["inputs"].get("well"):
        sys.stderr.write("about to be killed\n")
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
