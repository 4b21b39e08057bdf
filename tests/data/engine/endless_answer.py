"""Begins an answer that never ends."""

import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    sys.stdout.write(f'{{"octonode":"1","type":"result","invocationId":{json.dumps(request["invocationId"])},')
    sys.stdout.write('"status":"ok","outputs":"')
    while True:
        sys.stdout.write("0123456789" * 1000)
