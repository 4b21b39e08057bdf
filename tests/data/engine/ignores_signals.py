"""Ignores each signal that can be ignored, and never answers."""

import signal
import sys

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.readline()
sys.stderr.write("started\n")
while True:
    signal.pause()
