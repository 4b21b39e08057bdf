"""Where progress, logs and previews go under Octonode, which has no frames for them: to stderr (LINE-19)."""

from __future__ import annotations

import sys
from time import monotonic

from ..errors import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..context import Context

__all__ = ["LogSink"]

#: Least seconds between two progress lines of a call; people can't read faster, and a pipe should not carry more.
_PROGRESS_INTERVAL = 0.1


class LogSink:
    """Writes a line a word, each with the node's id and the call's."""

    def __init__(self) -> None:
        self._next_progress = 0.0

    def progress(self, context: Context, done: float, total: float | None, message: str | None) -> None:
        """Write the progress, but seldom; the last step is always told."""
        now = monotonic()
        finished = total is not None and done >= total
        if now < self._next_progress and not finished:
            return
        self._next_progress = now + _PROGRESS_INTERVAL
        share = f"{done:g}/{total:g} ({done / total:.0%})" if total else f"{done:g}"
        self._write(context, f"progress {share}{f' {message}' if message else ''}")

    def log(self, context: Context, level: str, text: str) -> None:
        """Write a line of log, its inner line breaks kept and indented."""
        self._write(context, f"{level}: " + text.replace("\n", "\n    "))

    def preview(self, context: Context, value: Any) -> None:
        """Write what the preview is of; Octonode can't show it."""
        self._write(context, f"preview: {shorten(value)}")

    def _write(self, context: Context, text: str) -> None:
        sys.stderr.write(f"[{context.node_id} {context.request_id[:8]}] {text}\n")
