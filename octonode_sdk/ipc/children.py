"""No child process is left behind (LIFE-14): finding and ending whatever node code has started."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["end_children", "watch_children"]

#: Set in the environment, so that a child whose parent has ended (a shell's background job) is still recognised.
_MARK = "OCTONODE_RUNNER"

_STARTS = frozenset(
    (
        "subprocess.Popen",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "pty.spawn",
        "os.startfile",
    )
)

_started = False


def watch_children() -> None:
    """Mark what this process starts from now on. Once a process; costs nothing until something is started."""
    os.environ[_MARK] = f"{os.getpid()}.{os.urandom(4).hex()}"
    sys.addaudithook(_note)


def _note(event: str, _arguments: tuple[Any, ...]) -> None:
    global _started
    if event in _STARTS:
        _started = True


def end_children() -> None:
    """Kill every process that this one started, and theirs."""
    if not _started and "multiprocessing" not in sys.modules and not _has_child():
        return
    if sys.platform == "win32":
        os.system(f'taskkill /T /F /FI "PPID eq {os.getpid()}" >NUL 2>&1')
        return
    for pid in _descendants():
        try:
            os.kill(pid, 9)
        except (ProcessLookupError, PermissionError):  # it ended by itself, or became somebody else's
            continue


def _has_child() -> bool:
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _descendants() -> list[int]:
    """Return the ids of the processes below this one and of those that carry its mark."""
    parents, marked = _proc_table() if os.path.isdir("/proc/self") else (_ps_table(), set())
    found, queue = set(marked), [os.getpid(), *marked]
    while queue:
        above = queue.pop()
        below = [pid for pid, parent in parents.items() if parent == above and pid not in found]
        found.update(below)
        queue.extend(below)
    found.discard(os.getpid())
    return sorted(found)


def _proc_table() -> tuple[dict[int, int], set[int]]:
    mark = f"{_MARK}={os.environ.get(_MARK, '')}".encode()
    parents: dict[int, int] = {}
    marked: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The program's name stands in parentheses and may hold anything; the parent is the second behind it.
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    marked.add(int(name))
        except (OSError, IndexError, ValueError):  # it ended meanwhile, or belongs to somebody else
            continue
    marked.discard(os.getpid())
    return parents, marked


def _ps_table() -> dict[int, int]:
    import subprocess

    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False, timeout=5)
    rows = [line.split() for line in listing.stdout.splitlines()]
    return {int(pid): int(parent) for pid, parent in (row for row in rows if len(row) == 2)}
