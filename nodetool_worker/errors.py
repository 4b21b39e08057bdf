"""What goes wrong on the NodeTool wire. All of them are errors of the SDK's tree (`octonode_sdk.errors`).

::

    RemoteProtocolError            the other side sent what the protocol does not grant
    ├── FrameTooLargeError         a length prefix over the limit: the stream can't be followed any more
    ├── MalformedFrameError        a payload that is no MessagePack map
    └── BadRequestError            a map that asks for nothing that this worker can do
    LocalProtocolError             we were about to send what the protocol does not grant
    └── OutgoingTooLargeError      a frame over the limit
    UnanswerableError              a request without an id: nothing can be sent for it
"""

from __future__ import annotations

from octonode_sdk.errors import OctonodeError, RemoteProtocolError

__all__ = [
    "BadRequestError",
    "FrameTooLargeError",
    "LocalProtocolError",
    "MalformedFrameError",
    "OutgoingTooLargeError",
    "UnanswerableError",
]


class FrameTooLargeError(RemoteProtocolError):
    """A length prefix names more bytes than the limit (FRM-4). What was read before it is untouched.

    Attributes:
        size, limit: Bytes of payload.
    """

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"Incoming bridge frame exceeds max size ({size} > {limit})")


class MalformedFrameError(RemoteProtocolError):
    """A payload that can't be decoded, or is no map; `request_id` is set where it can be found in the bytes."""


class BadRequestError(RemoteProtocolError):
    """A message that this worker can't do anything with: its type is unknown, or something in it is missing."""


class UnanswerableError(OctonodeError):
    """A request whose id is missing, empty or no text, so that no host could match an answer to it."""


class LocalProtocolError(OctonodeError):
    """What we were about to send breaks the protocol."""


class OutgoingTooLargeError(LocalProtocolError):
    """A frame is larger than the limit.

    Attributes:
        size, limit: Bytes of payload.
    """

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"Outgoing bridge frame exceeds max size ({size} > {limit}); let the host ask for chunks "
            f"(blob_transfer: 'chunked-v1'), return less, or raise NODETOOL_BRIDGE_MAX_FRAME_SIZE on both sides"
        )
