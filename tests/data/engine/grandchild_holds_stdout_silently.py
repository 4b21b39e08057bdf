"""Ends without an answer, while a process that it has started holds stdout and stderr open."""

import subprocess
import sys

sys.stdin.readline()
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
