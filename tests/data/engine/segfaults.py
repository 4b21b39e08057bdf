"""Dies by SIGSEGV before it has answered."""

import os
import resource
import signal
import sys

sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.kill(os.getpid(), signal.SIGSEGV)
