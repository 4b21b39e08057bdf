"""Measure the Octonode runner and the NodeTool worker against the least that anyone could do instead.

All measures are ratios taken in one run: contenders take turns sample by sample, medians are
compared, and every answer is checked. `ours` and `peer` are shown as a median with the quartiles
around it. A missed bound is said plainly; it fails the run only with --strict.

    one-shot    a process a call of `quote`, against a 15-line runner that checks nothing
    node        the same process against `node -e 0`
    loop        one request at a time, against a Python echo of the same lines
    pipelined   the same with many requests in flight
    memory      growth of the loop's resident memory over 100,000 requests

    worker-start      from spawn to READY and to `discover`, and the idle memory, against nodetool-core
    worker-loop       `execute` one at a time, against nodetool-core and against a bare echo of frames
    worker-pipelined  the same with 2,000 in flight
    worker-discover   `discover` with 1,000 nodes, and how the time grows up to 10,000
    worker-memory     growth of the memory over many executes, progress frames and chunks

`octonode` stands for the first five, `nodetool` for the others. nodetool-core is installed in `.venv-peer` when
it is first needed; where that fails, its rows are skipped.

`quote` (light.py) has a port of every light kind, with constraints. The loop is bounded on `greet`
(greet.py), the protocol page's own example, where the wire is what costs; `quote` stands beside
it for context: the fastest loop over the `json` module that checks nothing misses that bound too.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import peer
import table
from contenders import ContenderError, child_environment
from driver import usable_cores
from measures import FULL, NAMES, QUICK, Bench, Progress, find_node
from worker_measures import PEER_NAMES, WORKER_FULL, WORKER_NAMES, WORKER_QUICK, WorkerBench

GROUPS: Final[dict[str, tuple[str, ...]]] = {"octonode": NAMES, "nodetool": WORKER_NAMES}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0 when everything was measured, 1 with --strict when a bound was missed, 2 when a
        contender could not be measured.
    """
    options = _parse(arguments)
    if find_spec("octonode_sdk") is None:
        print("bench: this interpreter has no octonode_sdk; use `make bench`", file=sys.stderr)
        return 2
    names = _names(options.only)
    environment = child_environment(os.environ)
    progress: Progress = _show_progress if sys.stderr.isatty() else _ignore_progress
    bench = Bench(
        python=sys.executable,
        environment=environment,
        plan=QUICK if options.quick else FULL,
        progress=progress,
    )
    worker_bench = WorkerBench(
        python=sys.executable,
        environment=environment,
        no_peer=_no_peer(names, environment, wanted=options.peer),
        plan=WORKER_QUICK if options.quick else WORKER_FULL,
        progress=progress,
    )
    try:
        rows = bench.measure(names) + worker_bench.measure(names)
    except ContenderError as error:
        _clear_progress()
        print(f"bench: {error}", file=sys.stderr)
        return 2
    _clear_progress()

    if options.json != "-":
        print(table.markdown(rows) if options.markdown else table.plain(rows))
    if options.json:
        document = {
            "environment": describe_environment(),
            "quick": options.quick,
            "rows": [table.record(row) for row in rows],
            "samples": bench.samples | worker_bench.samples,
        }
        text = json.dumps(document, indent=2) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
        else:
            Path(options.json).write_text(text, encoding="utf-8")

    missed = [row for row in rows if row.verdict() == "MISSED"]
    for row in missed:
        print(f"bench: MISSED: {' | '.join(table.cells(row)[:5])}", file=sys.stderr)
    return 1 if missed and options.strict else 0


def describe_environment() -> dict[str, object]:
    """Return what a reader needs to judge the figures; no path and no name of this machine."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "octonode_sdk": _sdk_version(),
        "node": _node_version(),
        "peer": peer.NAME,
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": len(usable_cores()) or os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def _names(only: Sequence[str] | None) -> list[str]:
    """Return the measures that `--only` names, groups taken apart; all where there is no `--only`."""
    return [name for chosen in only or GROUPS for name in GROUPS.get(chosen, (chosen,))]


def _no_peer(names: Sequence[str], environment: Mapping[str, str], *, wanted: bool) -> str:
    """See to it that nodetool-core is installed if a measure needs it.

    Returns:
        Why there is none to compare with; empty where there is, or where nothing needs it.
    """
    if not set(PEER_NAMES) & set(names):
        return ""
    if not wanted:
        return "left out by --no-peer"
    try:
        peer.set_up(sys.executable, environment)
    except peer.PeerError as error:
        print(f"bench: skipped: {error}", file=sys.stderr)
        return str(error)
    return ""


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer samples, about a minute")
    choices = [*GROUPS, *NAMES, *WORKER_NAMES]
    parser.add_argument("--only", action="append", choices=choices, metavar="NAME", help="a measure, or a group")
    parser.add_argument("--no-peer", action="store_false", dest="peer", help="leave out nodetool-core: no download")
    parser.add_argument("--json", metavar="FILE", help="write samples and environment; - for stdout, no table then")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bound is missed")
    return parser.parse_args(arguments)


def _show_progress(measure: str, done: int, rounds: int) -> None:
    width = 30
    bar = "#" * (width * done // rounds)
    print(
        f"\r\x1b[K{measure:<16} [{bar:<{width}}] {done}/{rounds}",
        end="",
        file=sys.stderr,
        flush=True,
    )


def _ignore_progress(measure: str, done: int, rounds: int) -> None:
    pass


def _clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _sdk_version() -> str | None:
    try:
        return version("octonode-sdk")
    except PackageNotFoundError:
        return None


def _node_version() -> str | None:
    node = find_node()
    if node is None:
        return None
    asked = subprocess.run([node, "--version"], capture_output=True, timeout=30, check=False, encoding="utf-8")
    return asked.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
