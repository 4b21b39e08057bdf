"""One connection at work: the core between two streams, with the threads that read and that watch the time.

Sync and async clients stand on the same link (BRG-21). What happens to a request is told to its owner, on the thread
that has noticed it; the owner takes it to whoever waits.

**How much is kept.** A chunk that nobody takes stays with its owner. Once an owner says that it has enough, nothing is
read any more, so that the worker has to wait and no memory grows. Reading goes on as soon as the owner has room again,
and also while anybody waits for anything: what he waits for may stand behind those chunks.
"""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic

from octonode_sdk.errors import shorten
from octonode_sdk.process.outcomes import outcome_text

from ..errors import BridgeClosedError, BridgeError, StreamLostError, WorkerDiedError
from .channel import ByteReader, FrameWriter
from .core import PLAIN, Answered, Core, Failed, Fault, Lost, Part, Request, Send, Warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO, Protocol

    from ..responses import Response
    from .core import Happening
    from .process import WorkerProcess

    class Owner(Protocol):
        """Whose a request is. All of these are called on a thread of the link, and return at once."""

        request_id: str

        def take_part(self, response: Response, size: int) -> None:
            """Take a chunk, a progress, an update or an event; `size` is that of its payload."""

        def take_end(self, outcome: Response | BridgeError) -> None:
            """Take the result or the error; nothing follows. Called once."""


__all__ = ["Link"]

#: How long an ended worker's last frames are read, and how long a stream's end waits for the process's.
_LAST_SECONDS = 2.0

#: How often a reader that pauses looks for requests that were dropped.
_PAUSE_SECONDS = 0.2

#: Faults of the worker that are kept for whoever asks.
_KEPT_FAULTS = 100

#: Faults of a worker that people are told of; one that goes on must not fill the log.
_TOLD_FAULTS = 20


