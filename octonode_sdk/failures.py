"""The one table from an exception to what the wire says of it."""

from __future__ import annotations

import os
import sys

from .errors import (
    NON_RETRYABLE,
    RUNTIME_ERROR,
    VALIDATION_ERROR,
    CallCancelledError,
    CredentialError,
    DefinitionError,
    FaultsError,
    LoadError,
    NodeError,
    RemoteProtocolError,
)
from .secrets import mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from .nodes import Node

__all__ = ["Failure", "failure_of", "scrub", "stack_of"]

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Failure:
    """A failed call, ready for any wire.

    Attributes:
        code: One of `errors.CODES`.
        message: For people; never empty.
        retryable: Whether the host may try again; this, not the code, decides.
        details: Any JSON value, or None for none.
        stack: The traceback from the author's first frame on, or None where node code did not raise.
    """

    __slots__ = ("code", "details", "message", "retryable", "stack")

    def __init__(
        self, code: str, message: str, *, retryable: bool = False, details: Any = None, stack: str | None = None
    ) -> None:
        self.code, self.message, self.retryable, self.details, self.stack = code, message, retryable, details, stack


def failure_of(error: BaseException, node: Node | None = None) -> Failure:
    """Return what the wire says of an exception. Never raises, whatever the exception is made of (ERR-20)."""
    if isinstance(error, (FaultsError, RemoteProtocolError)):  # ERR-8, ERR-10, ERR-11
        faults = [fault.to_dict() for fault in error.faults]
        for fault in faults:
            fault["path"], fault["message"] = scrub(fault["path"]), scrub(fault["message"])
        return Failure(
            VALIDATION_ERROR, scrub(str(error)), details={"errors": faults} if faults else None
        )  # ERR-17, ERR-18
    if isinstance(error, LoadError):  # ERR-9
        return Failure(VALIDATION_ERROR, scrub(str(error)))
    if isinstance(error, CredentialError):
        return Failure(NON_RETRYABLE, scrub(str(error)), details={"missing": list(error.names)})
    if isinstance(error, DefinitionError):
        return Failure(RUNTIME_ERROR, scrub(str(error)))
    if isinstance(error, NodeError):  # ERR-12, ERR-13
        retryable = error.retryable is True
        code = RUNTIME_ERROR if retryable else NON_RETRYABLE
        message = scrub(_text_of(error)) or type(error).__name__
        return Failure(code, message, retryable=retryable, details=_details_of(error), stack=stack_of(error))
    if isinstance(error, CallCancelledError):
        return Failure(RUNTIME_ERROR, "the call was cancelled", retryable=True)
    message = scrub(_named(error))
    retryable = node is not None and bool(node.retry_on) and isinstance(error, node.retry_on)  # ERR-15
    return Failure(RUNTIME_ERROR, message, retryable=retryable, stack=stack_of(error))  # ERR-14


def _named(error: BaseException) -> str:
    """Return the class of an exception with its text: `ValueError: no such colour`."""
    name, text = type(error).__name__, _text_of(error)
    if name == "CancelledError" and not text:
        text = "a task that the node waited for was cancelled by its own library"
    return f"{name}: {text}" if text else name


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001  # the author's __str__ may fail, exit or interrupt: the call still has an answer
        return f"<its text can't be made: {type(broken).__name__}>"


def _details_of(error: NodeError) -> Any:
    """Return the author's details, with the author's own code in them (ERR-16)."""
    from .errors import Fault
    from .values import Policy, plain

    faults: list[Fault] = []
    try:
        details = plain(error.details, None, faults, Policy(non_finite="text", big_integers="text"))
    except RecursionError:
        details, faults = None, [Fault("$", "nested too deep")]
    if faults:
        details = {"unsendable": [fault.to_dict() for fault in faults]}
    if error.code is not None:
        details = {"code": str(error.code), **({} if details is None else _as_object(details))}
    return _scrub_all(details)


def _as_object(details: Any) -> dict[str, Any]:
    return details if isinstance(details, dict) else {"details": details}


def _scrub_all(value: Any) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {scrub(key): _scrub_all(one) for key, one in value.items()}
    return [_scrub_all(one) for one in value] if isinstance(value, list) else value


def scrub(text: str) -> str:
    """Return text that may be shown and sent: secrets masked, lone surrogates written as escapes (ERR-20, ERR-21)."""
    text = mask(text)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def stack_of(error: BaseException) -> str | None:
    """Return the traceback of an exception from the author's first frame on, with its causes (ERR-6, ERR-7)."""
    import traceback

    try:
        report = traceback.TracebackException(
            type(error), error, _author_frames(error.__traceback__), limit=-60, compact=True
        )
        _trim_causes(report, error)
        return scrub("".join(report.format()))
    except BaseException as broken:  # noqa: BLE001  # formatting runs the author's __str__ and __repr__, which may do anything
        return f"<the traceback can't be made: {type(broken).__name__}>"


def _author_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of this package, and of the loop and pools, that lead to the node."""
    folders = [_HERE, "<frozen importlib"]
    for name in ("asyncio", "concurrent.futures"):
        module = sys.modules.get(name)
        if module is not None and module.__file__:
            folders.append(os.path.dirname(module.__file__) + os.sep)
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(tuple(folders)):
        trace = trace.tb_next
    return trace


def _trim_causes(report: Any, error: BaseException) -> None:
    """Take this package's leading frames out of the causes as well."""
    import traceback

    for name, inner_error in (("__cause__", error.__cause__), ("__context__", error.__context__)):
        inner = getattr(report, name)
        if inner is not None and inner_error is not None:
            inner.stack = traceback.StackSummary.extract(
                traceback.walk_tb(_author_frames(inner_error.__traceback__)), limit=-60
            )
            _trim_causes(inner, inner_error)
