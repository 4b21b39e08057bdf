"""How a process has ended, in words. Pure."""

from __future__ import annotations

__all__ = ["outcome_text", "signal_name"]


def outcome_text(status: int | None) -> str:
    """Return how a process has ended, in words that follow its name; `status` is -N for signal N, None for unknown.

    Example:
        >>> outcome_text(3), outcome_text(-9)
        ('ended with status 3', 'was ended by signal 9 (SIGKILL)')
    """
    if status is None:
        return "ended, and how is not known"
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by signal {-status} ({signal_name(-status)})"


def signal_name(number: int) -> str:
    """Return the name of a signal, or "unknown"."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
