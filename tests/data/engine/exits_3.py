"""Exits with status 3 and tells stderr alone why."""

import sys

sys.stdin.readline()
sys.stderr.write("the model is not there\n")
sys.exit(3)
