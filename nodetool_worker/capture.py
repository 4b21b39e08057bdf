"""What node code prints and logs, told to the call that it belongs to; it goes to stderr as well."""

from __future__ import annotations

import sys
from _contextvars import ContextVar  # the module around it only re-exports it

from octonode_sdk.process.streams import LogStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Protocol

    class Speaker(Protocol):
        """A call that is running."""

        def write_text(self, text: str) -> None:
            """Take what node code prints."""

        def tell(self, severity: str, text: str) -> None:
            """Take a record of `logging`."""


__all__ = ["CallLogStream", "capture_logging", "current_call"]

#: The call that this thread, or this task of the loop, works for. Threads that node code starts inherit it (UPD-18).
current_call: ContextVar[Speaker | None] = ContextVar("current_call", default=None)


class CallLogStream(LogStream):
    """`sys.stdout` and `sys.stderr` of node code: text for stderr, and log updates of the call (UPD-15)."""

    def write(self, text: str, /) -> int:
        """Write text."""
        count = super().write(text)
        call = current_call.get()
        if call is not None:
            call.write_text(text)
        return count


def capture_logging(level: str) -> None:
    """Send the records of `logging` to the calls that they belong to, and to stderr, from the moment it is loaded.

    It is not loaded for that: most packs that log have it loaded by the time they do, and the start stays short.

    Args:
        level: Least level of the root logger, such as "INFO".
    """
    if "logging" in sys.modules:
        _install_handler(level)
    else:
        sys.meta_path.insert(0, _WhenLoaded("logging", lambda: _install_handler(level)))


class _WhenLoaded:
    """A finder that calls back once a module has been loaded by the others, and is then gone."""

    def __init__(self, name: str, callback: Callable[[], object]) -> None:
        self._name, self._callback = name, callback

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of the module that is waited for, its loader extended."""
        if name != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return spec
        execute, callback = loader.exec_module, self._callback

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            callback()

        loader.exec_module = execute_and_call
        return spec


def _install_handler(level: str) -> None:
    import logging

    class CallHandler(logging.Handler):
        """Writes a record to stderr, and to the call that it belongs to (UPD-16)."""

        def emit(self, record: logging.LogRecord) -> None:
            call = current_call.get()
            try:
                text = self.format(record)
                if call is not None:
                    call.tell(_severity(record.levelno), text)
                token = current_call.set(None)  # the line on stderr is not told a second time
                try:
                    sys.stderr.write(f"[{record.levelname.lower()}] {record.name}: {text}\n")
                finally:
                    current_call.reset(token)
            except Exception:  # noqa: BLE001  # as logging's own handlers do it: a record that can't be made fails no node
                self.handleError(record)

    root = logging.getLogger()
    number = logging.getLevelName(level.upper())
    root.setLevel(number if isinstance(number, int) else logging.INFO)
    root.addHandler(CallHandler())


def _severity(level: int) -> str:
    return "error" if level >= 40 else "warning" if level >= 30 else "info"
