"""`onode dev`: a worker that is started again whenever a file changes, and a prompt to call its nodes."""

from __future__ import annotations

import os
import queue
import shlex
import sys
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from octonode_sdk.packs import is_file

from .call import Bar, inputs_of, show_reply, split_words
from .describe import show_info, show_nodes
from .errors import DONE, WRONG, CommandError, UsageError, missing_extra
from .hosts import Settings, find_node, open_host
from .words import amount, guess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .hosts import Host, Info, Reply
    from .paper import Paper

__all__ = ["dev"]

#: Milliseconds between looks at whether to stop watching.
_WATCH_MS = 200

#: Milliseconds in which changes count as one: editors write in several steps.
_DEBOUNCE_MS = 300

#: How long a watcher may take until it sees changes, and until it has stopped.
_ARM_SECONDS = 10.0

_HELP = """\
NODE name=value ...   call a node (name:=JSON, name=@file); an empty line repeats the last call
nodes                 what there is
describe NODE         its inputs and outputs
reload                start the worker again
help, quit"""

_COMMANDS = ("nodes", "describe", "reload", "help", "quit")


@dataclass(frozen=True)
class _Line:
    """A line of the user's; None at the end of stdin."""

    text: str | None


@dataclass(frozen=True)
class _Changed:
    """Files have changed."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class _Answered:
    """A call of a generation of the worker has ended."""

    generation: int
    node: Info
    reply: Reply


def dev(paper: Paper, target: str, *, host: str, settings: Settings, debug: bool) -> int:
    """Serve a target until the user leaves; return WRONG if it can't be loaded then.

    Raises:
        UsageError: There is no such file, or the watcher is not installed.
    """
    try:
        import watchfiles  # noqa: F401  # here, where there is somebody to tell; the watcher runs on a thread
    except ModuleNotFoundError as error:
        raise UsageError(missing_extra("watchfiles")) from error
    if is_file(target) and not Path(target).is_file():
        with open_host(host, target):  # says why
            pass
    session = _Session(paper, target, host, settings, debug)
    try:
        status = session.run()
    finally:
        session.close()
    session.leave(status)
    return status


class _Session:
    """Everything happens on the main thread, one event after the other; threads only bring events."""

    def __init__(self, paper: Paper, target: str, host: str, settings: Settings, debug: bool) -> None:
        self._paper, self._target, self._host_name, self._settings = paper, target, host, settings
        self._debug = debug
        self._events: queue.Queue[_Line | _Changed | _Answered] = queue.Queue()
        self._host: Host | None = None
        self._nodes: dict[str, Info] = {}
        self._generation = 0
        self._is_calling = False
        self._last: list[str] = []
        self._bar = Bar(paper)
        self._watcher = _Watcher(self._events)
        self._reader = _Reader(self._events, is_terminal=sys.stdin.isatty() and paper.out.is_terminal)

    def run(self) -> int:
        """Handle events until the user leaves."""
        self._load()
        if self._paper.out.is_terminal:
            self._paper.say("help shows what can be said here; Ctrl-D leaves")
        self._reader.start(self._prompt())
        while True:
            try:
                event = self._events.get()
            except KeyboardInterrupt:
                if not self._is_calling:
                    return self._status()
                self._paper.say("stopped", "yellow")
                self._drop_call()
                self._load()
                continue
            if isinstance(event, _Changed):
                self._change(event)
            elif isinstance(event, _Answered):
                self._show(event)
            elif event.text is None or self._do(event.text):
                return self._status()

    def _status(self) -> int:
        return DONE if self._host is not None else WRONG

    def _prompt(self) -> str:
        return f"{Path(self._target).stem if is_file(self._target) else self._target}> "

    # The worker

    def _load(self) -> None:
        """Start the worker anew; what can't be loaded is shown, and waits for the next change."""
        self._unload()
        files: list[str] = []
        # Watched from before the load on: a change during it is seen.
        self._watcher.watch(_folders(self._target, files))
        try:
            host = open_host(self._host_name, self._target, self._settings, mode="worker")
        except CommandError as error:
            self._paper.error(error.text)
            if error.stack:
                self._paper.say(error.stack)
            return
        self._host, self._nodes = host, host.nodes
        files = getattr(host, "files", [])
        self._watcher.watch(_folders(self._target, files))
        self._paper.say(f"serving {amount(len(self._nodes), 'node')} of {self._target}: {', '.join(self._nodes)}")

    def _unload(self) -> None:
        self._generation += 1
        if self._host is not None:
            self._host.close()
        self._host, self._nodes = None, {}

    def _change(self, event: _Changed) -> None:
        paths = set(event.paths)
        while True:  # one start for all that has changed by now
            try:
                other = self._events.get_nowait()
            except queue.Empty:
                break
            if isinstance(other, _Changed):
                paths |= set(other.paths)
            else:
                self._events.put(other)
                break
        names = ", ".join(sorted(os.path.basename(path) for path in paths))
        self._paper.say(f"changed: {names}")
        if self._is_calling:
            self._paper.say("the call that was running is dropped", "yellow")
        self._drop_call()
        self._load()

    def _drop_call(self) -> None:
        if self._is_calling:
            self._is_calling = False
            self._generation += 1
            self._bar.__exit__(None, None, None)
            self._reader.go_on()

    # Calls

    def _call(self, words: Sequence[str]) -> None:
        if self._host is None:
            raise UsageError(f"{self._target} is not loaded; mend it and save")
        name, rest = split_words(words)
        node = find_node(self._nodes, name, self._target)
        inputs = inputs_of(node, rest)
        host, generation = self._host, self._generation
        self._bar.name, self._is_calling = node.id, True

        def run() -> None:
            self._events.put(_Answered(generation, node, host.call(node.id, inputs, self._bar.hooks())))

        threading.Thread(target=run, daemon=True).start()

    def _show(self, event: _Answered) -> None:
        if event.generation != self._generation:
            return  # of a worker that is gone
        self._bar.__exit__(None, None, None)
        self._is_calling = False
        try:
            show_reply(self._paper, event.node, event.reply, host=self._host_name, debug=self._debug)
        except CommandError as error:
            self._paper.error(error.text)
        if event.reply.fault and self._host_name == "nodetool":
            self._load()  # the engine starts its own workers again
        self._reader.go_on()

    # What the user says

    def _do(self, text: str) -> bool:
        """Do what a line says; return whether the user leaves. A call goes on after this."""
        try:
            words = shlex.split(text, comments=True) or self._last
            if words[:1] == ["quit"] or words[:1] == ["exit"]:
                return True
            self._do_words(words)
        except ValueError as error:
            self._paper.error(f"{text!r} can't be read: {error}")
        except CommandError as error:
            self._paper.error(error.text)
        if not self._is_calling:
            self._reader.go_on()
        return False

    def _do_words(self, words: list[str]) -> None:
        if not words:
            return
        word, rest = words[0], words[1:]
        if word in self._nodes or word == "call" or word not in _COMMANDS:
            if self._nodes and word not in self._nodes and word != "call" and "=" not in word and not rest:
                near = guess(word, _COMMANDS)
                if near:
                    raise UsageError(f"there is neither a node nor a command {word!r}{near}")
            self._last = words
            self._call(rest if word == "call" else words)
        elif word == "nodes":
            show_nodes(self._paper, self._nodes)
        elif word == "describe":
            show_info(self._paper, find_node(self._nodes, rest[0] if rest else None, self._target))
        elif word == "reload":
            self._load()
        else:
            self._paper.line(_HELP)

    # The end

    def close(self) -> None:
        """End the worker and the watcher."""
        self._watcher.stop()
        self._bar.__exit__(None, None, None)
        self._unload()

    def leave(self, status: int) -> None:
        """End the process where a thread is in the middle of reading a line: Python would wait for it, or crash."""
        if self._reader.is_stuck():
            self._paper.flush()
            sys.stderr.flush()
            os._exit(status)


