"""`onode diff OLD NEW`: what has changed between two descriptions of nodes, for people and for CI."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .diff import BREAKING, Nodes, compare, read_nodes, summary, verdict_of
from .errors import DONE, NOT_FINE, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .paper import Paper

__all__ = ["diff"]

_STYLES = {"breaking": "bold red", "unclear": "yellow", "compatible": "green"}


def diff(paper: Paper, old: str, new: str, *, allow_unclear: bool = False) -> int:
    """Compare two descriptions of nodes and print each change with its verdict.

    Args:
        paper: Where to print; with `as_json` an object `{verdict, changes: [{node, path, verdict, reason}]}`.
        old: A file of JSON with the nodes as they were, or `-` for stdin.
        new: The same with the nodes as they are.
        allow_unclear: Whether a change that can't be decided counts as compatible.

    Returns:
        DONE if nothing breaks, NOT_FINE if something does.

    Raises:
        UsageError: A file can't be read, or holds nothing that can be compared.
    """
    if old == new == "-":
        raise UsageError("both sides are '-', and stdin can be read once; give a file for one of them")
    changes = compare(_read(old), _read(new))
    verdict = verdict_of(changes, allow_unclear=allow_unclear)
    if paper.as_json:
        paper.json({"verdict": verdict, "changes": [one.to_dict() for one in changes]})
    else:
        rows = [(one.verdict, one.node, one.path, one.reason) for one in changes]
        paper.table(("verdict", "node", "path", "change"), rows)
        paper.line(summary(changes), _STYLES[verdict])
    return NOT_FINE if verdict == BREAKING else DONE


def _read(name: str) -> Nodes:
    where = "stdin" if name == "-" else name
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{where}: can't be read: {error.strerror or error}") from error
    try:
        return read_nodes(_parse(data.decode("utf-8-sig"), where), where)
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: is no UTF-8 (byte {error.start}); give a file of JSON") from error
    except RecursionError:
        raise UsageError(f"{where}: is nested too deep to be compared") from None


def _parse(text: str, where: str) -> Any:
    """Read one JSON value, or one on each line, as a runner prints its answers."""
    try:
        return _loads(text)
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise UsageError(f"{where}: is no JSON: {error}") from error
    try:
        return [_loads(line) for line in lines]
    except ValueError as error:
        raise UsageError(f"{where}: is no JSON: {error}; give one value, or one on each line") from error


def _loads(text: str) -> Any:
    """Return a value of strict JSON: the schemas of manifests have no place for NaN, and it would compare with nothing.

    Raises:
        ValueError: It is none.
    """

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)
