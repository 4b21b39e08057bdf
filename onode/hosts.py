"""The two hosts behind the same few methods: a real runner process with the engine, a real worker with the bridge."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from time import perf_counter

from nodetool_worker.bridge import Bridge, BridgeError, BridgeTimeoutError, Limits, RequestFailedError
from nodetool_worker.entry_points import find_entry_points
from nodetool_worker.inventory import DISABLED_VARIABLE
from octonode_sdk.ipc.engine import Engine, RetryPolicy

from .children import load_target
from .entries import manifest_of
from .errors import UsageError
from .words import guess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Literal, Protocol, Self

    from nodetool_worker.bridge import Bridge as AnyBridge
    from nodetool_worker.responses import Progress, Update

    class Host(Protocol):
        """Who runs the nodes of one target."""

        nodes: dict[str, Info]
        start_seconds: float

        def call(self, node: str, inputs: Mapping[str, Any], hooks: Hooks = ...) -> Reply:
            """Run a node and wait; raises nothing that its process does."""

        def close(self) -> None:
            """End the processes."""

        def __enter__(self) -> Self: ...

        def __exit__(
            self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None: ...


__all__ = [
    "HOSTS",
    "Hooks",
    "Info",
    "NodetoolHost",
    "OctonodeHost",
    "Reply",
    "Settings",
    "fault_text",
    "find_node",
    "only_targets",
    "open_host",
]

HOSTS = ("octonode", "nodetool")

#: What the command starts: both with the interpreter that runs it.
_RUNNER = (sys.executable, "-m", "octonode_sdk")
_WORKER = (sys.executable, "-m", "nodetool_worker", "--stdio")


@dataclass(frozen=True)
class Info:
    """A node that a host has.

    Attributes:
        id: What a call names: the id under Octonode, the node type under NodeTool.
        title, description: For people.
        inputs, outputs: JSON Schemas of objects.
        dynamic: Whether it takes inputs beside those.
        raw: The manifest, or the entry of `discover`.
    """

    id: str
    title: str
    description: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    dynamic: bool
    raw: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What a call has come to.

    Attributes:
        outputs: Where it has succeeded.
        error: Else `message`, and what the host says beside it: `code`, `retryable`, `details`, `stack`.
        fault: Whether the process has failed, and the error is not the node's answer.
        seconds, attempts: How long it took, and in how many attempts.
    """

    outputs: Any = None
    error: dict[str, Any] | None = None
    fault: bool = False
    seconds: float = 0.0
    attempts: int = 1

    @property
    def ok(self) -> bool:
        """Whether it has succeeded."""
        return self.error is None


@dataclass(frozen=True)
class Settings:
    """How calls are made.

    Attributes:
        deadline: Seconds for a call, or None.
        retry: How often a call that may succeed later is tried in all; 1 for once.
        config, env: What the node's context holds (Octonode alone).
        secrets: Values by name; variables of the process under Octonode, a part of the request under NodeTool.
    """

    deadline: float | None = None
    retry: int = 1
    config: dict[str, Any] = field(default_factory=dict)
    env: str | None = None
    secrets: dict[str, str] = field(default_factory=dict)


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True)
class Hooks:
    """What is told while a call runs, on whatever thread: progress (done, total, message), and lines of text."""

    progress: Callable[[float, float | None, str], object] = _nothing
    line: Callable[[str], object] = _nothing


def find_node(nodes: Mapping[str, Info], name: str | None, target: str) -> Info:
    """Return the node of a name: its id; under NodeTool also its type without namespace, or the id of its function.

    Raises:
        UsageError: There is none, or several.
    """
    if name is None:
        if len(nodes) == 1:
            return next(iter(nodes.values()))
        raise UsageError(f"{target} has {len(nodes)} nodes; say which: {', '.join(nodes)}")
    if name in nodes:
        return nodes[name]
    near = [info for id_, info in nodes.items() if _bare(id_.rpartition(".")[2]) == _bare(name)]
    if len(near) == 1 and near[0].id != near[0].raw.get("id"):
        return near[0]
    raise UsageError(f"{target} has no node {name!r}; it has {', '.join(nodes)}{_guess_node(name, nodes)}")


