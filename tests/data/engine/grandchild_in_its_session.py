"""Starts a process in a session of its own, and never answers."""

import signal
import subprocess
import sys

sys.stdin.readline()
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
sys.stderr.write(f"started {child.pid}\n")
sys.stderr.flush()
signal.pause()
