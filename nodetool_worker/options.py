"""The worker's command line and variables. Read by hand: `argparse` costs more start-up time than it saves here."""

from __future__ import annotations

import os

from .frames import DEFAULT_LIMIT_BYTES
from .inventory import split_names, split_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["HELP", "Options", "UsageError", "read_options"]

#: Calls that run at once (WOP-3). Enough for nodes that wait for a network, few enough for nodes that compute.
_DEFAULT_CONCURRENCY = 32

#: Seconds that work in flight may go on once the host has closed stdin (WOP-4).
_DEFAULT_GRACE = 5.0

#: Most calls at once: each has a thread.
_MOST_CALLS = 10_000

#: Longest grace, in seconds: a day.
_LONGEST_GRACE = 86_400

HELP = f"""\
usage: python -m nodetool.worker --stdio [--nodes TARGET]... [--namespaces A,B] [--concurrency N] [--grace SECONDS]
                                 [--isolate]

Serve workflow nodes to NodeTool: length-prefixed MessagePack frames on stdin and stdout, logs on stderr.
Ends at the end of stdin. `python -m nodetool_worker` is the same program.

  --stdio               serve stdin and stdout
  --nodes TARGET        a Python file, or the dotted name of a module or package; may be given several times
                        (OCTONODE_NODES, separated by {os.pathsep!r}); installed packs are found by themselves
  --namespaces A,B      serve nodes of these namespaces only (NODETOOL_WORKER_NAMESPACES)
  --concurrency N       calls that run at once (OCTONODE_CONCURRENCY, default {_DEFAULT_CONCURRENCY})
  --grace SECONDS       how long work may go on once stdin has ended (OCTONODE_GRACE, default {_DEFAULT_GRACE:g});
                        after a signal it is at most 2 seconds
  --isolate             run each call in a process of its own, as @node(isolated=True) does for one node
  --host, --port        for the WebSocket server; they mean nothing beside --stdio
  --version, --help

variables:
  NODETOOL_BRIDGE_MAX_FRAME_SIZE   most bytes of a frame, both ways (default {DEFAULT_LIMIT_BYTES})
  NODETOOL_LOG_LEVEL               least level of what nodes log (default INFO)
  COMFYUI_URL                      where a ComfyUI server is, for `worker.status` (default http://127.0.0.1:8188)
  OCTONODE_DISABLED_PACKS          names of installed packs that are not imported, separated by commas

exit status: 0 stdin has ended or a signal came, 2 wrong usage, 141 nobody reads stdout any more.
"""


class UsageError(Exception):
    """The command line makes no sense."""


class Options:
    """What the command line and the variables say.

    Attributes:
        stdio: Whether to serve stdin and stdout (WOP-1).
        nodes: Targets, in order (WOP-2).
        namespaces: The filter, empty for none (FND-6).
        concurrency: Calls at once, at least 1.
        grace: Seconds, at least 0.
        isolate: Whether each call gets a process of its own (WOP-5).
        alone: Whether this process is one that was started for an isolated call.
        host, port: For a WebSocket server (WOP-11).
        limit_bytes: Most bytes of a payload, at least 1 (WOP-6).
        comfy_url: Address of a ComfyUI server, for `worker.status`.
        log_level: Least level of records that are shown.
        warnings: What was wrong with variables, a line each.
        show: Text to print instead of serving, or None.
    """

    __slots__ = (
        "alone",
        "comfy_url",
        "concurrency",
        "grace",
        "host",
        "isolate",
        "limit_bytes",
        "log_level",
        "namespaces",
        "nodes",
        "port",
        "show",
        "stdio",
        "warnings",
    )

    def __init__(self) -> None:
        self.stdio = self.isolate = self.alone = False
        self.nodes: list[str] = []
        self.namespaces: list[str] = []
        self.concurrency = _DEFAULT_CONCURRENCY
        self.grace = _DEFAULT_GRACE
        self.limit_bytes = DEFAULT_LIMIT_BYTES
        self.log_level = "INFO"
        self.comfy_url = "http://127.0.0.1:8188"  # where ComfyUI is unless told otherwise
        self.host: str | None = None
        self.port: int | None = None
        self.warnings: list[str] = []
        self.show: str | None = None


