"""What an engine bears from a process, and how long; each with the reason for its default."""

from __future__ import annotations

from ..lines import DEFAULT_LIMIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Limits", "checked_number"]

#: Seconds beyond which the systems' calls that wait refuse a time: over a century.
_LONGEST_SECONDS = 2.0**32


def checked_number(name: str, value: Any, *, least: float, whole: bool = False) -> Any:
    """Return a number that a caller gave, or say what is wrong with it.

    Raises:
        TypeError: It is no number.
        ValueError: It is too small, too large to be waited for, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise TypeError(f"{name} is {value!r}; expected {'a whole number' if whole else 'a number'}")
    if not least <= value <= (value if whole else _LONGEST_SECONDS):  # NaN compares false as well
        raise ValueError(f"{name} is {value!r}; expected a number from {least:g} on")
    return value


class Limits:
    """What an engine bears from a process.

    Args:
        max_answer_bytes: Longest answer, its LF not counted; in one-shot mode also all of stdout (ENG-17). The default
            is the longest request that our runner takes.
        stderr_lines: Lines of stderr that are kept of a process, and quoted when it dies.
        stderr_line_bytes: Longest part of a line of stderr that is kept or handed on; the rest is cut.
        drain_seconds: How long after the end of a process its stdout is still read where something else holds it open:
            a moment, since what the process itself has written is there already (ENG-18).
        exit_seconds: How long a process may take to end after its answer in one-shot mode, or after it has closed its
            stdout; then it is killed, and the answer counts (ENG-19).
    """

    __slots__ = ("drain_seconds", "exit_seconds", "max_answer_bytes", "stderr_line_bytes", "stderr_lines")

    def __init__(
        self,
        *,
        max_answer_bytes: int = DEFAULT_LIMIT_BYTES,
        stderr_lines: int = 20,
        stderr_line_bytes: int = 4096,
        drain_seconds: float = 0.25,
        exit_seconds: float = 5.0,
    ) -> None:
        self.max_answer_bytes: int = checked_number("max_answer_bytes", max_answer_bytes, least=1, whole=True)
        self.stderr_lines: int = checked_number("stderr_lines", stderr_lines, least=0, whole=True)
        self.stderr_line_bytes: int = checked_number("stderr_line_bytes", stderr_line_bytes, least=1, whole=True)
        self.drain_seconds: float = checked_number("drain_seconds", drain_seconds, least=0)
        self.exit_seconds: float = checked_number("exit_seconds", exit_seconds, least=0)
