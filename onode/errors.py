"""What ends a command early, and the exit statuses (docs/onode.md). Part of the one error tree::

OctonodeError
└── CommandError          a text for people and a status
    ├── UsageError        the command line, the target or the inputs are at fault: 2
    └── ProcessError      a node's process has failed before it had an answer: 3
"""

from __future__ import annotations

from octonode_sdk.errors import OctonodeError

__all__ = [
    "DONE",
    "FAILED",
    "INSTALL",
    "INTERRUPTED",
    "NOT_FINE",
    "NO_READER",
    "WRONG",
    "CommandError",
    "ProcessError",
    "UsageError",
    "missing_extra",
]

DONE = 0
#: The node answered an error, or what was looked at is not in order.
NOT_FINE = 1
#: The command line, the target or the inputs are at fault; or an extra is missing.
WRONG = 2
#: The node's process has failed: it has died, was too late, or has sent no envelope.
FAILED = 3
#: As a shell says it of SIGINT.
INTERRUPTED = 130
#: As a shell says it of SIGPIPE: nobody reads stdout any more.
NO_READER = 141

#: What installs the extra that the command needs.
INSTALL = "pip install 'octonode-sdk[cli]'"


class CommandError(OctonodeError):
    """The command ends here.

    Args:
        text: One line for people, with the way out.
        stack: A traceback of node code, shown with `--debug` alone.
    """

    status = NOT_FINE

    def __init__(self, text: str, *, stack: str | None = None) -> None:
        self.text, self.stack = text, stack
        super().__init__(text)


class UsageError(CommandError):
    """The command line, the target or the inputs are at fault."""

    status = WRONG


class ProcessError(CommandError):
    """A node's process has failed before it had an answer."""

    status = FAILED


def missing_extra(name: str) -> str:
    """Return what to say where a module of the extra `cli` is not installed."""
    return f"onode needs {name}, which is not installed; {INSTALL}"
