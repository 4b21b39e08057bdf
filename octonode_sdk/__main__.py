"""`python -m octonode_sdk TARGET [NODE]`: the Octonode runner."""

import sys

# A child that multiprocessing spawns imports this module under another name and must not serve (LIFE-21).
if __name__ == "__main__":
    from .ipc.runner import main

    sys.exit(main())
