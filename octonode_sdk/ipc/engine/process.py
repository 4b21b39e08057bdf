"""A node as a process: starting it, its three pipes, its end and that of everything it has started.

Transport without policy: it moves bytes and tells what has ended. It knows nothing of calls or envelopes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from time import monotonic
from weakref import WeakSet

from ...process.children import end_marked, end_tree, mark_of_child
from .reactor import POLLIN, POLLOUT, has_poll
from .stderr import Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import IO, Any, Protocol

    from .limits import Limits
    from .reactor import Reactor
    from .stderr import LineSink

    class Owner(Protocol):
        """Whose a process is. All of these are called on the reactor's thread."""

        def take_output(self, data: bytes) -> None:
            """Take bytes of stdout; b"" is its end."""

        def take_exit(self) -> None:
            """Note that the process has ended; `status` and `is_drained` say more."""

        def take_defect(self, error: Exception) -> None:
            """Note that one of the others has raised this."""

    class Gate(Protocol):
        """Who else may read stdout. Called on the reactor's thread."""

        def enter(self) -> bool:
            """Return whether to read now; if so, `leave` follows."""

        def leave(self) -> None:
            """Have read."""

        def interrupt(self) -> None:
            """Have whoever reads stop."""


__all__ = ["NodeProcess", "Program", "checked_command", "checked_variables"]

_READ_BYTES = 1 << 16

#: Reads at the end of a process, together far more than any pipe holds: whoever else writes to it must not keep us.
_LAST_READS = 64

#: How soon to look again whether a reader of stdout has stopped that was told to.
_GATE_SECONDS = 0.001

_is_windows = sys.platform == "win32"


def checked_command(command: Any) -> list[str]:
    """Return a command line that a system can take.

    Raises:
        TypeError: It is one text, or holds what is no text and no path.
        ValueError: It is empty, or holds a NUL.
    """
    if isinstance(command, (str, bytes, os.PathLike)):
        shown = command.split() if isinstance(command, str) else [str(command)]
        raise TypeError(f"command is {command!r}; give a list, such as {shown!r}")
    line: list[str] = []
    for word in command:
        text = os.fspath(word)
        if not isinstance(text, str):
            raise TypeError(f"command holds {word!r}; expected texts and paths")
        if "\0" in text:
            raise ValueError(f"command holds a NUL character in {text!r}, which no system takes")
        line.append(text)
    if not line or not line[0]:
        raise ValueError("command is empty; expected a program and its arguments")
    return line


def checked_variables(env: Mapping[str, str | None] | None) -> dict[str, str | None]:
    """Return variables that a system can take.

    Raises:
        TypeError: A name or a value is no text.
        ValueError: A name is empty or holds "=", or either holds a NUL.
    """
    made: dict[Any, Any] = dict(env or {})
    for name, value in made.items():
        if not isinstance(name, str) or not isinstance(value, (str, type(None))):
            raise TypeError(f"env holds {name!r}: {value!r}; expected texts, or None for a variable to take away")
        if not name or "=" in name or "\0" in name or "\0" in (value or ""):
            raise ValueError(f"env holds {name!r}: {value!r}, which no system takes")
    return made


class Program:
    """What is started, and with what.

    Args:
        command: As `checked_command` returns it.
        cwd: Its folder, or None for ours.
        env: Variables to add to ours; None takes one away.
        limits: What is borne of it.
        sink: Takes each line of its stderr.
    """

    __slots__ = ("command", "cwd", "env", "limits", "sink")

    def __init__(
        self,
        command: list[str],
        *,
        limits: Limits,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        sink: LineSink | None = None,
    ) -> None:
        self.command, self.limits, self.sink = command, limits, sink
        self.cwd = None if cwd is None else os.fspath(cwd)
        self.env = checked_variables(env)

    def environment(self) -> dict[str, str]:
        """Return all its variables: those of this process as they are now, and its own."""
        variables = dict(os.environ)
        for name, value in self.env.items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value
        return variables


