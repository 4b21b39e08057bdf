"""One call of a node, from its request to its terminal frame: what it sends, in order, and when it has ended."""

from __future__ import annotations

import threading

from octonode_sdk.errors import Fault, OutputsError
from octonode_sdk.failures import scrub
from octonode_sdk.faults import path_text
from octonode_sdk.values import plain

from . import messages
from .errors import OutgoingTooLargeError
from .frames import encode, encode_data, frame_size, framed, type_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from octonode_sdk.call import Plan
    from octonode_sdk.context import Context
    from octonode_sdk.values import Policy

    from .frames import Frame
    from .messages import Execute
    from .outbox import Outbox

__all__ = ["CANCELLED", "Call", "Link"]

#: The text of the error that ends a cancelled call; the reference worker's, so that hosts know it (CAN-6).
CANCELLED = "Node execution was cancelled"

#: Longest `error` and `traceback`, in characters (EXE-22).
_TEXT_LIMIT = 10_000

#: Bytes of a frame that no text has, about: its keys, its ids, the words around what was cut.
_AROUND_BYTES = 600

#: Two texts of four bytes a character.
_CHARACTER_BYTES = 8

#: Printed text that has no line end is kept up to this many characters, and then sent as it is.
_LINE_LIMIT = 8192

#: UPD-6.
_SEVERITIES = {"debug": "info", "info": "info", "warning": "warning", "error": "error"}


