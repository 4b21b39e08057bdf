"""Answers, and answers each request once more with something else."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"], "status": "ok"}
    answer["outputs"] = request["inputs"]
    text = json.dumps(answer)
    other = json.dumps({**answer, "outputs": "another answer"})
    sys.stdout.write(f"{text}\n{other}\n")
    sys.stdout.flush()
