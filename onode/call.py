"""`onode call`: one call of a node, through a real process of its host."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from octonode_sdk.secrets import remember_secrets

from .errors import DONE, NOT_FINE, ProcessError, UsageError
from .hosts import Hooks, Settings, find_node, open_host
from .inputs import check_inputs, is_input, read_object, read_words
from .words import json_text, seconds_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Self

    from .hosts import Info, Reply
    from .paper import Paper

__all__ = ["Bar", "call", "inputs_of", "read_file", "read_secrets", "show_reply", "split_words"]

#: How our checks begin what they say of inputs (`octonode_sdk.errors.FaultsError`), under either host.
_INPUTS_FAULT = re.compile(r"node '[^\n]*?': (invalid input|\d+ faults in the inputs): ")


def call(
    paper: Paper, target: str, words: Sequence[str], *, inputs: str | None, host: str, settings: Settings, debug: bool
) -> int:
    """Make one call and print what it gives; return the status.

    Args:
        paper: Where to print.
        target: The target.
        words: The node's name, which may be left out where there is one node, and `name=value`.
        inputs: A JSON object, `@file`, or `-` for stdin.
        host: One of `hosts.HOSTS`.
        settings: How the call is made.
        debug: Whether to show the traceback of an error, and the worker's own stderr.

    Raises:
        UsageError: The target, the node or the inputs are at fault.
        ProcessError: The node's process has failed.
    """
    if host == "nodetool":
        for flag, given in (("--config", settings.config), ("--env", settings.env), ("--retry", settings.retry > 1)):
            if given:
                raise UsageError(f"{flag} has no place in NodeTool's protocol; leave it out, or use --host octonode")
    name, words = split_words(words)
    with Bar(paper) as bar, open_host(host, target, settings, on_stderr=bar.line if debug else None) as there:
        node = find_node(there.nodes, name, target)
        made = inputs_of(node, words, inputs)
        bar.name = node.id
        reply = there.call(node.id, made, bar.hooks())
    return show_reply(paper, node, reply, host=host, debug=debug)


def split_words(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the name that leads the words, if one does, and the others."""
    if words and not is_input(words[0]):
        return words[0], list(words[1:])
    return None, list(words)


def inputs_of(node: Info, words: Sequence[str], inputs: str | None = None) -> dict[str, Any]:
    """Return the inputs that words and a JSON object give; the words win.

    Raises:
        UsageError: They do not fit the node.
    """
    made = {} if inputs is None else read_object(*_read_inputs(inputs))
    made |= read_words(words, node.inputs, node=node.id, dynamic=node.dynamic, read_file=read_file)
    check_inputs(made, node.inputs, node=node.id, dynamic=node.dynamic)
    return made


def _read_inputs(text: str) -> tuple[str, str]:
    """Return the JSON text that --inputs names, and what it is, for people."""
    if text == "-":
        return sys.stdin.read(), "stdin"
    if text.startswith("@"):
        return read_file(text[1:]), text[1:]
    return text, "--inputs"


def read_file(path: str) -> str:
    """Return the text of a file.

    Raises:
        UsageError: It can't be read, or is no UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}; check the path") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"can't read {path}: it is no UTF-8 text (byte {error.start})") from error


def read_secrets(names: Sequence[str]) -> dict[str, str]:
    """Return the values of secrets: from the environment, or else asked for. From now on they are masked.

    Raises:
        UsageError: One is not set, and there is no terminal to ask at.
    """
    made: dict[str, str] = {}
    for name in names:
        if not name.isidentifier():
            raise UsageError(f"--secret {name.partition('=')[0]!r} is no name; give the name of a variable alone")
        value = os.environ.get(name, "")
        if not value:
            if not sys.stdin.isatty():
                raise UsageError(f"the secret {name} is not in the environment; set it: {name}=... onode call ...")
            from getpass import getpass

            value = getpass(f"{name}: ")
        made[name] = value
    remember_secrets(made.values())
    return made


def show_reply(paper: Paper, node: Info, reply: Reply, *, host: str, debug: bool) -> int:
    """Print what a call has given; return the status.

    Raises:
        UsageError: The node refused its inputs.
        ProcessError: The process has failed.
    """
    error = reply.error
    if paper.as_json:
        end = {"outputs": reply.outputs} if error is None else {"error": error}
        paper.json(
            {
                "host": host,
                "node": node.id,
                "status": "ok" if error is None else "error",
                **end,
                "attempts": reply.attempts,
                "seconds": round(reply.seconds, 6),
            }
        )
    if error is None:
        if not paper.as_json:
            _show_outputs(paper, reply.outputs)
            if paper.is_rich:
                attempts = f" in {reply.attempts} attempts" if reply.attempts > 1 else ""
                paper.say(f"{seconds_text(reply.seconds)}{attempts}")
        return DONE
    message = str(error.get("message", ""))
    stack = error.get("stack")
    if _INPUTS_FAULT.match(message):
        raise UsageError(message, stack=stack)
    if reply.fault:
        raise ProcessError(f"{node.id}: {message}", stack=stack)
    again = ""
    if error.get("retryable"):
        again = " (it may succeed later: --retry 3)" if reply.attempts == 1 else f" (after {reply.attempts} attempts)"
    paper.error(f"{node.id}: {message}{again}")
    if debug and stack:
        paper.say(stack)
    return NOT_FINE


def _show_outputs(paper: Paper, outputs: Any) -> None:
    if not isinstance(outputs, dict):
        paper.value(outputs)
        return
    short = {key: value for key, value in outputs.items() if not isinstance(value, (dict, list)) or not value}
    texts = {key: value if isinstance(value, str) else json_text(value) for key, value in short.items()}
    if all("\n" not in text for text in texts.values()):
        paper.table(("output", "value"), list(texts.items()))
        texts.clear()
    for key, value in outputs.items():
        if key in texts:
            paper.line(f"{key}:", "bold")
            paper.line(texts[key])
        elif key not in short:
            paper.line(f"{key}:", "bold")
            paper.value(value)


class Bar:
    """What is shown while a call runs: a bar on a terminal, lines elsewhere; both on stderr.

    Attributes:
        name: Of the node.
    """

    def __init__(self, paper: Paper) -> None:
        self._paper, self.name = paper, ""
        self._progress: Any = None
        self._task: Any = None

    def hooks(self) -> Hooks:
        """Return what a host tells of a call."""
        return Hooks(self.progress, self.line)

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Show how far the call is."""
        if not self._paper.err.is_terminal:
            share = f"{done:g}/{total:g} ({done / total:.0%})" if total else f"{done:g}"
            self._paper.say(f"[{self.name}] progress {share} {message}".rstrip())
            return
        if self._progress is None:
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
            self._progress = Progress(*columns, TimeElapsedColumn(), console=self._paper.err, transient=True)
            self._progress.start()
            self._task = self._progress.add_task(self.name, total=total)
        self._progress.update(self._task, completed=done, total=total, description=message or self.name)

    def line(self, text: str) -> None:
        """Show a line that the node has written."""
        self._paper.say(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
