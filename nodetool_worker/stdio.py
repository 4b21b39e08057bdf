"""`python -m nodetool.worker --stdio`: the worker on stdin and stdout, which is its host's alone (FRM-20).

The main thread loads the nodes (FND-17), then waits for signals and for the end of the host, and runs no call. No
thread reads stdin while it runs node code: the threads of `lanes` take turns (EXE-33).
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import allocate_lock
from threading import Thread
from time import monotonic

from octonode_sdk.lanes import LOOK_SECONDS, Lanes, LoopThread
from octonode_sdk.process.life import (
    SIGNALS,
    before_hard_end,
    catch_signals,
    end_at_once,
    enter,
    guard_handlers,
    leave,
)
from octonode_sdk.process.streams import announce, say, take_wire

from .capture import CallLogStream, capture_logging
from .frames import FrameSplitter
from .inventory import take_inventory
from .options import UsageError, read_options
from .outbox import Outbox
from .pipes import FramePipe, read_payloads
from .worker import Session, Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from octonode_sdk.process.streams import Wire

    from .calls import Call
    from .options import Options

__all__ = ["READY", "Server", "main"]

#: What the host waits for on stderr (FRM-23).
READY = "NODETOOL_STDIO_READY"

#: Seconds after the start at which the host is told that the worker is there, though nodes are still being imported. A
#: host gives up after 20 (FRM-26).
_READY_SECONDS = 10.0

#: Longest grace after a signal, in seconds: a host that closes sends one right behind the end of stdin (END-6).
_SIGNAL_GRACE = 2.0

#: Seconds that cancelled calls have for their clean-up (END-3).
_CANCEL_SECONDS = 1.0

#: Calls that are read ahead of those that can run; more stay in the pipe, and with them the cancels behind them. What
#: is in memory is bounded by the bytes as well.
_READ_AHEAD = 1 << 14

#: So many of the largest frames may be in memory, those of running calls included, before reading stops (EXE-36).
_READ_AHEAD_FRAMES = 4

#: Seconds that a thread of Python code keeps the interpreter while others want it. With Python's 5 ms, and 32 nodes
#: that compute, the thread that reads would wait 160 ms at each of its steps (DSC-6, CAN-4).
_SWITCH_SECONDS = 0.0005

#: Status of a process whose reader went away: 128 and the number of SIGPIPE, as a shell would say (END-9).
_STATUS_NO_READER = 141


class Server:
    """Serves one host over one pair of descriptors.

    Args:
        worker: What answers.
        wire: The descriptors.
        options: Limits.

    Attributes:
        signal: Number of the signal that ends the process, or 0.
        kept: What stays in memory until the very end.
    """

    def __init__(self, worker: Worker, wire: Wire, options: Options) -> None:
        self._wire, self._options = wire, options
        self._pipe = FramePipe(wire.out_fd, wire.wake)
        self._outbox = Outbox(self._pipe, wire.wake)
        self._session = Session(worker, self._outbox)
        self._splitter = FrameSplitter(options.limit_bytes)
        self._is_at_end = False
        self._untaken: list[Any] = []
        self._leave_at: float | None = None
        self._is_cancelling = False
        #: What the main thread waits for.
        self._gate = allocate_lock()
        self.signal = 0
        self.kept: list[object] = []
        # The order of requests is that in which their nodes start, and not that of their answers (EXE-35, EXE-37).
        self._lanes = Lanes(
            limit=options.concurrency,  # EXE-34
            read=self._read,
            serve=self._serve,
            deliver=lambda _none, more: self._outbox.pump(more),
            read_ahead=_READ_AHEAD,
            read_ahead_bytes=_READ_AHEAD_FRAMES * options.limit_bytes,
            wake=wire.wake,
        )
        self._lanes.loop = worker.loop
        before_hard_end(self._session.close_contexts)

    def serve(self) -> int:
        """Serve until the end of input, a signal, or the end of the reader; return the exit status (END-5)."""
        over: list[Any] = []
        gate = self._gate
        gate.acquire()

        def watch() -> None:
            try:
                over.append(self._watch())
            except BaseException as error:  # noqa: BLE001  # raised again by the main thread
                over.append(error)
            self._wake_main()

        # Not on this thread: here run signal handlers of node code, and what they raise would come in the middle of a
        # write.
        Thread(target=watch, name="octonode-watch", daemon=True).start()
        told = ""
        while not over:
            try:
                if told:
                    say(told)
                    told = ""
                gate.acquire()
            except SystemExit:
                continue
            except BaseException as error:  # noqa: BLE001  # from a handler that a handler of node code has installed
                told = f"stdio worker: a signal handler raised {type(error).__name__}: {error}\n"
        if isinstance(over[0], BaseException):
            raise over[0]
        status: int = over[0]
        return status

    def _wake_main(self) -> None:
        """Let the main thread look whether all is over, and run the handlers of signals on the way."""
        if self._gate.locked():
            self._gate.release()

    def _watch(self) -> int:
        wire, lanes, outbox = self._wire, self._lanes, self._outbox
        wire.watch_input()
        lanes.start()
        while True:
            leave_at = self._note_end()
            if leave_at is not None and (lanes.ended or lanes.closed) and not lanes.outstanding:  # END-2
                outbox.nudge()
                if outbox.is_empty:
                    return 0
            outbox.is_watched = lanes.look()
            if outbox.is_dirty:  # looked at after the line above: who finds nobody watching wakes this thread
                outbox.is_watched = True
            timeout = LOOK_SECONDS if outbox.is_watched else None  # END-13
            if leave_at is not None:
                left = leave_at - monotonic()
                if left <= 0:
                    self._leave_now()
                    left = _CANCEL_SECONDS
                timeout = left if timeout is None else min(timeout, left)
            gone, woken = wire.wait(timeout, for_room=outbox.needs_room)
            if gone or self._pipe.is_dead:
                end_at_once(_STATUS_NO_READER)  # END-9
            outbox.settle()
            for number in woken:
                if number in SIGNALS:
                    self.signal = self.signal or number
                    self._wake_main()  # of two signals at once the system gives it one only

    def _note_end(self) -> float | None:
        """Return the moment at which work in flight is cut off, or None while the host has not closed."""
        if self.signal and not self._is_cancelling:  # END-6, END-7
            self._lanes.closed = True
            at = monotonic() + min(self._options.grace, _SIGNAL_GRACE)
            if self._leave_at is None or at < self._leave_at:
                self._leave_at = at
            self.signal = 0
        elif (self._lanes.ended or self._wire.input_has_closed) and self._leave_at is None:  # END-1
            self._leave_at = monotonic() + self._options.grace
        return self._leave_at

    def _leave_now(self) -> None:
        """At the end of the grace cancel what is in flight; a moment later answer for it, and leave (END-3, END-4)."""
        if not self._is_cancelling:
            self._is_cancelling = True
            self._leave_at = monotonic() + _CANCEL_SECONDS
            self._session.cancel_all()
            return
        self._session.fail_all("the worker is ending, and the call had not ended within its grace")
        until = monotonic() + _CANCEL_SECONDS
        while not self._outbox.is_empty and (left := until - monotonic()) > 0:
            self._outbox.nudge()
            self._wire.wait(left, for_room=True)
        end_at_once(0)  # in the middle of what was not answered in time

    def _read(self) -> list[Call] | None:
        """Wait for bytes and return the calls in them; None at the end of input. All else is answered here."""
        if self._is_at_end:
            return None
        splitter, session = self._splitter, self._session
        if self._untaken:  # those before them are served meanwhile
            session.wait_for_room()
            payloads, self._untaken = self._untaken, []
        else:
            read = read_payloads(self._wire.in_fd, splitter)
            if read is None:  # also inside a frame (FRM-6)
                self._is_at_end = True
                return None
            payloads = read
        calls: list[Call] = []
        for index, payload in enumerate(payloads):
            if session.is_crowded:
                self._untaken = payloads[index:]
                return calls
            try:
                call = session.take(payload)
            except Exception as error:  # noqa: BLE001  # whatever it is, the requests behind this one are read
                say(f"stdio worker: a frame of {len(payload)} bytes was lost: {type(error).__name__}: {error}\n")
                continue
            if call is not None:
                calls.append(call)
        if splitter.failure is not None:  # FRM-7: what follows can't be understood; FRM-8: what came before it goes on
            session.refuse(splitter.failure)
            self._is_at_end = True
        return calls

    def _serve(self, call: Call) -> None:
        self._session.serve(call)
        if self._wire.in_child:  # node code has forked, and its child has come back here: it serves nobody
            os._exit(0)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line of `python -m nodetool.worker`; return the exit status."""
    try:
        options = read_options(sys.argv[1:] if arguments is None else arguments, os.environ)
    except UsageError as error:
        say(f"nodetool.worker: {error}\n")
        return 2
    if options.show is not None:
        sys.stdout.write(options.show)
        return 0
    if not options.stdio:  # WOP-14
        say("nodetool.worker: only --stdio is there; the WebSocket server is not part of this version\n")
        return 2
    return _serve_stdio(options)


