"""The README's own example: it is run as it stands there."""

import json
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_first_example_answers_what_the_readme_shows(tmp_path: Path) -> None:
    """LIFE-1: the file, the command and the answer are read from the page."""
    source = re.search(r"```python\n(# nodes\.py\n.*?)```", README, re.DOTALL)
    console = re.search(r"\$ echo '(?P<request>[^']+)' \| python (?P<command>.+)\n(?P<answer>\{.+\})\n", README)
    assert source is not None
    assert console is not None
    (tmp_path / "nodes.py").write_text(source[1], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *console["command"].split()],
        cwd=tmp_path,
        input=console["request"] + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == json.loads(console["answer"])
    assert done.stderr == "[greet 1] info: attempt 1\n"
    assert done.stderr in README
