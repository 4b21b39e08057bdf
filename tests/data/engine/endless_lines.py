"""Writes lines to stdout without an end."""

import sys

sys.stdin.readline()
while True:
    sys.stdout.write("working...\n" * 1000)