def _guess_node(name: str, nodes: Mapping[str, Info]) -> str:
    """Return a guess for a node's name, which under NodeTool may be that of its type without the namespace."""
    whole = guess(name, nodes)
    if whole:
        return whole
    ends = {id_.rpartition(".")[2]: id_ for id_ in nodes}
    return next((f"; did you mean {id_!r}?" for end, id_ in ends.items() if repr(end) in guess(name, ends)), "")


def _bare(name: str) -> str:
    """Return a name without what differs between an id and the type that is made of it: `split_text`, `SplitText`."""
    return "".join(one for one in name if one.isalnum()).casefold()


class OctonodeHost:
    """Runs nodes through `python -m octonode_sdk TARGET`.

    Args:
        target: The target.
        settings: How calls are made.
        mode: A process a call, or one that stays.

    Attributes:
        files: The source files that the target has loaded.
        start_seconds: What the start took before any call: nothing, since calls start processes.

    Raises:
        UsageError: The target can't be loaded.
    """

    def __init__(
        self, target: str, settings: Settings | None = None, *, mode: Literal["one-shot", "worker"] = "one-shot"
    ) -> None:
        self._settings = settings or Settings()
        report = load_target(target)
        self.files, self.start_seconds = report.files, 0.0
        self.nodes = {one.id: _info(one.manifest, dynamic=one.dynamic) for one in report.nodes}
        self._hooks = Hooks()
        retry = self._settings.retry
        self._engine = Engine(
            [*_RUNNER, target],
            mode=mode,
            env=self._settings.secrets,
            retry=RetryPolicy(attempts=retry) if retry > 1 else None,
            deadline=self._settings.deadline,
            on_stderr=self._take_line,
        )

    def _take_line(self, line: str) -> None:
        """Tell progress from the rest, by the form in which our own runner writes it; both are for display alone."""
        head, _, rest = line.partition("] progress ")
        share, _, message = rest.partition(" ")
        done, slash, total = share.partition("/")
        if head.startswith("[") and rest and _is_number(done) and (not slash or _is_number(total)):
            if slash and message.startswith("("):
                message = message.partition(")")[2].strip()
            self._hooks.progress(float(done), float(total) if slash else None, message)
        else:
            self._hooks.line(line)

    def call(self, node: str, inputs: Mapping[str, Any], hooks: Hooks | None = None) -> Reply:
        """Run a node and wait; raises nothing that its process does."""
        self._hooks = hooks or Hooks()
        answer = self._engine.invoke(
            dict(inputs), node=node, config=self._settings.config or None, env=self._settings.env
        )
        return Reply(answer.outputs, answer.error, answer.fault is not None, answer.seconds, answer.attempts)

    def close(self) -> None:
        """End the processes."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _info(manifest: dict[str, Any], *, dynamic: bool) -> Info:
    return Info(
        id=manifest["id"],
        title=manifest.get("label", manifest["id"]),
        description=manifest.get("description", ""),
        inputs=manifest.get("inputs", {}),
        outputs=manifest.get("outputs", {}),
        dynamic=dynamic,
        raw=manifest,
    )


class NodetoolHost:
    """Runs nodes through a NodeTool worker and the bridge.

    Args:
        targets: What the worker serves; installed packs are left out unless there is no target.
        settings: How calls are made; `config`, `env` and `retry` have no place on this wire.
        command: Another worker's command line.
        root: A folder in which the worker looks for modules first.
        seconds: How long the worker may take to load.
        on_stderr: Called with each line of the worker's stderr.
        lenient: Whether what can't be loaded is left to `faults`.

    Attributes:
        faults: The `load_errors` of `discover`.
        start_seconds: How long the worker took until it had told what it has.

    Raises:
        UsageError: A target can't be loaded, or the worker does not start.
    """

    def __init__(
        self,
        targets: Sequence[str] = (),
        settings: Settings | None = None,
        *,
        command: Sequence[str] | None = None,
        root: str | None = None,
        seconds: float = 60.0,
        on_stderr: Callable[[str], object] | None = None,
        lenient: bool = False,
    ) -> None:
        self._settings = settings or Settings()
        env = only_targets() if targets else {}
        if root is not None:
            env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        began = perf_counter()
        try:
            self._bridge: AnyBridge = Bridge.spawn(
                list(command or _WORKER),
                nodes=targets,
                env=env,
                startup_timeout=seconds,
                on_stderr=on_stderr,
                limits=Limits(status_seconds=seconds),
            )
        except BridgeError as error:
            text = " ".join(str(error).split())
            what = f"can't load {', '.join(targets)}: " if targets else ""
            raise UsageError(f"{what}the NodeTool worker does not start: {text}") from error
        self.start_seconds = perf_counter() - began
        discovery = self._bridge.discovery
        assert discovery is not None  # of a bridge with a handshake
        self.faults: list[dict[str, str]] = discovery.load_errors
        self.nodes = {entry["node_type"]: _info_of_entry(entry) for entry in discovery.nodes}
        if self.faults and targets and not lenient:
            self.close()
            raise UsageError(f"can't load {', '.join(targets)}: {fault_text(self.faults[0])}")

    def call(self, node: str, inputs: Mapping[str, Any], hooks: Hooks | None = None) -> Reply:
        """Run a node and wait; raises nothing that its process does."""
        hooks = hooks or Hooks()
        began = perf_counter()

        def progress(one: Progress) -> None:
            hooks.progress(one.done, one.total or None, one.message or "")

        def update(one: Update) -> None:
            if one.kind == "log_update":
                hooks.line(f"[{node}] {one.data.get('severity', 'info')}: {one.data.get('content', '')}")

        def reply(outputs: Any = None, error: dict[str, Any] | None = None, *, fault: bool = False) -> Reply:
            return Reply(outputs, error, fault, perf_counter() - began)

        try:
            handle = self._bridge.start(
                node, inputs, secrets=self._settings.secrets, on_progress=progress, on_update=update
            )
            try:
                result = handle.result(self._settings.deadline)
            except BaseException:
                if not handle.done():
                    handle.cancel()
                raise
            return reply({**result.outputs, **{key: f"{len(blob)} bytes" for key, blob in result.blobs.items()}})
        except RequestFailedError as error:
            stack = {"stack": error.traceback} if error.traceback else {}
            return reply(error={"message": error.error, **stack})
        except (TimeoutError, BridgeTimeoutError):
            return reply(error={"code": "TIMEOUT", "message": "the deadline has passed"}, fault=True)
        except BridgeError as error:
            return reply(error={"message": str(error)}, fault=True)

    def close(self) -> None:
        """End the worker."""
        self._bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def fault_text(fault: Mapping[str, str]) -> str:
    """Return what a load error of `discover` says, with the class of what node code has raised before it."""
    kind, text = fault["error_type"], fault["error"]
    return text if kind in ("LoadError", "DefinitionError") or text.startswith(kind) else f"{kind}: {text}"


def only_targets() -> dict[str, str | None]:
    """Return the variables that keep a worker to its targets: neither installed packs nor those of a variable."""
    points = find_entry_points()
    names = {name for point in points for name in (point.name, point.distribution) if name}
    return {DISABLED_VARIABLE: ",".join(sorted(names)), "OCTONODE_NODES": None, "NODETOOL_WORKER_NAMESPACES": None}


def _info_of_entry(entry: dict[str, Any]) -> Info:
    try:
        said = manifest_of(entry)
    except (KeyError, TypeError, ValueError):  # a foreign worker may describe its ports in any way
        said = {"inputs": {}, "outputs": {}}
    return Info(
        id=entry["node_type"],
        title=str(entry.get("title") or ""),
        description=str(entry.get("description") or ""),
        inputs=said["inputs"],
        outputs=said["outputs"],
        dynamic=bool(entry.get("supports_dynamic_inputs") or entry.get("is_dynamic")),
        raw=entry,
    )


def open_host(
    name: str,
    target: str,
    settings: Settings | None = None,
    *,
    mode: Literal["one-shot", "worker"] = "one-shot",
    on_stderr: Callable[[str], object] | None = None,
) -> OctonodeHost | NodetoolHost:
    """Return the host of a name for a target.

    Args:
        name: One of HOSTS.
        target: The target.
        settings: How calls are made.
        mode: For Octonode.
        on_stderr: For NodeTool, whose nodes speak in frames: called with each line of the worker's stderr.

    Raises:
        UsageError: The target can't be loaded, or holds no node.
    """
    if name == "octonode":
        return OctonodeHost(target, settings, mode=mode)
    host = NodetoolHost([target], settings, on_stderr=on_stderr)
    if not host.nodes:
        host.close()
        raise UsageError(f"{target} defines no node; put @node on a function of it")
    return host
