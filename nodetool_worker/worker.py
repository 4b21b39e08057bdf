"""What the worker does about each message: dispatch, the table of calls, and one terminal frame a request.

It knows no transport: payloads come in, frames go to an outbox.
"""

from __future__ import annotations

import sys
import threading
from collections import deque

from octonode_sdk.call import Plan
from octonode_sdk.context import Context
from octonode_sdk.errors import CredentialError, RemoteProtocolError
from octonode_sdk.lanes import run_call
from octonode_sdk.process.streams import say
from octonode_sdk.secrets import remember_secrets

from . import messages
from .calls import CANCELLED, Call, Link
from .capture import current_call
from .errors import BadRequestError, MalformedFrameError, OutgoingTooLargeError, UnanswerableError
from .frames import decode, encode, encode_data, wrap_data
from .messages import Cancel, Discover, Execute, ProviderList, Status, parse_request
from .policy import policy_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from octonode_sdk.lanes import LoopThread
    from octonode_sdk.nodes import Node
    from octonode_sdk.values import Policy

    from .frames import Frame
    from .inventory import Inventory
    from .outbox import Outbox

    #: Runs a call in a process of its own and sends its terminal frame.
    Isolation = Callable[[Call], None]

__all__ = ["Session", "Worker"]

#: Further requests with one id that may wait for the first. A host gives each request an id of its own, so this many
#: are a fault of the host; until they are served nothing more is read (EXE-36).
_SAME_ID_LIMIT = 1000

#: So many of the largest frames may wait so.
_SAME_ID_FRAMES = 4


