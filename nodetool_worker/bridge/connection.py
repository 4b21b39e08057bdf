"""What the sync and the async client have in common: starting a worker, its link, and what is known of it (BRG-21)."""

from __future__ import annotations

import os
from itertools import count
from types import EllipsisType

from .core import DISCOVER, STATUS, Core
from .limits import Limits, read_limits
from .link import Link
from .process import WorkerProcess, worker_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import BinaryIO, TypeAlias

    from ..errors import BridgeError
    from ..responses import Discovery, WorkerStatus
    from .gates import Gates

#: Seconds; None for no bound; `...` for the default of the request.
Timeout: TypeAlias = "float | EllipsisType | None"

__all__ = ["CLOSE_SECONDS", "Connection", "Timeout", "limits_of", "start_worker", "warn"]

#: How long a worker may take to end by itself once its client is closed.
CLOSE_SECONDS = 5.0

#: Requests that are as slow as a network.
_DOWNLOADS = frozenset(("models.download", "models.prepare", "comfy.models.download"))


def warn(text: str) -> None:
    """Tell people of something, through `logging`."""
    import logging

    logging.getLogger("nodetool_worker.bridge").warning("%s", text)


def _new_ids() -> Callable[[], str]:
    """Return a maker of ids that nobody else makes (BRG-10)."""
    from uuid import uuid4

    prefix, numbers = uuid4().hex, count(1)
    return lambda: f"{prefix}-{next(numbers)}"


class Connection:
    """What the sync and the async client have in common: a link, and what is known of the worker.

    Attributes:
        limits: The limits in force.
        link: The connection.
    """

    limits: Limits
    link: Link

    def _connect(
        self,
        reader: int | BinaryIO,
        writer: int | BinaryIO,
        *,
        process: WorkerProcess | None,
        limits: Limits,
        new_id: Callable[[], str] | None,
    ) -> None:
        self.limits = limits
        core = Core(new_id=new_id or _new_ids(), limits=limits, validate=limits.validate)
        self.link = Link(core, reader, writer, process=process, warn=warn)

    @property
    def gates(self) -> Gates:
        """What is known of the worker."""
        return self.link.core.gates

    @property
    def discovery(self) -> Discovery | None:
        """The last inventory, or None."""
        return self.gates.discovery

    @property
    def worker_status(self) -> WorkerStatus | None:
        """The last status, or None."""
        return self.gates.worker_status

    @property
    def protocol_version(self) -> int | None:
        """The worker's version of the protocol, or None where nothing is known of it."""
        return self.gates.protocol_version

    def supports_models(self) -> bool:
        """Whether there is `models.*` (BRG-5)."""
        return self.gates.supports_models()

    def supports_comfy(self) -> bool:
        """Whether there is `comfy.*`."""
        return self.gates.supports_comfy()

    def supports_job_lifecycle(self) -> bool:
        """Whether there are `job.*` and `models.evict`."""
        return self.gates.supports_job_lifecycle()

    def supports_model_preparation(self, backend: str) -> bool:
        """Whether there is `models.prepare` for a backend."""
        return self.gates.supports_model_preparation(backend)

    def supports_blender(self) -> bool:
        """Whether there is `blender.*`."""
        return self.gates.supports_blender()

    def supports_chunked_blobs(self) -> bool:
        """Whether result blobs come in chunks."""
        return self.gates.supports_chunked_blobs()

    @property
    def faults(self) -> list[BridgeError]:
        """What the worker has sent that it must not, where no request has failed by it; the last hundred."""
        return list(self.link.faults)

    @property
    def pid(self) -> int | None:
        """The worker's process id, or None where it is no process of ours."""
        return None if self.link.process is None else self.link.process.pid

    @property
    def stderr_tail(self) -> list[str]:
        """The last lines of the worker's stderr, oldest first (BRG-15)."""
        return [] if self.link.process is None else self.link.process.stderr_tail()

    def _seconds(self, kind: str, type_: str, timeout: Timeout) -> float | None:
        if not isinstance(timeout, EllipsisType):
            return timeout
        if kind in (DISCOVER, STATUS):
            return self.limits.status_seconds
        return self.limits.download_seconds if type_ in _DOWNLOADS else self.limits.execute_seconds


def limits_of(limits: Limits | None, validate: bool | None) -> Limits:
    """Return the limits that were given, else those of the environment; `validate` wins over either."""
    made = read_limits(os.environ, warn) if limits is None else limits
    if validate is not None:
        made.validate = validate
    return made


def start_worker(
    command: Sequence[str] | None,
    *,
    nodes: Sequence[str],
    namespaces: Sequence[str],
    env: Mapping[str, str | None] | None,
    cwd: str | os.PathLike[str] | None,
    startup_timeout: float,
    on_stderr: Callable[[str], object] | None,
) -> WorkerProcess:
    """Start a worker and wait until it is ready; one that does not get ready is ended."""
    line = worker_command(command, nodes=nodes, namespaces=namespaces)
    process = WorkerProcess(line, env=env, cwd=cwd, on_stderr=on_stderr)
    try:
        process.wait_ready(startup_timeout)
    except BaseException:
        for fd in (process.in_fd, process.out_fd):
            os.close(fd)
        process.kill()
        process.wait(CLOSE_SECONDS)
        raise
    return process
