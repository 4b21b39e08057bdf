"""Octonode IPC v1: requests and answers as JSON lines. docs/octonode-wire.md lists its rules."""