class _Reader:
    """Brings the lines of stdin, each one only once the one before it has been dealt with."""

    def __init__(self, events: queue.Queue[_Line | _Changed | _Answered], *, is_terminal: bool) -> None:
        self._events, self._is_terminal = events, is_terminal
        self._may_read = threading.Semaphore(1)
        self._is_reading = False
        self._rest = b""
        self._prompt = ""
        self._terminal: list[object] | None = None

    def start(self, prompt: str) -> None:
        """Begin to read."""
        self._prompt = prompt
        if self._is_terminal:
            import readline  # noqa: F401  # gives `input` its history and editing
            import termios

            self._terminal = list(termios.tcgetattr(0))
        threading.Thread(target=self._run, daemon=True).start()

    def go_on(self) -> None:
        """Read the next line."""
        self._may_read.release()

    def is_stuck(self) -> bool:
        """Whether a line is being read from a terminal, which is then set as it was."""
        if not self._is_terminal or not self._is_reading or self._terminal is None:
            return False
        import termios

        termios.tcsetattr(0, termios.TCSADRAIN, self._terminal)  # type: ignore[arg-type]  # the stub's list is of its own kinds
        return True

    def _run(self) -> None:
        while True:
            self._may_read.acquire()
            self._is_reading = True
            line = self._line()
            self._is_reading = False
            self._events.put(_Line(line))
            if line is None:
                return

    def _line(self) -> str | None:
        if self._is_terminal:
            try:
                return input(self._prompt)
            except EOFError:
                return None
        # Not by sys.stdin, whose lock this thread would hold at the end of the process.
        while b"\n" not in self._rest:
            data = os.read(0, 65536)
            if not data:
                line, self._rest = self._rest, b""
                return line.decode("utf-8", "surrogateescape") if line else None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "surrogateescape")


