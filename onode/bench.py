"""`onode bench`: how fast a node answers, as a process a call and as a worker that stays."""

from __future__ import annotations

from time import perf_counter

from .call import Bar, inputs_of, show_reply, split_words
from .errors import DONE
from .hosts import Settings, find_node, open_host
from .words import histogram, percentile, seconds_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .hosts import Host, Reply
    from .paper import Paper

__all__ = ["bench"]

_SHARES = (("p50", 0.50), ("p90", 0.90), ("p99", 0.99))


def bench(
    paper: Paper,
    target: str,
    words: Sequence[str],
    *,
    inputs: str | None,
    host: str,
    settings: Settings,
    calls: int,
    starts: int,
    seconds: float,
    debug: bool,
) -> int:
    """Measure one node both ways and print the times; return the status.

    A call that fails ends the measurement, and is shown as `onode call` shows it.

    Args:
        paper: Where to print.
        target: The target.
        words, inputs: As for `onode call`.
        host: One of `hosts.HOSTS`.
        settings: How calls are made.
        calls, starts: Most calls of a worker, and most processes for a call each.
        seconds: Each of the two ends earlier after this time.
        debug: Whether to show the traceback of a call that fails.

    Raises:
        UsageError: The target, the node or the inputs are at fault.
        ProcessError: A process has failed.
    """
    name, words = split_words(words)
    rows: dict[str, list[float]] = {}
    failed: Reply | None = None
    with Bar(paper) as bar:
        with open_host(host, target, settings, mode="worker") as worker:
            node = find_node(worker.nodes, name, target)
            made = inputs_of(node, words, inputs)
            began = perf_counter()
            first = worker.call(node.id, made)
            start_up = worker.start_seconds + perf_counter() - began

            def call_worker() -> Reply:
                return worker.call(node.id, made)

            if not first.ok:
                failed = first
            else:
                rows["worker"], failed = _measure(call_worker, calls, seconds, bar, paper, "worker")
        if failed is None:
            once = _once_of(host, target, settings, node.id, made)
            rows["one-shot"], failed = _measure(once, starts, seconds, bar, paper, "one-shot")
    if failed is not None:
        return show_reply(paper, node, failed, host=host, debug=debug)
    _show(paper, node.id, host, rows, start_up)
    return DONE


def _once_of(host: str, target: str, settings: Settings, node: str, inputs: dict[str, Any]) -> Callable[[], Reply]:
    """Return what makes one call with a process of its own."""
    if host == "octonode":
        one_shot: Host = open_host(host, target, settings)  # keeps no process between calls
        return lambda: one_shot.call(node, inputs)

    def call() -> Reply:
        with open_host(host, target, settings) as there:
            return there.call(node, inputs)

    return call


def _measure(
    call: Callable[[], Reply], times: int, seconds: float, bar: Bar, paper: Paper, what: str
) -> tuple[list[float], Reply | None]:
    """Return the sorted times of calls, one after the other, and the reply of one that failed."""
    took: list[float] = []
    until = perf_counter() + seconds
    while len(took) < times:
        began = perf_counter()
        reply = call()
        now = perf_counter()
        if not reply.ok:
            return took, reply
        took.append(now - began)
        if paper.err.is_terminal:
            bar.progress(len(took), times, what)
        if now >= until:
            break
    return sorted(took), None


def _show(paper: Paper, node: str, host: str, rows: dict[str, list[float]], start_up: float) -> None:
    order = ("one-shot", "worker")
    if paper.as_json:
        shown = {
            way: {
                "calls": len(rows[way]),
                "calls_per_second": round(len(rows[way]) / sum(rows[way]), 1),
                **{f"{label}_seconds": round(percentile(rows[way], share), 7) for label, share in _SHARES},
            }
            for way in order
        }
        paper.json({"host": host, "node": node, "worker_start_seconds": round(start_up, 6), **shown})
        return
    paper.table(
        ("", "calls", "calls/s", *(label for label, _ in _SHARES), "spread, up to p99"),
        [
            ("", "calls", "calls/s", *(label for label, _ in _SHARES), "spread, up to p99"),
            *(
                (
                    way,
                    str(len(rows[way])),
                    f"{len(rows[way]) / sum(rows[way]):.0f}",
                    *(seconds_text(percentile(rows[way], share)) for _, share in _SHARES),
                    histogram(rows[way]),
                )
                for way in order
            ),
        ][1 if paper.is_rich else 0 :],
    )
    paper.line(f"a worker's first call, its start included: {seconds_text(start_up)}")
