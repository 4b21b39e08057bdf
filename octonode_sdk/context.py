"""`Context`: what a call knows of its run, and how a node speaks to its host while it works."""

from __future__ import annotations

import sys
from _thread import allocate_lock
from time import monotonic

from .errors import CallCancelledError, NodeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any, Protocol

    class Sink(Protocol):
        """Where the words of a running node go; each host brings its own."""

        def progress(self, context: Context, done: float, total: float | None, message: str | None) -> None:
            """Show how far the call is."""

        def log(self, context: Context, level: str, text: str) -> None:
            """Show a line of text."""

        def preview(self, context: Context, value: Any) -> None:
            """Show an intermediate value."""


__all__ = ["FOLDER_VARIABLE", "LEVELS", "Context", "NullSink"]

#: Names the temporary folder of the only call of this process; see `_make_folder`.
FOLDER_VARIABLE = "OCTONODE_CALL_FOLDER"

LEVELS = ("debug", "info", "warning", "error")

#: The greatest number that a float holds; an integer may be beyond it.
_GREATEST = 1.7976931348623157e308


class NullSink:
    """A sink that drops everything: the context of a node that is called as a plain function in a test."""

    def progress(self, context: Context, done: float, total: float | None, message: str | None) -> None:
        """Drop it."""

    def log(self, context: Context, level: str, text: str) -> None:
        """Drop it."""

    def preview(self, context: Context, value: Any) -> None:
        """Drop it."""


_NULL_SINK = NullSink()


def _current_task() -> asyncio.Task[Any] | None:
    """Return the task of the event loop that is running on this thread, if one is."""
    current_task = getattr(sys.modules.get("asyncio"), "current_task", None)
    try:
        return None if current_task is None else current_task()
    except RuntimeError:  # no loop runs on this thread
        return None


#: Held while a temporary folder is made.
_folder_lock = allocate_lock()


def _make_folder() -> Path:
    """Make a folder that nobody else has or may read.

    Whoever starts a process for one call gives the name: it removes the folder where the process can't (EXE-38).
    """
    import os
    from pathlib import Path

    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        try:
            os.mkdir(given, 0o700)
            return Path(given)
        except OSError:  # another Context of this process has it
            pass
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix="octonode-"))


