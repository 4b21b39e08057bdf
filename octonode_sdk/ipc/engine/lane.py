"""A worker's stdout, read by the thread that waits for the answer.

Handing an answer from the reactor's thread to the caller's costs more than the pipe. So a caller that is alone with its
worker reads for itself, in the lane: the one who holds it reads, nobody else. The reactor finds it taken when bytes
come, stops to look at that pipe, and comes back when it is needed: when somebody else has a call there, or when the
lane has not been used for a while.

What is not simply an answer (the end of the stream, a broken line) is left to the reactor's thread.
"""

from __future__ import annotations

import os
import select
import threading
from time import monotonic

from ...process.bell import Bell
from .reactor import POLLIN, has_poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .calls import Call
    from .process import NodeProcess
    from .reactor import Reactor

__all__ = ["Lane"]

_READ_BYTES = 1 << 16

#: After how long without use the reactor looks at the pipe again. It wakes that often while the lane is used.
_REST_SECONDS = 0.05


class Lane:
    """Who reads the stdout of one worker.

    Args:
        process: The worker's.
        reactor: Which reads otherwise.
        take: Takes bytes on the caller's thread; returns whether the reactor's has something to do about them.
        is_needed: Tells whether calls are in flight.
        attend: Does what `take` could not; on the reactor's thread.
        give_up: Ends the worker whose bytes may be lost, since a signal handler has raised into the caller; likewise.
    """

    def __init__(
        self,
        process: NodeProcess,
        reactor: Reactor,
        *,
        take: Callable[[bytes], bool],
        is_needed: Callable[[], bool],
        attend: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self._process, self._reactor = process, reactor
        self._take, self._is_needed, self._attend, self._give_up = take, is_needed, attend, give_up
        self._lock = threading.Lock()
        self._is_paused = False
        self._uses = 0
        self._poll: select.poll | None = None
        self._bell: Bell | None = None
        self._is_rung = False
        self._out_fd = -1
        process.gate = self

    # The reactor's side

    def enter(self) -> bool:
        """Take the lane to read, on the reactor's thread; where it is taken, stop to look at the pipe."""
        if self._lock.acquire(blocking=False):
            return True
        if not self._is_paused:
            self._is_paused = True
            self._process.pause_output()
            self._rest(self._uses)
        return False

    def leave(self) -> None:
        """Give the lane back."""
        self._lock.release()

    def _rest(self, uses: int) -> None:
        def look() -> None:
            if self._is_paused:
                if self._uses == uses:
                    self.resume()
                if self._is_paused:
                    self._rest(self._uses)

        self._reactor.call_at(monotonic() + _REST_SECONDS, look)

    def resume(self) -> None:
        """Look at the pipe again, on the reactor's thread, unless a caller reads, who asks again when it leaves."""
        if self._is_paused and self._lock.acquire(blocking=False):
            self._lock.release()
            self._is_paused = False
            self._process.resume_output()

    def expect(self) -> None:
        """Make sure that somebody reads, from any thread; after a call was noted that nobody reads for."""
        if self._is_paused:
            self._reactor.call_soon(self.resume)

    def interrupt(self) -> None:
        """Make a caller that reads stop, from any thread."""
        if self._bell is not None:
            self._is_rung = True
            self._bell.ring()

    # The caller's side

    def read_for(self, call: Call) -> None:
        """Read until a call has its answer, or until somebody else had better read."""
        if not has_poll or not self._lock.acquire(blocking=False):
            self.expect()
            return
        attends = False
        try:
            self._uses += 1
            if self._poll is None or self._bell is None:
                self._bell = Bell()
                self._poll = select.poll()
                self._poll.register(self._bell.read_fd, POLLIN)
                self._poll.register(self._process.stdout_fd, POLLIN)
                self._out_fd = self._process.stdout_fd
            if self._is_rung:
                self._is_rung = False
                self._bell.still()
            bell_fd, out_fd = self._bell.read_fd, self._out_fd
            call.lane = self
            while call.answer is None and not attends:
                ready = self._poll.poll()
                if ready[0][0] == bell_fd or len(ready) > 1:
                    break
                try:
                    data = os.read(out_fd, _READ_BYTES)
                except BlockingIOError:
                    continue
                except OSError:
                    break
                if not data:
                    break
                attends = self._take(data)
        except BaseException:
            self._reactor.call_soon(self._give_up)
            raise
        finally:
            call.lane = None
            self._lock.release()
            if attends:
                self._reactor.call_soon(self._attend)
            if self._is_needed():
                self.expect()