class Link:
    """What the calls of one connection share: where frames go, how large they may be, which thread must not wait.

    Args:
        outbox: Takes the frames.
        limit_bytes: Most bytes of a payload.
        on_loop: Tells whether this thread is the one of the event loop.

    Attributes:
        text_limit: Longest text of an error or a log, in characters: where the frame limit is small, one that fits.
        unsent: Calls that have ended and whose outputs still wait for their turn, by request id.
    """

    __slots__ = ("is_ending", "limit_bytes", "on_loop", "outbox", "text_limit", "unsent")

    def __init__(self, outbox: Outbox, limit_bytes: int, on_loop: Callable[[], bool]) -> None:
        self.outbox, self.limit_bytes, self.on_loop = outbox, limit_bytes, on_loop
        self.text_limit = max(100, min(_TEXT_LIMIT, (limit_bytes - _AROUND_BYTES) // _CHARACTER_BYTES))
        self.unsent: dict[str, Call] = {}
        #: Whether the worker is about to end: nobody is held up any more.
        self.is_ending = False


class Call:
    """A request to execute a node, and the sink of its Context.

    All that it sends goes through one lock, in order (UPD-10), and nothing after its terminal frame (RID-11, RID-12).

    Args:
        request: What is asked.
        link: Where the answer goes.
        size: Bytes of the request, which are held as long as the call is.

    Attributes:
        context: Set once the node is about to run.
        has_ended: Whether the terminal frame has been made.
        is_cancelled: Whether the host, or the end of the worker, told it to stop.
    """

    __slots__ = (
        "_cell",
        "_line",
        "_lock",
        "_plan",
        "_policy",
        "_size",
        "_unsent",
        "context",
        "has_ended",
        "is_cancelled",
        "link",
        "on_cancel",
        "request",
    )

    def __init__(self, request: Execute, link: Link, size: int) -> None:
        self.request, self.link, self._size = request, link, size
        self.context: Context | None = None
        #: Called when the call is cancelled while it runs, where it has no Context of its own here.
        self.on_cancel: Callable[[], object] | None = None
        self.has_ended = self.is_cancelled = False
        self._plan: Plan | None = None
        self._policy: Policy | None = None
        # Again by its own thread: the collector may run a finaliser that prints while the lock is held.
        self._lock = threading.RLock()
        self._cell: _Progress | None = None
        self._line = ""
        self._unsent: _Held | None = None

    def __len__(self) -> int:
        return self._size

    # What the host does to it

    def start(self, plan: Plan | None, policy: Policy | None, context: Context | None) -> bool:
        """Note that the node is about to run; return False where the call was cancelled before."""
        with self._lock:
            self._plan, self._policy, self.context = plan, policy, context
            return not self.has_ended

    def cancel(self) -> bool:
        """Tell it to stop; return False where its terminal frame is on its way, and nothing can be changed (CAN-2).

        One that has not started ends at once (CAN-5); outputs that wait are not sent (CAN-13).
        """
        frame = encode(messages.error(self.request.request_id, CANCELLED))
        with self._lock:
            if self.has_ended:
                if self._unsent is None:
                    return False
                self.is_cancelled = True
                self._unsent.replace(frame)
                return True
            self.is_cancelled = True
            context, stop = self.context, self.on_cancel
            if context is None and stop is None:
                self._end(frame)
                stop = self.link.outbox.nudge
        if context is not None:
            context.cancel()
        if stop is not None:
            stop()
        return True

    # What the node says

    def progress(self, context: Context, done: float, total: float | None, message: str | None) -> None:
        """Send how far it is; where the last such frame still waits, this one takes its place (UPD-1, UPD-12)."""
        del context
        # What is made late is made of plain values: no code of the author's runs on the thread that writes.
        text = None if message is None else str(message)
        values = (_number(done), 0 if total is None else _number(total), text)
        with self._lock:
            if self.has_ended:
                return
            cell = self._cell
            if cell is not None and cell.values is not None:
                cell.values = values
            else:
                self._cell = cell = _Progress(self, values)
                self.link.outbox.put(cell)
        self.link.outbox.nudge()

    def log(self, context: Context, level: str, text: str) -> None:
        """Send a line of log."""
        del context
        self.tell(_SEVERITIES[level], text)

    def tell(self, severity: str, text: str) -> None:
        """Send a log update (UPD-5)."""
        self._send_late(self._log_message(severity, text))

    def preview(self, context: Context, value: Any) -> None:
        """Send a preview (UPD-8, UPD-9); one that can't be sent is told of instead (UPD-14)."""
        del context
        faults: list[Fault] = []
        assert self._plan is not None  # only a node that runs has a Context
        assert self._policy is not None
        data: dict[str, Any]
        deep = "it is nested too deep or contains itself"
        try:
            made = plain(value, None, faults, self._policy)
            if isinstance(value, (bytes, bytearray, memoryview)):
                outputs = self._plan.node.outputs
                data = {"type": "binary_update", "node_id": self._node_id, "binary": made}
                data["output_name"] = outputs[0].name if outputs else "output"
            else:
                data = {"type": "preview_update", "node_id": self._node_id, "value": _scrubbed(made)}
        except RecursionError:
            self.tell("warning", f"a preview can't be shown: {deep}")
            return
        if faults:
            self.tell("warning", f"a preview can't be shown: {faults[0].path}: {faults[0].message}")
            return
        try:
            frame = encode(messages.update(self.request.request_id, data), limit=self.link.limit_bytes)
        except (OutgoingTooLargeError, ValueError) as error:  # ValueError: the packer's own limit of depth
            self.tell("warning", f"a preview can't be shown: {deep if isinstance(error, ValueError) else error}")
            return
        self._send(frame)

    def write_text(self, text: str) -> None:
        """Take what the node prints: each whole line is a log update (UPD-15), the rest waits for its end."""
        with self._lock:
            text = self._line + text
            whole, newline, self._line = text.rpartition("\n")
            if not newline and len(self._line) > _LINE_LIMIT:
                whole, self._line = self._line, ""
        for line in whole.split("\n"):
            if line.strip():
                self.tell("info", line)

    @property
    def _node_id(self) -> str:
        return self.request.node_id or ""

    def _log_message(self, severity: str, text: str) -> dict[str, Any]:
        from .metadata import title_of

        data = {
            "type": "log_update",
            "node_id": self._node_id,  # UPD-7
            "node_name": self.request.node_type if self._plan is None else title_of(self._plan.node),
            "content": _cut(scrub(text), self.link.text_limit),
            "severity": severity,
            "workflow_id": self.request.workflow_id or "",
        }
        return messages.update(self.request.request_id, data)

    def _send_late(self, message: dict[str, Any]) -> None:
        self._send(encode(message, limit=self.link.limit_bytes))

    def _send(self, frame: Frame) -> None:
        """Send a frame that is not the last, and wait while the host is slow (UPD-19)."""
        outbox = self.link.outbox
        with self._lock:
            if self.has_ended:
                return
            self._cell = None  # what comes next stands behind this frame (UPD-13)
            outbox.put(frame)
        if self.link.is_ending:
            outbox.nudge()
        elif self.link.on_loop():  # its own tasks would all wait for a write
            outbox.nudge()
            outbox.wait_for_room()
        else:
            outbox.pump()

    def emit(self, outputs: dict[str, Any]) -> Awaitable[None] | None:
        """Send partial outputs (EXE-13); on the loop, return what is to be awaited while the host is slow (UPD-19).

        They are not kept once they are written (UPD-20).

        Raises:
            OutgoingTooLargeError: They are over the frame limit.
            OutputsError: They are nested too deep.
        """
        return self._emit(self._encode(messages.chunk(self.request.request_id, outputs)))

    def _emit(self, frame: Frame) -> Awaitable[None] | None:
        outbox = self.link.outbox
        with self._lock:
            if self.has_ended or self.is_cancelled:
                return None
            self._cell = None
            outbox.put(frame if outbox.is_empty else _Held(self, frame))
        if not self.link.on_loop():
            outbox.pump()
            return None
        outbox.nudge()
        return _room_in(outbox) if outbox.is_full else None

    # How it ends

    def succeed(self, outputs: dict[str, Any]) -> None:
        """Send the outputs as the terminal frame.

        Raises:
            OutgoingTooLargeError, OutputsError: They can't be sent; the call has not ended.
        """
        frame = self._encode(messages.result(self.request.request_id, outputs))
        self._flush_text()
        self._succeed(frame)

    def _succeed(self, frame: Frame) -> None:
        with self._lock:
            if self.has_ended or self.is_cancelled:
                return
            if self.link.outbox.is_empty:
                self._end(frame)
            else:
                self._unsent = _Held(self, frame)
                self.link.unsent[self.request.request_id] = self
                self._end(self._unsent)

    def fail(self, text: str, traceback: str | None = None) -> None:
        """Send an error as the terminal frame; the words of a cancelled call are always the same (CAN-12)."""
        self._flush_text()
        if self.is_cancelled:
            text, traceback = CANCELLED, None
        limit = self.link.text_limit
        traceback = None if traceback is None else _cut(_replaced(traceback), limit)
        message = messages.error(self.request.request_id, _cut(_replaced(text), limit), traceback)
        with self._lock:
            if not self.has_ended:
                self._end(encode(message))

    def relay(self, payload: Any) -> bool:
        """Send a payload that another worker made for this call as it is; return whether the call has ended by it."""
        frame = framed(payload)
        kind = type_of(payload)
        if kind == "result":
            self._succeed(frame)
            if not self.has_ended:
                self.fail(CANCELLED)
        elif kind == "error":
            with self._lock:
                if not self.has_ended:
                    self._end(
                        encode(messages.error(self.request.request_id, CANCELLED)) if self.is_cancelled else frame
                    )
        elif kind == "chunk":
            self._emit(frame)
        else:
            self._send(frame)
        return kind in ("result", "error")

    def _flush_text(self) -> None:
        with self._lock:
            text, self._line = self._line, ""
        if text.strip():
            self.tell("info", text)  # UPD-17

    def _end(self, frame: Frame | _Held) -> None:
        """Put the terminal frame, with the lock held; what is said from now on is dropped (UPD-11)."""
        self.has_ended = True
        self._cell = None
        self.link.outbox.put(frame)

    def _encode(self, message: dict[str, Any]) -> Frame:
        """Return the frame of outputs; half characters in them are replaced, and that is told (VAL-16)."""
        try:
            try:
                frame = encode(message, limit=self.link.limit_bytes)
                if not _has_bad_key(frame):
                    return frame
                return encode(_as_hosts_read(message), limit=self.link.limit_bytes)
            except UnicodeEncodeError:
                from octonode_sdk.shapes import find_surrogate

                path = find_surrogate(message["data"]["outputs"])
                place = "$" if isinstance(path, bool) else path_text(path)
                self.tell("warning", f"{place} holds half a character (a lone surrogate); it is sent as U+FFFD")
                return encode(_as_hosts_read(message), limit=self.link.limit_bytes)
        except (ValueError, RecursionError):  # the packer's own limit, or Python's (VAL-18)
            outputs = message["data"]["outputs"]
            deep = next((name for name in outputs if not _can_be_packed(outputs[name])), None)
            place = "$" if deep is None else path_text((None, deep))
            node = None if self._plan is None else self._plan.node.id
            raise OutputsError([Fault(place, "is nested too deep")], node=node) from None


class _Progress:
    """A progress frame that is made when its turn comes, of the values at that moment."""

    __slots__ = ("_call", "values")

    size = 128

    def __init__(self, call: Call, values: tuple[float, float, str | None]) -> None:
        self._call = call
        self.values: tuple[float, float, str | None] | None = values

    def take(self) -> Frame | None:
        """Return the frame; a progress after this moment makes another."""
        with self._call._lock:
            values, self.values = self.values, None
        assert values is not None  # it is taken once
        done, total, message = values
        text = None if message is None else _cut(scrub(message), self._call.link.text_limit)
        return encode(messages.progress(self._call.request.request_id, done, total, text))


class _Held:
    """Partial or whole outputs that wait behind other frames: a cancel before their turn takes them away (CAN-13)."""

    __slots__ = ("_call", "_frame", "size")

    def __init__(self, call: Call, frame: Frame) -> None:
        self._call = call
        self._frame: Frame = frame
        self.size = frame_size(frame)

    def replace(self, frame: Frame) -> None:
        """Send this instead, with the call's lock held."""
        self._frame = frame

    def take(self) -> Frame | None:
        """Return the frame, or None where the call was cancelled and another one ends it."""
        call = self._call
        with call._lock:
            is_last = call._unsent is self
            if is_last:
                call._unsent = None
                if call.link.unsent.get(call.request.request_id) is call:
                    del call.link.unsent[call.request.request_id]
            return None if call.is_cancelled and not is_last else self._frame


async def _room_in(outbox: Outbox) -> None:
    """Wait on the event loop until there is room."""
    import asyncio

    loop = asyncio.get_running_loop()
    room: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not room.done():
            room.set_result(None)

    def tell_from_any_thread() -> None:
        try:
            loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop is closed: nobody waits any more, and the thread that writes goes on
            return

    outbox.call_with_room(tell_from_any_thread)
    await room


def _number(value: float) -> float:
    """Return a number for a progress frame: one without a fraction is an integer (UPD-2)."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _cut(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, 100 at least, which says so where it was cut (EXE-22)."""
    if len(text) <= limit:
        return text
    half = limit // 2 - 25
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"


def _replaced(text: str) -> str:
    """Return text without half characters (EXE-21)."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _has_bad_key(frame: Frame) -> bool:
    """Tell whether a frame may hold the key that some hosts refuse to decode, and others rename (VAL-20)."""
    pieces = [frame] if isinstance(frame, bytes) else frame
    return any(isinstance(piece, bytes) and b"__proto__" in piece for piece in pieces)


def _host_key(key: str) -> str:
    """Return a key as every host reads it: that of an object's prototype as hosts rename it."""
    return "__proto_" if key == "__proto__" else _replaced(key)


def _as_hosts_read(value: Any) -> Any:
    """Return plain values as every host reads them: no half characters (VAL-16), no key that some refuse (VAL-20)."""
    if isinstance(value, str):
        return _replaced(value)
    if isinstance(value, dict):
        return {_host_key(key): _as_hosts_read(one) for key, one in value.items()}
    return [_as_hosts_read(one) for one in value] if isinstance(value, list) else value


def _scrubbed(value: Any) -> Any:
    """Return plain values whose texts may be shown: no secrets (EXE-29), no half characters (EXE-21)."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {_host_key(scrub(key)): _scrubbed(one) for key, one in value.items()}
    return [_scrubbed(one) for one in value] if isinstance(value, list) else value


def _can_be_packed(value: Any) -> bool:
    try:
        encode_data([[[_as_hosts_read(value)]]])  # as deep as in its message
    except (ValueError, RecursionError):
        return False
    return True
