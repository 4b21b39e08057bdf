"""The command line of `onode`: words and flags -> the commands, and what they raise -> one line and a status."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any, Optional

import typer

from .bench import bench
from .call import call, read_secrets
from .describe import describe, describe_command
from .dev import dev
from .diff_command import diff
from .doctor import doctor
from .errors import DONE, INTERRUPTED, NO_READER, WRONG, CommandError, UsageError
from .hosts import HOSTS, Settings
from .inputs import read_pairs
from .paper import Paper
from .scan import scan
from .words import guess

__all__ = ["app", "run"]


class _State:
    """What is known before a command starts, and what it leaves for the end.

    Attributes:
        command: What stands behind `--`, or None.
        debug: Whether tracebacks are shown.
    """

    def __init__(self, command: list[str] | None = None) -> None:
        self.command, self.debug = command, False


_STATUSES = """\
Exit status: 0 done, 1 the node answered an error or something is not in order, 2 wrong usage, a bad target or inputs
that do not fit, 3 the node's process failed, 130 interrupted."""

_HELP = """\
Describe, call, measure and watch workflow nodes, without a host installed.

TARGET is a Python file or the dotted name of a module or package with @node in it.

\b
Start here:
  onode describe nodes.py                     what is in a file
  onode call nodes.py greet name=Ada          run one node, through a real process of its host
  onode dev nodes.py                          edit and call, again and again
  onode scan .                                every node below a folder, and what can't be loaded
  onode call nodes.py greet name=Ada --host nodetool    the same as NodeTool does it
"""

app = typer.Typer(
    name="onode",
    help=_HELP,
    epilog=_STATUSES,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _set_debug(context: typer.Context, value: bool) -> bool:
    state = context.find_root().obj
    if value and isinstance(state, _State):
        state.debug = True
    return value


def _check_host(value: str) -> str:
    if value not in HOSTS:
        raise typer.BadParameter(f"{value!r} is no host; there are {' and '.join(HOSTS)}{guess(value, HOSTS)}")
    return value


def _check_positive(value: Optional[float]) -> Optional[float]:  # noqa: UP045  # read by typer at run time
    if value is not None and not 0 < value < 1e9:
        raise typer.BadParameter(f"{value:g} is no time; give seconds above 0")
    return value


_Target = Annotated[str, typer.Argument(metavar="TARGET", help="A Python file, or the dotted name of a module.")]
_Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODE name=value ...", help="The node (may be left out where there is one) and its inputs."),
]
_Host = Annotated[
    str, typer.Option("--host", metavar="HOST", callback=_check_host, help="octonode or nodetool: who runs the node.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
_Debug = Annotated[
    bool, typer.Option("--debug", callback=_set_debug, help="Show tracebacks, and all that processes say on stderr.")
]
_Inputs = Annotated[
    str | None, typer.Option("--inputs", metavar="JSON", help="Inputs as a JSON object, as @file, or - for stdin.")
]
_Deadline = Annotated[
    float | None,
    typer.Option("--deadline", metavar="SECONDS", callback=_check_positive, help="How long a call may take."),
]
_Config = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A part of the node's config (repeatable).")
]
_Env = Annotated[str | None, typer.Option("--env", metavar="NAME", help="The context's env, such as prod.")]
_Secret = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="A secret to hand on, from the environment or asked for; never shown (repeatable).",
    ),
]
_Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", callback=_check_positive, help="How long an import may take."),
]


def _settings(
    deadline: float | None, config: list[str] | None, env: str | None, secret: list[str] | None, retry: int = 1
) -> Settings:
    return Settings(deadline, retry, read_pairs(config or (), "--config"), env, read_secrets(secret or ()))


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"onode {version_of('octonode-sdk')}")
        raise typer.Exit


