"""A worker as a process: starting it, waiting until it is ready, keeping its log, and ending it (BRG-1, BRG-20).

Transport without policy, but for the end: no process is left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from time import monotonic
from weakref import WeakSet

from octonode_sdk.process.outcomes import outcome_text

from ..errors import WorkerStartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["READY", "STARTUP_SECONDS", "WorkerProcess", "worker_command"]

#: What a worker writes to stderr when it can be talked to.
READY = b"NODETOOL_STDIO_READY"

#: How long that may take; the page's default.
STARTUP_SECONDS = 20.0

#: Lines of stderr that are kept (BRG-15).
_KEPT_LINES = 200

#: A line of stderr is cut here: one without an end must not fill the memory.
_LINE_BYTES = 1 << 16

_READ_BYTES = 1 << 16

#: What the pipes to a worker hold: what Linux grants to anybody.
_PIPE_BYTES = 1 << 20

#: How long a worker may take to end after SIGTERM.
_TERMINATE_SECONDS = 2.0

#: How long after its end the rest of its stderr is waited for. A process that it left may hold it open.
_STDERR_SECONDS = 1.0

#: Texts on stderr of a worker that did not start, and what to do about them.
_HINTS = (
    (
        "unrecognized arguments: --stdio",
        "this worker is too old to know --stdio; install its Python environment again, with a current octonode-sdk "
        "or nodetool-core",
    ),
    ("No module named nodetool", "install octonode-sdk in that environment: PYTHON -m pip install octonode-sdk"),
    ("No module named 'nodetool", "install octonode-sdk in that environment: PYTHON -m pip install octonode-sdk"),
)

#: In place of a status that nobody knows.
_UNKNOWN_STATUS = 1 << 40

_is_windows = sys.platform == "win32"


def worker_command(
    command: Sequence[str] | None, *, nodes: Sequence[str] = (), namespaces: Sequence[str] = ()
) -> list[str]:
    """Return the command line of a worker.

    Args:
        command: The worker, `--stdio` included; None for `python -m nodetool.worker --stdio`, with the interpreter of
            NODETOOL_PYTHON, else our own.
        nodes: Node files and modules, for `--nodes`, which our worker has.
        namespaces: For `--namespaces`, which any worker has.
    """
    if isinstance(command, str):
        raise TypeError(f"command is the text {command!r}; give a list, such as {command.split()!r}")
    if command is None:
        command = [os.environ.get("NODETOOL_PYTHON") or sys.executable, "-m", "nodetool.worker", "--stdio"]
    line = [os.fspath(word) for word in command]
    for target in nodes:
        line += ["--nodes", os.fspath(target)]
    if namespaces:
        line += ["--namespaces", ",".join(namespaces)]
    return line


class WorkerProcess:
    """One worker, started.

    Args:
        command: As `worker_command` returns it.
        env: Variables to add to our own; None takes one away.
        cwd: Its folder.
        on_stderr: Called with each line of its stderr, on a thread that does nothing else.

    Attributes:
        command: What was started.
        pid: Its id.
        in_fd, out_fd: Our ends of its stdin and stdout; whoever takes them closes them.

    Raises:
        WorkerStartError: There is no such program, or no such folder.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> None:
        self.command = list(command)
        self._on_stderr = on_stderr
        variables = dict(os.environ)
        for name, value in (env or {}).items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value
        try:
            # A session of its own: the whole of it can be ended, and Ctrl-C at the terminal is for the host alone.
            self._popen = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=variables,
                cwd=cwd,
                start_new_session=not _is_windows,
            )
        except (OSError, ValueError) as error:
            raise WorkerStartError(
                f"can't be started: {error}", command=self.command, way_out="look at the command and the folder"
            ) from error
        popen = self._popen
        assert popen.stdin is not None
        assert popen.stdout is not None
        self.pid = popen.pid
        self.in_fd, self.out_fd = os.dup(popen.stdin.fileno()), os.dup(popen.stdout.fileno())
        popen.stdin.close()
        popen.stdout.close()
        for fd in (self.in_fd, self.out_fd):
            _widen(fd)
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._news = threading.Condition()
        self._is_ready = self._has_exited = False
        self._exit_listeners: list[Callable[[], None]] = []
        _running.add(self)
        self._stderr_thread = threading.Thread(target=self._read_stderr, name="bridge-stderr", daemon=True)
        self._watch_thread = threading.Thread(target=self._watch, name="bridge-watch", daemon=True)
        self._stderr_thread.start()
        self._watch_thread.start()

    # Its log

    def _read_stderr(self) -> None:
        assert self._popen.stderr is not None
        fd, line, window = self._popen.stderr.fileno(), b"", b""
        while True:
            try:
                data = os.read(fd, _READ_BYTES)
            except OSError:
                data = b""
            if not data:
                break
            if not self._is_ready:
                window = window[-len(READY) + 1 :] + data  # the text may come in pieces (C044)
                if READY in window:
                    with self._news:
                        self._is_ready = True
                        self._news.notify_all()
            *whole, line = (line + data).split(b"\n")
            for one in whole:
                self._keep(one)
            if len(line) > _LINE_BYTES:
                self._keep(line)
                line = b""
        if line:
            self._keep(line)
        self._popen.stderr.close()

    def _keep(self, line: bytes) -> None:
        text = line[:_LINE_BYTES].rstrip(b"\r").decode("utf-8", "backslashreplace")
        self._lines.append(text)
        if self._on_stderr is None:
            return
        try:
            self._on_stderr(text)
        except Exception:  # whatever a caller's function raises, stderr has to be read on
            import logging

            logging.getLogger(__name__).exception("on_stderr has failed and is not called any more")
            self._on_stderr = None

    def stderr_tail(self) -> list[str]:
        """Return the last lines of stderr, oldest first."""
        return list(self._lines)

    # Its life

    def wait_ready(self, timeout: float) -> None:
        """Wait until the worker says that it is ready (BRG-2).

        Raises:
            WorkerStartError: It has ended before, or says nothing for `timeout` seconds. It is not ended by this.
        """
        with self._news:
            self._news.wait_for(lambda: self._is_ready or self._has_exited, timeout)
        if self._has_exited:  # it may have said so and ended; then what it has sent is still to be read
            self.settle_stderr()
        if self._is_ready:
            return
        has_exited = self._has_exited
        status = self.wait(0)
        tail = self.stderr_tail()
        text = "\n".join(tail)
        hints = [way.replace("PYTHON", self.command[0]) for mark, way in _HINTS if mark in text]
        if has_exited:
            problem = f"{outcome_text(status)} before it was ready"
            way_out = hints[0] if hints else "look at its lines on stderr"
        else:
            problem = f"did not say {READY.decode()} on stderr within {timeout:g} s"
            way_out = hints[0] if hints else "give it more time (startup_timeout), or look at what its nodes import"
        raise WorkerStartError(problem, command=self.command, status=status, stderr_tail=tail, way_out=way_out)

    def _watch(self) -> None:
        """Wait for the worker's end, and end what it has left behind."""
        if _is_windows:
            self._popen.wait()
        else:
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # somebody else has reaped it, and nobody knows how it ended
                self._popen.returncode = _UNKNOWN_STATUS
            else:
                self._signal_group(9)  # it is not reaped yet, so nobody else has its id, which is also its group's
        with self._news:
            self._popen.wait()
            self._has_exited = True
            listeners, self._exit_listeners = self._exit_listeners, []
            self._news.notify_all()
        _running.discard(self)
        for listener in listeners:
            listener()

    def on_exit(self, listener: Callable[[], None]) -> None:
        """Call a function, on another thread, when the worker has ended; at once if it has."""
        with self._news:
            if not self._has_exited:
                self._exit_listeners.append(listener)
                return
        listener()

    def wait(self, timeout: float) -> int | None:
        """Wait for the worker's end; return its status, -N for signal N, or None while it runs."""
        with self._news:
            if not self._news.wait_for(lambda: self._has_exited, timeout):
                return None
        return self._status()

    @property
    def has_exited(self) -> bool:
        """Whether the worker has ended."""
        return self._has_exited

    def settle_stderr(self) -> None:
        """Wait a little until what an ended worker has written to stderr is read."""
        if self._stderr_thread is not threading.current_thread():
            self._stderr_thread.join(_STDERR_SECONDS)

    def kill(self) -> None:
        """End the worker and its group at once."""
        if _is_windows:
            _kill_tree(self.pid)
            self._popen.kill()
            return
        with self._news:
            if not self._has_exited:  # until then it is not reaped, and the id is its own
                self._signal_group(9)

    def _terminate(self) -> None:
        if _is_windows:
            self._popen.terminate()
            return
        os.kill(self.pid, 15)  # not by way of Popen, which would reap it where it has just ended

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):  # nobody is left; macOS says the latter for a zombie alone
            return

    def end(self, grace: float) -> int | None:
        """End the worker, whose stdin must be closed already: wait, terminate, kill; each with a bound (BRG-20).

        Args:
            grace: Seconds until SIGTERM.

        Returns:
            The exit status.
        """
        if self.wait(grace) is None:
            with self._news:
                if not self._has_exited:
                    self._terminate()
            if self.wait(_TERMINATE_SECONDS) is None:
                self.kill()
                self.wait(_TERMINATE_SECONDS)
        self.settle_stderr()
        return self._status()

    def _status(self) -> int | None:
        status: int | None = self._popen.returncode
        return None if status == _UNKNOWN_STATUS else status


def _widen(fd: int) -> None:
    """Let a pipe hold more, so that large frames need fewer turns of both sides. Linux alone can."""
    try:
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(fd, F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, OSError):  # not there, or the user has too many large pipes
        return


def _kill_tree(pid: int) -> None:
    subprocess.run(["taskkill", "/T", "/F", "/PID", str(pid)], capture_output=True, check=False, timeout=10)


#: Workers that have not ended, for the end of this process.
_running: WeakSet[WorkerProcess] = WeakSet()


def _end_all() -> None:
    deadline = monotonic() + _TERMINATE_SECONDS
    for worker in list(_running):
        worker.kill()
    for worker in list(_running):
        worker.wait(max(0.0, deadline - monotonic()))


def _register() -> None:
    import atexit

    atexit.register(_end_all)


_register()
