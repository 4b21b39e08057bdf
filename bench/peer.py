"""The reference worker, nodetool-core: how it gets into an environment of its own, and how it is started.

It is there to be measured against, nothing else: the project neither imports nor needs it.
"""

import platform
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from contenders import HERE

VERSION: Final = "0.8.2"
NAME: Final = f"nodetool-core {VERSION}"
PACK: Final = HERE / "peer_pack"
"""Where its process runs, which puts `nodetool/nodes/benchpack` beside the installed part of the namespace package."""

FOLDER: Final = HERE.parent / ".venv-peer"
INSTALL_SECONDS: Final = 900.0
"""Longest wait for the installation: 100 MB to download, over a slow line."""


class PeerError(Exception):
    """The reference worker can't be installed; the text says why, in one line."""


def command(folder: Path = FOLDER) -> list[str]:
    """Return the command of the reference worker; run it in `PACK`."""
    return [str(folder / "bin" / "python"), "-m", "nodetool.worker", "--stdio"]


def set_up(python: str, environment: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Install nodetool-core into `folder` unless it is there; show on stderr what happens.

    Args:
        python: The interpreter that measures: both workers run on the same one.
        environment: Of the installer; pip's own variables in it hold.

    Raises:
        PeerError: It can't be installed. What there is then is made anew the next time.
    """
    stamp = folder / ".ready"
    wanted = f"{NAME}, Python {platform.python_version()}\n"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"bench: installing {NAME} in {folder.name}; it takes 210 MB and a minute or more", file=sys.stderr)
    _show_run([python, "-m", "venv", "--clear", str(folder)], environment)
    _show_run(
        [str(folder / "bin" / "python"), "-m", "pip", "install", f"nodetool-core=={VERSION}"],
        {**environment, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    stamp.write_text(wanted, encoding="utf-8")


def _show_run(command: list[str], environment: Mapping[str, str]) -> None:
    """Run `command` with its output on stderr; of a failure its last line, or its last ERROR, is the reason."""
    print(f"bench: {shlex.join([Path(command[0]).name, *command[1:]])}", file=sys.stderr)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        raise PeerError(f"{NAME} can't be installed: {error}") from error
    timer = threading.Timer(INSTALL_SECONDS, process.kill)
    timer.daemon = True
    timer.start()
    reason = ""
    assert process.stdout is not None  # it is a pipe
    with process, process.stdout as output:
        for line in output:
            print(f"  | {line.rstrip()}", file=sys.stderr, flush=True)
            if line.startswith("ERROR") or (line.strip() and not reason.startswith("ERROR")):
                reason = line.strip()
    timer.cancel()
    if process.returncode:
        raise PeerError(f"{NAME} can't be installed: {reason or f'exit status {process.returncode}'}")


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the reference worker: without a module path, which may hold ours."""
    return {name: value for name, value in base.items() if name != "PYTHONPATH"}
