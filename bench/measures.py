"""The measures: each takes its samples contender by contender, round by round, and gives rows.

A shared machine is slow now and fast then. So no contender is measured in one go: each round
takes one sample of every contender, the next round starts with another one, and only medians
of such samples are compared.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal

from contenders import (
    GREET,
    HERE,
    LIGHT,
    Case,
    ContenderError,
    bare,
    check_answers,
    check_echo,
    echo,
    ours,
    request_line,
    request_lines,
)
from driver import Loop, OneShot, core_apart, run_once
from table import Bound, Row

Name = Literal["one-shot", "node", "loop", "pipelined", "memory"]
NAMES: Final[tuple[Name, ...]] = ("one-shot", "node", "loop", "pipelined", "memory")

NODE_CERTIFICATES: Final = "NODE_EXTRA_CA_CERTS"
"""A variable that makes `node` read a file of certificates at each start, which takes longer than the start."""

Progress = Callable[[str, int, int], None]
"""Called with what is measured, the rounds done and the rounds to do."""

MEMORY_REQUESTS: Final = 100_000
MEMORY_BLOCK: Final = 10_000
"""Resident memory is read after every block; growth counts from the end of the first one."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much to measure.

    Fields:
        one_shot_rounds: Processes of each contender.
        loop_rounds, loop_requests: Batches of each contender and node, and requests in a batch.
        pipelined_rounds, pipelined_requests: The same with all of a batch in flight.
    """

    one_shot_rounds: int
    loop_rounds: int
    loop_requests: int
    pipelined_rounds: int
    pipelined_requests: int


# Many short batches rather than few long ones: what disturbs a shared machine comes in bursts,
# and a median leaves out the batches that met one.
FULL: Final = Plan(
    one_shot_rounds=200,
    loop_rounds=30,
    loop_requests=2000,
    pipelined_rounds=100,
    pipelined_requests=5_000,
)
QUICK: Final = Plan(
    one_shot_rounds=30,
    loop_rounds=10,
    loop_requests=1000,
    pipelined_rounds=20,
    pipelined_requests=5_000,
)


@dataclass(kw_only=True)
class Bench:
    """One run: where it runs, how much it does, and the raw samples that it collected.

    Fields:
        python: The interpreter of every contender.
        environment: Of every child; see `contenders.child_environment`.
        plan: How much to measure.
        progress: Told about every round.
        samples: Every sample in the order taken, by measure, node where there are two, contender and unit:
            `loop/greet/ours/requests_per_s`.
    """

    python: str
    environment: Mapping[str, str]
    plan: Plan
    progress: Progress
    samples: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, names: Sequence[str]) -> list[Row]:
        """Take the named measures, in the order of `NAMES`.

        Raises:
            ContenderError: A contender can't be started or answers wrongly.
        """
        rows: list[Row] = []
        if "one-shot" in names or "node" in names:
            rows += self._one_shot(against_bare="one-shot" in names, against_node="node" in names)
        if "loop" in names:
            rows += self._loop()
        if "pipelined" in names:
            rows += self._pipelined()
        if "memory" in names:
            rows.append(self._memory())
        return rows

    def _one_shot(self, *, against_bare: bool, against_node: bool) -> list[Row]:
        commands = {"ours": ours(self.python, LIGHT)}
        if against_bare:
            commands |= {
                "bare": bare(self.python, "bare_target.py"),
                "hinted": bare(self.python, "hinted_target.py"),
                "pass": [self.python, "-c", "pass"],
            }
        node = find_node() if against_node else None
        if node is not None:
            commands["node"] = [node, "-e", "0"]
            if NODE_CERTIFICATES in self.environment:
                commands["node-plain"] = [node, "-e", "0"]

        for _ in range(2):  # the first start compiles the bytecode, the second reads it
            for name in commands:
                self._start_once(name, commands[name])
        wall: dict[str, list[float]] = {
            name: self.samples.setdefault(f"one-shot/{name}/wall_ms", []) for name in commands
        }
        for order in in_turns(self.progress, "one-shot", list(commands), self.plan.one_shot_rounds):
            for name in order:
                sample = self._start_once(name, commands[name])
                wall[name].append(sample.wall_ms)
                self.samples.setdefault(f"one-shot/{name}/cpu_ms", []).append(sample.cpu_ms)

        rows: list[Row] = []
        if against_bare:
            rows += [
                Row(
                    name="one-shot",
                    measure="one-shot invoke / bare runner, target without hints",
                    unit="ms",
                    ours=wall["ours"],
                    peer=wall["bare"],
                    bound=Bound(limit=1.3, sense="at most"),
                ),
                Row(
                    name="one-shot",
                    measure="one-shot invoke / bare runner, target with the same hints",
                    unit="ms",
                    ours=wall["ours"],
                    peer=wall["hinted"],
                ),
                Row(
                    name="one-shot",
                    measure="floor: bare runner (in the place of ours) / `python -c pass`",
                    unit="ms",
                    ours=wall["bare"],
                    peer=wall["pass"],
                ),
            ]
        if against_node:
            rows.append(
                Row(
                    name="node",
                    measure="one-shot invoke / `node -e 0`",
                    unit="ms",
                    ours=wall["ours"] if node else (),
                    peer=wall["node"] if node else (),
                    bound=Bound(limit=0.5, sense="at most"),
                    skipped="" if node else "no working node on PATH",
                )
            )
        if "node-plain" in commands:
            rows.append(
                Row(
                    name="node",
                    measure=f"one-shot invoke / `node -e 0` without {NODE_CERTIFICATES}",
                    unit="ms",
                    ours=wall["ours"],
                    peer=wall["node-plain"],
                )
            )
        return rows

    def _loop(self) -> list[Row]:
        """One request at a time. Judged with the two ends of the pipe on two cores, as a host and its worker are."""
        rows: list[Row] = []
        bound = Bound(limit=0.6, sense="at least")
        for case, judged, apart in ((GREET, bound, True), (GREET, None, False), (LIGHT, None, True)):
            requests = request_lines(case, self.plan.loop_requests)
            rates = self._race(
                "loop",
                case,
                requests,
                self.plan.loop_rounds,
                partial(Loop.one_at_a_time, requests=requests),
                apart=apart,
            )
            where = "" if apart else ", cores left to the scheduler"
            rows.append(
                Row(
                    name="loop",
                    measure=f"loop, one at a time, `{case.node}`{where} / Python echo of the same lines",
                    unit="req/s",
                    ours=rates["ours"],
                    peer=rates["echo"],
                    bound=judged,
                )
            )
        return rows

    def _pipelined(self) -> list[Row]:
        rows: list[Row] = []
        for case, bound in ((GREET, Bound(limit=0.25, sense="at least")), (LIGHT, None)):
            requests = request_lines(case, self.plan.pipelined_requests)
            rates = self._race(
                "pipelined",
                case,
                requests,
                self.plan.pipelined_rounds,
                partial(Loop.pipelined, requests=b"".join(requests), count=len(requests)),
                apart=False,
            )
            rows.append(
                Row(
                    name="pipelined",
                    measure=f"loop, pipelined, `{case.node}` / Python echo of the same lines",
                    unit="req/s",
                    ours=rates["ours"],
                    peer=rates["echo"],
                    bound=bound,
                )
            )
        return rows

    def _memory(self) -> Row:
        measure = f"loop memory, {MEMORY_REQUESTS:,} requests / {MEMORY_BLOCK:,} requests"
        bound = Bound(limit=2, sense="at most")
        if not Path("/proc/self/status").exists():
            return Row(name="memory", measure=measure, unit="MiB", bound=bound, skipped="no /proc here")
        resident = self.samples.setdefault("memory/ours/rss_mib", [])
        with self._start_loop("ours", ours(self.python, LIGHT)) as child:
            for first in range(0, MEMORY_REQUESTS, MEMORY_BLOCK):
                self.progress("memory", first // MEMORY_BLOCK, MEMORY_REQUESTS // MEMORY_BLOCK)
                requests = request_lines(LIGHT, MEMORY_BLOCK, first=first)
                _, answers = child.pipelined(b"".join(requests), count=len(requests))
                resident.append(child.memory_kib("VmRSS") / 1024)
                check_answers("ours", LIGHT, requests, answers)
        return Row(
            name="memory",
            measure=measure,
            unit="MiB",
            ours=resident[-1:],
            peer=resident[:1],
            figure="growth",
            bound=bound,
        )

    def _race(
        self,
        measure: Name,
        case: Case,
        requests: Sequence[bytes],
        rounds: int,
        batch: Callable[[Loop], tuple[float, bytes]],
        *,
        apart: bool,
    ) -> dict[str, list[float]]:
        """Let ours and the echo take turns at `batch`, which sends all of `requests`.

        Args:
            apart: Whether the driver gets a core of its own; else the scheduler decides.

        Returns:
            The requests a second of each batch, by contender.
        """
        commands = {"ours": ours(self.python, case), "echo": echo(self.python)}
        checks = {"ours": partial(check_answers, "ours", case), "echo": partial(check_echo, "echo")}
        place = "" if apart else "/any-core"
        rates = {
            name: self.samples.setdefault(f"{measure}/{case.node}{place}/{name}/requests_per_s", [])
            for name in commands
        }
        with ExitStack() as stack:
            cores = stack.enter_context(core_apart()) if apart else None
            children = {
                name: stack.enter_context(self._start_loop(name, command, cores)) for name, command in commands.items()
            }
            for name, child in children.items():
                _, answers = batch(child)
                checks[name](requests, answers)
            for order in in_turns(self.progress, f"{measure} {case.node}", list(children), rounds):
                for name in order:
                    seconds, answers = batch(children[name])
                    rates[name].append(len(requests) / seconds)
                    checks[name](requests, answers)
        return rates

    def _start_once(self, name: str, command: Sequence[str]) -> OneShot:
        """Take one process sample and refuse a wrong answer."""
        request = request_line(LIGHT, "one-shot")
        environment = dict(self.environment)
        if name == "node-plain":
            del environment[NODE_CERTIFICATES]
        sample = run_once(name, command, request, environment=environment, directory=HERE)
        if name not in ("pass", "node", "node-plain"):
            check_answers(name, LIGHT, [request], sample.stdout)
        elif sample.stdout:
            raise ContenderError(name, f"surplus output {sample.stdout[:200]!r}")
        return sample

    def _start_loop(self, name: str, command: Sequence[str], cores: frozenset[int] | None = None) -> Loop:
        return Loop(name, command, environment=self.environment, directory=HERE, cores=cores)


def in_turns(progress: Progress, measure: str, names: Sequence[str], rounds: int) -> Iterator[Sequence[str]]:
    """Yield the order of each round: every contender once, another one first each time."""
    for done in range(rounds):
        progress(measure, done, rounds)
        shift = done % len(names)
        yield [*names[shift:], *names[:shift]]


def find_node() -> str | None:
    """Return Node's own binary, None where there is none that works.

    What is on PATH may be a version manager's script, whose time would count as Node's.
    """
    found = shutil.which("node")
    if found is None:
        return None
    try:
        asked = subprocess.run(
            [found, "-p", "process.execPath"],
            capture_output=True,
            timeout=30,
            check=True,
            encoding="utf-8",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip() or None