class NodeProcess:
    """One process, started. Made on the reactor's thread.

    Attributes:
        pid: Its id.
        status: How it has ended, once `has_exited`: -N for signal N, None where nobody knows.
        has_exited: Whether it has ended.
        is_killed: Whether we have ended it: its status then says nothing about the node.
        gate: Asked before stdout is read; None where nobody else reads.
        is_drained: Whether everything that it has itself written to stdout is handed over.

    Raises:
        OSError: It can't be started.
    """

    def __init__(self, program: Program, reactor: Reactor, owner: Owner) -> None:
        self._reactor, self._owner, self._limits = reactor, owner, program.limits
        self._mark = mark_of_child()
        # A session of its own: the whole of it can be ended, and Ctrl-C at the terminal is for the engine's host alone.
        # No other child inherits our ends of its pipes, so its stdin ends when this one does (ENG-28).
        with _starting:
            if _is_ending:
                raise RuntimeError("the program that holds the engine is ending")
            self._popen = subprocess.Popen(
                program.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**program.environment(), **self._mark},
                cwd=program.cwd,
                start_new_session=not _is_windows,
            )
            self.is_killed = self._is_released = False
            self.pid = self._popen.pid
            _running.add(self)  # before anybody can pass it over at the end of this process
        popen = self._popen
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.status: int | None = None
        self.has_exited = self.is_drained = False
        self._stdin, self._stdout, self._stderr = popen.stdin, popen.stdout, popen.stderr
        limits = program.limits
        sink = program.sink
        self._tail = Tail(limits.stderr_lines, limits.stderr_line_bytes, None if sink is None else sink.put)
        self._open = {self._stdout, self._stderr}
        self.gate: Gate | None = None
        # What the process has not taken of its input. Any thread sends.
        self._write_lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._is_writing = self._ends_input = self._is_deaf = False
        self._exit_fd = -1
        try:
            self._begin()
        except BaseException:
            self.kill()
            for stream in (self._stdin, self._stdout, self._stderr) if has_poll else ():
                reactor.unwatch(stream.fileno())
                stream.close()
            popen.wait()
            _running.discard(self)
            raise

    def _begin(self) -> None:
        if not has_poll:
            for stream in (self._stdout, self._stderr):
                self._start_thread(lambda stream=stream: self._read_all(stream))  # type: ignore[misc]  # bound now
            self._start_thread(self._watch_exit)
            return
        for stream in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
        self._exit_fd = _open_exit_fd(self.pid)
        self.resume_output()
        self._reactor.watch(self._stderr.fileno(), POLLIN, lambda _: self._read(self._stderr))
        if self._exit_fd >= 0:
            self._reactor.watch(self._exit_fd, POLLIN, lambda _: self._note_exit())
        else:
            self._start_thread(self._watch_exit)

    def _start_thread(self, target: Callable[[], None]) -> None:
        threading.Thread(target=target, name=f"engine-{self.pid}", daemon=True).start()

    # What it writes

    @property
    def stdout_fd(self) -> int:
        """Our end of its stdout, which does not block; for whoever the gate lets in."""
        return self._stdout.fileno()

    def pause_output(self) -> None:
        """Stop to look at stdout; on the reactor's thread."""
        self._reactor.unwatch(self._stdout.fileno())

    def resume_output(self) -> None:
        """Look at stdout again; on the reactor's thread."""
        if self._stdout in self._open:
            self._reactor.watch(self._stdout.fileno(), POLLIN, lambda _: self._read_output())

    def _read_output(self) -> None:
        if self.gate is None:
            self._read(self._stdout)
        elif self.gate.enter():
            try:
                self._read(self._stdout)
            finally:
                self.gate.leave()

    def _read(self, stream: IO[bytes]) -> bool:
        """Read once; return whether there may be more."""
        if stream not in self._open:
            return False
        try:
            data = os.read(stream.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._reactor.unwatch(stream.fileno())
        self._hand_over(stream, data)
        return bool(data)

    def _read_all(self, stream: IO[bytes]) -> None:
        """Read to the end and close, on a thread of its own; the reactor has to keep up."""
        taken = threading.Semaphore(0)
        while True:
            try:
                data = os.read(stream.fileno(), _READ_BYTES)
            except (OSError, ValueError):  # closed under us
                data = b""

            def hand_over(data: bytes = data) -> None:
                taken.release()
                if stream in self._open:
                    self._hand_over(stream, data)

            self._reactor.call_soon(hand_over)
            if not data:
                stream.close()
                return
            taken.acquire()

    def _hand_over(self, stream: IO[bytes], data: bytes) -> None:
        if not data:
            self._open.discard(stream)
        if stream is self._stderr:
            if data:
                self._tail.feed(data)
            else:
                self._tail.finish()
            return
        try:
            self._owner.take_output(data)
        except Exception as error:  # noqa: BLE001  # whoever waits must hear of a defect of ours as well
            self._owner.take_defect(error)

    @property
    def has_output(self) -> bool:
        """Whether stdout has not come to its end."""
        return self._stdout in self._open

    def tail(self) -> list[str]:
        """Return the last lines of stderr, oldest first (ENG-21)."""
        return self._tail.lines()

    # Its input

    def send(self, data: bytes) -> None:
        """Write to its stdin what it takes now, and the rest when it does; from any thread, in the order of the calls.

        A process that reads no more is no error here: its end tells.
        """
        with self._write_lock:
            if self._is_deaf or self._ends_input:
                return
            if self._unsent or self._is_writing:
                self._unsent.append(memoryview(data))
                return
            if has_poll:
                try:
                    count = os.write(self._stdin.fileno(), data)
                except BlockingIOError:
                    count = 0
                except OSError:
                    self._is_deaf = True
                    return
                if count == len(data):
                    return
                data = data[count:]
            self._unsent.append(memoryview(data))
            self._is_writing = True
        if has_poll:
            self._reactor.call_soon(self._watch_input)
        else:
            self._start_thread(self._write_all)

    def end_input(self) -> None:
        """Close its stdin, once everything is written; from any thread."""
        with self._write_lock:
            self._ends_input = True
            if not self._is_writing:
                self._close_input()

    def _close_input(self) -> None:
        self._is_deaf = True
        self._unsent.clear()
        try:
            self._stdin.close()
        except OSError:
            return

    def _watch_input(self) -> None:
        if not self._stdin.closed:
            self._reactor.watch(self._stdin.fileno(), POLLOUT, lambda _: self._write_rest())

    def _write_rest(self) -> None:
        with self._write_lock:
            try:
                while self._unsent:
                    piece = self._unsent[0]
                    count = os.write(self._stdin.fileno(), piece)
                    if count < len(piece):
                        self._unsent[0] = piece[count:]
                        return
                    self._unsent.popleft()
            except BlockingIOError:
                return
            except OSError:  # it reads no more
                self._is_deaf = True
                self._unsent.clear()
            self._reactor.unwatch(self._stdin.fileno())
            self._is_writing = False
            if self._ends_input:
                self._close_input()

    def _write_all(self) -> None:
        """Write what waits, on a thread of its own that may block."""
        while True:
            with self._write_lock:
                if not self._unsent or self._is_deaf:
                    self._is_writing = False
                    if self._ends_input:
                        self._close_input()
                    return
                piece = self._unsent.popleft()
            try:
                while piece:
                    piece = piece[os.write(self._stdin.fileno(), piece) :]
            except (OSError, ValueError):
                with self._write_lock:
                    self._is_deaf = True

    # Its end

    def _watch_exit(self) -> None:
        """Wait for the end, on a thread of its own."""
        if _is_windows:
            self._popen.wait()
        else:
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # somebody else has reaped it
                pass
        self._reactor.call_soon(self._note_exit)

    def _note_exit(self) -> None:
        if self.has_exited:
            return
        if self.gate is not None:
            if not self.gate.enter():  # something else may hold stdout open, so that its reader does not see the end
                self.gate.interrupt()
                self._reactor.call_at(monotonic() + _GATE_SECONDS, self._note_exit)
                if self._exit_fd >= 0:
                    self._reactor.unwatch(self._exit_fd)
                return
            self.gate.leave()
        if self._exit_fd >= 0:
            self._reactor.unwatch(self._exit_fd)
            os.close(self._exit_fd)
            self._exit_fd = -1
        # It is not reaped yet: nobody else can have its id, which is also its group's.
        self.status = self._popen.returncode if _is_windows else _peek_status(self.pid)
        if has_poll:  # what it has itself written is in the pipes
            for stream in (self._stderr, self._stdout):
                for _ in range(_LAST_READS):
                    if not self._read(stream):
                        break
            self.is_drained = True
        else:
            self.is_drained = not self.has_output
        self.has_exited = True
        try:
            self._owner.take_exit()
        except Exception as error:  # noqa: BLE001  # as above
            self._owner.take_defect(error)

    def kill(self) -> None:
        """End the process and everything below it, also what has left its group, at once (ENG-4); from any thread."""
        if not self._is_released:
            self.is_killed = True
            end_tree(self.pid, self._mark)
            if _is_windows:
                self._popen.kill()

    def release(self) -> None:
        """Let go of an ended process: end what it has left behind in its group, and close everything."""
        if self._is_released:
            return
        assert self.has_exited
        if not _is_windows:
            try:
                os.killpg(self.pid, 9)
            except (ProcessLookupError, PermissionError):  # nobody is left; macOS says the latter for a zombie alone
                pass
            if self._open and not self.is_killed and not (has_poll and self._read_to_end()):
                end_marked(self._mark)  # somebody outside of the group holds them
        self._is_released = True
        self._popen.wait()
        if has_poll:  # else each has a thread, which closes it
            for stream in (self._stdout, self._stderr):
                self._reactor.unwatch(stream.fileno())
                stream.close()
        self._open.clear()
        self._tail.finish()
        with self._write_lock:
            self._ends_input = True
            if has_poll:
                if not self._stdin.closed:
                    self._reactor.unwatch(self._stdin.fileno())
                self._close_input()
            elif not self._is_writing:
                self._close_input()
        _running.discard(self)

    def _read_to_end(self) -> bool:
        """Look whether the pipes have come to their end by now; what else comes is dropped."""
        for stream in (self._stdout, self._stderr):
            if stream not in self._open:
                continue
            try:
                if os.read(stream.fileno(), _READ_BYTES):
                    return False
            except OSError:
                return False
        return True

    @property
    def is_released(self) -> bool:
        """Whether everything is done with it."""
        return self._is_released


def _open_exit_fd(pid: int) -> int:
    """Return a descriptor that can be read once a child has ended, or -1 where the system has none."""
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        from errno import EMFILE, ENFILE

        if error.errno in (EMFILE, ENFILE):
            raise
        return -1  # an old kernel, or a sandbox that forbids it


def _peek_status(pid: int) -> int | None:
    """Return how a child has ended, as `Popen.returncode`, and leave it to be reaped."""
    try:
        result: Any = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:  # somebody else has reaped it
        return None
    if result is None:
        return None
    status: int = result.si_status
    return status if result.si_code == os.CLD_EXITED else -status


#: Processes that have not ended, for the end of this one.
_running: WeakSet[NodeProcess] = WeakSet()
_owner_pid = os.getpid()
#: Held while a process is started: the end of this one waits for it, and nothing is started after that.
_starting = threading.Lock()
_is_ending = False


def _renew_lock() -> None:
    global _starting
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)  # another thread may have held it


def _end_all() -> None:
    if os.getpid() != _owner_pid:  # a fork of the host: they are not its own
        return
    global _is_ending
    until = monotonic() + 2.0
    has_lock = _starting.acquire(timeout=2.0)
    _is_ending = True
    if has_lock:
        _starting.release()
    for process in list(_running):
        process.kill()
    for process in list(_running):
        try:
            process._popen.wait(max(0.0, until - monotonic()))
        except subprocess.TimeoutExpired:
            continue


def _register() -> None:
    import atexit

    atexit.register(_end_all)


_register()