@app.command(
    "describe",
    help="""\
Show what nodes are: their inputs and outputs.

\b
  onode describe nodes.py                  every node of a file
  onode describe nodes.py greet --json     the manifest of one
  onode describe -- node server.js         any command that speaks the protocol
""",
)
def _describe(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET NODE | -- COMMAND ...", help="What to describe.")
    ] = None,
    host: _Host = "octonode",
    json: _Json = False,
    debug: _Debug = False,
) -> int:
    state, words = context.find_root().obj, words or []
    command = state.command if isinstance(state, _State) else None
    paper = Paper(as_json=json)
    most = 1 if command is not None else 2
    if len(words) > most:
        raise UsageError(f"one word too many: {words[most]!r}; write onode describe TARGET NODE (onode describe -h)")
    if command is not None:
        if not command:
            raise UsageError("there is no command behind --; write onode describe -- python -m octonode_sdk nodes.py")
        return describe_command(paper, command, words[0] if words else None, host=host)
    if not words:
        raise UsageError("no TARGET; give a Python file or a module, such as: onode describe nodes.py")
    return describe(paper, words[0], words[1] if len(words) > 1 else None, host=host)


@app.command(
    "call",
    help="""\
Run a node once and print its outputs.

It runs in a real process of its host. The manifest types the values: text as it stands, everything else as JSON.

\b
  onode call nodes.py greet name=Ada formal=true
  onode call nodes.py count text=@essay.txt          the text of a file
  onode call nodes.py count ignore:='["the"]'        JSON, whatever the type
  echo '{"name": "Ada"}' | onode call nodes.py greet --inputs -
  onode call nodes.py fetch --secret API_KEY --deadline 10 --retry 3
""",
)
def _call(
    target: _Target,
    words: _Words = None,
    inputs: _Inputs = None,
    host: _Host = "octonode",
    deadline: _Deadline = None,
    retry: Annotated[
        int, typer.Option("--retry", metavar="N", min=1, help="Try up to N times, where the error says it may help.")
    ] = 1,
    config: _Config = None,
    env: _Env = None,
    secret: _Secret = None,
    json: _Json = False,
    debug: _Debug = False,
) -> int:
    settings = _settings(deadline, config, env, secret, retry)
    return call(Paper(as_json=json), target, words or (), inputs=inputs, host=host, settings=settings, debug=debug)


@app.command(
    "scan",
    help="""\
List nodes, and what can't be loaded.

Looks at every node under a folder, in a module or in the installed packs. Each file is imported in a process of its
own. In folders, files that mention octonode_sdk are looked at.

\b
  onode scan .
  onode scan acme.nodes --json
  onode scan --packs --host nodetool
""",
)
def _scan(
    places: Annotated[list[str] | None, typer.Argument(metavar="PATH ...", help="Files, folders or modules.")] = None,
    packs: Annotated[bool, typer.Option("--packs", help="The installed packs as well.")] = False,
    host: _Host = "octonode",
    timeout: _Timeout = 20.0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Processes at once; one a processor by default.")
    ] = None,
    json: _Json = False,
    debug: _Debug = False,
) -> int:
    paper = Paper(as_json=json)
    return scan(paper, places or (), packs=packs, host=host, timeout=timeout, jobs=jobs, debug=debug)


@app.command(
    "bench",
    help="""\
Measure how fast a node answers.

Once as a process a call, and once as a worker that stays.

\b
  onode bench nodes.py greet name=Ada
  onode bench nodes.py greet name=Ada --host nodetool --json
""",
)
def _bench(
    target: _Target,
    words: _Words = None,
    inputs: _Inputs = None,
    host: _Host = "octonode",
    calls: Annotated[int, typer.Option("--calls", metavar="N", min=1, help="Most calls of the worker.")] = 2000,
    starts: Annotated[int, typer.Option("--starts", metavar="N", min=1, help="Most processes for a call each.")] = 50,
    seconds: Annotated[
        float, typer.Option("--seconds", callback=_check_positive, help="Most seconds for each of the two.")
    ] = 5.0,
    config: _Config = None,
    secret: _Secret = None,
    json: _Json = False,
    debug: _Debug = False,
) -> int:
    return bench(
        Paper(as_json=json),
        target,
        words or (),
        inputs=inputs,
        host=host,
        settings=_settings(None, config, None, secret),
        calls=calls,
        starts=starts,
        seconds=seconds,
        debug=debug,
    )


