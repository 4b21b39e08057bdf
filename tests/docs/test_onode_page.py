"""docs/onode.md: each command on it is run, and prints what stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "onode.md").read_text(encoding="utf-8")

#: What differs from run to run: amounts of time, and the numbers and bars of a measurement.
TIMES = re.compile(r"\d+(\.\d+)? (us|ms|s)\b")
BARS = re.compile(r"[▁▂▃▄▅▆▇█]")


def commands() -> list[tuple[str, str]]:
    """Return each command of the page with what it prints."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
        found += list(zip(parts[1::2], parts[2::2], strict=True))
    return found


def plain(text: str, command: str) -> str:
    """Return printed text without what differs: widths of columns, times, and all numbers of measurements."""
    text = TIMES.sub("TIME", BARS.sub("", text))
    if re.match(r"onode (bench|doctor)", command):
        text = re.sub(r"\d[\d.]*\S*", "N", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_the_page_shows_every_command() -> None:
    """Our own choice: `diff` has a page of its own."""
    shown = {re.findall(r"onode (\w+)", command)[0] for command, _ in commands()}
    assert shown - {"descibe"} == {"describe", "call", "scan", "bench", "dev", "doctor"}


@pytest.mark.parametrize(("command", "printed"), commands(), ids=[command for command, _ in commands()])
def test_a_command_prints_what_the_page_shows(command: str, printed: str) -> None:
    """Our own choice: output that was really printed; `...` stands for what is of one machine."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        timeout=120,
        check=False,
    )
    wanted = re.escape(plain(printed, command)).replace(r"\.\.\.", ".*")
    assert re.fullmatch(wanted, plain(done.stdout, command)), done.stdout
