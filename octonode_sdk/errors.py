"""The one error tree of the package, and the error codes of the wire.

The first branch says who is to blame::

    OctonodeError
    ├── DefinitionError       the node's source, known at import or when it is first read
    ├── LoadError             a target (file, module) that can't be loaded, or a node it does not have
    ├── RemoteProtocolError   the host sent what the protocol does not grant
    ├── FaultsError           values that do not fit their ports
    │   ├── InputsError       the host's inputs
    │   └── OutputsError      the node's outputs
    ├── CredentialError       a declared secret that the host did not provide
    └── NodeError             raised by node code on purpose

    CallCancelledError        a BaseException, so that `except Exception` in a node lets it through
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

VALIDATION_ERROR = "VALIDATION_ERROR"
RUNTIME_ERROR = "RUNTIME_ERROR"
TIMEOUT = "TIMEOUT"
NON_RETRYABLE = "NON_RETRYABLE"

#: The codes that an `error` object may carry (ERR-1). A node never sends TIMEOUT: the engine makes it (RES-13).
CODES = (VALIDATION_ERROR, RUNTIME_ERROR, TIMEOUT, NON_RETRYABLE)

__all__ = [
    "CODES",
    "NON_RETRYABLE",
    "RUNTIME_ERROR",
    "TIMEOUT",
    "VALIDATION_ERROR",
    "CallCancelledError",
    "CredentialError",
    "DefinitionError",
    "Fault",
    "FaultsError",
    "InputsError",
    "LoadError",
    "NodeError",
    "OctonodeError",
    "OutputsError",
    "RemoteProtocolError",
    "shorten",
    "text_filters",
]


#: What a text passes through before it is cut. `secrets` puts its mask here: half a secret is not found any more.
text_filters: list[Callable[[str], str]] = []

#: Characters behind a cut that the filters see as well, so that they find what begins before it.
_BEHIND_THE_CUT = 4096


def shorten(value: object, limit: int = 60) -> str:
    """Return `repr(value)` cut to about `limit` characters; never raises.

    A long text or container is cut before it is printed, so the cost does not grow with its size.
    """
    more = ""
    try:
        if isinstance(value, (str, bytes, bytearray)) and len(value) > limit:
            text = repr(value[: limit + _BEHIND_THE_CUT])
            more = f" ({len(value)} long)"
        elif isinstance(value, (list, tuple, set, frozenset, dict)) and not _is_small(value):
            text = f"{type(value).__name__} of {len(value)} items"
        else:
            text = repr(value)
    except Exception:  # noqa: BLE001  # a broken __repr__ of the node's own class must not hide the fault being told
        text = f"<{type(value).__name__}>"
    for change in text_filters:
        text = change(text)
    return text + more if len(text) <= limit + 30 else f"{text[:limit]}...{more}"


def _is_small(values: Any) -> bool:
    """Tell whether a container is few scalars, so that its text is short."""
    if len(values) > 12:
        return False
    items = [*values, *values.values()] if isinstance(values, dict) else values
    return all(len(one) <= 60 if isinstance(one, (str, bytes)) else not hasattr(one, "__len__") for one in items)


def _remake(cls: Any, args: tuple[object, ...], state: dict[str, Any]) -> Any:
    """Build an unpickled exception without its `__init__`, whose arguments are not those that it hands on."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class OctonodeError(Exception):
    """Base of all errors of this package that are ordinary exceptions."""

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle as `cls(*args)`, which fits no class that builds its text from fields.
        return _remake, (type(self), self.args, dict(self.__dict__))


class DefinitionError(OctonodeError):
    """The source of a node is at fault: a hint without a port type, an unknown icon, a clash of names.

    Args:
        problem: What is wrong, in words that follow the place.
        node: Id or name of the node.
        parameter: The parameter or output concerned, if one is.
        way_out: What to write instead.
    """

    def __init__(
        self, problem: str, *, node: str | None = None, parameter: str | None = None, way_out: str | None = None
    ) -> None:
        self.problem, self.node, self.parameter, self.way_out = problem, node, parameter, way_out
        place = f"node {node!r}: " if node else ""
        if parameter:
            place += f"{parameter} " if parameter.startswith("the return") else f"parameter {parameter!r} "
        super().__init__(place + problem + (f"; {way_out}" if way_out else ""))