class Link:
    """A worker's streams, and the requests on them.

    Args:
        core: The protocol.
        reader, writer: Descriptors or file objects: what the worker writes, and what it reads. They are the link's.
        process: The worker, where it is ours to end.
        warn: Told what people should know.

    Attributes:
        faults: What the worker has sent that it must not, where no request has failed by it; the last hundred.
    """

    def __init__(
        self,
        core: Core,
        reader: int | BinaryIO,
        writer: int | BinaryIO,
        *,
        process: WorkerProcess | None = None,
        warn: Callable[[str], None],
    ) -> None:
        self.core, self.process, self._warn = core, process, warn
        self.faults: deque[BridgeError] = deque(maxlen=_KEPT_FAULTS)
        self._reader = ByteReader(reader, on_wake=self._give_up_dropped)
        self._writer = FrameWriter(writer, on_failure=self._lose_writer)
        self._lock = threading.Lock()
        self._error_of: Callable[[Request | None], BridgeError] | None = None
        self._is_closing = False
        # The pause of the reader: who waits for anything, and which owners have enough.
        self._waiting = 0
        self._full: set[Any] = set()
        self._pause = threading.Condition(self._lock)
        self._is_paused = False
        # The watch over time: woken when something is due earlier than it thinks.
        self._clock = threading.Condition(self._lock)
        self._due_at: float | None = None
        self._last_at: float | None = None
        self._watcher: threading.Thread | None = None
        self._dropped: deque[Owner] = deque()
        self._is_unread = False
        self._told_faults = 0
        self._thread = threading.Thread(target=self._read, name="bridge-reader", daemon=True)
        self._thread.start()
        if process is not None:
            process.on_exit(self._note_exit)

    # Requests

    def open(self, type_: str, data: dict[str, Any], owner: Owner, *, kind: str = PLAIN, seconds: float | None) -> None:
        """Send a request; `owner.request_id` is set before anything comes for it.

        Args:
            type_, data: Of the message.
            owner: Told what happens to it.
            kind: As in `core`.
            seconds: How long it may stay without a frame; None for ever.

        Raises:
            LocalProtocolError: It can't be sent; nothing was.
            BridgeError: The link has ended; this says why.
        """
        request = self.core.prepare(type_, data, owner, kind=kind, seconds=seconds)
        owner.request_id = request.request_id
        with self._lock:
            if self._error_of is not None:
                raise self._error_of(request)
            if self._is_closing:
                raise BridgeClosedError
            self.core.open(request, monotonic())
            self._set_due(request.deadline)
        self._writer.send(request.frame)

    def cancel(self, request_id: str) -> None:
        """Cancel a request at the worker, which still ends it."""
        with self._lock:
            frame = self.core.cancel(request_id)
        if frame is not None:
            self._writer.send(frame)

    def give_up(self, owner: Owner) -> None:
        """Forget a request, and cancel it at the worker; its owner is told nothing more."""
        with self._lock:
            frame = self.core.give_up(owner.request_id)
            self._make_room(owner)
        if frame is not None:
            self._writer.send(frame)

    def drop(self, owner: Owner) -> None:
        """Do the same soon, on the thread that reads; takes no lock, since memory may be collected at any moment."""
        self._dropped.append(owner)
        self._reader.wake()

    # Who waits, and who has enough

    def begin_wait(self) -> None:
        """Note that somebody waits for his request, so that reading goes on."""
        with self._lock:
            self._waiting += 1
            if self._is_paused:
                self._pause.notify()

    def end_wait(self) -> None:
        """Note that he waits no longer."""
        with self._lock:
            self._waiting -= 1

    def is_full(self, owner: Owner) -> bool:
        """Tell whether an owner was noted to have enough."""
        return owner in self._full

    def note_full(self, owner: Owner) -> None:
        """Note that an owner has enough. By the thread that reads."""
        with self._lock:
            self._full.add(owner)

    def note_room(self, owner: Owner) -> None:
        """Note that it has room again."""
        with self._lock:
            self._make_room(owner)

    def _make_room(self, owner: Owner) -> None:
        self._full.discard(owner)
        if not self._full and self._is_paused:
            self._pause.notify()

    def _is_to_pause(self) -> bool:
        return bool(self._full) and not self._waiting and not self._is_closing and self._error_of is None

    def _pause_if_full(self) -> bool:
        """Wait until reading may go on; return whether there are requests that were dropped meanwhile."""
        with self._lock:
            if not self._is_to_pause():
                return False
            self._is_paused = True
            while self._is_to_pause():
                self._pause.wait(_PAUSE_SECONDS)
                if self._dropped:  # `drop` takes no lock and can't notify
                    break
            self._is_paused = False
            now = monotonic()
            self.core.renew(now)
            if self._last_at is not None:
                self._last_at = now + _LAST_SECONDS
            return bool(self._dropped)

    # What comes

    def _read(self) -> None:
        """Read to the end; once the link is over, only so that the worker can write what it still has."""
        core, reader = self.core, self._reader
        try:
            while True:
                room = core.room()  # of the bytes, which are this thread's alone
                if room is None:
                    data = reader.read()
                    if not data:
                        break
                    with self._lock:
                        happenings = core.feed(data, monotonic())
                else:
                    count = reader.read_into(room)
                    room.release()
                    if not count:
                        break
                    with self._lock:
                        happenings = core.filled(count, monotonic())
                self._tell(happenings)
                while self._full and self._pause_if_full():
                    self._give_up_dropped()
            self._end_of_stream()
        except Exception as error:  # noqa: BLE001  # whoever waits must hear of a fault of ours as well
            self._lose_stream(Lost(f"{type(error).__name__}: {error}"))
        finally:
            reader.close()

    def _tell(self, happenings: list[Happening]) -> None:
        for one in happenings:
            if isinstance(one, Part):
                one.owner.take_part(one.response, one.size)
            elif isinstance(one, Answered):
                one.owner.take_end(one.response)
            elif isinstance(one, Failed):
                one.owner.take_end(one.error)
            elif isinstance(one, Send):
                self._writer.send(one.frame)
            elif isinstance(one, Fault):
                self.faults.append(one.error)
                self._told_faults += 1
                if self._told_faults <= _TOLD_FAULTS:
                    self._warn(str(one.error))
            elif isinstance(one, Warned):
                self._warn(one.text)
            else:
                self._lose_stream(one)

    def _lose_stream(self, lost: Lost) -> None:
        """End the worker whose frames can't be followed (BRG-13)."""
        tail: list[str] = []
        if self.process is None:
            self._writer.close(0)
        else:
            self.process.kill()
            self.process.wait(_LAST_SECONDS)
            self.process.settle_stderr()
            tail = self.process.stderr_tail()
        self._finish(lambda request: StreamLostError(lost.problem, stderr_tail=tail, request_id=_id(request)))

    def _end_of_stream(self) -> None:
        """Fail what is open when the worker's stdout has ended."""
        if self._is_closing or self._error_of is not None:
            return
        status: int | None = None
        tail: list[str] = []
        problem = "reads nothing any more" if self._is_unread else "has closed its stdout"
        process = self.process
        if process is not None:
            status = process.wait(_LAST_SECONDS)
            if not process.has_exited:
                process.kill()  # one that can't answer any more is of no use
                process.wait(_LAST_SECONDS)
                problem += " without ending, and was killed"
            else:
                problem = outcome_text(status)
            process.settle_stderr()
            tail = process.stderr_tail()
        if self.core.is_inside_frame:
            problem += " in the middle of a frame"
        if self.core.complaint is not None:
            problem += f"; it had complained: {shorten(self.core.complaint, 300)}"

        def error_of(request: Request | None) -> BridgeError:
            if request is None:
                return WorkerDiedError(problem, status=status, stderr_tail=tail)
            what = f"{problem}; the request {request.request_id!r} ({request.type}) was open"
            return WorkerDiedError(what, status=status, stderr_tail=tail, request_id=request.request_id)

        self._finish(error_of)

    def _finish(self, error_of: Callable[[Request | None], BridgeError], *, stops: bool = True) -> None:
        """Fail what is open, and everything that comes later, with errors of this making; stop to read or not."""
        with self._lock:
            if self._error_of is not None:
                return
            self._error_of = error_of
            happenings = self.core.end(error_of)
            self._pause.notify_all()
            self._clock.notify_all()
        if stops:
            self._reader.stop()
        self._tell(happenings)

    # Time

    def _set_due(self, at: float | None) -> None:
        """Have the watcher look at this time, with the lock held."""
        if at is None:
            return
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="bridge-clock", daemon=True)
            self._due_at = at
            self._watcher.start()
        elif self._due_at is None or at < self._due_at:
            self._due_at = at
            self._clock.notify()

    def _watch(self) -> None:
        while True:
            with self._lock:
                if self._error_of is not None or self._is_closing:
                    return
                now = monotonic()
                if self._last_at is not None and now >= self._last_at and not self._is_paused:
                    break
                happenings = [] if self._is_paused else self.core.expire(now)
                if not happenings:
                    times = [at for at in (self.core.next_deadline(), self._last_at) if at is not None]
                    self._due_at = min(times) if times else None
                    wait = None if self._due_at is None else max(0.05 if self._is_paused else 0.001, self._due_at - now)
                    self._clock.wait(None if wait is None else min(wait, threading.TIMEOUT_MAX))
                    continue
            self._tell(happenings)
        self._end_of_stream()

    def _give_up_dropped(self) -> None:
        while self._dropped:
            self.give_up(self._dropped.popleft())

    def _note_exit(self) -> None:
        """Bound the reading of what an ended worker has left: a process of its own may hold the pipe open."""
        with self._lock:
            self._last_at = monotonic() + _LAST_SECONDS
            self._set_due(self._last_at)

    def _lose_writer(self) -> None:
        """Note that the worker takes nothing any more; what it has still sent is read first."""
        with self._lock:
            self._is_unread = True
            if self._last_at is None:
                self._last_at = monotonic() + _LAST_SECONDS
            self._set_due(self._last_at)

    # The end

    def close(self, grace: float) -> int | None:
        """Cancel what is open, end the worker's input, wait, and end the worker (BRG-20).

        Args:
            grace: Seconds that the worker may take to end by itself.

        Returns:
            The worker's status, or None where it is no process of ours.
        """
        with self._lock:
            is_first = not self._is_closing
            self._is_closing = True
            requests = [] if self._error_of is not None else self.core.pending
            frames = [self.core.cancel(request.request_id) for request in requests]
            self._pause.notify_all()
            self._clock.notify_all()
        status = None
        if is_first:
            for frame in frames:
                if frame is not None:
                    self._writer.send(frame)
            self._finish(lambda _request: BridgeClosedError(), stops=False)
            self._writer.close(min(grace, 1.0))
        is_reader = self._thread is threading.current_thread()
        if self.process is not None:
            status = self.process.end(grace)
        elif not is_reader:
            self._thread.join(grace)
        self._reader.stop()
        if not is_reader:
            self._thread.join(_LAST_SECONDS)
        return status


def _id(request: Request | None) -> str | None:
    return None if request is None else request.request_id
