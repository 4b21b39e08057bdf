"""A runner as a process: start it on a node file, send lines, read answers. Every wait has a bound."""

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from types import TracebackType
from typing import IO, Any, Self

#: Bound of each wait, in seconds: far above what any step takes on a slow machine.
PATIENCE = 30.0

#: What every node file starts with. None of it is loaded before it is used.
HEAD = "import os, sys, threading\nfrom octonode_sdk import Context, NodeError, node\n"

_ABSENT: Any = object()


def request(type_: str, id_: str = "i", node: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a request; `more` are further keys of the envelope."""
    made = {"octonode": "1", "type": type_, "invocationId": id_, **more}
    return made if node is None else {**made, "node": node}


def invoke(node: str | None = None, id_: str = "i", *, context: Any = _ABSENT, **inputs: Any) -> dict[str, Any]:
    """Return an `invoke` with these inputs."""
    more = {} if context is _ABSENT else {"context": context}
    return request("invoke", id_, node, inputs=inputs, **more)


def describe(node: str | None = None, id_: str = "i") -> dict[str, Any]:
    """Return a `describe`."""
    return request("describe", id_, node)


def to_bytes(message: Any) -> bytes:
    """Return the line of a message: JSON for an object, with its LF; bytes as they are."""
    return message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"


def read_answer(line: bytes) -> dict[str, Any]:
    """Read one line of stdout as strictly as the wire asks: LINE-14, LINE-15, RES-1."""

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    assert line.endswith(b"\n"), line[-100:]
    assert b"\n" not in line[:-1], line[:100]
    assert b"\r" not in line, line[:100]
    answer = json.loads(line.decode("utf-8"), parse_constant=refuse)
    assert isinstance(answer, dict)
    assert answer["octonode"] == "1"
    payload = {"ok": "outputs" if answer["type"] == "result" else "manifest", "error": "error"}[answer["status"]]
    assert set(answer) == {"octonode", "type", "invocationId", "status", payload}
    return answer


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without variables that change what is tested."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OCTONODE_", "PYTHON"))}
    return {**kept, **more}


def write_nodes(folder: Path, source: str, *, name: str = "nodes.py", head: str = HEAD) -> Path:
    """Write a node file: HEAD, then `source` without its indentation."""
    path = folder / name
    path.write_text(head + dedent(source), encoding="utf-8")
    return path


@dataclass
class Outcome:
    """What a process left behind."""

    status: int
    stdout: bytes
    stderr: str
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def answer(self) -> dict[str, Any]:
        """The only answer."""
        (answer,) = self.answers
        return answer

    @property
    def outputs(self) -> Any:
        """The outputs of the only answer."""
        assert self.answer["status"] == "ok", self.answer
        return self.answer["outputs"]

    @property
    def error(self) -> Any:
        """The error of the only answer."""
        assert self.answer["status"] == "error", self.answer
        return self.answer["error"]

    def by_id(self) -> dict[str, dict[str, Any]]:
        """Return the answers by their id; each id comes once (RES-10)."""
        ids = [answer["invocationId"] for answer in self.answers]
        assert sorted(ids) == sorted(set(ids))
        return dict(zip(ids, self.answers, strict=True))


def command(*arguments: object) -> list[str]:
    """Return the command line of a runner."""
    return [sys.executable, "-m", "octonode_sdk", *map(str, arguments)]


def serve(folder: Path, source: str, *messages: Any, arguments: tuple[object, ...] = (), **environment: str) -> Outcome:
    """Start a runner on a node file with this source, send it everything at once, close its input, and wait."""
    path = write_nodes(folder, source)
    return serve_command(command(path, *arguments), b"".join(map(to_bytes, messages)), cwd=folder, **environment)


def serve_command(line: list[str], data: bytes, *, cwd: Path, **environment: str) -> Outcome:
    """Do the same for any command and input."""
    run = subprocess.run(
        line,
        input=data,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        cwd=cwd,
        env=clean_environment(**environment),
    )
    lines = run.stdout.splitlines(keepends=True)
    return Outcome(run.returncode, run.stdout, run.stderr.decode(), [read_answer(line) for line in lines])


@contextmanager
def inherited_signals(ignored: tuple[int, ...]) -> Iterator[None]:
    """Let a process that is started now ignore these signals and no others, whatever the tests themselves ignore."""
    kept = {}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        kept[number] = signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


class Process:
    """A runner that goes on while the test looks at it.

    Use it as a context manager: what is left at the end is killed.

    Args:
        folder: Where the node file is, and the process's folder.
        source: The node file, without HEAD.
        arguments: What follows the target on the command line.
        reads: Whether threads read stdout and stderr; without one its pipe fills up.
        ignores: Signals that the process starts with as ignored.
        environment: Variables to add.
    """

    def __init__(
        self,
        folder: Path,
        source: str,
        *arguments: object,
        reads: tuple[str, ...] = ("stdout", "stderr"),
        ignores: tuple[int, ...] = (),
        **environment: str,
    ) -> None:
        path = write_nodes(folder, source)
        with inherited_signals(ignores):
            self.process = subprocess.Popen(
                command(path, *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=clean_environment(**environment),
            )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._errors = bytearray()
        self._told = threading.Condition()
        self._threads: list[threading.Thread] = []
        if "stdout" in reads:
            self.read_stdout()
        if "stderr" in reads:
            self.read_stderr()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        for stream in (self.stdin, self.stdout, self.process.stderr):
            try:
                assert stream is not None
                stream.close()
            except BrokenPipeError:  # what was never sent
                continue

    @property
    def stdin(self) -> IO[bytes]:
        """The host's end of the runner's stdin."""
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """The host's end of the runner's stdout."""
        assert self.process.stdout is not None
        return self.process.stdout

    def _start(self, work: Any) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def read_stdout(self) -> None:
        """Start to read stdout."""
        self._start(self._read_stdout)

    def _read_stdout(self) -> None:
        for line in self.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def read_stderr(self) -> None:
        """Start to read stderr."""
        self._start(self._read_stderr)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := os.read(self.process.stderr.fileno(), 65536):
            with self._told:
                self._errors += data
                self._told.notify_all()
        with self._told:
            self._told.notify_all()

    def send(self, *messages: Any) -> None:
        """Send requests, each with its LF; bytes as they are."""
        self.stdin.write(b"".join(map(to_bytes, messages)))
        self.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the next answer."""
        line = self._lines.get(timeout=PATIENCE)
        assert line, f"stdout has ended; stderr: ...{self.stderr[-1000:]}"
        return read_answer(line)

    def answers(self, count: int) -> dict[str, dict[str, Any]]:
        """Return the next answers by their id."""
        found = [self.answer() for _ in range(count)]
        by_id = {answer["invocationId"]: answer for answer in found}
        assert len(by_id) == count
        return by_id

    @property
    def stderr(self) -> str:
        """What came on stderr so far."""
        with self._told:
            return self._errors.decode()

    def wait_for(self, text: str, count: int = 1) -> None:
        """Wait until a text stands on stderr, so many times."""
        with self._told:
            found = self._told.wait_for(lambda: self._errors.decode("utf-8", "ignore").count(text) >= count, PATIENCE)
        assert found, f"no {text!r} on stderr: ...{self.stderr[-1000:]}"

    def close(self) -> None:
        """End the input."""
        self.stdin.close()

    def wait(self) -> int:
        """Wait for the end of the process; return its status."""
        return self.process.wait(PATIENCE)

    def rest(self) -> list[dict[str, Any]]:
        """Return the answers that are left, up to the end of stdout."""
        found = []
        while line := self._lines.get(timeout=PATIENCE):
            found.append(read_answer(line))
        return found

    def finish(self) -> Outcome:
        """End the input, wait for the process, and return what it left; answers that were taken are not among it."""
        self.close()
        status = self.wait()
        answers = self.rest()
        for thread in self._threads:
            thread.join(PATIENCE)
        return Outcome(status, b"", self.stderr, answers)


class Gate:
    """A pipe by name that a node waits at, until the test lets it pass.

    In the node: `open(path, "rb", buffering=0).read(1)`.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Both ends are held, so that neither side ever waits for the other to open it.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def let_pass(self, what: int | bytes = 1) -> None:
        """Let so many reads of a byte return, or write these bytes."""
        data = what if isinstance(what, bytes) else b"." * what
        assert os.write(self._fd, data) == len(data)

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)


@contextmanager
def gate(folder: Path, name: str = "gate") -> Iterator[Gate]:
    """Make a gate in a folder for the time of a test."""
    made = Gate(folder / name)
    try:
        yield made
    finally:
        made.close()


class Watch:
    """Somebody else's process, told apart from a later one with the same number."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def ends(self) -> bool:
        """Wait for its end; return False if that does not come."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        ended = bool(poll.poll(PATIENCE * 1000))
        os.close(self._fd)
        return ended
