"""Where progress, logs and previews go under Octonode, which has no frames for them: to stderr (LINE-19)."""

from __future__ import annotations

import sys
from time import monotonic

from ..errors import shorten
from ..secrets import mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..context import Context

__all__ = ["LogSink"]

#: Least seconds between two lines of progress, and between two of previews, of a call: people can't read faster.
_INTERVAL = 0.1

#: Lines of log below a warning that a call may write in a second: one that logs each step would fill the host's disk.
_LINES_A_SECOND = 500


class LogSink:
    """Writes a line a word, each with the node's id and the call's; one sink a call.

    Args:
        write: Takes a whole line. `sys.stderr.write`, as it is at that moment, unless given.
        clock: Seconds that never go back.
    """

    def __init__(self, write: Callable[[str], object] | None = None, *, clock: Callable[[], float] = monotonic) -> None:
        self._write_line, self._clock = write, clock
        self._next_progress = self._next_preview = self._next_window = 0.0
        self._in_window = self._left_out = 0

    def progress(self, context: Context, done: float, total: float | None, message: str | None) -> None:
        """Write the progress, but seldom; the last step is always told."""
        now = self._clock()
        finished = total is not None and done >= total
        if now < self._next_progress and not finished:
            return
        self._next_progress = now + _INTERVAL
        share = f"{done:g}/{total:g} ({done / total:.0%})" if total else f"{done:g}"
        self._write(context, f"progress {share}{f' {message}' if message else ''}")

    def log(self, context: Context, level: str, text: str) -> None:
        """Write a line of log, its inner line breaks kept and indented. Warnings and errors are never left out."""
        if level in ("debug", "info"):
            now = self._clock()
            if now >= self._next_window:
                if self._left_out:
                    self._write(context, f"warning: {self._left_out} lines of log were left out")
                self._next_window = now + 1
                self._in_window = self._left_out = 0
            self._in_window += 1
            if self._in_window > _LINES_A_SECOND:
                if not self._left_out:
                    self._write(
                        context, f"warning: more than {_LINES_A_SECOND} lines of log in a second; leaving out some"
                    )
                self._left_out += 1
                return
        self._write(context, f"{level}: {text}")

    def preview(self, context: Context, value: Any) -> None:
        """Write what the preview is of, but seldom; Octonode can't show it."""
        now = self._clock()
        if now < self._next_preview:
            return
        self._next_preview = now + _INTERVAL
        self._write(context, f"preview: {shorten(mask(value) if isinstance(value, str) else value)}")

    def _write(self, context: Context, text: str) -> None:
        # Masked here and not only at the stream: a secret of several lines would not be known again once indented.
        text = mask(text).replace("\n", "\n    ")
        name = context.request_id[:8]
        if not name.isprintable():  # the host's own text must not break the line
            name = ascii(name)[1:-1]
        write = self._write_line or sys.stderr.write
        write(f"[{context.node_id} {name}] {text}\n")
