"""The NodeTool bridge, protocol version 6: the worker, and a client for any. docs/nodetool-wire.md has its rules."""

PROTOCOL_VERSION = 6

__all__ = ["PROTOCOL_VERSION"]
