"""Answer one request, unchecked: `python -m bare TARGET`, one JSON line in, one out."""

import importlib.util
import json
import os
import sys

wire = os.dup(1)
os.dup2(2, 1)
spec = importlib.util.spec_from_file_location("target", sys.argv[1])
assert spec is not None  # a .py file always has a loader
assert spec.loader is not None
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
request = json.loads(sys.stdin.buffer.readline())
output = getattr(module, request["node"])(**request["inputs"])
answer = {"octonode": "1", "type": "result", "invocationId": request["invocationId"]}
answer |= {"status": "ok", "outputs": {"output": output}}
os.write(wire, json.dumps(answer).encode() + b"\n")
