"""The NodeTool bridge, protocol version 6: the worker, and a client for any worker. docs/nodetool-wire.md lists its rules."""

PROTOCOL_VERSION = 6

__all__ = ["PROTOCOL_VERSION"]
