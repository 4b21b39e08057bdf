"""What a worker can do, pure: its version of the protocol, and which families of messages are open (BRG-4, BRG-5)."""

from __future__ import annotations

from ..errors import IncompatibleWorkerError
from ..messages import PROTOCOL_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..responses import Discovery, WorkerStatus

__all__ = ["FLOOR", "Gates"]

#: Oldest version that can be used.
FLOOR = 1

#: Versions from which on a family is there.
_MODELS, _COMFY, _JOBS, _PREPARE, _CHUNKED = 2, 3, 4, 5, 5


class Gates:
    """What is known of a worker. All gates are closed until it is known.

    Attributes:
        discovery: The last inventory, or None.
        worker_status: The last status, or None.
    """

    def __init__(self) -> None:
        self.discovery: Discovery | None = None
        self.worker_status: WorkerStatus | None = None

    def learn_discovery(self, discovery: Discovery) -> str | None:
        """Note an inventory; return a warning where the worker is newer than this client (BRG-4).

        Raises:
            IncompatibleWorkerError: The worker is below the floor.
        """
        version = discovery.protocol_version
        if version < FLOOR:
            raise IncompatibleWorkerError(version, FLOOR)
        self.discovery = discovery
        if version > PROTOCOL_VERSION:
            return (
                f"the worker speaks bridge protocol {version}, this client {PROTOCOL_VERSION}; it is used as if it "
                f"spoke {PROTOCOL_VERSION}; a newer octonode-sdk may know more of it"
            )
        return None

    def learn_status(self, status: WorkerStatus) -> None:
        """Note a status."""
        self.worker_status = status

    @property
    def protocol_version(self) -> int | None:
        """The worker's version, or None where nothing is known of it."""
        if self.discovery is not None:
            return self.discovery.protocol_version
        return None if self.worker_status is None else self.worker_status.protocol_version

    def _reaches(self, version: int) -> bool:
        return (self.protocol_version or 0) >= version

    def supports_models(self) -> bool:
        """Whether there is `models.*`."""
        return self._reaches(_MODELS)

    def supports_comfy(self) -> bool:
        """Whether there is `comfy.*`: its version, and a ComfyUI that the worker stands before."""
        status = self.worker_status
        return self._reaches(_COMFY) and status is not None and status.comfy.get("enabled") is True

    def supports_job_lifecycle(self) -> bool:
        """Whether there are `job.*` and `models.evict`."""
        return self._reaches(_JOBS)

    def supports_model_preparation(self, backend: str) -> bool:
        """Whether there is `models.prepare` for a backend."""
        status = self.worker_status
        return self._reaches(_PREPARE) and status is not None and backend in status.model_prepare_backends

    def supports_blender(self) -> bool:
        """Whether there is `blender.*`, in any version."""
        status = self.worker_status
        return status is not None and status.blender.get("enabled") is True

    def supports_chunked_blobs(self) -> bool:
        """Whether result blobs may be asked for in chunks."""
        return self._reaches(_CHUNKED)