@app.command(
    "diff",
    help="""\
Judge what has changed between two versions.

Each change is compatible or breaking; the exit status is 1 if workflows that ran may break.

\b
  onode describe nodes.py --json > old.json
  onode diff old.json new.json
  onode describe nodes.py --json | onode diff old.json -
""",
)
def _diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A file of JSON: what onode describe --json prints.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same as it is now, or - for stdin.")],
    allow_unclear: Annotated[
        bool, typer.Option("--allow-unclear", help="Let pass what can't be decided; else it counts as breaking.")
    ] = False,
    json: _Json = False,
    debug: _Debug = False,
) -> int:
    return diff(Paper(as_json=json), old, new, allow_unclear=allow_unclear)


@app.command(
    "dev",
    help="""\
Edit nodes and call them at a prompt.

The worker is started again whenever a file changes. Without a terminal, commands are the lines of stdin.

\b
  onode dev nodes.py
  echo 'greet name=Ada' | onode dev nodes.py
""",
)
def _dev(
    target: _Target,
    host: _Host = "octonode",
    deadline: _Deadline = None,
    config: _Config = None,
    env: _Env = None,
    secret: _Secret = None,
    debug: _Debug = False,
) -> int:
    if host == "nodetool" and (config or env):
        raise UsageError("--config and --env have no place in NodeTool's protocol; leave them out")
    return dev(Paper(), target, host=host, settings=_settings(deadline, config, env, secret), debug=debug)


@app.command("doctor")
def _doctor(timeout: _Timeout = 30.0, json: _Json = False, debug: _Debug = False) -> int:
    """Look at what is installed here.

    The interpreter, versions and extras, the import time of each pack, and what a host would see.
    """
    return doctor(Paper(as_json=json), timeout=timeout)


def run(arguments: list[str]) -> int:
    """Run the command line; return the exit status. Only a defect of our own raises, and only with `--debug`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # what the terminal can't show must not end the command
    words, state = _split_command(arguments)
    paper = Paper()
    try:
        status: Any = app(words or ["--help"], standalone_mode=False, prog_name="onode", obj=state)
    except CommandError as error:
        status = _tell(paper, state, error.text, error.status, error.stack)
    except typer.TyperException as error:
        status = _tell(paper, state, _hint(error), WRONG, None)
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except BrokenPipeError:
        status = NO_READER
    except Exception as error:  # noqa: BLE001  # a defect of our own: told like all else, and the traceback on demand
        text = f"this is a defect of onode: {type(error).__name__}: {error}; --debug shows the traceback"
        status = _tell(paper, state, text, WRONG, traceback.format_exc())
    return paper.flush() or (status if isinstance(status, int) else DONE)


def _split_command(arguments: list[str]) -> tuple[list[str], _State]:
    """Take what stands behind `--` from `describe`, to which it is a command of its own."""
    first = next((word for word in arguments if not word.startswith("-")), None)
    if first != "describe" or "--" not in arguments:
        return arguments, _State()
    at = arguments.index("--")
    return arguments[:at], _State(arguments[at + 1 :])


def _tell(paper: Paper, state: _State, text: str, status: int, stack: str | None) -> int:
    paper.error(text)
    if state.debug and stack:
        paper.say(stack.rstrip())
    return status


def _hint(error: Any) -> str:
    """Return what typer says of a wrong command line, on one line, with the help that tells more."""
    context = getattr(error, "ctx", None)
    place = context.command_path if context is not None else "onode"
    text = str(error.format_message()).rstrip(".")
    return f"{text} ({place} --help)"