def _serve_stdio(options: Options) -> int:
    """Take the wire, load the nodes, serve them, and clean up; return the exit status."""
    try:
        wire = take_wire(CallLogStream)  # FRM-21, FRM-22: before anything of a node is loaded
    except OSError as error:
        say(f"nodetool.worker: there is no stdout to answer on ({error})\n")
        return 2
    started = catch_signals(wire, min(options.grace, _SIGNAL_GRACE) + _CANCEL_SECONDS, lambda _number: 0, insists=True)
    try:
        folder = os.getcwd()  # of this moment: node code may go elsewhere
    except OSError:
        folder = None
    loaded = enter()
    sys.setswitchinterval(_SWITCH_SECONDS)
    for warning in options.warnings:
        say(f"nodetool.worker: {warning}\n")
    capture_logging(options.log_level)
    tell_ready = _told_once()
    if options.alone:
        tell_ready = _nobody_waits
    else:
        _tell_later(tell_ready)
    is_loaded = _watch_reader(wire)
    tell = _nobody_waits if options.alone else _tell_load_error
    inventory = take_inventory(options.nodes, options.namespaces, tell=tell)
    # What is loaded by now stays: the collector need not look at it again.
    gc.freeze()
    gc.enable()
    worker = Worker(
        inventory,
        LoopThread(),
        limit_bytes=options.limit_bytes,
        transport="stdio",
        comfy_url=options.comfy_url,
        isolate=None if options.alone else _isolation(options, folder),
        isolates_all=options.isolate,
    )
    if not options.alone:
        worker.discovery()  # on this thread: making an entry runs code of the author's (EXE-33)
    is_loaded.append(True)
    server = Server(worker, wire, options)
    started(server)
    guard_handlers(_tell_handler_error)
    tell_ready()  # FRM-25; who has sent requests before finds them served from here on (FRM-27)
    status = server.serve()
    own = {listed.node.module for listed in inventory.nodes.values()}
    server.kept = leave(status, grace=options.grace, loaded=loaded, own=own, is_alone=True)
    return status


