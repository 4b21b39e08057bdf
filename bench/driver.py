"""Start contenders and talk to them over pipes; measures time and memory, judges nothing.

The driver must never be the slowest in the race: while the clock runs it moves bytes and does
not look at them, except for counting line ends.
"""

import os
import resource
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Final, Literal, Self

from contenders import ContenderError

READ_BYTES: Final = 1 << 20
"""Most to take from a pipe at once; more than a pipe holds, so that one read empties it."""

ANSWER_BYTES: Final = 1 << 16
"""Most to take at once where one answer is awaited: what a pipe holds.

Python gets a larger buffer from the system for each read and gives it back, which disturbs the contender's core too.
"""

LIMIT_SECONDS: Final = 60.0
"""Longest wait for one batch of answers; a hundred times what the slowest batch takes."""


@dataclass(frozen=True, kw_only=True)
class OneShot:
    """One process from start to end.

    Fields: `wall_ms` from before the start until it is reaped, `cpu_ms` what the process spent on
    all cores, `stdout` what it wrote.
    """

    wall_ms: float
    cpu_ms: float
    stdout: bytes


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_once(
    contender: str,
    command: Sequence[str],
    request: bytes,
    *,
    environment: Mapping[str, str],
    directory: Path,
) -> OneShot:
    """Run `command` to its end with `request` as its whole standard input.

    Raises:
        ContenderError: It can't be started, exits other than 0, or is not done in `LIMIT_SECONDS`.
    """
    cpu_before, started = _children_cpu_seconds(), perf_counter()
    try:
        finished = subprocess.run(
            command,
            input=request,
            capture_output=True,
            timeout=LIMIT_SECONDS,
            env=environment,
            cwd=directory,
            check=False,
        )
    except OSError as error:
        raise ContenderError(contender, f"cannot be started: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise ContenderError(contender, f"still ran after {LIMIT_SECONDS:.0f} s") from error
    wall, cpu = perf_counter() - started, _children_cpu_seconds() - cpu_before
    if finished.returncode:
        stderr = finished.stderr.decode(errors="backslashreplace")
        raise ContenderError(contender, f"exit status {finished.returncode}", stderr)
    return OneShot(wall_ms=wall * 1e3, cpu_ms=cpu * 1e3, stdout=finished.stdout)


@contextmanager
def core_apart() -> Iterator[frozenset[int] | None]:
    """Keep the driver on one core and yield the others, for the contenders.

    Left to itself the scheduler puts the two ends of a pipe now on one core and then on two,
    which makes a round trip six times as long: the placement would decide the race.

    Yields:
        The cores for children; None, with nothing changed, where there is only one core or the
        system has no such call.
    """
    cores = usable_cores()
    if len(cores) < 2:
        yield None
        return
    driver = min(cores)
    os.sched_setaffinity(0, {driver})
    try:
        yield cores - {driver}
    finally:
        os.sched_setaffinity(0, cores)


def usable_cores() -> frozenset[int]:
    """Return the numbers of the cores that this process may use, none where it can't be told."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


class Child:
    """A contender that stays alive, with pipes to its standard input and output.

    A context manager: leaving it closes the child's standard input and demands a clean end; after
    an exception the child is killed.
    """

    def __init__(
        self,
        contender: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        cores: frozenset[int] | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start the child, on `cores` only where these are given.

        Args:
            stderr: Descriptor for its standard error; None for a file whose end goes into error texts.

        Raises:
            ContenderError: It can't be started.
        """
        self.contender = contender
        with ExitStack() as stack:
            self._stderr = stack.enter_context(tempfile.TemporaryFile())
            self.started = perf_counter()
            try:
                self._process = subprocess.Popen(
                    command,
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._stderr if stderr is None else stderr,
                    env=environment,
                    cwd=directory,
                )
            except OSError as error:
                raise ContenderError(contender, f"cannot be started: {error}") from error
            self._closing = stack.pop_all()
        if cores is not None:
            os.sched_setaffinity(self._process.pid, cores)
        assert self._process.stdin is not None  # both are pipes
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            self._process.kill()
            self._input.close()
            self._output.close()
            self._process.wait()
            self._closing.close()

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._process.pid

    def memory_kib(self, name: Literal["VmRSS", "VmHWM"]) -> int:
        """Return the resident memory of the child in KiB, now or at its peak, from `/proc`."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        for line in status.splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise self._ended()

    def _write_all(self, block: bytes) -> None:
        rest = memoryview(block)
        sink = self._input.fileno()
        try:
            while rest:
                rest = rest[os.write(sink, rest) :]
        except BrokenPipeError:
            pass  # the reader meets the same end and reports it

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """Kill the child when the block takes over `LIMIT_SECONDS`: both pipes then end.

        A timer thread, because a poll before every read would slow down the driver.
        """
        timer = threading.Timer(LIMIT_SECONDS, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        except BrokenPipeError as error:
            raise self._ended() from error
        finally:
            timer.cancel()

    def _finish(self) -> None:
        """Close the child's input and demand status 0 and not a byte more."""
        self._input.close()
        with self._bounded():
            extra = self._output.read(READ_BYTES)
            status = self._process.wait()
        if extra:
            raise ContenderError(self.contender, f"surplus output {extra[:200]!r}")
        if status:
            raise self._ended()

    def _ended(self) -> ContenderError:
        """Describe a child that ended, or was ended by `_bounded`, before it should."""
        try:
            status = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        return ContenderError(
            self.contender,
            f"ended too early, status {status} (killed after {LIMIT_SECONDS:.0f} s if it hung)",
            self._stderr_text(),
        )

    def _stderr_text(self) -> str:
        """Return what the ended child wrote to its standard error."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="backslashreplace")


class Loop(Child):
    """A contender that answers lines with lines."""

    def one_at_a_time(self, requests: Sequence[bytes]) -> tuple[float, bytes]:
        """Send each request once the answer to the one before is in.

        Returns:
            The seconds that all of it took, and the answers as they came.

        Raises:
            ContenderError: The child ended or hung.
        """
        source, sink = self._output.fileno(), self._input.fileno()
        read, write = os.read, os.write
        answers: list[bytes] = []
        with self._bounded():
            started = perf_counter()
            for request in requests:
                write(sink, request)
                answer = read(source, ANSWER_BYTES)
                while answer[-1:] != b"\n":
                    piece = read(source, ANSWER_BYTES)
                    if not piece:
                        raise self._ended()
                    answer += piece
                answers.append(answer)
            seconds = perf_counter() - started
        return seconds, b"".join(answers)

    def pipelined(self, requests: bytes, *, count: int) -> tuple[float, bytes]:
        """Send all `requests` as fast as the pipe takes them, and read answers meanwhile.

        Args:
            requests: All lines in one block.
            count: How many lines these are.

        Returns:
            The seconds until answer number `count` was in, and the answers as they came.

        Raises:
            ContenderError: The child ended or hung.
        """
        source = self._output.fileno()
        pieces: list[bytes] = []
        missing = count
        with self._bounded():
            writer = threading.Thread(target=self._write_all, args=(requests,), daemon=True)
            started = perf_counter()
            writer.start()
            while missing > 0:
                piece = os.read(source, READ_BYTES)
                if not piece:
                    raise self._ended()
                missing -= piece.count(b"\n")
                pieces.append(piece)
            seconds = perf_counter() - started
            writer.join()
        return seconds, b"".join(pieces)