class _Watcher:
    """Watches folders for changes of Python files."""

    def __init__(self, events: queue.Queue[_Line | _Changed | _Answered]) -> None:
        self._events = events
        self._folders: frozenset[str] = frozenset()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, folders: Iterable[str]) -> None:
        """Watch these folders instead; returns once changes in them are seen."""
        wanted = frozenset(folders)
        if wanted == self._folders:
            return
        self.stop()
        self._folders, self._stop = wanted, threading.Event()
        armed = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(sorted(wanted), self._stop, armed), daemon=True)
        self._thread.start()
        armed.wait(_ARM_SECONDS)

    def stop(self) -> None:
        """Watch nothing any more."""
        self._stop.set()
        self._folders = frozenset()
        if self._thread is not None:
            self._thread.join(_ARM_SECONDS)  # at the end of the process, a thread in the watcher's own code aborts it
            self._thread = None

    def _run(self, folders: list[str], stop: threading.Event, armed: threading.Event) -> None:
        from watchfiles import PythonFilter, watch

        try:
            for changes in watch(
                *folders,
                watch_filter=PythonFilter(),
                debounce=_DEBOUNCE_MS,
                stop_event=stop,
                rust_timeout=_WATCH_MS,
                yield_on_timeout=True,  # the first comes once the watch is there
                raise_interrupt=False,
                recursive=False,
            ):
                armed.set()
                if changes and not stop.is_set():
                    self._events.put(_Changed(tuple(path for _, path in changes)))
        except FileNotFoundError:  # a folder has been removed: the next load looks again
            self._folders = frozenset()
        finally:
            armed.set()


def _folders(target: str, files: Sequence[str]) -> set[str]:
    """Return the folders that hold the source of a target: its own, and those of what it imports beside libraries."""
    made: set[str] = set()
    if is_file(target):
        made.add(str(Path(target).resolve().parent))
    else:
        try:
            spec = find_spec(target.partition(".")[0])
        except (ImportError, ValueError):
            spec = None
        for root in (spec.submodule_search_locations if spec is not None else None) or ():
            made |= set(_walk(root))
        if spec is not None and spec.origin is not None and not made:
            made.add(os.path.dirname(spec.origin))
    ours = Path(__file__).resolve().parents[1]
    own = {str(ours / name) for name in ("octonode_sdk", "nodetool_worker", "onode")}
    for file in files:
        folder = os.path.dirname(os.path.realpath(file))
        is_library = folder.startswith((sys.prefix + os.sep, sys.base_prefix + os.sep)) or "site-packages" in folder
        if not is_library and not any(folder == one or folder.startswith(one + os.sep) for one in own):
            made.add(folder)
    return {folder for folder in made if os.path.isdir(folder)} or {os.getcwd()}


def _walk(root: str) -> list[str]:
    found = []
    for folder, inner, _ in os.walk(root):
        inner[:] = [name for name in inner if name != "__pycache__" and not name.startswith(".")]
        found.append(folder)
    return found
