"""Calls in processes of their own (ISO): a crash, a changed folder or a loop without end costs one call.

Such a process is this same worker, started for one request: it gets the request as the host sent it, and its frames go
on to the host as they are. One process is kept ready, so that a call does not wait for the start of its own.
"""

from __future__ import annotations

import os
import sys
import threading

from .errors import LocalProtocolError
from .frames import FrameSplitter, encode, large_or_same
from .pipes import FramePipe, read_payloads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen
    from typing import Any

    from .calls import Call
    from .messages import Execute

__all__ = ["Isolation"]

#: Seconds that a process has to end by itself once its call has ended and its stdin is closed, beside the grace.
_END_SECONDS = 3.0


class Isolation:
    """Runs each call that it is given in a process of its own.

    Args:
        arguments: The command line that finds the same nodes, without `--stdio`.
        limit_bytes: Most bytes of a payload.
        grace: Seconds that a call may go on after its cancel (ISO-6).
    """

    def __init__(self, arguments: list[str], *, limit_bytes: int, grace: float) -> None:
        # The folder of this moment: node code in this process may go elsewhere.
        self._arguments, self._folder = arguments, os.getcwd()
        self._limit_bytes, self._grace = limit_bytes, grace
        self._lock = threading.Lock()
        self._spare: _Child | None = None

    def __call__(self, call: Call) -> None:
        """Run a call up to its terminal frame, on this thread."""
        child = self._take()
        try:
            if not call.start(None, None, None):
                return
            try:
                child.send(call.request)
            except (LocalProtocolError, ValueError) as error:
                call.fail(f"the inputs can't go to the process of the call: {error}")
                return
            # Only now: a cancel that overtakes its request would be for nobody.
            call.on_cancel = lambda: threading.Thread(target=child.stop, args=(self._grace,), daemon=True).start()
            if call.has_ended:  # cancelled before the line above
                return
            self._relay(child, call)
        finally:
            call.on_cancel = None
            child.dismiss(self._grace)

    def _take(self) -> _Child:
        """Return a process that is ready or about to be, and start the next one."""
        with self._lock:
            child, self._spare = self._spare, None
        if child is None or child.has_ended:
            child = self._start()
        with self._lock:
            if self._spare is None:
                self._spare = self._start()
        return child

    def _start(self) -> _Child:
        return _Child(self._arguments, self._folder, self._limit_bytes)

    def _relay(self, child: _Child, call: Call) -> None:
        splitter = FrameSplitter(self._limit_bytes)
        while (payloads := read_payloads(child.out_fd, splitter)) is not None:
            for payload in payloads:
                if call.relay(payload):
                    return
        call.fail(child.last_words())  # ISO-3


class _Child:
    """One process, for one call."""

    def __init__(self, arguments: list[str], folder: str, limit_bytes: int) -> None:
        from subprocess import PIPE, Popen

        command = [sys.executable, "-m", "nodetool_worker", "--stdio", "--alone", *arguments]
        self._process: Popen[bytes] = Popen(
            command, stdin=PIPE, stdout=PIPE, cwd=folder, start_new_session=True, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.out_fd = self._process.stdout.fileno()
        self._pipe = FramePipe(self._process.stdin.fileno(), lambda: None)
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._request_id = ""
        self._limit_bytes = limit_bytes

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone already."""
        return self._process.poll() is not None

    def send(self, request: Execute) -> None:
        """Send the request, secrets included (ISO-7).

        Raises:
            OutgoingTooLargeError, ValueError: It does not fit into a frame.
        """
        self._request_id = request.request_id
        data = {
            "node_type": request.node_type,
            "fields": _with_large(request.inputs),
            "secrets": request.secrets,
            "node_id": request.node_id,
            "job_id": request.job_id,
            "workflow_id": request.workflow_id,
            "user_id": request.user_id,
            "requires_vram_gb": request.requires_vram_gb,
            "blob_transfer": "chunked-v1" if request.chunked else None,
        }
        type_ = "execute.stream" if request.streams else "execute"
        message = {"type": type_, "request_id": request.request_id, "data": data}
        self._write(message)

    def _write(self, message: dict[str, Any]) -> None:
        frame = encode(message, limit=self._limit_bytes)
        with self._writing:
            self._pipe.write([frame] if isinstance(frame, bytes) else list(frame), block=True)

    def stop(self, grace: float) -> None:
        """Pass a cancel on, and kill the process if the call has not ended after the grace (ISO-5, ISO-6)."""
        message = {"type": "cancel", "request_id": self._request_id, "data": {}}
        # In a thread of its own: a process that hangs does not read.
        threading.Thread(target=self._write, args=(message,), daemon=True).start()
        if not self._over.wait(grace):
            self._kill()

    def dismiss(self, grace: float) -> None:
        """Let the process end, and see to it that it does."""
        self._over.set()
        threading.Thread(target=self._end, args=(grace + _END_SECONDS,), daemon=True).start()

    def _end(self, seconds: float) -> None:
        from subprocess import TimeoutExpired

        with self._writing:
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(seconds)
        except TimeoutExpired:
            pass
        self._kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _kill(self) -> None:
        """Kill the process and what it has started: its whole group."""
        try:
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, 9)
            else:
                self._process.kill()
        except (ProcessLookupError, PermissionError):  # nobody is left of it
            pass
        self._process.wait()

    def last_words(self) -> str:
        """Return what became of a process that has closed its stdout before the terminal frame."""
        from subprocess import TimeoutExpired

        try:
            status = self._process.wait(_END_SECONDS)
        except TimeoutExpired:
            return "the process of the call closed its stdout and went on; it was killed"
        if status >= 0:
            return f"the process of the call ended with status {status} before it had an answer"
        import signal

        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"the process of the call was killed by {name} ({-status})"


def _with_large(value: Any) -> Any:
    """Return inputs with their large bytes as memory of its own, for no copy."""
    if isinstance(value, bytes):
        return large_or_same(value)
    if isinstance(value, dict):
        return {key: _with_large(one) for key, one in value.items()}
    return [_with_large(one) for one in value] if isinstance(value, list) else value
