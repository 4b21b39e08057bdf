"""The README's own examples: they are run as they stand there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def write_blocks(folder: Path) -> None:
    """Write each Python block of the page to the file that its first line names."""
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name is not None, block
        (folder / name[1]).write_text(block, encoding="utf-8")


def run(command: list[str], folder: Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python` with some arguments, as the page's reader does."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )


def test_the_example_answers_octonode_as_the_readme_shows(tmp_path: Path) -> None:
    """LIFE-1: the file, the command and the answer are read from the page."""
    write_blocks(tmp_path)
    console = re.search(r"\$ echo '(?P<request>[^']+)' \| python (?P<command>.+)\n(?P<answer>\{.+\})\n", README)
    assert console is not None
    done = run(console["command"].split(), tmp_path, console["request"] + "\n")
    assert json.loads(done.stdout) == json.loads(console["answer"])
    assert done.stderr == "[greet 1] info: greeting Ada\n"
    assert done.stderr in README


def test_the_example_answers_nodetool_as_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EXE-1 and UPD-5: the host of six lines is read from the page, and so is what it prints."""
    monkeypatch.delenv("NODETOOL_PYTHON", raising=False)
    write_blocks(tmp_path)
    console = re.search(r"\$ python (host\.py)\n(.*?)```", README, re.DOTALL)
    assert console is not None
    done = run([console[1]], tmp_path)
    assert (done.stdout, done.stderr) == (console[2], "")
