"""The Octonode runner, node side: `python -m octonode_sdk TARGET [NODE]`, and `run()`.

One code path for one-shot and looping processes (LIFE-1). The main thread waits for requests, signals and the end of
the reader, and never runs node code; calls run on the threads of `lanes`.
"""

from __future__ import annotations

import gc
import os
import sys
from time import monotonic

from ..call import Plan
from ..errors import DefinitionError, LoadError, RemoteProtocolError
from ..lanes import LOOK_SECONDS, Lanes, run_call
from ..packs import load, nodes_of
from ..process.life import SIGNALS, catch_signals, end_at_once, enter, leave
from ..process.streams import Wire, say, take_wire
from ..process.writer import LineWriter
from .envelope import UNKNOWN_ID, failure_line, manifest_line, overlong_error, parse_request, result_line
from .lines import LineSplitter, OverlongLine
from .options import Options, UsageError, read_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from ..context import Context
    from ..failures import Failure
    from ..nodes import Node
    from .envelope import Request

__all__ = ["Runner", "main", "run"]

#: Lines read ahead of the calls that are free to take them; more stay in the pipe (LIFE-18).
_READ_AHEAD = 1024

#: Status of a process whose reader went away: 128 and the number of SIGPIPE, as a shell would say.
_STATUS_NO_READER = 141

#: Exceptions of signal handlers that are passed over; more are a fault that will not go away.
_FAULTS_LIMIT = 1000

