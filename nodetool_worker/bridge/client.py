"""The sync client: `Bridge`, for many threads at once."""

from __future__ import annotations

from time import monotonic

from ..errors import BridgeError, IncompatibleWorkerError, WorkerDiedError
from ..responses import Chunk, Discovery, Result, WorkerStatus
from .connection import CLOSE_SECONDS, Connection, limits_of, start_worker, warn
from .core import CALL, DISCOVER, PLAIN, STATUS, STREAM
from .inbox import Hooks, Inbox, last_chunk
from .process import STARTUP_SECONDS
from .requests import execute_data, with_large

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, BinaryIO, Self, Unpack

    from ..responses import Event, Progress, Response, Update
    from .connection import Timeout
    from .limits import Limits
    from .link import Link
    from .process import WorkerProcess
    from .requests import CallOptions

__all__ = ["Bridge", "Handle", "Stream"]


class Handle:
    """A request that goes on while its caller does something else.

    Attributes:
        request_id: Its id.
    """

    def __init__(self, link: Link, inbox: Inbox, hooks: Hooks) -> None:
        self._link, self._inbox, self._hooks = link, inbox, hooks

    @property
    def request_id(self) -> str:
        """Its id on the wire."""
        return self._inbox.request_id

    def done(self) -> bool:
        """Whether it has ended."""
        return self._inbox.outcome is not None

    def cancel(self) -> None:
        """Ask the worker to stop. The request still ends by itself: `result` says how."""
        self._link.cancel(self._inbox.request_id)

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result. The functions for progress and updates are called here, in the thread that waits.

        Args:
            timeout: Seconds; None for no other bound than the request's own.

        Raises:
            RequestFailedError: The worker answered with an error; RequestCancelledError after `cancel`.
            BridgeTimeoutError: Nothing came for the request for too long.
            BridgeError: The worker has died, or has sent what does not fit.
            TimeoutError: `timeout` seconds have passed; the request goes on.
        """
        until = None if timeout is None else monotonic() + timeout
        while True:
            part = self._inbox.next(until)
            if part is self._inbox.outcome:
                assert isinstance(part, Result)
                return part
            self._hooks.call(part)


class Stream:
    """The chunks of a node that streams, in their order (BRG-18). Iterate over it, in one thread.

    A node that does not stream gives its outputs as one chunk. Leaving early (`close`, the end of a `with`, or when
    nobody has the stream any more) cancels the request.

    Attributes:
        result: The terminal frame, once the iteration has come to its end.
    """

    def __init__(self, link: Link, inbox: Inbox, hooks: Hooks) -> None:
        self._link, self._inbox, self._hooks = link, inbox, hooks
        self._is_over = self._had_chunk = False
        self.result: Result | None = None

    @property
    def request_id(self) -> str:
        """Its id on the wire."""
        return self._inbox.request_id

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        while not self._is_over:
            try:
                part = self._inbox.next()
            except BridgeError:
                self._is_over = True
                raise
            if part is self._inbox.outcome:
                assert isinstance(part, Result)
                self._is_over, self.result = True, part
                last = last_chunk(part, self._had_chunk)
                if last is not None:
                    return last
            elif isinstance(part, Chunk):
                self._had_chunk = True
                return part
            else:
                self._hooks.call(part)
        raise StopIteration

    def cancel(self) -> None:
        """Ask the worker to stop; the iteration goes on to the end that the worker makes."""
        self._link.cancel(self._inbox.request_id)

    def close(self) -> None:
        """Leave: the request is cancelled, and nothing more comes."""
        if not self._is_over:
            self._is_over = True
            self._link.give_up(self._inbox)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_over:
            self._link.drop(self._inbox)


class Bridge(Connection):
    """A client of one worker. Any number of threads may use it at once.

    Make one with `spawn` or `attach`, and close it, best by `with`.

    Example:
        >>> with Bridge.spawn(nodes=["nodes.py"]) as bridge:  # doctest: +SKIP
        ...     print(bridge.execute("nodes.Greet", {"name": "Ada"}).outputs)
    """

    def __init__(
        self,
        reader: int | BinaryIO,
        writer: int | BinaryIO,
        *,
        process: WorkerProcess | None = None,
        validate: bool | None = None,
        handshake: bool = True,
        limits: Limits | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._connect(reader, writer, process=process, limits=limits_of(limits, validate), new_id=new_id)
        if handshake:
            try:
                self._greet()
            except BaseException:
                self.close(0)
                raise

    @classmethod
    def spawn(
        cls,
        command: Sequence[str] | None = None,
        *,
        nodes: Sequence[str] = (),
        namespaces: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        startup_timeout: float = STARTUP_SECONDS,
        validate: bool | None = None,
        on_stderr: Callable[[str], object] | None = None,
        handshake: bool = True,
        limits: Limits | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> Bridge:
        """Start a worker, wait until it is ready, and ask what it has (BRG-1, BRG-2, BRG-3).

        Args:
            command: The worker's command line, `--stdio` included; without it `python -m nodetool.worker --stdio`.
            nodes: Node files and modules to serve (`--nodes`, for our worker).
            namespaces: Namespaces to serve (`--namespaces`).
            env: Variables to add to ours; None takes one away.
            cwd: The worker's folder.
            startup_timeout: Seconds until it must be ready.
            validate: Whether each frame is checked; without it NODETOOL_VALIDATE_BRIDGE_FRAMES says.
            on_stderr: Called with each line of the worker's stderr, on a thread of its own.
            handshake: Whether to send `discover` and `worker.status`.
            limits: Timeouts and sizes; without them, the page's defaults and the variables.
            new_id: Makes request ids.

        Raises:
            WorkerStartError: The worker can't be started or does not get ready.
            IncompatibleWorkerError: Its protocol is too old.
            BridgeError: `discover` has failed.
        """
        process = start_worker(
            command,
            nodes=nodes,
            namespaces=namespaces,
            env=env,
            cwd=cwd,
            startup_timeout=startup_timeout,
            on_stderr=on_stderr,
        )
        return cls(
            process.out_fd,
            process.in_fd,
            process=process,
            validate=validate,
            handshake=handshake,
            limits=limits,
            new_id=new_id,
        )

    @classmethod
    def attach(
        cls,
        reader: int | BinaryIO,
        writer: int | BinaryIO,
        *,
        validate: bool | None = None,
        handshake: bool = True,
        limits: Limits | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> Bridge:
        """Use the streams of a worker that runs already; they belong to the bridge from now on.

        Args:
            reader: What the worker writes to: a descriptor, or a binary file object.
            writer: What the worker reads from; another descriptor than `reader`.
        """
        return cls(reader, writer, validate=validate, handshake=handshake, limits=limits, new_id=new_id)

    def _greet(self) -> None:
        """Ask for the inventory and the status; one after the other on the wire, and both at once in time."""
        discover = self._open("discover", {}, DISCOVER, Hooks(), ...)
        status = self._open("worker.status", {}, STATUS, Hooks(), ...)
        discover.next()
        try:
            status.next()
        except (WorkerDiedError, IncompatibleWorkerError):
            raise
        except BridgeError as error:
            warn(f"what the worker can do is not known, so only its nodes can be used: {error}")

    def _open(self, type_: str, data: dict[str, Any], kind: str, hooks: Hooks, timeout: Timeout) -> Inbox:
        wanted = hooks.wanted()
        inbox = Inbox(self.link, (*wanted, Chunk) if kind is STREAM else wanted)
        self.link.open(type_, data, inbox, kind=kind, seconds=self._seconds(kind, type_, timeout))
        return inbox

    def _wait(self, inbox: Inbox, hooks: Hooks) -> Response:
        """Wait for the result; a caller that is interrupted, or whose own function fails, leaves nothing running."""
        try:
            while True:
                part = inbox.next()
                if part is inbox.outcome:
                    return part
                hooks.call(part)
        except BaseException:
            if inbox.outcome is None:
                self.link.give_up(inbox)
            raise

    def discover(self, *, timeout: Timeout = ...) -> Discovery:
        """Ask for the inventory.

        Raises:
            IncompatibleWorkerError: The worker's protocol is too old (BRG-4).
            BridgeError: As `execute`.
        """
        hooks = Hooks()
        response = self._wait(self._open("discover", {}, DISCOVER, hooks, timeout), hooks)
        assert isinstance(response, Discovery)
        return response

    def status(self, *, timeout: Timeout = ...) -> WorkerStatus:
        """Ask how the worker is.

        Raises:
            BridgeError: As `execute`.
        """
        hooks = Hooks()
        return WorkerStatus(self._wait(self._open("worker.status", {}, STATUS, hooks, timeout), hooks).data)

    def execute(
        self,
        node_type: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: Callable[[Progress], object] | None = None,
        on_update: Callable[[Update], object] | None = None,
        chunked: bool = True,
        **options: Unpack[CallOptions],
    ) -> Result:
        """Run a node and wait for its result (BRG-17).

        Args:
            node_type: As in the inventory.
            fields: Value by input.
            timeout: Longest time without any frame of this call, in seconds; None for no bound.
            on_progress, on_update: Called in this thread, in the order of the frames.
            chunked: Whether large results may come in chunks; they are checked and put together here.
            options: `blobs`, `secrets`, `node_id`, `job_id`, `workflow_id`, `user_id`, `requires_vram_gb`.

        Raises:
            LocalProtocolError: It can't be sent; nothing was.
            RequestFailedError: The worker answered with an error.
            BridgeTimeoutError: Nothing came for too long; the call is cancelled.
            FrameRejectedError: A frame of this call does not fit.
            WorkerDiedError, StreamLostError, BridgeClosedError: The worker is gone.
        """
        data = execute_data(self.gates, node_type, fields, chunked=chunked, **options)
        hooks = Hooks(on_progress, on_update)
        result = self._wait(self._open("execute", data, CALL, hooks, timeout), hooks)
        assert isinstance(result, Result)
        return result

    def start(
        self,
        node_type: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: Callable[[Progress], object] | None = None,
        on_update: Callable[[Update], object] | None = None,
        chunked: bool = True,
        **options: Unpack[CallOptions],
    ) -> Handle:
        """Run a node and return at once; the arguments are those of `execute`.

        What `blobs` and `fields` hold must stay as it is until the handle is done.

        Raises:
            LocalProtocolError, WorkerDiedError, StreamLostError, BridgeClosedError: As `execute`.
        """
        data = execute_data(self.gates, node_type, fields, chunked=chunked, **options)
        hooks = Hooks(on_progress, on_update)
        return Handle(self.link, self._open("execute", data, CALL, hooks, timeout), hooks)

    def stream(
        self,
        node_type: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: Callable[[Progress], object] | None = None,
        on_update: Callable[[Update], object] | None = None,
        **options: Unpack[CallOptions],
    ) -> Stream:
        """Run a node and return its chunks as they come; the arguments are those of `execute`.

        Raises:
            BridgeError: As `execute`; from the iteration, after the chunks that came before.
        """
        data = execute_data(self.gates, node_type, fields, chunked=False, **options)
        hooks = Hooks(on_progress, on_update)
        return Stream(self.link, self._open("execute.stream", data, STREAM, hooks, timeout), hooks)

    def request(
        self,
        type_: str,
        data: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: Callable[[Progress], object] | None = None,
        on_event: Callable[[Chunk | Event], object] | None = None,
    ) -> Result:
        """Send any other message, such as `models.list_cached`, and wait for its result.

        Args:
            type_: The message's type.
            data: Its data.
            timeout: Longest time without any frame of it, in seconds; None for no bound.
            on_progress: Called with each progress.
            on_event: Called with each chunk, and each event of ComfyUI and Blender.

        Raises:
            BridgeError: As `execute`.
        """
        hooks = Hooks(on_progress, None, on_event)
        result = self._wait(self._open(type_, with_large(dict(data or {})), PLAIN, hooks, timeout), hooks)
        assert isinstance(result, Result)
        return result

    def close(self, grace: float = CLOSE_SECONDS) -> int | None:
        """Cancel what is open and end the worker; again does nothing (BRG-20).

        Args:
            grace: Seconds that the worker may take to end by itself once its stdin has ended; then SIGTERM, and
                two seconds later SIGKILL for its whole group.

        Returns:
            The worker's exit status; None where it is no process of ours.
        """
        return self.link.close(grace)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
