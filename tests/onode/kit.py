"""What the tests of the command share: running it as a process, and node files to run it on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

__all__ = ["HEAD", "NODES", "PATIENCE", "Done", "onode", "write"]

#: Bound of each wait, in seconds: far above what any command takes on a slow machine.
PATIENCE = 60.0

HEAD = "from octonode_sdk import Context, NodeError, node\n"

NODES = """
import os
from typing import Literal

@node(secrets=["PASSWORD"])
def tell(ctx: Context) -> str:
    ctx.log(f"it is {ctx.secret('PASSWORD')}")
    return f"it is {ctx.secret('PASSWORD')}"

@node
def greet(name: str, tone: Literal["warm", "dry"] = "warm", times: int = 1, tags: list[str] | None = None) -> str:
    \"\"\"Greet somebody.\"\"\"
    return f"{tone} {name}" * times

@node
def steps(n: int, ctx: Context) -> int:
    for done in range(n):
        ctx.progress(done + 1, n, "step")
    return n

@node(config={"size": 1})
def surroundings(ctx: Context) -> dict[str, object]:
    return {"config": ctx.config, "env": ctx.env, "attempt": ctx.attempt}

@node
def fail(retryable: bool = False) -> str:
    raise NodeError("no luck today", retryable=retryable)

@node
def broken() -> int:
    raise ZeroDivisionError("of course")

@node
def crash() -> int:
    os._exit(7)

@node
def forever() -> int:
    import time
    while True:
        time.sleep(0.01)
"""


class Done:
    """A command that has ended."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        """What is on stdout, as JSON."""
        return json.loads(self.out)


def onode(*arguments: str, cwd: Path, given: str = "", env: dict[str, str] | None = None) -> Done:
    """Run the command as people do, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "onode", *arguments],
        cwd=cwd,
        input=given,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **(env or {})},
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def write(path: Path, source: str) -> Path:
    """Write a file of nodes, with the names that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + dedent(source), encoding="utf-8")
    return path