def _whole(text: str) -> int:
    value = int(text)
    if not 1 <= value < 10**15:
        raise ValueError(text)
    return value


def _threads(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _MOST_CALLS:
        raise ValueError(text)
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= _LONGEST_GRACE:
        raise ValueError(text)
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 65536:
        raise ValueError(text)
    return value


def _level(text: str) -> str:
    if text.upper() not in ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL", "NOTSET"):
        raise ValueError(text)
    return text.upper()


#: (attribute, flag or None, variable or None, what reads the text, what it has to be)
_VALUES: list[tuple[str, str | None, str | None, Callable[[str], Any], str]] = [
    ("concurrency", "--concurrency", "OCTONODE_CONCURRENCY", _threads, f"a whole number from 1 to {_MOST_CALLS}"),
    ("grace", "--grace", "OCTONODE_GRACE", _seconds, f"a number of seconds from 0 to {_LONGEST_GRACE}"),
    ("namespaces", "--namespaces", "NODETOOL_WORKER_NAMESPACES", split_names, "names separated by commas"),
    ("host", "--host", None, str, "an address"),
    ("port", "--port", None, _port, "a port number"),
    ("limit_bytes", None, "NODETOOL_BRIDGE_MAX_FRAME_SIZE", _whole, "a whole number of bytes, at least 1"),
    ("comfy_url", None, "COMFYUI_URL", str, "an address"),
    # WOP-12
    ("log_level", None, "NODETOOL_LOG_LEVEL", _level, "a level such as INFO"),
]

_SWITCHES = {"--stdio": "stdio", "--isolate": "isolate", "--alone": "alone"}


def read_options(arguments: list[str], environment: Mapping[str, str]) -> Options:
    """Read the command line; a flag wins over its variable, a variable over the default (WOP-10).

    Args:
        arguments: Without the program's name.
        environment: The variables. One that makes no sense gives the default and a warning (WOP-7).

    Raises:
        UsageError: Names the flag, its value, and what was expected (WOP-9).
    """
    options = Options()
    flags = {flag: (attribute, read, wanted) for attribute, flag, _, read, wanted in _VALUES if flag}
    given: set[str] = set()
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word in ("--help", "-h"):  # WOP-13
            options.show = HELP
            return options
        if word == "--version":
            options.show = f"octonode-sdk {_version()}\n"
            return options
        if word in _SWITCHES:
            setattr(options, _SWITCHES[word], True)
            continue
        flag, equals, text = word.partition("=")
        if flag != "--nodes" and flag not in flags:
            known = ", ".join([*(one for one in _SWITCHES if one != "--alone"), "--nodes", *flags])
            raise UsageError(f"unknown word {word!r}; there are {known}, --version and --help")
        if not equals:
            if not queue:
                raise UsageError(f"{flag} has no value; write {flag}=...")
            text = queue.pop(0)
        if flag == "--nodes":
            if not text:
                raise UsageError("--nodes is empty; give a Python file or a module, such as --nodes nodes.py")
            options.nodes.append(text)
            continue
        attribute, read, wanted = flags[flag]
        try:
            setattr(options, attribute, read(text))
        except ValueError:
            raise UsageError(f"{flag} is {text!r}; expected {wanted}") from None
        if text.strip():  # an empty list is the same as none
            given.add(attribute)
    for attribute, _, variable, read, wanted in _VALUES:
        text = environment.get(variable, "") if variable else ""
        if text and attribute not in given:  # WOP-8
            try:
                setattr(options, attribute, read(text))
            except ValueError:
                default = getattr(options, attribute)
                options.warnings.append(f"{variable} is {text!r}; expected {wanted}; using {default}")
    if not options.nodes:
        options.nodes = split_targets(environment.get("OCTONODE_NODES", ""))  # FND-1
    return options


def _version() -> str:
    from importlib.metadata import version

    return version("octonode-sdk")
