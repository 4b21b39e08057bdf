"""What processes write to stderr: cut into lines, the last ones kept, all of them handed on. Never parsed (ENG-13)."""

from __future__ import annotations

import threading
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LineSink", "Tail"]

#: Lines that wait for a slow `on_stderr`; of those that come on top, only the number is told.
_WAITING_LINES = 10_000


class Tail:
    """Pure: bytes of stderr -> lines, of which the last are kept.

    Args:
        lines: How many are kept.
        line_bytes: What is kept of a line; the rest is dropped.
        on_line: Called with each line.
    """

    __slots__ = ("_is_cut", "_kept", "_line", "_most", "_on_line")

    def __init__(self, lines: int, line_bytes: int, on_line: Callable[[str], object] | None = None) -> None:
        self._kept: deque[str] = deque(maxlen=lines)
        self._most = line_bytes
        self._on_line = on_line
        self._line = b""
        self._is_cut = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._on_line is None:
            # Only the last lines matter: a flood costs no more than looking for its ends.
            pieces = data.rsplit(b"\n", (self._kept.maxlen or 0) + 1)
            if len(pieces) > (self._kept.maxlen or 0) + 1:
                pieces[0] = b""  # all the lines before those
                self._line, self._is_cut = b"", False
        else:
            pieces = data.split(b"\n")
        *ended, rest = pieces
        for piece in ended:
            self._add(piece)
            self._end_line()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        room = self._most - len(self._line)
        self._line += piece[:room] if room > 0 else b""
        self._is_cut = self._is_cut or len(piece) > room

    def _end_line(self) -> None:
        line, self._line = self._line, b""
        text = line.removesuffix(b"\r").decode("utf-8", "backslashreplace") + ("..." if self._is_cut else "")
        self._is_cut = False
        self._kept.append(text)
        if self._on_line is not None:
            self._on_line(text)

    def finish(self) -> None:
        """Take the last line, which may lack its end."""
        if self._line:
            self._end_line()

    def lines(self) -> list[str]:
        """Return the last lines, oldest first, that which has no end yet included."""
        kept = [*self._kept]
        if self._line and self._kept.maxlen:
            kept.append(self._line.decode("utf-8", "backslashreplace"))
        return kept[-(self._kept.maxlen or 1) :]


class LineSink:
    """Calls a function of the caller's with each line, on a thread that does nothing else: it may take its time.

    What raises there is logged once, and the function is not called any more.
    """

    def __init__(self, function: Callable[[str], object]) -> None:
        self._function: Callable[[str], object] | None = function
        self._lines: deque[str] = deque()
        self._lost = 0
        self._work = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Have the function called with a line; never waits."""
        with self._work:
            if self._function is None or self._is_closed:
                return
            if len(self._lines) >= _WAITING_LINES:
                self._lost += 1
                return
            if self._lost:
                self._lines.append(f"[octonode_sdk: {self._lost} lines of stderr lost, since on_stderr is too slow]")
                self._lost = 0
            self._lines.append(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="engine-stderr", daemon=True)
                self._thread.start()
            else:
                self._work.notify()

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._lines:
                    if self._is_closed:
                        return
                    self._work.wait()
                batch, self._lines = self._lines, deque()
            for line in batch:
                if self._function is None:
                    return
                try:
                    self._function(line)
                except Exception:  # whatever a caller's function raises, the calls go on
                    import logging

                    logging.getLogger(__name__).exception("on_stderr has failed and is not called any more")
                    with self._work:
                        self._function = None
                        self._lines.clear()
                    return

    def close(self, timeout: float) -> None:
        """Wait until the function has had every line, for at most `timeout` seconds; later lines are dropped."""
        with self._work:
            self._is_closed = True
            self._work.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
