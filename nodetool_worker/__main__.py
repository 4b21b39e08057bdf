"""`python -m nodetool_worker` (FND-19): the NodeTool worker; `python -m nodetool.worker` does the same (FND-18).

A worker starts once a session, so the standard machinery finds its modules: the quick finder of `octonode_sdk.__main__`
would save about a millisecond.
"""

import gc
import sys

__all__ = ["start"]


def start() -> int:
    """Load the worker, run it on the process's command line, and return the exit status."""
    # Nothing collects while modules load; what they make stays anyway. `stdio.main` turns it on again.
    gc.disable()
    from .stdio import main

    return main()


# A child that multiprocessing spawns imports this module under another name and must not serve (FRM-29).
if __name__ == "__main__":
    sys.exit(start())
