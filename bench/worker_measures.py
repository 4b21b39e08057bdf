"""The measures of the NodeTool worker, against nodetool-core and against a bare echo of frames.

Taken as `measures` takes its own: sample by sample in turn, and only medians of one run are compared.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, Literal

import crowd
import peer
from contenders import HERE, ContenderError, worker, worker_echo
from driver import core_apart
from measures import Progress, in_turns
from table import Bound, Row
from worker_driver import Worker
from worker_frames import additions, check_sums, execute, frame, node_type, nodes, request_id

WorkerName = Literal["worker-start", "worker-loop", "worker-pipelined", "worker-discover", "worker-memory"]
WORKER_NAMES: Final[tuple[WorkerName, ...]] = (
    "worker-start",
    "worker-loop",
    "worker-pipelined",
    "worker-discover",
    "worker-memory",
)
PEER_NAMES: Final[tuple[WorkerName, ...]] = ("worker-start", "worker-loop", "worker-pipelined")
"""The measures that need nodetool-core."""

EXAMPLES: Final = HERE.parent / "docs" / "examples" / "text_tools.py"
ARITHMETIC: Final = "arithmetic.py"

DISCOVER: Final = frame("discover", request_id(1), {})
STATUS: Final = frame("worker.status", request_id(2), {})

FEW_NODES: Final = 1_000
MANY_NODES: Final = 10_000

MEMORY_REQUESTS: Final = 100_000
MEMORY_BLOCK: Final = 2_000
"""As many as the row of pipelined executes has in flight."""

MEMORY_TICKS: Final = 20_000
MEMORY_CHUNKS: Final = 1_000
CHUNK_BYTES: Final = 64 * 1024
TICKS_A_CALL: Final = 1_000
TICK_CALLS: Final = 10_000
"""Most calls to get `MEMORY_TICKS` frames from: a worker may leave out progress that its host is too slow for."""

NO_PROC: Final = "no /proc here"

GROWTH: Final = Bound(limit=2, sense="at most")


@dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """How much to measure.

    Fields:
        start_rounds: Processes of each contender.
        loop_rounds, loop_requests: Batches of each contender, and requests in a batch.
        peer_requests: The same for nodetool-core, so that its batches take no longer than those of the others.
        pipelined_rounds, pipelined_requests: Batches and requests, all of a batch in flight; the same for all.
        discover_rounds: Processes with `FEW_NODES` and with `MANY_NODES`.
    """

    start_rounds: int
    loop_rounds: int
    loop_requests: int
    peer_requests: int
    pipelined_rounds: int
    pipelined_requests: int
    discover_rounds: int


WORKER_FULL: Final = WorkerPlan(
    start_rounds=20,
    loop_rounds=30,
    loop_requests=2_000,
    peer_requests=200,
    pipelined_rounds=11,
    pipelined_requests=2_000,
    discover_rounds=7,
)
WORKER_QUICK: Final = WorkerPlan(
    start_rounds=5,
    loop_rounds=8,
    loop_requests=1_000,
    peer_requests=100,
    pipelined_rounds=3,
    pipelined_requests=2_000,
    discover_rounds=3,
)


@dataclass(kw_only=True)
class WorkerBench:
    """One run of the worker's measures.

    Fields:
        python: The interpreter of ours and of the echo.
        environment: Of every child; see `contenders.child_environment`.
        no_peer: Why nodetool-core can't be measured; empty where it can.
        plan: How much to measure.
        progress: Told about every round.
        samples: Every sample in the order taken, by measure, contender and unit.
    """

    python: str
    environment: Mapping[str, str]
    no_peer: str
    plan: WorkerPlan
    progress: Progress
    samples: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, names: Sequence[str]) -> list[Row]:
        """Take the named measures, in the order of `WORKER_NAMES`.

        Raises:
            ContenderError: A contender can't be started or answers wrongly.
        """
        measures: dict[WorkerName, Callable[[], list[Row]]] = {
            "worker-start": self._start,
            "worker-loop": self._loop,
            "worker-pipelined": self._pipelined,
            "worker-discover": self._discover,
            "worker-memory": self._memory,
        }
        return [row for name in WORKER_NAMES if name in names for row in measures[name]()]

    def _start(self) -> list[Row]:
        """What a host waits for and pays before the first call, with the example nodes."""
        names = self._contenders("ours", "peer")
        for _ in range(2):  # the first start compiles the bytecode, the second reads it
            for name in names:
                self._start_once(name, str(EXAMPLES))
        figures = ("ready_ms", "discover_ms", "peak_mib")
        samples = {
            (name, figure): self.samples.setdefault(f"worker-start/{name}/{figure}", [])
            for name in names
            for figure in figures
        }
        for order in in_turns(self.progress, "worker-start", names, self.plan.start_rounds):
            for name in order:
                for figure, value in zip(figures, self._start_once(name, str(EXAMPLES)), strict=True):
                    samples[name, figure].append(value)
        bound = Bound(limit=0.25, sense="at most")
        measured = {
            "ready_ms": "worker, spawn to READY",
            "discover_ms": "worker, spawn to `discover` answered",
            "peak_mib": "worker, peak memory when idle, after `discover` and `worker.status`",
        }
        return [
            self._against_peer(
                Row(
                    name="worker-start",
                    measure=f"{measure} / {peer.NAME}",
                    unit="ms" if figure.endswith("_ms") else "MiB",
                    ours=samples["ours", figure],
                    peer=samples.get(("peer", figure), ()),
                    bound=bound,
                    skipped="" if figure != "peak_mib" or _has_proc() else NO_PROC,
                )
            )
            for figure, measure in measured.items()
        ]

    def _start_once(self, name: str, target: str) -> tuple[float, float, float]:
        """Start a worker, ask what a host asks first, and let it end.

        Returns:
            Milliseconds from the start to READY and to the answer to `discover`, and the peak of its memory in MiB.
        """
        with self._worker(name, target) as child:
            discovered = child.ask(DISCOVER)
            answered = (perf_counter() - child.started) * 1e3
            status = child.ask(STATUS)
            if status.get("node_count") != len(nodes(name, discovered)):
                raise ContenderError(name, f"{len(discovered['nodes'])} nodes in discover, but {status!r:.300}")
            peak = child.memory_kib("VmHWM") / 1024 if _has_proc() else 0.0
        assert child.ready_ms is not None  # it was started with a READY
        return child.ready_ms, answered, peak

    def _loop(self) -> list[Row]:
        """One request at a time; the two ends of the pipe on two cores, as a host and its worker are."""
        rows: list[Row] = []
        for apart, where in ((True, ""), (False, ", cores left to the scheduler")):
            rates = self._race("worker-loop", self.plan.loop_rounds, pipelined=False, apart=apart)
            measure = f"worker, `execute` one at a time{where}"
            rows += self._race_rows("worker-loop", measure, rates, *((8, 0.6) if apart else (None, None)))
        return rows

    def _pipelined(self) -> list[Row]:
        rates = self._race("worker-pipelined", self.plan.pipelined_rounds, pipelined=True, apart=False)
        measure = f"worker, `execute`, {self.plan.pipelined_requests:,} pipelined"
        return self._race_rows("worker-pipelined", measure, rates, 20, None)

    def _race(self, measure: WorkerName, rounds: int, *, pipelined: bool, apart: bool) -> Mapping[str, Sequence[float]]:
        """Let ours, the echo and nodetool-core take turns at a batch of additions.

        Args:
            apart: Whether the driver gets a core of its own; else the scheduler decides.

        Returns:
            The requests a second of each batch, by contender.
        """
        names = self._contenders("ours", "peer", "echo")
        place = "" if apart or pipelined else "/any-core"
        rates = {name: self.samples.setdefault(f"{measure}{place}/{name}/requests_per_s", []) for name in names}
        with ExitStack() as stack:
            cores = stack.enter_context(core_apart()) if apart else None
            batches: dict[str, Callable[[], float]] = {}
            for name in names:
                child = stack.enter_context(self._worker(name, ARITHMETIC, cores))
                kind = "Add" if name == "echo" else node_type(name, child.ask(DISCOVER), "Add")
                size = self.plan.peer_requests if name == "peer" else self.plan.loop_requests
                requests = additions(kind, self.plan.pipelined_requests if pipelined else size)
                batches[name] = _batch(child, requests, pipelined=pipelined)
            for batch in batches.values():
                batch()
            for order in in_turns(self.progress, measure, names, rounds):
                for name in order:
                    rates[name].append(batches[name]())
        return rates

    def _race_rows(
        self,
        name: WorkerName,
        measure: str,
        rates: Mapping[str, Sequence[float]],
        peer_limit: float | None,
        echo_limit: float | None,
    ) -> list[Row]:
        against_peer = Row(
            name=name,
            measure=f"{measure} / {peer.NAME}",
            unit="req/s",
            ours=rates["ours"],
            peer=rates.get("peer", ()),
            bound=None if peer_limit is None else Bound(limit=peer_limit, sense="at least"),
        )
        against_echo = Row(
            name=name,
            measure=f"{measure} / bare echo of frames",
            unit="req/s",
            ours=rates["ours"],
            peer=rates["echo"],
            bound=None if echo_limit is None else Bound(limit=echo_limit, sense="at least"),
        )
        return [self._against_peer(against_peer), against_echo]

    def _discover(self) -> list[Row]:
        """What a large pack costs: the answer to `discover`, and how the time grows with the nodes."""
        with TemporaryDirectory(prefix="bench-") as folder:
            targets = {f"{count}": Path(folder, f"crowd_{count}.py") for count in (FEW_NODES, MANY_NODES)}
            for count, target in targets.items():
                target.write_text(crowd.source(int(count)), encoding="utf-8")
                self._discover_once(target, int(count))  # the first start compiles the bytecode
            after_ready = {
                count: self.samples.setdefault(f"worker-discover/{count}/after_ready_ms", []) for count in targets
            }
            from_start = {
                count: self.samples.setdefault(f"worker-discover/{count}/from_start_ms", []) for count in targets
            }
            for order in in_turns(self.progress, "worker-discover", list(targets), self.plan.discover_rounds):
                for count in order:
                    ready, answered = self._discover_once(targets[count], int(count))
                    after_ready[count].append(answered - ready)
                    from_start[count].append(answered)
        few, many = targets
        linear = Bound(limit=15, sense="at most")
        return [
            Row(
                name="worker-discover",
                measure=f"worker, READY to `discover` answered, {FEW_NODES:,} nodes",
                unit="ms",
                ours=after_ready[few],
                figure="value",
                bound=Bound(limit=300, sense="at most"),
            ),
            Row(
                name="worker-discover",
                measure=f"worker, READY to `discover` answered, {MANY_NODES:,} nodes / {FEW_NODES:,} nodes",
                unit="ms",
                ours=after_ready[many],
                peer=after_ready[few],
                bound=None,  # a few milliseconds of it do not grow: from the spawn on it is judged
            ),
            Row(
                name="worker-discover",
                measure=f"worker, spawn to `discover` answered, {MANY_NODES:,} nodes / {FEW_NODES:,} nodes",
                unit="ms",
                ours=from_start[many],
                peer=from_start[few],
                bound=linear,
            ),
        ]

    def _discover_once(self, target: Path, count: int) -> tuple[float, float]:
        """Return the milliseconds from the start to READY and to the answer to `discover`."""
        with self._worker("ours", str(target)) as child:
            discovered = child.ask(DISCOVER)
            answered = (perf_counter() - child.started) * 1e3
            if (found := len(nodes("ours", discovered))) != count:
                raise ContenderError("ours", f"offers {found} nodes of {count}")
        assert child.ready_ms is not None  # it was started with a READY
        return child.ready_ms, answered

    def _memory(self) -> list[Row]:
        """Growth of the memory from a tenth of the messages to all of them; each kind has a worker of its own."""
        kinds: dict[str, tuple[str, Callable[[Worker, list[float]], None]]] = {
            "one-at-a-time": (
                f"{MEMORY_REQUESTS:,} executes, one at a time",
                partial(_flood_executes, pipelined=False),
            ),
            "pipelined": (
                f"{MEMORY_REQUESTS:,} executes, {MEMORY_BLOCK:,} pipelined",
                partial(_flood_executes, pipelined=True),
            ),
            "progress": (f"{MEMORY_TICKS:,} progress frames", _flood_progress),
            "chunks": (f"{MEMORY_CHUNKS:,} chunks of {CHUNK_BYTES // 1024} KiB", _flood_chunks),
        }
        rows: list[Row] = []
        for done, (kind, (what, flood)) in enumerate(kinds.items()):
            measure = f"worker memory, {what} / a tenth of them"
            if not _has_proc():
                rows.append(Row(name="worker-memory", measure=measure, unit="MiB", bound=GROWTH, skipped=NO_PROC))
                continue
            self.progress("worker-memory", done, len(kinds))
            resident = self.samples.setdefault(f"worker-memory/{kind}/rss_mib", [])
            with self._worker("ours", ARITHMETIC) as child:
                flood(child, resident)
            rows.append(
                Row(
                    name="worker-memory",
                    measure=measure,
                    unit="MiB",
                    ours=resident[-1:],
                    peer=resident[:1],
                    figure="growth",
                    # In flight are up to 2,000 decoded requests, and the threads for them start as they are needed: the
                    # level where that settles is reached late, and one run of this length does not show it.
                    bound=None if kind == "pipelined" else GROWTH,
                )
            )
        return rows

    def _contenders(self, *names: str) -> list[str]:
        return [name for name in names if name != "peer" or not self.no_peer]

    def _against_peer(self, row: Row) -> Row:
        """Return the row, or one that says why there is no nodetool-core to compare with."""
        if not self.no_peer:
            return row
        return Row(name=row.name, measure=row.measure, unit=row.unit, bound=row.bound, skipped=self.no_peer)

    def _worker(self, name: str, target: str, cores: frozenset[int] | None = None) -> Worker:
        environment, directory = self.environment, HERE
        if name == "peer":
            command, environment, directory = peer.command(), peer.environment(self.environment), peer.PACK
        elif name == "echo":
            command = worker_echo(self.python)
        else:
            command = worker(self.python, target)
        return Worker(
            name,
            command,
            environment=environment,
            directory=directory,
            cores=cores,
            announces=name != "echo",
        )


def _flood_executes(child: Worker, resident: list[float], *, pipelined: bool) -> None:
    kind = node_type("ours", child.ask(DISCOVER), "Add")
    for first in range(0, MEMORY_REQUESTS, MEMORY_BLOCK):
        requests = additions(kind, MEMORY_BLOCK, first=first)
        if pipelined:
            _, answers = child.pipelined(b"".join(requests), count=len(requests))
        else:
            _, answers = child.one_at_a_time(requests)
        if (first + MEMORY_BLOCK) % (MEMORY_REQUESTS // 10) == 0:
            resident.append(child.memory_kib("VmRSS") / 1024)
        check_sums("ours", answers, count=len(requests), first=first)


def _flood_progress(child: Worker, resident: list[float]) -> None:
    kind = node_type("ours", child.ask(DISCOVER), "Tick")
    count = _Count(child, "progress", every=MEMORY_TICKS // 10, resident=resident)
    for number in range(TICK_CALLS):
        child.follow(execute("execute", number, kind, {"times": TICKS_A_CALL}), count)
        if count.seen >= MEMORY_TICKS:
            return
    raise ContenderError("ours", f"{count.seen} progress frames of {TICK_CALLS * TICKS_A_CALL:,} reports")


def _flood_chunks(child: Worker, resident: list[float]) -> None:
    kind = node_type("ours", child.ask(DISCOVER), "Pieces")
    count = _Count(child, "chunk", every=MEMORY_CHUNKS // 10, resident=resident)
    fields = {"count": MEMORY_CHUNKS, "size": CHUNK_BYTES}
    child.follow(execute("execute.stream", 1, kind, fields), count)
    if count.seen != MEMORY_CHUNKS:
        raise ContenderError("ours", f"{count.seen} chunks of {MEMORY_CHUNKS}")


class _Count:
    """Counts the messages of one type, and reads the worker's memory after each `every` of them."""

    def __init__(self, child: Worker, kind: str, *, every: int, resident: list[float]) -> None:
        self.seen = 0
        self._child, self._kind, self._every, self._resident = child, kind, every, resident

    def __call__(self, kind: str) -> None:
        if kind == self._kind:
            self.seen += 1
            if self.seen % self._every == 0:
                self._resident.append(self._child.memory_kib("VmRSS") / 1024)


def _batch(child: Worker, requests: Sequence[bytes], *, pipelined: bool) -> Callable[[], float]:
    """Return a function that sends all of `requests`, checks the answers and returns the requests a second."""
    block = b"".join(requests)

    def run() -> float:
        if pipelined:
            seconds, answers = child.pipelined(block, count=len(requests))
        else:
            seconds, answers = child.one_at_a_time(requests)
        check_sums(child.contender, answers, count=len(requests))
        return len(requests) / seconds

    return run


def _has_proc() -> bool:
    return Path("/proc/self/status").exists()