class Context:
    """One call's surroundings (CTX-10). Ask for it by annotation: `def resize(..., *, ctx: Context)`; it is no port.

    Every argument has a default, so that a node can be called directly: `resize(image, ctx=Context())`.

    Attributes:
        config: The node's configuration, a dict.
        attempt: 1 for the first try of this call, counting up with each retry.
        env: "prod", "dev" or another name of the host's, or None.
        run_id: One workflow run, or None.
        request_id: This call. Octonode calls it the invocation id.
        node_id: The node: Octonode's node id, or the id of the node in NodeTool's graph.
        job_id, workflow_id, user_id: Who asked, as far as the host tells, else None.
        deadline: When the host gives up on the call, in seconds of `time.monotonic()`, or None. Nothing here stops the
            call then (CTX-9).
    """

    __octonode_context__ = True

    __slots__ = (
        "_cancel_told",
        "_cancelled",
        "_secrets",
        "_sink",
        "_temp_dir",
        "_was_told_on_loop",
        "attempt",
        "config",
        "deadline",
        "env",
        "job_id",
        "node_id",
        "on_cancel",
        "request_id",
        "run_id",
        "user_id",
        "workflow_id",
    )

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        attempt: int = 1,
        env: str | None = None,
        run_id: str | None = None,
        request_id: str = "",
        node_id: str = "",
        job_id: str | None = None,
        workflow_id: str | None = None,
        user_id: str | None = None,
        deadline: float | None = None,
        secrets: Mapping[str, str] | None = None,
        sink: Sink = _NULL_SINK,
    ) -> None:
        self.config: dict[str, Any] = dict(config or {})
        self.attempt, self.env, self.run_id = attempt, env, run_id
        self.request_id, self.node_id = request_id, node_id
        self.job_id, self.workflow_id, self.user_id = job_id, workflow_id, user_id
        self.deadline = deadline
        self._secrets, self._sink = secrets or {}, sink
        self._cancelled = self._cancel_told = self._was_told_on_loop = False
        #: Called by `cancel`, by whoever runs the call; an async node's task is cancelled through it.
        self.on_cancel: Callable[[], object] | None = None
        self._temp_dir: Path | None = None

    @property
    def invocation_id(self) -> str:
        """The `request_id`, by Octonode's word for it."""
        return self.request_id

    @property
    def cancelled(self) -> bool:
        """Whether the call was told to stop."""
        return self._cancelled

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline (negative behind it), or None where there is none."""
        return None if self.deadline is None else self.deadline - monotonic()

    @property
    def temp_dir(self) -> Path:
        """A folder of this call's own, made on first use and removed after the call."""
        with _folder_lock:  # threads of one call share it
            if self._temp_dir is None:
                self._temp_dir = _make_folder()
            return self._temp_dir

    @property
    def was_told_on_loop(self) -> bool:
        """Whether a coroutine has got the cancellation from here: its task must not get it once more. For hosts."""
        return self._was_told_on_loop

    def check_cancelled(self) -> None:
        """Stop here if the call was told to stop (CAN-9); call it in long loops.

        Raises:
            CallCancelledError: It was. Not an `Exception`, so that a broad `except` does not swallow it.
        """
        if self._cancelled:
            self._cancel_told = True
            self._was_told_on_loop = self._was_told_on_loop or _current_task() is not None
            raise CallCancelledError("the call was told to stop")

    def _stop_once(self) -> None:
        """Stop a cancelled call that has not been stopped yet: its clean-up may log and go on (CAN-10)."""
        if self._cancelled and not self._cancel_told:
            task = _current_task()
            if task is None or not task.cancelling():  # else the task was told
                self.check_cancelled()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the work is: `ctx.progress(3, 10, "resizing")`.

        Args:
            done: Work done so far, in any unit. What is not finite is not shown (UPD-4).
            total: The whole work in that unit. None, 0 and what is not finite mean that it is unknown.
            message: A few words.

        Raises:
            CallCancelledError: The call was told to stop, and this is the first that the node hears of it.
        """
        self._stop_once()
        if not -_GREATEST <= done <= _GREATEST:
            return
        if total is not None and not 0 < total <= _GREATEST:
            total = None
        self._sink.progress(self, done, total, message)

    def log(self, text: object, level: str = "info") -> None:
        """Say something to the person who runs the workflow.

        Args:
            text: What to say.
            level: "debug", "info", "warning" or "error".

        Raises:
            CallCancelledError: As `progress`.
        """
        self._stop_once()
        if level not in LEVELS:
            raise ValueError(f"unknown log level {level!r}; use one of {', '.join(LEVELS)}")
        self._sink.log(self, level, str(text))

    def preview(self, value: Any) -> None:
        """Show an intermediate value, where the host can.

        Raises:
            CallCancelledError: As `progress`.
        """
        self._stop_once()
        self._sink.preview(self, value)

    def secret(self, name: str) -> str | None:
        """Return the value of a declared secret; None for one that is not required and not set.

        Raises:
            NodeError: The node did not declare it (`@node(secrets=[...])`) (CTX-11).
        """
        if name not in self._secrets:
            known = ", ".join(sorted(self._secrets)) or "none"
            raise NodeError(f"the secret {name!r} is not declared; say @node(secrets=[{name!r}]) (declared: {known})")
        return self._secrets[name] or None

    def cancel(self) -> None:
        """Tell the call to stop: sets `cancelled`. For hosts and tests."""
        self._cancelled = True
        stop = self.on_cancel
        if stop is not None:
            stop()

    def close(self) -> None:
        """Remove the call's temporary folder, if one was made. For hosts; a folder already gone is fine."""
        if self._temp_dir is not None:
            import shutil

            shutil.rmtree(self._temp_dir, ignore_errors=True)
            self._temp_dir = None
