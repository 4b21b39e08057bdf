"""The probe as a child process: what a target holds, found without importing any of it here, and within a bound."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from octonode_sdk.packs import is_file
from octonode_sdk.process.outcomes import signal_name

from .errors import UsageError
from .words import guess, seconds_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO, Any

__all__ = ["LOAD_SECONDS", "Fault", "Found", "Report", "ask", "late_text", "load_target", "module_of"]

#: How long the imports of a target may take.
LOAD_SECONDS = 30.0

#: Last lines of a child's stderr that are kept.
_STDERR_LINES = 200


@dataclass(frozen=True)
class Found:
    """A node that is there.

    Attributes:
        manifest: What it says of itself.
        module, name: Where its function is, by the names of Python.
        file, line: The same on disk, where it has code.
        dynamic: Whether it takes inputs beside those of the manifest.
        streams: Whether it is a generator.
        secrets: The names that it declares.
    """

    manifest: dict[str, Any]
    module: str
    name: str
    file: str | None
    line: int | None
    dynamic: bool
    streams: bool
    secrets: list[str]

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.manifest["id"])


@dataclass(frozen=True)
class Fault:
    """What could not be loaded: the module, why, and the traceback where node code has raised."""

    module: str
    text: str
    error_type: str = ""
    stack: str | None = None


@dataclass
class Report:
    """What a probe has told.

    Attributes:
        nodes, faults: In the order in which they were found.
        files: The source files that were loaded.
        importing: The module that was imported last.
        import_seconds: How long that took, in the mode "import".
        ended: Whether the probe came to its end: neither node code nor the bound has ended it before.
        stderr: The last lines that node code wrote.
    """

    nodes: list[Found] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    importing: str = ""
    import_seconds: float | None = None
    ended: bool = False
    stderr: list[str] = field(default_factory=list)


def ask(
    mode: str,
    target: str,
    *,
    timeout: float = LOAD_SECONDS,
    root: str | None = None,
    single: bool = False,
    skip: Sequence[str] = (),
    on_stderr: Callable[[str], object] | None = None,
) -> Report:
    """Let a child look at a target. What ends or holds the child becomes a fault of the report.

    Args:
        mode, target, root, single, skip: The probe's job.
        timeout: Seconds.
        on_stderr: Called with each line that node code writes, on a thread of its own.
    """
    job = {"mode": mode, "target": target, "root": root, "single": single, "skip": list(skip)}
    process = subprocess.Popen(
        [sys.executable, "-m", "onode.probe", json.dumps(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,  # killed as a group, with what node code has started
    )
    assert process.stdout is not None
    assert process.stderr is not None
    report, kept = Report(), deque[str](maxlen=_STDERR_LINES)
    lines: queue.Queue[bytes | None] = queue.Queue()

    def keep(line: str) -> None:
        kept.append(line)
        if on_stderr is not None:
            on_stderr(line)

    threads = [
        threading.Thread(target=_read_report, args=(process.stdout, lines), daemon=True),
        threading.Thread(target=_read_text, args=(process.stderr, keep), daemon=True),
    ]
    for thread in threads:
        thread.start()
    until = monotonic() + timeout
    try:
        for line in _until_end(lines, until):
            _take(report, json.loads(line))
        if not report.ended:
            report.faults.append(_early_end(process, report, until, timeout))
    finally:
        _kill(process)
        for thread in threads:
            thread.join(1)  # a grandchild of another group may hold the pipe
    report.stderr = list(kept)
    return report


def _read_report(stream: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _read_text(stream: IO[bytes], keep: Callable[[str], object]) -> None:
    for line in stream:
        keep(line.decode("utf-8", "backslashreplace").rstrip("\r\n"))


def _until_end(lines: queue.Queue[bytes | None], until: float) -> Iterator[bytes]:
    """Yield what comes, up to the last line, the end of the stream or the bound."""
    while True:
        try:
            line = lines.get(timeout=max(0.0, until - monotonic()))
        except queue.Empty:
            return
        if line is None or not line.endswith(b"\n"):
            return
        yield line
        if line == b'{"end": true}\n':
            return


def _take(report: Report, event: dict[str, Any]) -> None:
    if "node" in event:
        keys = ("module", "name", "file", "line", "dynamic", "streams", "secrets")
        report.nodes.append(Found(event["node"], **{key: event[key] for key in keys}))
    elif "fault" in event:
        report.faults.append(Fault(event["module"], event["fault"], event["error_type"], event["stack"]))
    elif "importing" in event:
        report.importing = event["importing"]
    elif "imported" in event:
        report.import_seconds = event["imported"]
    elif "files" in event:
        report.files = event["files"]
    elif "end" in event:
        report.ended = True


def _early_end(process: subprocess.Popen[bytes], report: Report, until: float, timeout: float) -> Fault:
    """Return the fault of a child that did not come to its end."""
    module = report.importing or "onode.probe"
    try:
        status = process.wait(1 if monotonic() < until else 0)
    except subprocess.TimeoutExpired:
        return Fault(module, late_text(timeout), "Timeout")
    how = f"status {status}" if status >= 0 else f"signal {signal_name(-status)}"
    return Fault(module, f"its import ended the process ({how}); do that in the node, if at all", "Exit")


def late_text(timeout: float) -> str:
    """Return what is said of an import that hangs."""
    return f"its import has not ended within {seconds_text(timeout)}; do the work in the node, not at import"


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except OSError:  # it has ended, and nothing of its group is left
        pass
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


def load_target(target: str, *, timeout: float = LOAD_SECONDS) -> Report:
    """Return the nodes of a target, all of them in order.

    Raises:
        UsageError: The target can't be loaded, holds no node, or has two with one id; or its import has hung, or has
            ended the process.
    """
    if os.path.isdir(target):
        raise UsageError(f"{target} is a folder; onode scan {target} lists the nodes in it")
    report = ask("load", target, timeout=timeout)
    for fault in report.faults:
        text = f"can't load {target}: {fault.text}{_way_out(target, fault)}"
        if fault.error_type == "LoadError":
            text = f"{fault.text}{_near_file(target)}"
        raise UsageError(text, stack=fault.stack or "\n".join(report.stderr) or None)
    return report


def _way_out(target: str, fault: Fault) -> str:
    """Return what to do about node code that has raised at import."""
    if fault.error_type == "SystemExit":
        return "; put what ends the process under if __name__ == '__main__':"
    if "attempted relative import" in fault.text and is_file(target):
        _, name = module_of(Path(target))
        return f"; the file is part of a package: give its dotted name, {name}"
    return "; --debug shows the traceback" if fault.stack else ""


def module_of(file: Path) -> tuple[str | None, str]:
    """Return the folder from which a file's package is found, if it is in one, and the file's dotted name."""
    parts = [file.stem] if file.name != "__init__.py" else []
    own = folder = file.resolve().parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    is_packed = folder != own and all(part.isidentifier() for part in parts)
    return (str(folder), ".".join(parts)) if is_packed else (None, file.stem)


def _near_file(target: str) -> str:
    """Return a guess for a path that is not there."""
    path = Path(target)
    if not is_file(target) or path.exists():
        return ""
    try:
        names = [one.name for one in path.parent.iterdir() if one.suffix == ".py"]
    except OSError:
        return ""
    return guess(path.name, names)