def _isolation(options: Options, folder: str | None) -> Callable[[Call], None]:
    """Return what runs isolated calls; loaded with the first of them."""
    made: list[Callable[[Call], None]] = []
    arguments = [f"--nodes={target}" for target in options.nodes]
    arguments += [f"--namespaces={','.join(options.namespaces)}"] if options.namespaces else []
    arguments += [f"--grace={options.grace}", "--concurrency=1"]

    def isolate(call: Call) -> None:
        if not made:
            from .isolation import Isolation

            made.append(Isolation(arguments, folder, limit_bytes=options.limit_bytes, grace=options.grace))
        made[0](call)

    return isolate


def _tell_load_error(entry: dict[str, str]) -> None:
    """Say on stderr what could not be loaded (FND-15)."""
    say(f"[error] {entry['module']} ({entry['phase']}): {entry['error_type']}: {entry['error']}\n")


def _tell_handler_error(error: BaseException) -> None:
    """Say on stderr what a signal handler of node code has raised; that it wants the process to end is no fault."""
    if not isinstance(error, SystemExit):
        say(f"stdio worker: a signal handler raised {type(error).__name__}: {error}\n")


def _nobody_waits(*_news: object) -> None:
    """Tell nobody: the parent of a process for one call does not wait, and knows the load errors."""


def _told_once() -> Any:
    """Return what tells the host that the worker is ready: once, whoever calls first."""
    left = [READY]

    def tell() -> None:
        try:
            line = left.pop()
        except IndexError:
            return
        announce(line)

    return tell


def _watch_reader(wire: Wire) -> list[bool]:
    """End the process if the host goes while nodes are being imported (END-9); stop once the list is not empty."""
    is_loaded: list[bool] = []
    try:
        from select import poll
    except ImportError:
        return is_loaded
    from _thread import start_new_thread

    reader = poll()
    reader.register(wire.out_fd, 0)

    def watch() -> None:
        while not is_loaded:
            if reader.poll(500) and not is_loaded:
                end_at_once(_STATUS_NO_READER)

    start_new_thread(watch, ())
    return is_loaded


def _tell_later(tell: Any) -> None:
    """Tell after a while, should the nodes still be importing then."""
    from _thread import start_new_thread
    from time import sleep

    def wait_and_tell() -> None:
        sleep(_READY_SECONDS)
        tell()

    start_new_thread(wait_and_tell, ())
