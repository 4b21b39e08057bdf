"""Writes one line without an end."""

import sys

sys.stdin.readline()
while True:
    sys.stdout.write("0123456789" * 1000)
