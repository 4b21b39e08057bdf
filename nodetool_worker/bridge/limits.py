"""The limits of a client, and the variables that change them (BRG-6, BRG-7, BRG-9)."""

from __future__ import annotations

from ..frames import DEFAULT_LIMIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Limits", "read_limits"]


class Limits:
    """How long a client waits and how much it takes.

    Attributes:
        frame_bytes: Most bytes of a payload, both ways (FRM-3).
        blob_bytes: Most bytes of one blob that comes in chunks (BLB-5).
        execute_seconds: Longest time without any frame of a call. The page says twelve minutes; hosts of today count
            from the last progress, so that a long call which shows that it lives is not cut off, and so does this.
        status_seconds: Longest time until `discover` or `worker.status` is answered.
        download_seconds: Longest time without any frame of a download.
        validate: Whether each frame is checked (BRG-12).
    """

    __slots__ = ("blob_bytes", "download_seconds", "execute_seconds", "frame_bytes", "status_seconds", "validate")

    def __init__(
        self,
        *,
        frame_bytes: int = DEFAULT_LIMIT_BYTES,
        blob_bytes: int = 2 << 30,
        execute_seconds: float = 720.0,
        status_seconds: float = 30.0,
        download_seconds: float = 300.0,
        validate: bool = False,
    ) -> None:
        self.frame_bytes, self.blob_bytes = frame_bytes, blob_bytes
        self.execute_seconds, self.status_seconds = execute_seconds, status_seconds
        self.download_seconds = download_seconds
        self.validate = validate


#: For each limit its variable, what one unit of that is, and the least value: with fewer bytes no frame fits.
_VARIABLES: tuple[tuple[str, str, float, int], ...] = (
    ("frame_bytes", "NODETOOL_BRIDGE_MAX_FRAME_SIZE", 1, 1024),
    ("blob_bytes", "NODETOOL_PYTHON_MAX_RESULT_BLOB_BYTES", 1, 0),
    ("execute_seconds", "NODETOOL_PYTHON_EXECUTE_TIMEOUT_MS", 0.001, 1),
    ("status_seconds", "NODETOOL_PYTHON_STATUS_TIMEOUT_MS", 0.001, 1),
    ("download_seconds", "NODETOOL_PYTHON_DOWNLOAD_IDLE_TIMEOUT_MS", 0.001, 1),
)

_VALIDATE = "NODETOOL_VALIDATE_BRIDGE_FRAMES"

#: A length is four bytes. Times beyond this are no times that a system can wait.
_MOST = {1: (1 << 32) - 1, 0.001: 10**12}


def read_limits(environment: Mapping[str, str], warn: Callable[[str], None]) -> Limits:
    """Read the limits of a client; a value that makes no sense is told to `warn` and gives the default (BRG-9)."""
    limits = Limits()
    for name, variable, unit, least in _VARIABLES:
        text = environment.get(variable, "").strip()
        if not text:
            continue
        most = 1 << 62 if name == "blob_bytes" else _MOST[unit]
        if not (text.isascii() and text.isdecimal()) or len(text) > 20 or not least <= int(text) <= most:
            default = getattr(limits, name)
            shown = f"{default:g} s" if unit != 1 else str(default)
            warn(f"{variable} is {text!r}; expected a whole number from {least} to {most}; {shown} is used")
            continue
        setattr(limits, name, int(text) if unit == 1 else int(text) * unit)
    text = environment.get(_VALIDATE, "").strip().lower()
    if text not in ("", "0", "1", "true", "false"):
        warn(f"{_VALIDATE} is {text!r}; expected 1 or 0; frames are not checked")
    limits.validate = text in ("1", "true")
    return limits
