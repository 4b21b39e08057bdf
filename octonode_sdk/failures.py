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
    shorten,
)
from .secrets import mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from .errors import Fault
    from .nodes import Node

__all__ = ["Failure", "failure_of", "scrub", "stack_of"]

#: Longest stack that is sent, in characters: a retry loop may chain thousands of causes.
_STACK_LIMIT = 200_000

#: Frames of an exception that are shown, the last ones: what follows them is the same recursion.
_FRAMES = 60

#: Longest text, in characters, in place of a part of `details` that is not JSON.
_PART_LIMIT = 500

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: Folders of the packages of this distribution: their frames lead to node code and are none of it.
_OURS = [os.path.join(_FOLDER, name, "") for name in ("octonode_sdk", "nodetool_worker")]


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
    try:
        return _failure_of(error, node)
    except BaseException as broken:  # noqa: BLE001  # the exception's own attributes and methods may do anything
        name = type(error).__name__
        return Failure(RUNTIME_ERROR, scrub(f"{name}: its report can't be made ({type(broken).__name__})"))


def _failure_of(error: BaseException, node: Node | None) -> Failure:
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
        retryable = bool(error.retryable)
        code = RUNTIME_ERROR if retryable else NON_RETRYABLE
        message = scrub(_text_of(error)) or type(error).__name__
        return Failure(code, message, retryable=retryable, details=_details_of(error), stack=stack_of(error))
    if isinstance(error, CallCancelledError):
        return Failure(RUNTIME_ERROR, "the call was cancelled", retryable=True)
    message = scrub(_named(error))
    retryable = node is not None and bool(node.retry_on) and isinstance(error, node.retry_on)  # ERR-15
    return Failure(RUNTIME_ERROR, message, retryable=retryable, stack=stack_of(error))  # ERR-14


#: Members of a group that an error names, and how deep it looks for them.
_MEMBERS, _MEMBERS_DEPTH = 5, 3

#: What Python says where a coroutine or generator raises what would look like its end, by the class of that (PEP 479).
_HIDING = ("coroutine raised ", "generator raised ", "async generator raised ")


def _named(error: BaseException, depth: int = 0) -> str:
    """Return the class of an exception with its text: `ValueError: no such colour`. Never empty (ERR-2, EXE-18)."""
    hidden = error.__cause__ if type(error) is RuntimeError else None
    if isinstance(hidden, (StopIteration, StopAsyncIteration)):
        is_hiding = _text_of(error) in [how + type(hidden).__name__ for how in _HIDING]
        error = hidden if is_hiding else error
    name, text = type(error).__name__, _text_of(error)
    if name == "CancelledError" and not text:
        text = "a task that the node waited for was cancelled by its own library"  # CAN-14
    if isinstance(error, BaseExceptionGroup) and depth < _MEMBERS_DEPTH:  # EXE-25
        members = [_named(one, depth + 1) for one in error.exceptions[:_MEMBERS]]
        more = "; ..." if len(error.exceptions) > _MEMBERS else ""
        text += f" [{'; '.join(members)}{more}]"
    return f"{name}: {text}" if text else name


def _text_of(error: BaseException) -> str:
    try:
        return str.__str__(str(error))
    except BaseException as broken:  # noqa: BLE001  # the author's __str__ may fail, exit or interrupt (EXE-20): the call still has an answer
        return f"<its text can't be made: {type(broken).__name__}>"


def _details_of(error: NodeError) -> Any:
    """Return the author's details, with the author's own code in them (ERR-16)."""
    details = _sendable(error.details)
    if error.code is not None:
        details = {**({} if details is None else _as_object(details)), "code": str(error.code)}
    return _scrub_all(details)


def _sendable(details: Any) -> Any:
    """Return details as JSON, with a text in place of each part that JSON can't hold (ERR-20)."""
    from .values import find_cycle

    try:
        if find_cycle(details) is False:
            return _with_texts(details)
    except Exception:  # noqa: BLE001  # nested too deep, or containers of the author's own that fail when they are read
        pass
    return shorten(details, _PART_LIMIT)


def _with_texts(value: Any) -> Any:
    from .values import Policy, plain

    if isinstance(value, dict):
        return {key if type(key) is str else _key_text(key): _with_texts(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return [_with_texts(one) for one in value]
    faults: list[Fault] = []
    made = plain(value, None, faults, Policy(non_finite="text", big_integers="text"))
    return shorten(value, _PART_LIMIT) if faults else made


def _key_text(key: Any) -> str:
    value = getattr(key, "value", key)  # a member of an Enum
    return str(value) if isinstance(value, (str, int)) else shorten(key)


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
    text = mask(str.__str__(text))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def stack_of(error: BaseException) -> str | None:
    """Return the traceback of an exception from the author's first frame on, with its causes (ERR-6, ERR-7)."""
    import traceback

    try:
        report = traceback.TracebackException(
            type(error), error, _author_frames(error.__traceback__), limit=-_FRAMES, compact=True
        )
        _trim_causes(report, error)
        text = scrub("".join(report.format()))
    except BaseException as broken:  # noqa: BLE001  # formatting runs the author's __str__ and __repr__, which may do anything
        return f"<the traceback can't be made: {type(broken).__name__}>"
    if len(text) > _STACK_LIMIT:
        left = len(text) - _STACK_LIMIT
        half = _STACK_LIMIT // 2
        text = f"{text[:half]}\n... ({left} characters left out) ...\n{text[-half:]}"
    return text


def _author_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of this package, and of the loop and pools, that lead to the node."""
    folders = [*_OURS, "<frozen importlib"]
    for name in ("asyncio", "concurrent.futures"):
        module = sys.modules.get(name)
        if module is not None and module.__file__:
            folders.append(os.path.dirname(module.__file__) + os.sep)
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(tuple(folders)):
        trace = trace.tb_next
    return trace


def _trim_causes(report: Any, error: BaseException) -> None:
    """Take this package's leading frames out of the causes as well, and out of the members of groups."""
    import traceback

    pairs: list[tuple[Any, Any]] = [(report, error)]
    while pairs:
        above, error_above = pairs.pop()
        inner = [(above.__cause__, error_above.__cause__), (above.__context__, error_above.__context__)]
        inner += zip(getattr(above, "exceptions", None) or (), getattr(error_above, "exceptions", ()), strict=False)
        for one, its_error in inner:
            if one is not None and its_error is not None:
                frames = traceback.walk_tb(_author_frames(its_error.__traceback__))
                one.stack = traceback.StackSummary.extract(frames, limit=-_FRAMES)
                pairs.append((one, its_error))
