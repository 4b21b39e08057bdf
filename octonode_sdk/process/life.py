"""How a runner's process starts and ends: signals with a grace, exit hooks, a finalisation only where one is needed."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # no stub; `signal` would import enum
import _thread
import gc
import os
import sys
import threading
from time import sleep

from ..lanes import LANE_NAME, inherit_context
from .children import end_children, opened_for_writing, release_in_children, watch_children
from .streams import log_is_wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn, Protocol

    from .streams import Wire

    class Serving(Protocol):
        """What serves the calls, as far as signals go."""

        signal: int


__all__ = [
    "SIGNALS",
    "before_hard_end",
    "catch_signals",
    "end_after",
    "end_at_once",
    "enter",
    "guard_handlers",
    "leave",
]

SIGNALS = tuple(getattr(_signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(_signal, name))


#: The packages of this distribution: nothing in them needs finalisation.
_OURS = {"octonode_sdk", "nodetool_worker"}


def catch_signals(
    wire: Wire, grace: float, status_of: Callable[[int], int], *, insists: bool = False
) -> Callable[[Serving], None]:
    """Let SIGTERM, SIGINT and SIGHUP end the process with a grace, also where node code installs handlers of its own.

    Signals arrive as bytes on the wake pipe, whoever handles them. The handler is a second way out, for a main thread
    that is stuck in a write to a reader that has stopped reading: a timer ends the process soon after the grace.

    Args:
        wire: Its wake pipe gets the signals.
        grace: Seconds that work may go on after a signal.
        status_of: Status of a process that ends with its grace, by the signal's number. After a second signal it is
            128 and that number in any case (LIFE-13, END-8).
        insists: Whether node code that is imported may not set these signals back to what ends a process at once.

    Returns:
        Takes who serves, once it does: its attribute `signal` is set by the handler.
    """
    serving: list[Serving] = []
    armed: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if armed:  # a second signal: at once
            end_at_once(128 + number)
        armed.append(number)
        end_after(grace + 2, status_of(number))
        for one in serving:
            one.signal = one.signal or number
        wire.wake()  # the byte on the wake pipe does not come where node code has taken the wake-up descriptor over

    for number in SIGNALS:
        if _signal.getsignal(number) is not _signal.SIG_IGN:  # nohup and background jobs ignore some on purpose
            _signal.signal(number, handle)
    _signal.set_wakeup_fd(wire.wake_fd, warn_on_full_buffer=False)
    release_in_children(SIGNALS)

    def start(server: Serving) -> None:
        serving.append(server)
        if not insists:
            return
        # Node code that was imported may have set these to end the process without a word.
        for number in SIGNALS:
            if _signal.getsignal(number) is _signal.SIG_DFL:
                _signal.signal(number, handle)
        if hasattr(_signal, "SIGPIPE") and _signal.getsignal(_signal.SIGPIPE) is _signal.SIG_DFL:
            _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
        _signal.set_wakeup_fd(wire.wake_fd, warn_on_full_buffer=False)

    return start


def guard_handlers(tell: Callable[[BaseException], object]) -> None:
    """Let no signal handler that node code has installed raise into what the main thread is doing.

    Only the main thread can install one, and only there do they run: once it runs no node code, these are all.

    Args:
        tell: Takes what a handler raises.
    """
    for number in _signal.valid_signals():
        handler = _signal.getsignal(number)
        if callable(handler):
            _signal.signal(number, _guarded(handler, tell))


def _guarded(handler: Callable[[int, Any], object], tell: Callable[[BaseException], object]) -> Callable[..., None]:
    def handle(number: int, frame: object) -> None:
        try:
            try:
                handler(number, frame)
            except BaseException as error:  # noqa: BLE001  # a handler may raise anything
                tell(error)
        except BaseException:  # noqa: BLE001  # it can't be told either; the main thread goes on all the same
            return

    return handle


def end_after(seconds: float, status: int) -> None:
    """End the process, children included, if it is still there after `seconds`."""

    def end() -> None:
        sleep(min(seconds, threading.TIMEOUT_MAX))
        end_at_once(status)

    try:
        _thread.start_new_thread(end, ())
    except RuntimeError:  # no thread to be had: then nothing bounds the end, but nothing is lost
        return


_last_acts: list[Callable[[], object]] = []


def before_hard_end(act: Callable[[], object]) -> None:
    """Let something be done before the process ends in the middle of a call, on whatever thread ends it (END-11)."""
    _last_acts.append(act)


def end_at_once(status: int) -> NoReturn:
    """End the process and its children, also in the middle of a call."""
    # A node that computes would keep the interpreter for 5 ms behind each system call below, and there are hundreds.
    sys.setswitchinterval(1e-6)
    try:
        for act in _last_acts:
            act()
        end_children()
    finally:
        os._exit(status)


def enter() -> set[str]:
    """Prepare a process for node code: its children are watched, its exit hooks ordered, its contexts inherited.

    Returns:
        The names of the modules that were loaded before any node code.
    """
    import atexit

    watch_children()
    atexit.register(_ignore_signals)  # registered first, so these three run after every hook of node code
    atexit.register(_settle_streams)
    atexit.register(end_children)
    inherit_context()
    return set(sys.modules)


def leave(status: int, *, grace: float, loaded: set[str], own: Iterable[str], is_alone: bool) -> list[object]:
    """End the process where the interpreter's finalisation has nothing to do, else prepare that.

    Args:
        status: The exit status.
        grace: Seconds that exit hooks and threads may take.
        loaded: Names of the modules that need no finalisation.
        own: Names of the modules of the nodes.
        is_alone: Whether nothing else has run in this process, so that all that may need finalisation has been seen.

    Returns:
        What has to be kept until the very end.
    """
    import atexit

    end_after(grace, status)  # neither exit hooks nor threads may keep the process (LIFE-7)
    if is_alone and _is_trivial(set(sys.modules) - loaded, own):
        atexit._run_exitfuncs()
        if _is_trivial(set(sys.modules) - loaded, own):  # else a hook has opened or started something
            os._exit(status)
    kept = _last_modules(set(sys.modules) - loaded)
    if is_alone and not opened_for_writing():
        gc.freeze()
    else:
        gc.unfreeze()  # what a cycle keeps open is closed by the collector
    return kept


def _last_modules(imported: set[str]) -> list[object]:
    """Return the modules that the interpreter has to clear at its end, and let it clear those that import others first.

    The parked lanes keep the nodes, and with them whatever a module has opened. The interpreter clears the modules that
    somebody still has when it has forgotten them, the last ones of `sys.modules` first.
    """
    passed_over = sys.stdlib_module_names | _OURS
    names = [name for name in sys.modules if name in imported and name.partition(".")[0] not in passed_over]
    for name in reversed(names):
        sys.modules[name] = sys.modules.pop(name)
    return [sys.modules[name] for name in names]


def _ignore_signals() -> None:
    """Let a timer that node code has left running not end the process: its handler goes before the process does."""
    for number in _signal.valid_signals():
        if number not in SIGNALS and callable(_signal.getsignal(number)):
            _signal.signal(number, _signal.SIG_IGN)


def _settle_streams() -> None:
    """Write what the streams keep back; one that can't would change the status, and is taken away."""
    for name in ("stdout", "stderr", "__stderr__"):
        try:
            getattr(sys, name).flush()
        except Exception:  # noqa: BLE001  # a node may have put anything there
            setattr(sys, name, None)


def _is_trivial(imported: set[str], modules: Iterable[str]) -> bool:
    """Tell whether the interpreter's finalisation has nothing to do but to free memory, which the system does as well.

    It takes as long as a light call. It is left out where the process has no thread to join, has opened no file for
    writing, and has imported nothing beside the standard library and the modules of its nodes.
    """
    own = {name.partition(".")[0] for name in modules} | _OURS
    return (
        not opened_for_writing()
        and not log_is_wrapped()
        and "ctypes" not in imported  # C code may keep text back in streams of its own
        and all(thread.daemon or thread.name == LANE_NAME for thread in threading.enumerate()[1:])
        and own.issuperset({name.partition(".")[0] for name in imported} - sys.stdlib_module_names)
    )
