"""`onode doctor`: the interpreter, what is installed, and what a host would see here."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from nodetool_worker.entry_points import find_entry_points

from .children import ask
from .errors import DONE, INSTALL, NOT_FINE, CommandError
from .hosts import NodetoolHost, fault_text
from .words import amount, seconds_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .paper import Paper

__all__ = ["doctor"]

_DISTRIBUTION = "octonode-sdk"

#: Variables that change what a host sees.
_VARIABLES = (
    "OCTONODE_NODES",
    "OCTONODE_DISABLED_PACKS",
    "NODETOOL_PYTHON",
    "NODETOOL_WORKER_NAMESPACES",
    "PYTHONPATH",
)


def doctor(paper: Paper, *, timeout: float) -> int:
    """Look at the environment and print what is there; return NOT_FINE if something is not in order.

    Args:
        paper: Where to print.
        timeout: Seconds that the import of one pack, and the start of the worker, may take.
    """
    problems: list[str] = []
    found = {
        "interpreter": {
            "executable": sys.executable,
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "platform": platform.platform(),
        },
        "distributions": _distributions(problems),
        "extras": _extras(),
        "variables": {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)},
        "packs": _packs(timeout, problems),
        "worker": _worker(timeout, problems),
    }
    found["problems"] = problems
    if paper.as_json:
        paper.json(found)
    else:
        _show(paper, found, problems)
    return NOT_FINE if problems else DONE


def _distributions(problems: list[str]) -> list[dict[str, Any]]:
    """Return the version of the distribution and of what it needs."""
    rows: list[dict[str, Any]] = []
    needed = [one for one in _requirements() if one[1] is None]
    for name, _ in [(_DISTRIBUTION, None), *needed]:
        there = _version(name)
        rows.append({"name": name, "version": there})
        if there is None:
            problems.append(f"{name} is not installed; pip install {name}")
    return rows


def _requirements() -> list[tuple[str, str | None]]:
    """Return the names that the distribution requires on this platform, each with its extra."""
    try:
        lines = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    made = []
    for line in lines:
        spec, _, marker = line.partition(";")
        name = spec
        for sign in "<>=!~[( ":
            name = name.partition(sign)[0]
        platform_ = marker.partition("sys_platform ==")[2].strip(" '\"")
        if platform_ and platform_ != sys.platform:
            continue
        extra = marker.partition("extra ==")[2].strip(" '\"") or None
        made.append((name.strip(), extra))
    return made


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _extras() -> list[dict[str, Any]]:
    """Return each extra with what it has, and the command that installs what it lacks."""
    extras: dict[str, list[str]] = {}
    for name, extra in _requirements():
        if extra is not None:
            extras.setdefault(extra, []).append(name)
    rows = []
    for extra, names in extras.items():
        missing = [name for name in names if _version(name) is None]
        there = {name: _version(name) for name in names if name not in missing}
        install = INSTALL.replace("[cli]", f"[{extra}]") if missing else None
        rows.append({"name": extra, "versions": there, "missing": missing, "install": install})
    return rows


def _packs(timeout: float, problems: list[str]) -> list[dict[str, Any]]:
    """Return each installed pack with the time of its import and the number of its nodes."""
    rows = []
    for point in find_entry_points():
        row: dict[str, Any] = {"namespace": point.name, "module": point.value, "distribution": point.distribution}
        fault = point.fault
        if fault is None:
            imported = ask("import", point.value, timeout=timeout)
            row["import_seconds"] = imported.import_seconds
            report = imported if imported.faults else ask("scan", point.value, timeout=timeout)
            row["nodes"] = len(report.nodes)
            fault = f"{report.faults[0].module}: {report.faults[0].text}" if report.faults else None
        if fault is not None:
            row["fault"] = fault
            problems.append(f"pack {point.distribution}: {fault}")
        rows.append(row)
    return rows


def _worker(timeout: float, problems: list[str]) -> dict[str, Any]:
    """Return what a NodeTool worker that is started here serves, and who owns the name that the host starts."""
    made: dict[str, Any] = {}
    spec = None
    try:
        spec = find_spec("nodetool.worker")
    except (ImportError, ValueError):
        pass
    if spec is None or spec.origin is None:
        problems.append(f"there is no nodetool.worker, which NodeTool starts; install {_DISTRIBUTION} again")
    else:
        made["module"] = spec.origin
        with open(spec.origin, encoding="utf-8", errors="replace") as file:
            is_ours = "nodetool_worker" in file.read()
        if not is_ours:
            problems.append(
                "nodetool.worker belongs to another distribution (nodetool-core?); "
                f"install {_DISTRIBUTION} last, or start python -m nodetool_worker --stdio"
            )
    try:
        with NodetoolHost(seconds=timeout, lenient=True) as worker:
            made["nodes"] = sorted(worker.nodes)
            made["load_errors"] = worker.faults
    except CommandError as error:
        problems.append(error.text)
    for fault in made.get("load_errors", ()):
        text = f"{fault['module']}: {fault_text(fault)}"
        if not any(fault["module"] in problem for problem in problems):
            problems.append(f"the worker can't load {text}")
    return made


def _show(paper: Paper, found: dict[str, Any], problems: list[str]) -> None:
    python = found["interpreter"]
    rows = [
        ("python", f"{python['version']} ({python['implementation']}) {python['executable']}"),
        ("platform", python["platform"]),
        *((one["name"], one["version"] or "missing") for one in found["distributions"]),
    ]
    for extra in found["extras"]:
        versions = ", ".join(f"{name} {number}" for name, number in extra["versions"].items())
        lacks = f"lacks {', '.join(extra['missing'])}: {extra['install']}" if extra["missing"] else ""
        rows.append((f"extra {extra['name']}", "; ".join(filter(None, [versions, lacks]))))
    rows += list(found["variables"].items())
    for pack in found["packs"]:
        took = pack.get("import_seconds")
        time = f", import {seconds_text(took)}" if took is not None else ""
        rows.append((f"pack {pack['namespace']}", f"{pack['module']}: {amount(pack.get('nodes', 0), 'node')}{time}"))
    if not found["packs"]:
        rows.append(("packs", "none installed; a pack has an entry point in the group octonode.nodes"))
    worker = found["worker"]
    if "nodes" in worker:
        rows.append(("a worker serves", amount(len(worker["nodes"]), "node")))
    paper.table(("what", "is"), rows)
    for problem in problems:
        paper.line(f"problem: {problem}", "bold red")
    if not problems:
        paper.line("all is in order", "green")