class LoadError(OctonodeError):
    """A target can't be loaded, holds no node, or has no node of the asked name."""


class RemoteProtocolError(OctonodeError):
    """A line that is no request (REQ-1 and following).

    Attributes:
        request_id: The id of the line, where it can be read.
        faults: What is wrong, a fault for each place.
    """

    def __init__(self, message: str, *, request_id: str | None = None, faults: Sequence[Fault] = ()) -> None:
        self.request_id, self.faults = request_id, list(faults)
        super().__init__(message)


class Fault:
    """One value at one place that does not fit.

    Attributes:
        path: Where, from the root `$`, such as `$.box[2].width`.
        message: What is wrong there, what was expected, and the way out.
    """

    __slots__ = ("message", "path")

    def __init__(self, path: str, message: str) -> None:
        self.path, self.message = path, message

    def __repr__(self) -> str:
        return f"Fault({self.path!r}, {self.message!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fault) and (self.path, self.message) == (other.path, other.message)

    __hash__ = None  # type: ignore[assignment]  # compared by value in tests, never a key

    def to_dict(self) -> dict[str, str]:
        """Return the entry of `details.errors` (ERR-17)."""
        return {"path": self.path, "message": self.message}


class FaultsError(OctonodeError):
    """Values do not fit their ports; `faults` names every place, not only the first."""

    what = "value"

    def __init__(self, faults: Sequence[Fault], *, node: str | None = None) -> None:
        self.faults, self.node = list(faults), node
        place = f"node {node!r}: " if node else ""
        shown = "; ".join(f"{fault.path}: {fault.message}" for fault in self.faults[:3])
        more = f" (and {len(self.faults) - 3} more)" if len(self.faults) > 3 else ""
        many = f"{len(self.faults)} faults in the {self.what}s" if len(self.faults) > 1 else f"invalid {self.what}"
        super().__init__(f"{place}{many}: {shown}{more}")


class InputsError(FaultsError):
    """The inputs that the host sent do not fit the node's ports."""

    what = "input"


class OutputsError(FaultsError):
    """What the node returned does not fit its declared outputs, or can't be sent without a change."""

    what = "output"


class CredentialError(OctonodeError):
    """Declared secrets are missing from the environment; the node was not run (CTX-12)."""

    def __init__(self, names: Sequence[str], *, node: str) -> None:
        self.names, self.node = list(names), node
        one = len(self.names) == 1
        many = f"variable {self.names[0]} is" if one else f"variables {', '.join(self.names)} are"
        super().__init__(
            f"node {node!r}: the environment {many} not set; set {'it' if one else 'them'} where the host starts"
        )


class NodeError(OctonodeError):
    """A failure that the node raises on purpose, for the host to show and act upon.

    Args:
        message: What happened, for people.
        retryable: Whether the same call may succeed later. False gives the code NON_RETRYABLE, True gives
            RUNTIME_ERROR with `retryable` set (ERR-12, ERR-13).
        details: Anything of JSON that helps the reader.
        code: A code of the author's own, such as "RATE_LIMITED". It travels inside `details` (ERR-16), since the
            wire knows four codes only.

    Example:
        >>> NodeError("the service is busy", retryable=True, code="RATE_LIMITED").code
        'RATE_LIMITED'
    """

    # Of the class, so that a subclass whose `__init__` does not call this one has them too.
    message: str = ""
    retryable: bool = False
    details: object = None
    code: str | None = None

    def __init__(
        self, message: str = "", retryable: bool = False, details: object = None, *, code: str | None = None
    ) -> None:
        self.message, self.retryable, self.details, self.code = message, retryable, details, code
        super().__init__(message)


class CallCancelledError(BaseException):
    """The call was told to stop; raised by `Context.check_cancelled`."""
