"""Run the tests on the package that this interpreter has installed, in a folder without its source.

Arguments are handed to pytest. The status is pytest's.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: What the tests need of the checkout: themselves, the pages that they read, and the configuration of pytest.
CARRIED = ("README.md", "docs", "pyproject.toml", "tests")


def main() -> int:
    """Copy the tests to a new folder, run them there and return the status."""
    spec = find_spec("octonode_sdk")
    if spec is None or spec.origin is None:
        sys.exit(f"octonode_sdk is not installed for {sys.executable}")
    package = Path(spec.origin).parent
    with tempfile.TemporaryDirectory(prefix="octonode-sdk-") as folder:
        for name in CARRIED:
            source, target = ROOT / name, Path(folder, name)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(source, target)
        tests = ["tests", str(package), "docs", "README.md"]
        options = ["--config-file=pyproject.toml", "--installed", *sys.argv[1:]]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
