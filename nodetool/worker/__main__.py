"""`python -m nodetool.worker`: the command that NodeTool runs, the same as `python -m nodetool_worker` (FND-19)."""

import sys

from nodetool_worker.__main__ import start

# A child that multiprocessing spawns imports this module under another name and must not serve (FRM-29).
if __name__ == "__main__":
    sys.exit(start())
