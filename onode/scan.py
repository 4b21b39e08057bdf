"""`onode scan`: every node under a folder, in a module or in the installed packs, and what could not be loaded.

Each file is looked at in a process of its own, so that what hangs or crashes costs itself alone. In a folder only files
that mention `octonode_sdk` are imported: what other files do at their import is nobody's business here.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic

from nodetool_worker.entry_points import find_entry_points
from octonode_sdk.packs import is_file

from .children import ask, late_text, module_of
from .errors import DONE, NOT_FINE, CommandError, UsageError
from .hosts import NodetoolHost, fault_text
from .words import amount, first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from .paper import Paper

__all__ = ["Source", "scan", "sources_in"]

#: Folders that hold no nodes of the one who asks.
_PASSED_OVER = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}

#: Where the process of a module is started again without the modules that have ended it, so often.
_MOST_RESTARTS = 20


@dataclass(frozen=True)
class Source:
    """What one process looks at.

    Attributes:
        target: A file, or the dotted name of a module.
        shown: What people know it by.
        root: The folder from which a file's package is found, or None.
        single: Whether it is this one module, and no walk.
        parts: What to look at one by one where the whole can't be looked at.
    """

    target: str
    shown: str
    root: str | None = None
    single: bool = False
    parts: tuple[Source, ...] = ()


@dataclass(frozen=True)
class _Row:
    """A node that was found, or a fault: then `why` is given."""

    source: str
    place: str
    node: str = ""
    raw: dict[str, Any] | None = None
    text: str = ""
    why: str = ""
    error_type: str = ""
    stack: str | None = None


def scan(
    paper: Paper, places: Sequence[str], *, packs: bool, host: str, timeout: float, jobs: int | None, debug: bool
) -> int:
    """Look at the places and print what is there; return the status.

    Args:
        paper: Where to print.
        places: Files, folders, dotted names.
        packs: Whether to look at the installed packs as well.
        host: One of `hosts.HOSTS`.
        timeout: Seconds that the imports of one file or pack may take.
        jobs: Processes at once; None for one a processor.
        debug: Whether to show the tracebacks.

    Raises:
        UsageError: A place is not there, or nothing at all was found.
    """
    sources = [source for place in places for source in sources_in(place)]
    faults: list[_Row] = []
    if packs:
        for point in find_entry_points():
            if point.fault is not None:
                faults.append(_Row(point.distribution, point.distribution, why=point.fault, error_type="EntryPoint"))
            else:
                sources.append(Source(point.value, f"{point.value} ({point.distribution})"))
        if not places and not sources and not faults:
            raise UsageError("no pack is installed; a pack has an entry point in the group octonode.nodes")
    if not places and not packs:
        raise UsageError("nothing to scan; give a file, a folder or a module, or --packs")
    if host == "nodetool":
        sources = _by_package(sources)
    done, lock = 0, Lock()

    def look(source: Source) -> list[_Row]:
        nonlocal done
        found = _look_through_worker(source, timeout) if host == "nodetool" else _look(source, timeout)
        with lock:
            done += 1
            if paper.err.is_terminal and len(sources) > 1:
                paper.err.print(f"{done}/{len(sources)} {source.shown}", end="\r", markup=False, overflow="ellipsis")
        return found

    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        rows = [row for found in pool.map(look, sources) for row in found]
    return _show(paper, [*rows, *faults], len(sources), " ".join([*places, *(["--packs"] if packs else [])]), debug)


def sources_in(place: str) -> list[Source]:
    """Return what is to be looked at for one place.

    Raises:
        UsageError: There is no such file, folder or module.
    """
    path = Path(place)
    if path.is_dir():
        return [_source_of(file) for file in _files_in(path)]
    if is_file(place):
        if not path.is_file():
            raise UsageError(f"there is no file or folder {place!r} (looked in {Path.cwd()}); check the path")
        return [_source_of(path)]
    return [Source(place, place)]


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the Python files below a folder that mention the package, in the order of their names."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # one that may not be read has nothing for us
        return
    for entry in entries:
        is_hidden = entry.name.startswith(".") or entry.name in _PASSED_OVER or entry.name.endswith(".egg-info")
        if entry.is_dir():
            if not is_hidden and not entry.is_symlink() and not (entry / "pyvenv.cfg").exists():
                yield from _files_in(entry)
        elif entry.suffix == ".py" and _mentions(entry):
            yield entry


def _mentions(file: Path) -> bool:
    try:
        return b"octonode_sdk" in file.read_bytes()
    except OSError:
        return True  # then the import says what is wrong with it


def _source_of(file: Path) -> Source:
    """Return a file as a source: by its dotted name where it stands in a package, since it may import its siblings."""
    root, name = module_of(file)
    if root is None:
        return Source(str(file), str(file))
    return Source(name, str(file), root=root, single=True)


def _by_package(sources: Sequence[Source]) -> list[Source]:
    """Return sources with the files of each package as one: a worker serves the package, under one namespace."""
    made: dict[tuple[str | None, str], list[Source]] = {}
    for source in sources:
        name = source.target.partition(".")[0] if source.single else source.target
        made.setdefault((source.root, name), []).append(source)
    return [
        Source(name, name, root=root, parts=tuple(parts)) if parts[0].single else parts[0]
        for (root, name), parts in made.items()
    ]


def _look(source: Source, timeout: float) -> list[_Row]:
    """Let a probe look at a source, again without each module that has ended or held it."""
    skip: list[str] = []
    faults: list[_Row] = []
    while True:
        report = ask("scan", source.target, root=source.root, single=source.single, skip=skip, timeout=timeout)
        is_last = report.ended or len(skip) >= _MOST_RESTARTS
        for fault in report.faults if is_last else report.faults[-1:]:
            place = fault.module if "." in fault.module and not source.single else source.shown
            faults.append(_Row(source.shown, place, why=fault.text, error_type=fault.error_type, stack=fault.stack))
        if is_last or report.importing in (source.target, *skip):
            break
        skip.append(report.importing)
    nodes = [
        _Row(
            source.shown,
            _place(one.file, one.line) or one.module,
            node=one.id,
            raw=one.manifest,
            text=first_line(one.manifest.get("description")),
        )
        for one in report.nodes
    ]
    return [*nodes, *faults]


def _look_through_worker(source: Source, timeout: float) -> list[_Row]:
    """Let a NodeTool worker serve a source, and ask what it has."""
    began = monotonic()
    try:
        with NodetoolHost([source.target], root=source.root, seconds=timeout, lenient=True) as worker:
            rows = [
                _Row(source.shown, source.shown, node=one.id, raw=one.raw, text=first_line(one.description))
                for one in worker.nodes.values()
            ]
            for fault in worker.faults:
                if fault["error_type"] == "LoadError" and "defines no node" in fault["error"]:
                    continue  # a file that mentions the package need not have any
                place = source.shown if source.single or is_file(source.target) else fault["module"]
                rows.append(_Row(source.shown, place, why=fault_text(fault), error_type=fault["error_type"]))
            return rows
    except CommandError as error:
        if source.parts:
            return [row for part in source.parts for row in _look_through_worker(part, timeout)]
        text = late_text(timeout) if monotonic() - began >= timeout else str(error.__cause__)
        return [_Row(source.shown, source.shown, why=text, error_type=type(error.__cause__).__name__)]


def _place(file: str | None, line: int | None) -> str:
    """Return a place as editors read it, relative to the working directory where it is below that."""
    if file is None:
        return ""
    path = Path(file)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{line}"


def _show(paper: Paper, rows: list[_Row], looked_at: int, what: str, debug: bool) -> int:
    unique = {(row.node, row.place, row.why): row for row in rows}
    nodes = [row for row in unique.values() if not row.why]
    faults = [row for row in unique.values() if row.why]
    if paper.as_json:
        paper.json(
            {
                "nodes": [
                    {"id": row.node, "source": row.source, "place": row.place, "entry": row.raw} for row in nodes
                ],
                "faults": [
                    {"source": row.source, "place": row.place, "error_type": row.error_type, "error": row.why}
                    for row in faults
                ],
            }
        )
    elif rows:
        paper.table(("node", "place", "what it does"), [(row.node, row.place, row.text) for row in nodes])
        failed = [(row.place, row.why) for row in faults]
        if failed and nodes:
            paper.line()
        paper.table(("place", "why"), failed, title="not loaded")
        if debug:
            for row in faults:
                if row.stack:
                    paper.say(row.stack)
    if not rows:
        hint = "; a file counts if it mentions octonode_sdk" if looked_at == 0 else ""
        raise UsageError(f"there is no node in {what} ({amount(looked_at, 'source')} looked at){hint}")
    paper.say(f"{amount(len(nodes), 'node')}, {len(faults)} not loaded")
    return NOT_FINE if faults else DONE
