"""Answers from the attempt on that the inputs name; before that it waits, dies, or writes garbage or a flood."""

import json
import os
import signal
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    todo = request["inputs"]["then"] if request["context"]["attempt"] < request["inputs"]["until"] else "answer"
    if todo == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    while todo == "flood":
        sys.stdout.write("0123456789" * 1000)
    if todo == "garbage":
        text = "not today"
    if todo == "wait":
        sys.stderr.write("waiting\n")
    else:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
