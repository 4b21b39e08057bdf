"""The engine for asyncio, over the same runtime: nothing in the loop blocks, and no thread waits for a call."""

from __future__ import annotations

import asyncio

from .runtime import CLOSE_SECONDS, Runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Self, Unpack

    from .answers import Answer
    from .calls import Call
    from .runtime import CallOptions, EngineOptions, Seconds

__all__ = ["AsyncEngine", "AsyncHandle"]


class _Waiter:
    """What the tasks of one call wait on."""

    __slots__ = ("_loop", "future")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self._loop.create_future()

    def ring(self, _call: Call) -> None:
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed, and nobody waits any more
            return

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class AsyncHandle:
    """A call that goes on while its caller does something else; see `Handle`."""

    def __init__(self, runtime: Runtime, call: Call, waiter: _Waiter) -> None:
        self._runtime, self._call, self._waiter = runtime, call, waiter

    @property
    def invocation_id(self) -> str:
        """Its id on the wire."""
        return self._call.request_id

    def done(self) -> bool:
        """Whether it has its answer."""
        return self._call.answer is not None

    def cancel(self) -> bool:
        """End the call; as `Handle.cancel`."""
        return self._runtime.cancel(self._call)

    async def result(self) -> Answer:
        """Wait for the answer. A task that is cancelled here leaves the call running."""
        await asyncio.shield(self._waiter.future)
        assert self._call.answer is not None
        return self._call.answer


class AsyncEngine:
    """Runs a command that speaks Octonode IPC, for the tasks of any loop. The arguments are those of `Engine`.

    A task that is cancelled while it waits for `invoke` or `describe` cancels the call: its process is killed in
    one-shot mode, and a worker's answer is dropped (ENG-26).

    Example:
        >>> async def main() -> None:
        ...     async with AsyncEngine(["./greet"], mode="worker", workers=2) as engine:
        ...         print((await engine.invoke({"name": "Ada"})).outputs)
    """

    def __init__(self, command: Sequence[str | os.PathLike[str]], **options: Unpack[EngineOptions]) -> None:
        self._runtime = Runtime(command, **options)

    async def invoke(self, inputs: Any = None, **options: Unpack[CallOptions]) -> Answer:
        """Run a node and wait for the answer; as `Engine.invoke`."""
        return await self._wait(self.submit(inputs, **options))

    async def _wait(self, handle: AsyncHandle) -> Answer:
        try:
            return await handle.result()
        except asyncio.CancelledError:
            handle.cancel()
            raise

    def submit(self, inputs: Any = None, **options: Unpack[CallOptions]) -> AsyncHandle:
        """Run a node and return at once; as `Engine.submit`."""
        waiter = _Waiter()
        return AsyncHandle(self._runtime, self._runtime.open(inputs, waiter.ring, **options), waiter)

    async def describe(self, node: str | None = None, *, deadline: Seconds = ..., fresh: bool = False) -> Answer:
        """Ask for a manifest; as `Engine.describe`."""
        stamp = self._runtime.stamp(node)
        known = None if fresh else self._runtime.known_manifest(node, stamp)
        if known is not None:
            return known
        waiter = _Waiter()
        call = self._runtime.open_describe(node, stamp, deadline, waiter.ring)
        return await self._wait(AsyncHandle(self._runtime, call, waiter))

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that run now."""
        return self._runtime.pids

    async def close(self, grace: float = CLOSE_SECONDS) -> None:
        """End what is open and all processes, and wait for their end; as `Engine.close`."""
        closing = asyncio.get_running_loop().run_in_executor(None, self._runtime.close, grace)
        await asyncio.shield(closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        runtime = getattr(self, "_runtime", None)
        if runtime is not None:
            runtime.abandon()