class Worker:
    """The nodes, and what is the same for every connection.

    Args:
        inventory: The nodes.
        loop: Where coroutines run.
        limit_bytes: Most bytes of a payload.
        transport: "stdio" or "websocket".
        comfy_url: Where a ComfyUI server would be; nothing here talks to it yet.
        isolate: Runs the call of an isolated node; None where this process is one that was started for such a call.
        isolates_all: Whether every node is isolated.
    """

    def __init__(
        self,
        inventory: Inventory,
        loop: LoopThread,
        *,
        limit_bytes: int,
        transport: str,
        comfy_url: str = "",
        isolate: Isolation | None = None,
        isolates_all: bool = False,
    ) -> None:
        self._inventory, self.loop = inventory, loop
        self.limit_bytes, self._transport, self._comfy_url = limit_bytes, transport, comfy_url
        self._isolate, self._isolates_all = isolate, isolates_all
        self._plans: dict[str, tuple[Plan, Policy]] = {}
        self._discovery: list[bytes | memoryview] | None = None
        self._listed_count = 0
        self._load_errors: list[dict[str, str]] = []
        self._recursion_limit = sys.getrecursionlimit()

    def discovery(self) -> list[bytes | memoryview]:
        """Return the packed data of the answer to `discover` (DSC-1 to DSC-3); made once."""
        if self._discovery is None:
            packed = self._inventory.pack_entries(lambda entry: b"".join(encode_data(entry)))
            errors = list(self._inventory.load_errors)
            room = self.limit_bytes - len(encode_data(errors)[0]) - 1000
            fitting = _count_that_fit(packed, room)
            if fitting < len(packed):  # DSC-5
                errors.append(_room_error(len(packed) - fitting, self.limit_bytes))
            head = encode_data({"protocol_version": messages.PROTOCOL_VERSION, "load_errors": errors})[0]
            nodes = _array_head(fitting) + b"".join(packed[:fitting])
            self._listed_count, self._load_errors = fitting, errors
            self._discovery = [b"\x83" + bytes(head)[1:] + b"\xa5nodes" + nodes]  # a map of three instead of two
        return self._discovery

    def status(self) -> dict[str, Any]:
        """Return the data of the answer to `worker.status` (DSC-8); families that are not there say so (DSC-13).

        It counts and names what `discover` does (DSC-7, DSC-9), and like that looks at what is loaded (DSC-14).
        """
        self.discovery()  # a node whose entry can't be made is no node
        return {
            "protocol_version": messages.PROTOCOL_VERSION,
            "node_count": self._listed_count,
            "provider_count": 0,
            "namespaces": self._inventory.namespaces,  # DSC-10
            "load_errors": self._load_errors,
            "transport": self._transport,  # DSC-11
            "max_frame_size": self.limit_bytes,  # DSC-12
            "comfy": {"enabled": False, "url": self._comfy_url},
            "blender": {"enabled": False},
            "model_prepare_backends": [],
        }

    def plan(self, request: Execute) -> tuple[Plan, Policy]:
        """Return the compiled node that a request asks for.

        Raises:
            BadRequestError: There is no such node type (EXE-3).
        """
        known = self._plans.get(request.node_type)
        if known is None:
            listed = self._inventory.find(request.node_type)
            if listed is None:
                raise BadRequestError(self._unknown_text(request.node_type), request_id=request.request_id)
            policy = policy_of(listed.node)
            known = self._plans[request.node_type] = (Plan(listed.node, policy=policy), policy)
        return known

    def _unknown_text(self, node_type: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(node_type, self._inventory.nodes, n=1)
        failed = [
            entry["module"]
            for entry in self._inventory.load_errors
            if node_type.rpartition(".")[0].endswith(entry["module"].rpartition(".")[2])
        ]
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if failed:
            hint += f" The module {failed[0]} could not be loaded: see load_errors of discover."
        return f"Unknown node type: {node_type}{hint}"

    def run(self, call: Call) -> None:
        """Run a call on this thread, up to its terminal frame, whatever the node does (EXE-19, CAN-11)."""
        node, context = None, None
        request = call.request
        current_call.set(call)
        try:
            plan, policy = self.plan(request)
            node = plan.node
            if request.secrets:  # also those that the node does not declare
                remember_secrets(request.secrets.values())  # EXE-29
            if self._isolate is not None and (self._isolates_all or node.isolated):
                self._isolate(call)
                return
            secrets = plan.secrets(request.secrets) if plan.wants_secrets else None  # EXE-26 to EXE-28
            context = Context(
                request_id=request.request_id,  # EXE-31
                node_id=request.node_id or "",
                job_id=request.job_id,
                workflow_id=request.workflow_id,
                user_id=request.user_id,
                secrets=secrets,
                sink=call,
            )
            if not call.start(plan, policy, context):
                return
            # EXE-15, EXE-16
            emit = call.emit if request.streams and plan.streams else None
            outputs = run_call(plan, request.inputs, context, self.loop, emit)  # EXE-14: none but those of no chunk
            context.close()  # EXE-38
            call.succeed(outputs)
            if not call.has_ended:  # it was cancelled while it went on
                call.fail(CANCELLED)
        except BaseException as error:  # noqa: BLE001  # the boundary: whatever a node raises is an answer
            if context is not None:
                context.close()
            if sys.getrecursionlimit() < self._recursion_limit:
                sys.setrecursionlimit(self._recursion_limit)
            call.fail(*_words_of(error, node))
        finally:
            if sys.getrecursionlimit() < self._recursion_limit:  # a node has lowered it for all of them
                sys.setrecursionlimit(self._recursion_limit)

    def told(self, text: str) -> None:
        """Tell people what was wrong with a frame (FRM-17, RID-3)."""
        say(f"{self._transport} worker: {text}\n")


def _words_of(error: BaseException, node: Node | None) -> tuple[str, str | None]:
    """Return the text and the traceback of an error frame (EXE-17 to EXE-25)."""
    if isinstance(error, (BadRequestError, OutgoingTooLargeError)):
        return str(error), None
    if isinstance(error, CredentialError):
        one = len(error.names) == 1
        many = f"secret {error.names[0]} is" if one else f"secrets {', '.join(error.names)} are"
        return (
            f"node {error.node!r}: the {many} not set; add {'it' if one else 'them'} to the settings of the host",
            None,
        )
    from octonode_sdk.failures import failure_of

    failure = failure_of(error, node)
    return failure.message, None if failure.stack is None else _without_folders(failure.stack)


def _without_folders(stack: str) -> str:
    """Return a traceback whose files have no folders of this machine (EXE-24): they are named as imports find them."""
    import os

    lines = stack.splitlines(keepends=True)
    folders = sorted({os.path.abspath(entry) + os.sep for entry in sys.path}, key=len, reverse=True)
    for index, line in enumerate(lines):
        head, quote, rest = line.partition('File "')
        path, end, tail = rest.partition('"')
        if not quote or head.strip() not in ("", "|", "+") or not end:
            continue
        folder = next((one for one in folders if path.startswith(one)), None)
        if folder is not None:
            path = path[len(folder) :]
        elif os.path.isabs(path):
            path = os.path.basename(path)
        lines[index] = f"{head}{quote}{path}{end}{tail}"
    return "".join(lines)


def _count_that_fit(packed: list[bytes], room: int) -> int:
    for index, one in enumerate(packed):
        room -= len(one)
        if room < 0:
            return index
    return len(packed)


def _room_error(count: int, limit: int) -> dict[str, str]:
    text = f"{count} nodes do not fit into a frame of {limit} bytes; raise NODETOOL_BRIDGE_MAX_FRAME_SIZE on both sides"
    return {"module": "nodetool_worker", "phase": "discover", "error_type": "OutgoingTooLargeError", "error": text}


def _array_head(count: int) -> bytes:
    """Return the header of a MessagePack array."""
    return b"\xdd" + count.to_bytes(4, "big")


class Session:
    """One connection's requests.

    Args:
        worker: What serves them.
        outbox: Where the answers go.
    """

    def __init__(self, worker: Worker, outbox: Outbox) -> None:
        self._worker, self._outbox = worker, outbox
        loop = worker.loop
        self._link = Link(outbox, worker.limit_bytes, lambda: loop.is_current)
        self._calls: dict[str, Call] = {}
        #: What waits for a call with the same id: calls, and answers that are made already.
        self._same_id: dict[str, deque[Call | Frame]] = {}
        self._same_id_count = self._same_id_bytes = 0
        self._changed = threading.Condition()

    @property
    def is_crowded(self) -> bool:
        """Whether so many requests wait for others with their id that no more should be taken (EXE-36)."""
        return self._same_id_count >= _SAME_ID_LIMIT or self._same_id_bytes > _SAME_ID_FRAMES * self._worker.limit_bytes

    def wait_for_room(self) -> None:
        """Wait while it is crowded. For the thread that reads, once the calls that it was given are handed over."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_crowded)

    def take(self, payload: Any) -> Call | None:
        """Take a payload: return the call that it asks for, if one is to be run now; anything else is done here.

        It waits while the host does not read the answers that it asks for.
        """
        try:
            request = parse_request(decode(payload))
        except UnanswerableError as error:  # RID-2
            self._worker.told(str(error))
            return None
        except MalformedFrameError as error:
            self._worker.told(str(error))  # FRM-17
            known = error.request_id
            with self._changed:
                is_free = known not in self._calls and known not in self._link.unsent  # RID-6
            self._put_urgent(encode(messages.error(known if is_free else None, str(error))))  # FRM-16
            return None
        except RemoteProtocolError as error:
            known = error.request_id or ""  # never without: that is the first case
            self._answer(known, encode(messages.error(known, str(error))))
            return None
        if isinstance(request, Execute):
            return self._accept(Call(request, self._link, len(payload)))
        if isinstance(request, Cancel):
            self.cancel(request.request_id)
        else:
            self._answer_now(request)
        return None

    def refuse(self, error: RemoteProtocolError) -> None:
        """Answer what could not even be read as a payload (FRM-7)."""
        self._worker.told(str(error))
        self._put_urgent(encode(messages.error(None, str(error))))

    def _answer_now(self, request: Discover | Status | ProviderList) -> None:
        request_id = request.request_id
        try:
            if isinstance(request, Discover):
                limit = self._worker.limit_bytes
                frame = wrap_data("discover", request_id, self._worker.discovery(), limit=limit)
            else:
                data = self._worker.status() if isinstance(request, Status) else {"providers": []}
                frame = encode({"type": "result", "request_id": request_id, "data": data})
        except Exception as error:  # noqa: BLE001  # a node's metadata may hold anything
            frame = encode(messages.error(request_id, _words_of(error, None)[0]))
        self._answer(request_id, frame)  # DSC-6: by the thread that reads

    def _answer(self, request_id: str, frame: Frame) -> None:
        """Send a terminal frame ahead of all others, or behind those of a request that has the same id (RID-13)."""
        with self._changed:
            if request_id in self._calls:
                self._wait_behind(request_id, frame)
                return
        self._put_urgent(frame)

    def _put_urgent(self, frame: Frame) -> None:
        self._outbox.put(frame, urgent=True)
        if self._outbox.has_too_many_urgent:
            self._outbox.pump()
        else:
            self._outbox.nudge()

    def _accept(self, call: Call) -> Call | None:
        """Note a call; return it unless it has to wait for another with its id (RID-13)."""
        request_id = call.request.request_id
        with self._changed:
            if request_id not in self._calls:
                self._calls[request_id] = call
                return call
            self._wait_behind(request_id, call)
            return None

    def _wait_behind(self, request_id: str, waiting: Call | Frame) -> None:
        self._same_id.setdefault(request_id, deque()).append(waiting)
        self._same_id_count += 1
        self._same_id_bytes += len(waiting) if isinstance(waiting, Call) else 0

    def serve(self, call: Call) -> None:
        """Run a call, and then what has waited with its id, on this thread (EXE-33)."""
        following: Call | None = call
        while following is not None:
            if not following.has_ended:
                self._worker.run(following)
            following = self._next_after(following)

    def _next_after(self, call: Call) -> Call | None:
        request_id = call.request.request_id
        with self._changed:
            waiting = self._same_id.get(request_id, ())
            while waiting:
                following = waiting.popleft()
                self._same_id_count -= 1
                self._same_id_bytes -= len(following) if isinstance(following, Call) else 0
                self._changed.notify_all()
                if isinstance(following, Call):
                    self._calls[request_id] = following
                    return following
                self._outbox.put(following)
            self._same_id.pop(request_id, None)
            del self._calls[request_id]
            return None

    def cancel(self, request_id: str) -> None:
        """Tell the request in flight with this id to stop, if there is one (CAN-1 to CAN-4, RID-14).

        It is the first whose terminal frame is not on its way. `discover` and the like have theirs at once (CAN-16).
        """
        with self._changed:
            known = [self._link.unsent.get(request_id), self._calls.get(request_id), *self._same_id.get(request_id, ())]
        try:
            any(isinstance(one, Call) and one.cancel() for one in known)
        except RuntimeError as error:  # node code has closed the event loop
            self._worker.told(f"the cancel of {request_id[:100]!r} did not reach the node: {error}")

    def _all(self) -> list[Call]:
        with self._changed:
            waiting = [one for some in self._same_id.values() for one in some]
            return [*self._calls.values(), *(one for one in waiting if isinstance(one, Call))]

    def cancel_all(self) -> None:
        """Tell every request to stop, the last one first: none starts in a place that becomes free (END-3)."""
        for call in reversed(self._all()):
            try:
                call.cancel()
            except RuntimeError:  # as in `cancel`: the others are told all the same
                continue

    def fail_all(self, text: str) -> None:
        """Give every request that has no terminal frame yet an error (END-4). Never waits."""
        self._link.is_ending = True
        for call in self._all():
            call.is_cancelled = False
            call.fail(text)
        with self._changed:
            for waiting in self._same_id.values():
                for one in waiting:
                    if not isinstance(one, Call):
                        self._outbox.put(one)

    def close_contexts(self) -> None:
        """Remove the temporary folders of calls that are given up (END-11)."""
        for call in self._all():
            if call.context is not None:
                call.context.close()
