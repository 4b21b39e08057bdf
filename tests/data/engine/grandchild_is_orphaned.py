"""Leaves a process behind that has no parent any more, a session of its own and no pipe of ours, and never answers."""

import os
import signal
import sys

if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    signal.pause()
sys.stdin.readline()
sys.stderr.write("started\n")
signal.pause()
