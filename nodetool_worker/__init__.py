"""The NodeTool bridge, protocol version 6: the worker, and a client for any. docs/nodetool-wire.md has its rules."""

from .messages import PROTOCOL_VERSION

__all__ = ["PROTOCOL_VERSION"]
