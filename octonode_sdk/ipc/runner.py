"""The Octonode runner, node side: `python -m octonode_sdk TARGET [NODE]`, and `run()`.

One code path for one-shot and looping processes (LIFE-1). The main thread waits for requests, signals and the end of
the reader, and never runs node code; calls run on the threads of `lanes`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # no stub; `signal` would import enum
import gc
import os
import sys
import threading
from time import monotonic

from ..call import Plan
from ..errors import DefinitionError, LoadError, RemoteProtocolError
from ..failures import Failure, failure_of
from ..lanes import Lanes, inherit_context, run_call
from ..packs import load, nodes_of
from .children import end_children, watch_children
from .envelope import UNKNOWN_ID, failure_line, manifest_line, overlong_error, parse_request, result_line
from .lines import LineSplitter, OverlongLine
from .options import Options, UsageError, read_options
from .stdio import LineWriter, Wire, take_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from ..context import Context
    from ..nodes import Node
    from .envelope import Request

__all__ = ["Runner", "main", "run"]

#: Lines read ahead of the calls that are free to take them; more stay in the pipe (LIFE-18).
_READ_AHEAD = 1024

#: Status of a process whose reader went away: 128 and the number of SIGPIPE, as a shell would say.
_STATUS_NO_READER = 141

#: Unknown inputs are told of once a name; a host that invents names must not fill the memory.
_TOLD_LIMIT = 1000


class _Call:
    """A request on its way: exactly one answer (RES-10)."""

    __slots__ = ("_answered", "context", "request", "size")

    def __init__(self, request: Request, size: int) -> None:
        self.request, self.size = request, size
        self.context: Context | None = None
        self._answered = False

    def claim(self, lock: threading.Lock) -> bool:
        """Return True to the first who asks: that one answers."""
        with lock:
            first, self._answered = not self._answered, True
            return first


class Runner:
    """Serves the nodes of one target over one pair of descriptors.

    Args:
        nodes: By id; empty where the target could not be loaded.
        wire: The descriptors.
        options: Limits.
        broken: Why the target could not be loaded, for the answer of each request (LIFE-23).
    """

    def __init__(self, nodes: dict[str, Node], wire: Wire, options: Options, *, broken: Failure | None = None) -> None:
        self._nodes, self._wire, self._options, self._broken = nodes, wire, options, broken
        self._writer = LineWriter(wire.out_fd, wire.wake)
        self._lanes = Lanes(options.concurrency)
        self._plans: dict[str, Plan] = {}
        self._manifests: dict[str, dict[str, object]] = {}
        self._lock = threading.Lock()
        self._in_flight: dict[int, _Call] = {}
        self._waiting_bytes = 0
        self._told: set[tuple[str, str]] = set()
        self._served = 0
        self._draining = False
        self._held_back = False
        self.signal = 0

    def serve(self) -> int:
        """Serve until the end of input, a signal, or the end of the reader; return the exit status."""
        splitter = LineSplitter(self._options.max_line_bytes)
        wire = self._wire
        at_end = False
        leave_at: float | None = None
        while True:
            if leave_at is None and self.signal:
                wire.stop_reading()
                at_end = self._draining = True
                leave_at = monotonic() + self._options.grace
            if at_end and not self._in_flight and self._writer.flush(0):
                return self._status(splitter)
            if leave_at is not None and monotonic() >= leave_at:
                self._fail_the_rest()
                return 128 + self.signal
            if not at_end:
                self._held_back = self._is_full()
                wire.listen(not self._held_back)
            readable, gone, woken = wire.wait(None if leave_at is None else leave_at - monotonic())
            if gone or self._writer.dead:
                self._leave_at_once()
            for number in woken:
                self.signal = self.signal or (number if number in _SIGNALS else 0)
            if readable and not at_end:
                data = wire.read()
                lines = splitter.feed(data) if data else splitter.finish()
                for line in lines:
                    self._take(line)
                if not data:
                    wire.stop_reading()
                    at_end = self._draining = True

    def _status(self, splitter: LineSplitter) -> int:
        if self.signal:
            return 128 + self.signal  # LIFE-13
        if not self._served and splitter.saw_bytes:
            sys.stderr.write("octonode_sdk: stdin held no request, only blank lines\n")  # LIFE-6
            return 1
        return 1 if self._broken is not None else 0  # LIFE-4, LIFE-5

    def _is_full(self) -> bool:
        return (
            len(self._in_flight) >= self._options.concurrency + _READ_AHEAD
            or self._waiting_bytes > self._options.max_line_bytes
        )

    def _take(self, line: bytes | OverlongLine) -> None:
        """Answer one line, or hand it to the lanes."""
        self._served += 1
        kind = "result"
        request_id = UNKNOWN_ID
        try:
            if isinstance(line, OverlongLine):
                raise overlong_error(line, self._options.max_line_bytes)
            request = parse_request(line)
            request_id = request.request_id
            kind = "manifest" if request.type == "describe" else "result"
            if self._broken is not None:
                self._writer.send(failure_line(request_id, self._broken, type_=kind))
                return
            node = self._find(request.node)
            if kind == "manifest":
                self._writer.send(manifest_line(request_id, self._manifest(node)))
                return
            plan = self._plans.get(node.id) or self._make_plan(node)
        except RemoteProtocolError as error:
            self._writer.send(failure_line(error.request_id or UNKNOWN_ID, failure_of(error)))
            return
        except (LoadError, DefinitionError) as error:
            self._writer.send(failure_line(request_id, failure_of(error), type_=kind))
            return
        call = _Call(request, len(line))
        deadline = None if request.deadline_ms is None else monotonic() + request.deadline_ms / 1000
        with self._lock:
            self._in_flight[id(call)] = call
            self._waiting_bytes += call.size
        self._lanes.submit(lambda: self._invoke(call, plan, deadline))

    def _find(self, node_id: str | None) -> Node:
        """Return the asked node; without a name the only one (REQ-6, REQ-7, REQ-8)."""
        nodes = self._nodes
        if node_id is None:
            if len(nodes) == 1:
                return next(iter(nodes.values()))
            raise LoadError(f"the request names no node, and there are {len(nodes)}: {', '.join(nodes)}; say which")
        node = nodes.get(node_id)
        if node is None:
            known = "there is " if len(nodes) == 1 else "there are "
            raise LoadError(f"there is no node {node_id!r}; {known}{', '.join(nodes)}")
        return node

    def _make_plan(self, node: Node) -> Plan:
        from ..context import read_environment

        plan = self._plans[node.id] = Plan(node, environment=read_environment)
        return plan

    def _manifest(self, node: Node) -> dict[str, object]:
        known = self._manifests.get(node.id)
        if known is None:
            from ..manifest import manifest

            known = self._manifests[node.id] = manifest(node)
        return known

    def _invoke(self, call: _Call, plan: Plan, deadline: float | None) -> None:
        """Run a call on a lane and answer it, whatever happens."""
        request = call.request
        context = None
        try:
            try:
                secrets = plan.secrets()
                if plan.context_name is not None:
                    context = call.context = self._context(request, plan, deadline, secrets)
                unknown = plan.unknown_inputs(request.inputs)
                if unknown:
                    self._tell_unknown(plan.node.id, unknown)
                outputs = run_call(plan, request.inputs, context, self._lanes.loop)
                line = result_line(request.request_id, outputs, node=plan.node.id)
            except BaseException as error:  # noqa: BLE001  # the boundary: whatever a node raises is an answer (ERR-14)
                line = failure_line(request.request_id, failure_of(error, plan.node))
            if call.claim(self._lock):
                self._writer.send(line)
            if context is not None:
                context.close()
        finally:
            with self._lock:
                del self._in_flight[id(call)]
                self._waiting_bytes -= call.size
            if self._draining or self._held_back:
                self._wire.wake()

    def _context(self, request: Request, plan: Plan, deadline: float | None, secrets: dict[str, str]) -> Context:
        from ..context import Context
        from .sink import LogSink

        return Context(
            config=request.config,
            attempt=request.attempt,
            env=request.env,
            run_id=request.run_id,
            request_id=request.request_id,
            node_id=plan.node.id,
            deadline=deadline,
            secrets=secrets,
            sink=LogSink(),
        )

    def _tell_unknown(self, node_id: str, names: list[str]) -> None:
        for name in names:
            if (node_id, name) not in self._told and len(self._told) < _TOLD_LIMIT:
                self._told.add((node_id, name))
                known = ", ".join(port.name for port in self._nodes[node_id].inputs) or "none"
                sys.stderr.write(
                    f"{node_id}: ignored the input {name!r}, which the node does not have (it has: {known})\n"
                )

    def _fail_the_rest(self) -> None:
        """Answer what is still in flight at the end of the grace (LIFE-12)."""
        with self._lock:
            rest = list(self._in_flight.values())
        failure = Failure("RUNTIME_ERROR", f"the process was told to stop (signal {self.signal})", retryable=True)
        for call in rest:
            if call.claim(self._lock):
                self._writer.send(failure_line(call.request.request_id, failure))
            if call.context is not None:
                call.context.cancel()
        self._writer.flush(1)
        self._end_hard(128 + self.signal)

    def _leave_at_once(self) -> NoReturn:
        """Nobody reads the answers: leave, also in the middle of a call (LIFE-8)."""
        self._end_hard(_STATUS_NO_READER)

    def _end_hard(self, status: int) -> NoReturn:
        with self._lock:
            rest = list(self._in_flight.values())
        for call in rest:
            if call.context is not None:
                call.context.close()
        end_children()
        os._exit(status)


_SIGNALS = tuple(getattr(_signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(_signal, name))


def _catch_signals(wire: Wire, options: Options) -> Callable[[Runner], None]:
    """Let SIGTERM, SIGINT and SIGHUP end the process with a grace, also where node code installs handlers of its own.

    Signals arrive as bytes on the wake pipe, whoever handles them. The handler is a second way out, for a main thread
    that is stuck in a write to a reader that has stopped reading: a timer ends the process soon after the grace.
    """
    serving: list[Runner] = []
    armed: list[threading.Thread] = []

    def handle(number: int, _frame: object) -> None:
        if armed:  # a second signal: at once
            end_children()
            os._exit(128 + number)
        armed.append(_end_after(options.grace + 2, lambda: 128 + number))
        for runner in serving:
            runner.signal = runner.signal or number

    for number in _SIGNALS:
        if _signal.getsignal(number) is not _signal.SIG_IGN:  # nohup and background jobs ignore some on purpose
            _signal.signal(number, handle)
    _signal.set_wakeup_fd(wire.wake_fd, warn_on_full_buffer=False)
    return serving.append


def _end_after(seconds: float, status: Callable[[], int]) -> threading.Thread:
    """Start a thread that ends the process, children included, if it is still there after `seconds`."""

    def end() -> None:
        threading.Event().wait(seconds)
        end_children()
        os._exit(status())

    thread = threading.Thread(target=end, name="octonode-end", daemon=True)
    thread.start()
    return thread


def _serve(find: Callable[[], dict[str, Node]], options: Options, what: str) -> int:
    """Take the wire, load the nodes, serve them, and clean up; return the exit status."""
    try:
        wire = take_wire()
    except OSError as error:
        sys.stderr.write(f"octonode_sdk: there is no stdout to answer on ({error})\n")
        return 2
    started = _catch_signals(wire, options)
    watch_children()
    import atexit

    atexit.register(end_children)  # registered first, so it runs after every hook of node code
    inherit_context()
    nodes: dict[str, Node] = {}
    broken: Failure | None = None
    try:
        nodes = _narrow(find(), options.node, what)
    except BaseException as error:  # noqa: BLE001  # a SystemExit at import is a fault of the target (LIFE-23)
        broken = _load_failure(error, what)
    # What is loaded by now stays: the collector need not look at it again.
    gc.freeze()
    gc.enable()
    runner = Runner(nodes, wire, options, broken=broken)
    started(runner)
    status = runner.serve()
    # Finalisation runs exit hooks and joins threads as always, but neither may keep the process (LIFE-7).
    gc.freeze()
    _end_after(options.grace, lambda: status)
    return status


def _narrow(nodes: dict[str, Node], wanted: str | None, what: str) -> dict[str, Node]:
    """Return the nodes to serve: all, or the one that the command line names (REQ-9)."""
    if wanted is None:
        return nodes
    if wanted not in nodes:
        raise LoadError(f"{what} has no node {wanted!r}; it has {', '.join(nodes)}")
    return {wanted: nodes[wanted]}


def _load_failure(error: BaseException, what: str) -> Failure:
    """Explain on stderr why a target can't be served, and return the answer for each request."""
    ours = isinstance(error, (LoadError, DefinitionError))
    known = failure_of(error)
    message = f"can't load {what}: {known.message}"
    stack = None if ours else known.stack
    sys.stderr.write(f"octonode_sdk: {message}\n{stack or ''}")
    return Failure("RUNTIME_ERROR", message, stack=stack)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line of `python -m octonode_sdk`; return the exit status."""
    try:
        options = read_options(sys.argv[1:] if arguments is None else arguments, os.environ)
    except UsageError as error:
        sys.stderr.write(f"octonode_sdk: {error}\n")
        return 2  # LIFE-22
    if options.show is not None:
        sys.stdout.write(options.show)
        return 0
    target = options.target
    assert target is not None  # read_options requires it
    # Nothing collects while modules load; the objects that they make stay anyway.
    gc.disable()
    return _serve(lambda: load(target), options, target)


def run(arguments: list[str] | None = None) -> None:
    """Serve the nodes of the calling module and end the process: `if __name__ == "__main__": run()`.

    Args:
        arguments: As after the target of `python -m octonode_sdk`: `[NODE]` and flags; the process's own unless given.
    """
    module = sys.modules[sys._getframe(1).f_globals["__name__"]]
    what = os.path.basename(getattr(module, "__file__", None) or module.__name__)
    try:
        options = read_options(sys.argv[1:] if arguments is None else arguments, os.environ, target=what)
    except UsageError as error:
        sys.stderr.write(f"{what}: {error}\n")
        sys.exit(2)
    if options.show is not None:
        sys.stdout.write(options.show)
        sys.exit(0)
    sys.exit(_serve(lambda: nodes_of(module, what), options, what))
