"""What wakes a thread that waits in a poll."""

from __future__ import annotations

import os

__all__ = ["Bell"]


class Bell:
    """A pipe that wakes a poll: it is open as long as anybody has it, so that no ring goes to another file."""

    __slots__ = ("_write_fd", "read_fd")

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self._write_fd, False)

    def ring(self) -> None:
        """Wake the poll; from any thread."""
        try:
            os.write(self._write_fd, b"\0")
        except OSError:  # a full pipe wakes as well
            return

    def still(self) -> None:
        """Forget that it was rung."""
        try:
            os.read(self.read_fd, 4096)
        except OSError:  # it was not
            return

    def __del__(self) -> None:
        os.close(self.read_fd)
        os.close(self._write_fd)
