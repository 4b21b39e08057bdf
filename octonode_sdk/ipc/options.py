"""The runner's command line. Read by hand: `argparse` costs more start-up time than the runner itself."""

from __future__ import annotations

from .lines import DEFAULT_LIMIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HELP", "Options", "UsageError", "read_options"]

#: Calls that run at once (LIFE-17). Enough for nodes that wait for a network, few enough for nodes that compute.
_DEFAULT_CONCURRENCY = 32

#: Seconds that work in flight may go on after SIGTERM. Orchestrators wait 10 to 30 before they kill.
_DEFAULT_GRACE = 5.0

HELP = f"""\
usage: python -m octonode_sdk TARGET [NODE] [--concurrency N] [--grace SECONDS] [--max-line-bytes N]

Serve workflow nodes to an Octonode engine: one JSON request a line on stdin, one JSON envelope a line on stdout,
logs on stderr. Ends at the end of stdin, when everything is answered.

  TARGET                a Python file, or the dotted name of a module or package
  NODE                  serve this node only; without it a request names the node

  --concurrency N       calls that run at once (OCTONODE_CONCURRENCY, default {_DEFAULT_CONCURRENCY})
  --grace SECONDS       how long work may go on after SIGTERM (OCTONODE_GRACE, default {_DEFAULT_GRACE:g})
  --max-line-bytes N    longest request line (OCTONODE_MAX_LINE_BYTES, default {DEFAULT_LIMIT_BYTES})
  --version, --help

try:
  echo '{{"octonode":"1","type":"describe","invocationId":"1"}}' | python -m octonode_sdk nodes.py greet
  echo '{{"octonode":"1","type":"invoke","invocationId":"2","inputs":{{"name":"Ada"}}}}' | \\
    python -m octonode_sdk nodes.py greet

exit status: 0 all answered, 1 no request or the target can't be loaded, 2 wrong usage, 128+N ended by signal N,
141 nobody reads stdout any more.
"""

_FLAGS = {
    "--concurrency": ("concurrency", "OCTONODE_CONCURRENCY"),
    "--grace": ("grace", "OCTONODE_GRACE"),
    "--max-line-bytes": ("max_line_bytes", "OCTONODE_MAX_LINE_BYTES"),
}


class UsageError(Exception):
    """The command line, or a variable that stands for a flag, makes no sense."""


class Options:
    """What the command line says.

    Attributes:
        target, node: What to serve.
        concurrency: Calls at once, at least 1.
        grace: Seconds, at least 0.
        max_line_bytes: Longest line, at least 1.
        show: Text to print instead of serving, or None.
    """

    __slots__ = ("concurrency", "grace", "max_line_bytes", "node", "show", "target")

    def __init__(self) -> None:
        self.target: str | None = None
        self.node: str | None = None
        self.concurrency = _DEFAULT_CONCURRENCY
        self.grace = _DEFAULT_GRACE
        self.max_line_bytes = DEFAULT_LIMIT_BYTES
        self.show: str | None = None


def read_options(arguments: list[str], environment: Mapping[str, str], *, target: str | None = None) -> Options:
    """Read the command line; a flag wins over its variable, a variable over the default.

    Args:
        arguments: Without the program's name.
        environment: The variables.
        target: The target, where the caller is the target itself and the command line has no place for it.

    Raises:
        UsageError: Names the flag or variable, its value, and what was expected.
    """
    options = Options()
    options.target = target
    given: set[str] = set()
    words: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word in ("--help", "-h"):
            options.show = HELP
            return options
        if word == "--version":
            options.show = f"octonode-sdk {_version()}\n"
            return options
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        flag, equals, text = word.partition("=")
        if flag not in _FLAGS:
            raise UsageError(f"unknown flag {flag!r}; there are {', '.join(_FLAGS)}, --version and --help")
        if not equals:
            if not queue:
                raise UsageError(f"{flag} has no value; write {flag}=N")
            text = queue.pop(0)
        attribute = _FLAGS[flag][0]
        setattr(options, attribute, _number(attribute, text, flag))
        given.add(attribute)
    for attribute, variable in _FLAGS.values():
        text = environment.get(variable, "")
        if text and attribute not in given:
            setattr(options, attribute, _number(attribute, text, variable))
    if target is None:
        if not words or not words[0]:
            raise UsageError(
                "no TARGET; give a Python file or a module, such as: python -m octonode_sdk nodes.py (--help)"
            )
        options.target = words.pop(0)
    if words:
        options.node = words.pop(0)
    if words:
        raise UsageError(f"one word too many: {words[0]!r}; it takes a TARGET and at most one NODE")
    return options


def _version() -> str:
    from importlib.metadata import version

    return version("octonode-sdk")


def _number(attribute: str, text: str, place: str) -> float:
    whole = attribute != "grace"
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = -1
    least = 1 if whole else 0
    if not least <= value < 1e15:
        kind = "a whole number of at least 1" if whole else "a number of seconds, at least 0"
        raise UsageError(f"{place} is {text!r}; expected {kind}")
    return value
