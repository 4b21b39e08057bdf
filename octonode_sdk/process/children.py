"""No child process is left behind (LIFE-14, END-10): finding and ending whatever node code has started."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = [
    "end_children",
    "end_marked",
    "end_tree",
    "mark_of_child",
    "opened_for_writing",
    "release_in_children",
    "watch_children",
]

#: Set in the environment, so that a child whose parent has ended (a shell's background job) is still recognised. Its
#: value is a path: that of the process above, and a name of its own.
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

#: Looks at the table of processes before giving up on children that multiply faster than they can be killed.
_ROUNDS = 10

#: A stream around a socket keeps text back as one around a file does.
_CONNECTS = frozenset(("socket.connect", "socket.bind"))

_WRITES = os.O_WRONLY | os.O_RDWR

_started = False
_wrote = False


def watch_children() -> None:
    """Mark what this process starts from now on, and note what it opens. Once a process."""
    os.environ[_MARK] = _below(os.environ.get(_MARK))
    sys.addaudithook(_note)


def _below(mark: str | None) -> str:
    own = f"{os.getpid()}.{os.urandom(4).hex()}"
    return f"{mark}/{own}" if mark else own


def mark_of_child() -> dict[str, str]:
    """Return the variable by which a child that is about to be started, and all below it, can be found (ISO-6)."""
    return {_MARK: _below(os.environ.get(_MARK))}


def end_marked(mark: dict[str, str]) -> None:
    """Kill a child that was started with this variable, if it is still there, and every process below it."""
    if os.path.isdir("/proc/self"):
        _kill_all(lambda: _proc_table(mark[_MARK])[1])


def end_tree(pid: int, mark: dict[str, str]) -> None:
    """Kill a child, every process below it, and those that carry its mark, wherever they have gone (ENG-4).

    Those that have left its process group or lost their parent are found by their mark, or by their parents as long as
    those are there. Windows has no groups; there the tree is walked.

    Args:
        pid: A child of this process that is not reaped yet, so that the id is its own; leader of a group if it has one.
        mark: The variable that it was started with, from `mark_of_child`.
    """
    if sys.platform == "win32":
        import psutil

        try:
            child = psutil.Process(pid)
            family = [child, *child.children(recursive=True)]
        except psutil.Error:  # it has ended
            return
        for process in family:
            try:
                process.kill()
            except psutil.Error:  # it has ended, or belongs to somebody else
                continue
        return
    has_proc = os.path.isdir("/proc/self")
    killed = {pid}

    def find() -> set[int]:
        parents, marked = _proc_table(mark[_MARK]) if has_proc else (_ps_table(), set())
        return (_below_all(parents, killed | marked) | marked) - {pid}

    first = find()  # before the first one dies: its children lose their parent by that
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, 9)
        except (ProcessLookupError, PermissionError):  # it leads no group; macOS says the latter for a zombie alone
            continue
    # Look again in any case, also where there was nobody: it may have started one just before it died.
    rounds = iter([first])
    _kill_all(lambda: next(rounds, None) or find(), killed)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    global _started, _wrote
    if event in _STARTS:
        _started = True
    elif (event == "open" and arguments[2] & _WRITES) or event in _CONNECTS:
        _wrote = True


def opened_for_writing() -> bool:
    """Tell whether a file, or a connection, has been opened for writing since `watch_children`."""
    return _wrote


def release_in_children(signals: tuple[int, ...]) -> None:
    """Let these signals end a forked child as they end any process: it has no grace, and no host to answer to.

    They are held back from before the fork until the child is ready: one that comes at once, as from a pool that ends
    its workers, would be noted for a handler that the child then forgets.
    """
    if not hasattr(os, "register_at_fork"):
        return
    import _signal  # type: ignore[import-not-found]  # no stub; `signal` would import enum
    from _thread import get_ident

    masks: dict[int, Any] = {}

    def hold() -> None:
        masks[get_ident()] = _signal.pthread_sigmask(_signal.SIG_BLOCK, signals)

    def let_go() -> None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, masks.pop(get_ident(), ()))

    def release() -> None:
        _signal.set_wakeup_fd(-1)
        for number in signals:
            if _signal.getsignal(number) is not _signal.SIG_IGN:
                _signal.signal(number, _signal.SIG_DFL)
        let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=release)


def end_children() -> None:
    """Kill every process that this one started, and theirs."""
    if not _started and "multiprocessing" not in sys.modules and not _has_child():
        return
    if sys.platform == "win32":
        os.system(f'taskkill /T /F /FI "PPID eq {os.getpid()}" >NUL 2>&1')
        return
    _kill_all(_descendants)


def _kill_all(find: Callable[[], Iterable[int]], killed: set[int] | None = None) -> None:
    """Kill what `find` returns until that is nothing new; `killed` is told of each."""
    if killed is None:
        killed = set()
    was_quiet = False
    for _ in range(_ROUNDS):  # one that was starting another when the list was made left that one out
        fresh = [pid for pid in find() if pid not in killed]
        if not fresh:
            # One that started another and ended while the list was read left no trace of either: look once more.
            if was_quiet:
                return
            was_quiet = True
            continue
        was_quiet = False
        for pid in fresh:
            killed.add(pid)
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
    parents, marked = _proc_table(os.environ.get(_MARK, "")) if os.path.isdir("/proc/self") else (_ps_table(), set())
    found = _below_all(parents, {os.getpid(), *marked}) | marked
    found.discard(os.getpid())
    return sorted(found)


def _below_all(parents: dict[int, int], roots: set[int]) -> set[int]:
    """Return the processes below some others, by the parent of each."""
    found: set[int] = set()
    queue = [*roots]
    while queue:
        above = queue.pop()
        below = [pid for pid, parent in parents.items() if parent == above and pid not in found and pid not in roots]
        found.update(below)
        queue.extend(below)
    return found


def _proc_table(mark: str) -> tuple[dict[int, int], set[int]]:
    """Return the parent of each process, and the processes that carry a mark or one below it."""
    entry = f"{_MARK}={mark}".encode()
    parents: dict[int, int] = {}
    marked: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The program's name stands in parentheses and may hold anything; the parent is the second behind it.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state == b"Z":  # it has ended, and waits for its parent to notice
                continue
            parents[int(name)] = int(parent)
            with open(f"/proc/{name}/environ", "rb") as file:
                if any(one == entry or one.startswith(entry + b"/") for one in file.read().split(b"\0")):
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
