"""Run the tests on the packages that this interpreter has installed, in a folder without their source.

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

#: Whose docstrings are run as doctests.
PACKAGES = ("octonode_sdk", "nodetool_worker", "onode")


def folder_of(package: str) -> str:
    """Return the folder of an installed package.

    Raises:
        SystemExit: This interpreter does not have it.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f"{package} is not installed for {sys.executable}")
    return str(Path(spec.origin).parent)


def main() -> int:
    """Copy the tests to a new folder, run them there and return the status."""
    packages = [folder_of(package) for package in PACKAGES]
    with tempfile.TemporaryDirectory(prefix="octonode-sdk-") as folder:
        for name in CARRIED:
            source, target = ROOT / name, Path(folder, name)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(source, target)
        tests = ["tests", *packages, "docs", "README.md"]
        options = ["--config-file=pyproject.toml", "--installed", *sys.argv[1:]]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
