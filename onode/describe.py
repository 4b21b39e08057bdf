"""`onode describe`: what nodes say of themselves, as a host reads it."""

from __future__ import annotations

from octonode_sdk.ipc.engine import Engine

from .errors import DONE, UsageError
from .hosts import NodetoolHost, find_node, open_host
from .words import first_line, port_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .hosts import Info
    from .paper import Paper

__all__ = ["describe", "describe_command", "show_info", "show_nodes"]

#: How long a command may take to describe itself.
_SECONDS = 60.0


def describe(paper: Paper, target: str, node: str | None, *, host: str) -> int:
    """Print the manifests of a target, or that of one node.

    Raises:
        UsageError: The target can't be loaded, or has no such node.
    """
    with open_host(host, target) as there:
        _print(paper, there.nodes, None if node is None else find_node(there.nodes, node, target))
    return DONE


def describe_command(paper: Paper, command: Sequence[str], node: str | None, *, host: str) -> int:
    """Print what any command that speaks the host's protocol says of itself.

    Raises:
        UsageError: The command is no node.
    """
    what = " ".join(command)
    if host == "nodetool":
        with NodetoolHost(command=command, seconds=_SECONDS) as worker:
            _print(paper, worker.nodes, None if node is None else find_node(worker.nodes, node, what))
        return DONE
    with Engine(list(command), deadline=_SECONDS) as engine:
        answer = engine.describe(node)
    manifest = answer.manifest
    if manifest is None:
        error = answer.error or {}
        said = error.get("details", {})
        lines = said.get("stderr") if isinstance(said, dict) else None
        hint = f"; its last line on stderr: {lines[-1]}" if lines else ""
        if answer.fault is None:
            raise UsageError(str(error.get("message")), stack=error.get("stack"))
        raise UsageError(
            f"{what} does not answer as a node: {error.get('message')}{hint}", stack="\n".join(lines or ()) or None
        )
    info = _info_of_manifest(manifest)
    _print(paper, {info.id: info}, info)
    return DONE


def _info_of_manifest(manifest: dict[str, Any]) -> Info:
    """Return a foreign manifest as a node's info; nobody has checked that its parts are what they should be."""
    from .hosts import Info

    def part(key: str) -> dict[str, Any]:
        value = manifest.get(key)
        return value if isinstance(value, dict) else {}

    id_ = str(manifest.get("id", ""))
    return Info(
        id=id_,
        title=str(manifest.get("label") or id_),
        description=str(manifest.get("description") or ""),
        inputs=part("inputs"),
        outputs=part("outputs"),
        dynamic=True,
        raw=manifest,
    )


def _print(paper: Paper, nodes: Mapping[str, Info], one: Info | None) -> None:
    if paper.as_json:
        paper.json(one.raw if one is not None else [info.raw for info in nodes.values()])
    elif one is not None or len(nodes) == 1:
        show_info(paper, one or next(iter(nodes.values())))
    else:
        show_nodes(paper, nodes)


def show_nodes(paper: Paper, nodes: Mapping[str, Info]) -> None:
    """Print a row a node: its name, its inputs (with a star those that have to be given), what it does."""
    paper.table(
        ("node", "inputs", "what it does"),
        [(info.id, _names(info.inputs), first_line(info.description)) for info in nodes.values()],
    )


def _names(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    ports = schema.get("properties") or {}
    names = [f"{name}*" if name in required and "default" not in port else name for name, port in ports.items()]
    return " ".join(names) or "-"


def show_info(paper: Paper, info: Info) -> None:
    """Print all that people need to know to call a node."""
    title = f" ({info.title})" if info.title not in ("", info.id) else ""
    paper.line(f"{info.id}{title}", "bold")
    for line in info.description.strip().splitlines():
        paper.line(f"  {line}" if line else "")
    ports = port_rows(info.inputs)
    paper.table(("input", "type", "default", "description"), ports, title="inputs")
    paper.table(
        ("output", "type", "description"),
        [(name, kind, text) for name, kind, _, text in port_rows({**info.outputs, "required": ()})],
        title="outputs",
    )
