"""What has come for one request, until it is taken; the sync and the async client differ in how they wait."""

from __future__ import annotations

import threading
from collections import deque
from copy import copy
from time import monotonic

from ..errors import BridgeError
from ..responses import Chunk, Event, Progress, Result, Update

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..responses import Response
    from .link import Link

__all__ = ["Hooks", "Inbox", "copied", "last_chunk"]

#: Parts that wait for their taker before the worker has to wait (see `link`).
_ENOUGH_PARTS = 256
_ENOUGH_BYTES = 64 << 20


class Inbox:
    """What has come for one request, until it is taken. The owner of a request on the link.

    Args:
        link: The connection.
        wanted: Classes of the parts that are kept; the others are dropped as they come.
    """

    __slots__ = ("_bell", "_in_bytes", "_link", "_out_bytes", "_parts", "_wanted", "outcome", "request_id")

    def __init__(self, link: Link, wanted: tuple[type[Response], ...]) -> None:
        self._link, self._wanted = link, wanted
        self.request_id = ""
        self.outcome: Response | BridgeError | None = None
        self._parts: deque[tuple[Response, int]] = deque()
        # Each is changed by one side alone: a sum that both change would lose some.
        self._in_bytes = self._out_bytes = 0
        self._bell = threading.Lock()
        self._bell.acquire()

    def take_part(self, response: Response, size: int) -> None:
        """Keep a part, if it is wanted."""
        if not isinstance(response, self._wanted):
            return
        parts = self._parts
        if self.is_over() and isinstance(response, Progress) and parts and isinstance(parts[-1][0], Progress):
            return  # the next one will tell more
        self._in_bytes += size
        parts.append((response, size))
        if self.is_over() and not self._link.is_full(self):
            self._link.note_full(self)
        self.ring()

    def is_over(self) -> bool:
        """Tell whether there is enough here."""
        return len(self._parts) >= _ENOUGH_PARTS or self._in_bytes - self._out_bytes >= _ENOUGH_BYTES

    def _is_half(self) -> bool:
        return len(self._parts) <= _ENOUGH_PARTS // 2 and self._in_bytes - self._out_bytes <= _ENOUGH_BYTES // 2

    def take_end(self, outcome: Response | BridgeError) -> None:
        """Keep the end."""
        self.outcome = outcome
        self.ring()

    def ring(self) -> None:
        """Wake who waits."""
        try:
            self._bell.release()
        except RuntimeError:  # it has been rung already
            return

    def take(self) -> Response | BridgeError | None:
        """Take the next part, or else look at the end; None where there is neither yet."""
        outcome = self.outcome  # before the parts: what comes last is looked at first
        try:
            response, size = self._parts.popleft()
        except IndexError:
            return outcome
        self._out_bytes += size
        if self._link.is_full(self) and self._is_half():
            self._link.note_room(self)
        return response

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is something to take; return False where `timeout` seconds have passed."""
        link = self._link
        link.begin_wait()
        try:
            return self._bell.acquire(timeout=-1 if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX)))
        finally:
            link.end_wait()

    def next(self, until: float | None = None) -> Response:
        """Wait for the next part or the result.

        Args:
            until: When to give up, on the monotonic clock; None for never.

        Raises:
            BridgeError: The request has failed.
            TimeoutError: `until` has passed; the request goes on.
        """
        taken = self._wait_for_next(until)
        if isinstance(taken, BridgeError):
            raise copied(taken)
        return taken

    def _wait_for_next(self, until: float | None) -> Response | BridgeError:
        while True:
            taken = self.take()
            if taken is not None:
                if taken is self.outcome:
                    self.ring()  # for whoever else waits
                return taken
            if not self.wait(None if until is None else until - monotonic()):
                raise TimeoutError(f"the request {self.request_id!r} is not done yet; ask again, or cancel it")


def copied(error: BridgeError) -> BridgeError:
    """Return an error to raise in place of one that is kept: each who waits gets his own.

    The traceback of the kept one would hold the frames that wait, and with them the bridge, as long as it is kept.
    """
    made = copy(error)
    made.__cause__ = error.__cause__
    return made


class Hooks:
    """The functions that a caller has for what comes before the result."""

    __slots__ = ("on_event", "on_progress", "on_update")

    def __init__(
        self,
        on_progress: Callable[[Progress], object] | None = None,
        on_update: Callable[[Update], object] | None = None,
        on_event: Callable[[Chunk | Event], object] | None = None,
    ) -> None:
        self.on_progress, self.on_update, self.on_event = on_progress, on_update, on_event

    def wanted(self) -> tuple[type[Response], ...]:
        """Return the classes that there are functions for."""
        wanted: list[type[Response]] = []
        if self.on_progress is not None:
            wanted.append(Progress)
        if self.on_update is not None:
            wanted.append(Update)
        if self.on_event is not None:
            wanted += [Chunk, Event]
        return tuple(wanted)

    def call(self, part: Response) -> object:
        """Hand a part to its function; return what that returns."""
        if isinstance(part, Progress):
            return self.on_progress and self.on_progress(part)
        if isinstance(part, Update):
            return self.on_update and self.on_update(part)
        assert isinstance(part, (Chunk, Event))
        return self.on_event and self.on_event(part)


def last_chunk(result: Result, had_chunk: bool) -> Chunk | None:
    """Return the outputs of a stream's result as a chunk; they count only where no chunk came."""
    if had_chunk or not (result.outputs or result.blobs):
        return None
    chunk = Chunk("chunk", result.request_id, result.data)
    chunk.blobs = result.blobs
    return chunk
