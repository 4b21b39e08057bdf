"""Calls in processes of their own (ISO): a crash, a changed folder or a loop without end costs one call.

Such a process is this same worker, started for one request: it gets the request as the host sent it, and its frames go
on to the host as they are (ISO-2). It serves one call, so none sees what another did to its process (ISO-4). It ends
with its stdin and stdout, so it does not outlive the worker, whatever ends that (ISO-9). One process is kept ready, so
that a call does not wait for the start of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from time import monotonic

from octonode_sdk.context import FOLDER_VARIABLE
from octonode_sdk.process.children import end_marked, mark_of_child
from octonode_sdk.process.life import before_hard_end
from octonode_sdk.process.outcomes import signal_name

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
    """Runs each call that it is given in a process of its own (ISO-1).

    Args:
        arguments: The command line that finds the same nodes, without `--stdio`.
        folder: Where the worker was started; None where that is gone. Node code of this process may go elsewhere.
        limit_bytes: Most bytes of a payload.
        grace: Seconds that a call may go on after its cancel (ISO-6).
    """

    def __init__(self, arguments: list[str], folder: str | None, *, limit_bytes: int, grace: float) -> None:
        import atexit

        self._arguments, self._folder = arguments, folder
        self._limit_bytes, self._grace = limit_bytes, grace
        self._lock = threading.Lock()
        self._spare: _Child | None = None
        self._children: set[_Child] = set()
        atexit.register(self._close)
        before_hard_end(self._remove_folders)

    def __call__(self, call: Call) -> None:
        """Run a call up to its terminal frame, on this thread: so it counts among those that run at once (ISO-8)."""
        child = self._take()
        try:
            call.on_cancel = lambda: threading.Thread(target=child.stop, args=(self._grace,), daemon=True).start()
            if not call.start(None, None, None):
                return
            try:
                child.send(call.request)
            except (LocalProtocolError, ValueError) as error:
                call.fail(f"the inputs can't go to the process of the call: {error}")
                return
            self._relay(child, call)
        finally:
            call.on_cancel = None
            threading.Thread(target=self._dismiss, args=(child,), daemon=True).start()

    def _take(self) -> _Child:
        """Return a process that is ready or about to be, and start the next one."""
        with self._lock:
            child, self._spare = self._spare, None
        if child is None or child.has_ended:
            child = self._start()
        with self._lock:
            if self._spare is None:
                try:
                    self._spare = self._start()
                except OSError:  # the system has no more to give; the next call tries again
                    pass
        return child

    def _start(self) -> _Child:
        child = _Child(self._arguments, self._folder, self._limit_bytes)
        self._children.add(child)
        return child

    def _dismiss(self, child: _Child) -> None:
        """Let a process end, and see to it that it does."""
        child.end(self._grace + _END_SECONDS)
        self._children.discard(child)

    def _close(self) -> None:
        """At the end of the worker let those end by themselves whose calls have: they have exit hooks (END-12)."""
        until = monotonic() + self._grace
        with self._lock:
            spare, self._spare = self._spare, None
        for child in list(self._children):
            child.end(0 if child is spare else max(0.0, until - monotonic()))

    def _remove_folders(self) -> None:
        """Where the worker ends at once, it kills its children; what they can't remove is removed here (END-11)."""
        for child in list(self._children):
            child.kill()

    def _relay(self, child: _Child, call: Call) -> None:
        splitter = FrameSplitter(self._limit_bytes)
        while (payloads := read_payloads(child.out_fd, splitter)) is not None:
            for payload in payloads:
                if call.relay(payload):
                    return
        call.fail(child.last_words())  # ISO-3


class _Child:
    """One process, for one call."""

    def __init__(self, arguments: list[str], folder: str | None, limit_bytes: int) -> None:
        from secrets import token_hex
        from subprocess import PIPE, Popen
        from tempfile import gettempdir

        command = [sys.executable, "-m", "nodetool_worker", "--stdio", "--alone", *arguments]
        self._mark = mark_of_child()
        self._call_folder = os.path.join(gettempdir(), f"octonode-{token_hex(8)}")
        environment = {**os.environ, **self._mark, FOLDER_VARIABLE: self._call_folder}
        self._process: Popen[bytes] = Popen(
            command, stdin=PIPE, stdout=PIPE, cwd=folder, env=environment, start_new_session=True, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.out_fd = self._process.stdout.fileno()
        self._pipe = FramePipe(self._process.stdin.fileno(), lambda: None)
        self._writing = threading.Lock()
        self._ending = threading.Lock()
        self._is_sent, self._over = threading.Event(), threading.Event()
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
        self._write({"type": type_, "request_id": request.request_id, "data": data})
        self._is_sent.set()

    def _write(self, message: dict[str, Any]) -> None:
        frame = encode(message, limit=self._limit_bytes)
        with self._writing:
            self._pipe.write([frame] if isinstance(frame, bytes) else list(frame), block=True)

    def stop(self, grace: float) -> None:
        """Pass a cancel on, and kill the process if the call has not ended after the grace (ISO-5, ISO-6)."""
        # In a thread of its own: a process that hangs does not read.
        threading.Thread(target=self._send_cancel, daemon=True).start()
        if not self._over.wait(grace):
            self.kill()

    def _send_cancel(self) -> None:
        self._is_sent.wait()  # a cancel that overtakes its request would be for nobody
        self._write({"type": "cancel", "request_id": self._request_id, "data": {}})

    def end(self, seconds: float) -> None:
        """Let the process end by itself for so long, then kill it and what is left of it. May be called twice."""
        from subprocess import TimeoutExpired

        self._over.set()
        self._is_sent.set()
        with self._ending:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            if self._process.stdout.closed:
                return
            if self._writing.acquire(timeout=seconds):
                self._process.stdin.close()
                self._writing.release()
            try:
                self._process.wait(seconds)
            except TimeoutExpired:
                pass
            if self._process.returncode != 0:
                self.kill()
            self._process.stdout.close()

    def kill(self) -> None:
        """Kill the process and all that it has started, and remove its call's folder (ISO-6)."""
        from subprocess import TimeoutExpired

        if self._process.returncode is None:  # else the number may be somebody else's by now
            try:
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, 9)
                else:
                    self._process.kill()
            except (ProcessLookupError, PermissionError):  # it has just ended
                pass
        end_marked(self._mark)
        try:
            self._process.wait(_END_SECONDS)
        except TimeoutExpired:  # the system holds it: it ends when it is let go
            pass
        if os.path.isdir(self._call_folder):
            import shutil

            shutil.rmtree(self._call_folder, ignore_errors=True)

    def last_words(self) -> str:
        """Clean up after a process that has closed its stdout before the terminal frame; return what became of it."""
        from subprocess import TimeoutExpired

        try:
            status = self._process.wait(_END_SECONDS)
        except TimeoutExpired:
            self.kill()
            return "the process of the call closed its stdout and went on; it was killed"
        self.kill()
        if status >= 0:
            return f"the process of the call ended with status {status} before it had an answer"
        return f"the process of the call was killed by {signal_name(-status)} ({-status})"


def _with_large(value: Any) -> Any:
    """Return inputs with their large bytes as memory of its own, for no copy."""
    if isinstance(value, bytes):
        return large_or_same(value)
    if isinstance(value, dict):
        return {key: _with_large(one) for key, one in value.items()}
    return [_with_large(one) for one in value] if isinstance(value, list) else value