#: Unknown inputs are told of once a name; a host that invents names must not fill the memory.
_TOLD_LIMIT = 1000


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
        self._only = next(iter(nodes.values())) if len(nodes) == 1 else None
        self._writer = LineWriter(wire.out_fd, wire.wake)
        self._plans: dict[str | None, Plan] = {}
        self._manifests: dict[str, dict[str, object]] = {}
        self._contexts: set[Context] = set()
        #: When lines with a deadline came, by identity, until their calls start.
        self._arrivals: dict[int, float] = {}
        self._told: set[tuple[str, str]] = set()
        self._splitter = LineSplitter(options.max_line_bytes)
        self._at_end = False
        self._saw_request = False
        self._leave_at: float | None = None
        self._started = False
        self._faults = 0
        self.kept: list[object] = []
        self.signal = 0
        self._lanes = Lanes(
            limit=options.concurrency,
            read=self._read,
            serve=self._answer,
            deliver=self._writer.send,
            read_ahead=_READ_AHEAD,
            read_ahead_bytes=options.max_line_bytes,
            wake=wire.wake,
        )

    def serve(self) -> int:
        """Serve until the end of input, a signal, or the end of the reader; return the exit status."""
        while True:
            try:
                return self._watch()
            except BaseException as error:  # from a signal handler of node code's: no other code of it runs here
                if not isinstance(error, SystemExit):
                    say(f"octonode_sdk: a signal handler raised {type(error).__name__}: {error}\n")
                self._faults += 1
                if self._faults > _FAULTS_LIMIT:
                    raise

    def _watch(self) -> int:
        wire, lanes, writer = self._wire, self._lanes, self._writer
        if not self._started:
            self._started = True
            lanes.start()
        while True:
            if self.signal and self._leave_at is None:  # LIFE-10
                lanes.closed = True
                self._leave_at = monotonic() + self._options.grace
            leave_at = self._leave_at
            is_over = lanes.ended or leave_at is not None
            if is_over and not lanes.outstanding and writer.flush(0):  # LIFE-3, LIFE-11
                return self._status()
            writer.is_watched = lanes.look()
            if writer.is_dirty:  # looked at after the line above: who finds nobody watching wakes this thread
                writer.is_watched = True
            timeout = LOOK_SECONDS if writer.is_watched else None
            if leave_at is not None:
                left = leave_at - monotonic()
                if left <= 0:
                    self._fail_the_rest()
                timeout = left if timeout is None else min(timeout, left)
            gone, woken = wire.wait(timeout)
            if gone or writer.dead:
                self._end_hard(_STATUS_NO_READER)  # LIFE-8
            writer.settle()
            for number in woken:
                self.signal = self.signal or (number if number in SIGNALS else 0)

    def _status(self) -> int:
        if self.signal:
            return 128 + self.signal  # LIFE-13
        if not self._saw_request and self._splitter.saw_bytes:
            say("octonode_sdk: stdin held no request, only blank lines\n")  # LIFE-6
            return 1
        return 1 if self._broken is not None else 0  # LIFE-4, LIFE-5

    def _read(self) -> list[bytes] | None:
        """Wait for bytes and return the calls in them (LIFE-2); None at the end of input.

        A describe is answered here, however busy the lanes are.
        """
        if self._at_end:
            return None
        data = self._wire.read()
        if data:
            lines = self._splitter.feed(data)
        else:
            self._at_end = True
            lines = self._splitter.finish()
        if lines:
            self._saw_request = True
        calls: list[bytes] = []
        now = monotonic()
        # Only the first line may have begun in earlier bytes; of the others these alone tell that none is special.
        is_plain = self._broken is None and 0 < len(data) <= self._options.max_line_bytes
        is_plain = is_plain and b'"describe"' not in data and b"deadlineMs" not in data
        for line in lines[:1] if is_plain else lines:
            if isinstance(line, OverlongLine) or b'"describe"' in line or self._broken is not None:
                answer = self._answer_now(line)
                if answer is not None:
                    self._writer.send(answer)
                    continue
                assert isinstance(line, bytes)  # an overlong line is always answered
            if b"deadlineMs" in line:
                self._arrivals[id(line)] = now  # CTX-6: the time that a call waits for its turn counts
            calls.append(line)
        if is_plain:
            calls += lines[1:]  # type: ignore[arg-type]  # a line that fits into `data` is not over the limit
        return calls

    def _answer_now(self, line: bytes | OverlongLine) -> bytes | None:
        """Return the answer to a describe or to what is no request; None for a call."""
        request_id, kind = UNKNOWN_ID, "result"
        try:
            if isinstance(line, OverlongLine):
                raise overlong_error(line, self._options.max_line_bytes)
            request = parse_request(line)
            request_id = request.request_id
            if request.type == "describe":
                kind = "manifest"
            if self._broken is not None:
                return failure_line(request_id, self._broken, type_=kind)
            if kind == "result":
                return None
            return manifest_line(request_id, self._manifest(self._find(request.node)))
        except BaseException as error:  # noqa: BLE001  # the boundary: a type of the author's may fail to be described
            from ..failures import failure_of

            request_id = _id_of(error) if isinstance(error, RemoteProtocolError) else request_id
            return failure_line(request_id, failure_of(error), type_=kind)

    def _answer(self, line: bytes) -> bytes:
        """Run the call that a line asks for, on a lane, and return its answer, whatever happens."""
        request_id, node, context = UNKNOWN_ID, None, None
        arrival = self._arrivals.pop(id(line), None) if self._arrivals else None
        try:
            request = parse_request(line)
            request_id = request.request_id
            if request.type == "describe":  # spelled with an escape, since `_read` looks for the plain word
                return self._answer_now(line) or b""
            plan = self._plans.get(request.node)
            if plan is None:
                node = self._find(request.node)
                plan = self._plans[request.node] = Plan(node)
            node = plan.node
            secrets = plan.secrets() if plan.wants_secrets else None
            if plan.context_name is not None:
                context = self._context(request, plan, secrets, arrival)
            if not plan.known.issuperset(request.inputs):
                self._tell_unknown(plan, request)
            outputs = run_call(plan, request.inputs, context, self._lanes.loop)
            return result_line(request_id, outputs, node=node.id)
        except RemoteProtocolError as error:
            from ..failures import failure_of

            return failure_line(_id_of(error), failure_of(error))
        except BaseException as error:  # noqa: BLE001  # the boundary: whatever a node raises is an answer (ERR-14, ERR-22)
            from ..failures import failure_of

            if self._wire.in_child:
                os._exit(_status_of(error))
            return failure_line(request_id, failure_of(error, node))
        finally:
            if self._wire.in_child:  # node code has forked, and its child has come back here: it serves nobody
                os._exit(0)
            if context is not None:
                self._contexts.discard(context)
                context.close()

    def _find(self, node_id: str | None) -> Node:
        """Return the asked node; without a name the only one (REQ-6, REQ-7, REQ-8)."""
        nodes = self._nodes
        if node_id is None:
            if self._only is not None:
                return self._only
            raise LoadError(f"the request names no node, and there are {len(nodes)}: {', '.join(nodes)}; say which")
        node = nodes.get(node_id)
        if node is None:
            from difflib import get_close_matches

            near = get_close_matches(node_id, nodes, n=1)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            known = "there is " if len(nodes) == 1 else "there are "
            raise LoadError(f"there is no node {node_id!r}; {known}{', '.join(nodes)}{guess}")
        return node

    def _manifest(self, node: Node) -> dict[str, object]:
        known = self._manifests.get(node.id)
        if known is None:
            from ..manifest import manifest

            known = self._manifests[node.id] = manifest(node)
        return known

    def _context(self, request: Request, plan: Plan, secrets: dict[str, str] | None, arrival: float | None) -> Context:
        from ..context import Context
        from .sink import LogSink

        deadline = None
        if request.deadline_ms is not None:  # a key that is spelled with escapes has no arrival: it counts from now
            deadline = (monotonic() if arrival is None else arrival) + request.deadline_ms / 1000
        context = Context(
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
        self._contexts.add(context)
        return context

    def _tell_unknown(self, plan: Plan, request: Request) -> None:
        """Say once that an input is ignored (REQ-12)."""
        node_id = plan.node.id
        for name in plan.unknown_inputs(request.inputs):
            if (node_id, name) not in self._told and len(self._told) < _TOLD_LIMIT:
                self._told.add((node_id, name))
                known = ", ".join(port.name for port in plan.node.inputs) or "none"
                place = f"{node_id} {ascii(request.request_id[:8])[1:-1]}"
                say(f"[{place}] ignored the input {name!r}, which the node does not have (it has: {known})\n")

    def _fail_the_rest(self) -> NoReturn:
        """Answer what is still in flight at the end of the grace, and leave (LIFE-12)."""
        from ..failures import Failure

        failure = Failure("RUNTIME_ERROR", f"the process was told to stop (signal {self.signal})", retryable=True)
        for line in self._lanes.abandon():
            try:
                answer = failure_line(parse_request(line).request_id, failure)
            except RemoteProtocolError as error:
                answer = failure_line(_id_of(error), failure)
            self._writer.send(answer, True)
        self._writer.flush(1)
        self._end_hard(128 + self.signal)

    def _end_hard(self, status: int) -> NoReturn:
        """Leave at once, also in the middle of a call: nobody waits for it any more."""
        for context in list(self._contexts):
            context.close()
        end_at_once(status)


def _status_of(error: BaseException) -> int:
    """Return the status of a process that ends by an exception."""
    if not isinstance(error, SystemExit):
        return 1
    return error.code if isinstance(error.code, int) else int(error.code is not None)


def _id_of(error: RemoteProtocolError) -> str:
    """Return the id for the answer to a line that is no request (RES-3); an empty one is an id (REQ-4)."""
    return UNKNOWN_ID if error.request_id is None else error.request_id


def _serve(find: Callable[[], dict[str, Node]], options: Options, what: str, *, is_alone: bool) -> int:
    """Take the wire, load the nodes, serve them, and clean up; return the exit status.

    Args:
        find: Loads the nodes.
        options: Limits.
        what: The target, for people.
        is_alone: Whether nothing else has run in this process, so that all that may need finalisation has been seen.
    """
    try:
        wire = take_wire()
    except OSError as error:
        say(f"octonode_sdk: there is no stdout to answer on ({error})\n")
        return 2
    started = catch_signals(wire, options.grace, lambda number: 128 + number)
    loaded = enter()
    nodes: dict[str, Node] = {}
    broken: Failure | None = None
    try:
        nodes = _narrow(find(), options.node, what)  # LIFE-20
    except BaseException as error:  # noqa: BLE001  # a SystemExit at import is a fault of the target (LIFE-23)
        broken = _load_failure(error, what)
    # What is loaded by now stays: the collector need not look at it again.
    gc.freeze()
    gc.enable()
    if broken is None and os.isatty(wire.in_fd):
        say(f"octonode_sdk: serving {', '.join(nodes)}; waiting for JSON requests, one a line (--help shows one)\n")
    runner = Runner(nodes, wire, options, broken=broken)
    started(runner)
    status = runner.serve()
    own = {node.module for node in nodes.values()}
    runner.kept = leave(status, grace=options.grace, loaded=loaded if is_alone else set(), own=own, is_alone=is_alone)
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
    from ..failures import Failure, failure_of
    from ..nodes import all_nodes
    from ..secrets import read_environment, remember_secrets

    for node in all_nodes():  # an error at import may hold what a node has declared
        remember_secrets(read_environment([secret.name for secret in node.secrets]).values())
    ours = isinstance(error, (LoadError, DefinitionError))
    known = failure_of(error)
    message = f"can't load {what}: {known.message}"
    stack = None if ours else known.stack
    say(f"octonode_sdk: {message}\n{stack or ''}")
    return Failure("RUNTIME_ERROR", message, stack=stack)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line of `python -m octonode_sdk`; return the exit status."""
    try:
        options = read_options(sys.argv[1:] if arguments is None else arguments, os.environ)
    except UsageError as error:
        say(f"octonode_sdk: {error}\n")
        return 2  # LIFE-22
    if options.show is not None:
        sys.stdout.write(options.show)
        return 0
    target = options.target
    assert target is not None  # read_options requires it
    return _serve(lambda: load(target), options, target, is_alone=True)


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
        say(f"{what}: {error}\n")
        sys.exit(2)
    if options.show is not None:
        sys.stdout.write(options.show)
        sys.exit(0)
    sys.exit(_serve(lambda: nodes_of(module, what), options, what, is_alone=False))
