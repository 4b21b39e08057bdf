"""The nodes that the worker serves: those of its targets and of the installed packs, and what could not be loaded.

Whatever a module does at its import, or an annotation when it is read, costs that module or node alone and becomes a
load error, a map of four texts (DSC-7). Its `phase` is one of::

    import       a module fails, or is not there, or has no node
    metadata     a node is ill-defined, or can't be described
    clash        a second node with a node type that is taken (FND-13)
    entry_point  an entry point can't be read, or two have one name
    filter       a namespace was asked for that no node has
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock

from octonode_sdk.errors import DefinitionError, LoadError
from octonode_sdk.failures import scrub
from octonode_sdk.nodes import all_nodes, hand_faults_to
from octonode_sdk.packs import (
    import_file,
    import_module,
    is_file,
    mask_secrets_of,
    nodes_in,
    place_of,
    replaces,
    submodules,
)

from .entry_points import canonical_name, find_entry_points
from .metadata import entry_of, node_type_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType, ModuleType
    from typing import Any, TypeVar

    from octonode_sdk.nodes import Node

    from .entry_points import EntryPoint

    T = TypeVar("T")

__all__ = ["DISABLED_VARIABLE", "Inventory", "Listed", "split_names", "split_targets", "take_inventory"]

#: Names of packs, separated by commas, that are not to be imported: those of entry points or of distributions.
DISABLED_VARIABLE = "OCTONODE_DISABLED_PACKS"

#: Longest text of a load error, in characters: a compiler's whole output may stand in it.
_TEXT_LIMIT = 2000

#: Longest place in it. A place is of a few names, and what is longer helps nobody.
_PLACE_LIMIT = 500


class Listed:
    """A node that is served.

    Attributes:
        node: The node.
        namespace: That of the decorator, or else of the pack, or else of the file or module.
        module: Full dotted name of the module in which it is defined.
        origin: What led to it, for people: the target, or the entry point and its distribution.
    """

    __slots__ = ("module", "namespace", "node", "origin")

    def __init__(self, node: Node, namespace: str, module: str, origin: str = "") -> None:
        self.node, self.namespace, self.module, self.origin = node, namespace, module, origin


class Inventory:
    """What was found. All methods may be called from any thread.

    A node's entry is made when it is first asked for. One that can't be made takes its node out of `nodes`, for it must
    not be executed either (DSC-3), and adds to `load_errors` (DSC-4); so `entries()` comes before a look at those two.

    Args:
        nodes: By node type, in the order in which they were found.
        load_errors: Maps of `module`, `phase`, `error_type` and `error`.
        namespaces: The filter, or else the first segments of the node types, sorted (DSC-10).
        tell: Called with each load error that comes later.
    """

    def __init__(
        self,
        nodes: dict[str, Listed],
        load_errors: list[dict[str, str]],
        namespaces: list[str],
        tell: Callable[[dict[str, str]], None] | None = None,
    ) -> None:
        self.nodes, self.load_errors, self.namespaces = nodes, load_errors, namespaces
        self._tell = tell
        self._entries: dict[str, dict[str, Any]] = {}
        self._lock = allocate_lock()

    def find(self, node_type: str) -> Listed | None:
        """Return the node of a type, or None where there is none that can be described."""
        if node_type not in self._entries:
            with self._lock:
                self._make(node_type)
        return self.nodes.get(node_type)

    def entries(self) -> list[dict[str, Any]]:
        """Return what `discover` reports of each node, in the order of `nodes`. The maps are shared: don't change them.

        Each is made once, on first use.
        """
        with self._lock:
            for node_type in list(self.nodes):
                self._make(node_type)
            return [self._entries[node_type] for node_type in self.nodes]

    def pack_entries(self, pack: Callable[[dict[str, Any]], T]) -> list[T]:
        """Return each entry packed by itself, in the order of `nodes`.

        One that can't be packed goes the way of one that can't be made.

        Args:
            pack: Makes the wire's form of one entry; may raise anything.
        """
        packed: list[T] = []
        self.entries()
        with self._lock:
            for node_type in list(self.nodes):
                try:
                    packed.append(pack(self._entries[node_type]))
                except BaseException as error:  # noqa: BLE001  # what an author's value does to the packer costs its node
                    self._drop(node_type, error)
        return packed

    def _make(self, node_type: str) -> None:
        listed = self.nodes.get(node_type)
        if listed is None or node_type in self._entries:
            return
        try:
            self._entries[node_type] = entry_of(listed.node, listed.namespace)
        except BaseException as error:  # noqa: BLE001  # defaults and types of the author's run code of theirs
            self._drop(node_type, error)

    def _drop(self, node_type: str, error: BaseException) -> None:
        listed = self.nodes[node_type]
        self.nodes = {key: one for key, one in self.nodes.items() if key != node_type}  # others may be reading it
        fault = _node_error(listed.node, node_type, error)
        self.load_errors.append(fault)
        if self._tell is not None:
            self._tell(fault)


def split_targets(text: str) -> list[str]:
    """Return the targets of `OCTONODE_NODES` (FND-3): separated as in PATH, so no drive's colon divides them."""
    return [one.strip() for one in text.split(os.pathsep) if one.strip()]


def split_names(text: str) -> list[str]:
    """Return the parts of a list with commas, trimmed, without empty ones."""
    return [one.strip() for one in text.split(",") if one.strip()]


def take_inventory(
    targets: Iterable[str],
    namespaces: Iterable[str],
    *,
    packs: bool = True,
    disabled: Iterable[str] | None = None,
    tell: Callable[[dict[str, str]], None] | None = None,
    importing: Callable[[str], None] | None = None,
) -> Inventory:
    """Import the targets and packs and return their nodes. Raises nothing that their code raises.

    Targets come first, as given; then the entry points of the group `octonode.nodes`, by name, then by distribution.
    A package whose `__init__` brings nodes along offers these; one that brings none is walked, every module for itself.
    A node's namespace is the decorator's, or else the name of the entry point whose module is nearest above the node,
    so that it is the same for whoever reaches it, or else the file's stem or the last part of the module's name.

    The filter looks at node types, which are known once a module is imported: a decorator may name any namespace. So
    the packs outside of a filter are imported as well; those that are disabled are not.

    Args:
        targets: Paths of files, and dotted names of modules and packages.
        namespaces: Serve only node types with one of these as first segment; none for all.
        packs: Whether to serve the installed packs too.
        disabled: Entry points or distributions to pass over; those of `OCTONODE_DISABLED_PACKS` unless given.
        tell: Called with each load error as it arises.
        importing: Called with the name of each module before it is imported; an import may hang.
    """
    points = find_entry_points()
    if disabled is None:
        disabled = split_names(os.environ.get(DISABLED_VARIABLE, ""))
    taker = _Taker([one.strip() for one in namespaces if one.strip()], points, tell, importing)
    hand_faults_to(taker.take_fault)
    try:
        for target in targets:
            taker.take_target(target)
        if packs:
            taker.take_packs(points, set(disabled))
    finally:
        hand_faults_to(None)
    return taker.finish()


class _Taker:
    """Takes one inventory.

    Args:
        namespaces: The filter.
        points: All entry points, the disabled ones too, since a node keeps its namespace.
        tell, importing: See `take_inventory`.
    """

    def __init__(
        self,
        namespaces: list[str],
        points: list[EntryPoint],
        tell: Callable[[dict[str, str]], None] | None,
        importing: Callable[[str], None] | None,
    ) -> None:
        self._filter = list(dict.fromkeys(namespaces))
        self._tell, self._importing = tell, importing
        #: Namespaces by module; of two names for one module the first counts.
        self._packs: dict[str, str] = {}
        for point in points:
            if point.fault is None:
                self._packs.setdefault(point.value, point.name)
        #: A file with the name of a pack's package would keep the pack from being imported.
        self._reserved = {module.partition(".")[0] for module in self._packs}
        self._nodes: dict[str, Listed] = {}
        self._errors: list[dict[str, str]] = []
        self._segments: set[str] = set()
        self._seen: set[Node] = set()
        self._files: set[str] = set()
        self._failed: set[str] = set()
        #: Whether the `__init__` of a package brought nodes along, where nothing else of it had been imported.
        self._brings: dict[str, bool] = {}

    def finish(self) -> Inventory:
        """Return what was taken, be it nothing (FND-16)."""
        there = {node_type.partition(".")[0] for node_type in self._nodes}
        for name in self._filter:
            if name not in there:
                others = f"there are {', '.join(sorted(self._segments))}" if self._segments else "there are no nodes"
                # FND-21
                self._add(name, "filter", LoadError(f"no node has the namespace {name!r}; {others}"))
        return Inventory(self._nodes, self._errors, self._filter or sorted(there), self._tell)

    def take_fault(self, module: str, error: DefinitionError) -> None:
        """Note a node that is ill-defined; the others of its module stay (FND-12)."""
        self._add(module, "metadata", error)

    def take_target(self, target: str) -> None:
        """Take the nodes of a file, or of a module by its dotted name (FND-2)."""
        if is_file(target):
            self._take_file(target)
        else:
            self._take_module(target, target.rpartition(".")[2], "")

    def take_packs(self, points: list[EntryPoint], disabled: set[str]) -> None:
        """Take the nodes of the entry points (FND-4), save those whose own or distribution's name is disabled (FND-20).

        Two entry points of one name are both taken, and told of where they lead to different modules.
        """
        canonical = {canonical_name(name) for name in disabled}
        points = [one for one in points if one.name not in disabled and one.distribution not in canonical]
        first: dict[str, EntryPoint] = {}
        for point in points:
            place = f"distribution {point.distribution!r}"
            if point.fault is not None:
                name = point.value or point.name or point.distribution
                self._add(name, "entry_point", LoadError(f"{place}: {point.fault}; the rest of the packs is loaded"))
                continue
            other = first.setdefault(point.name, point)
            if other.value != point.value:
                problem = (
                    f"the distributions {other.distribution!r} ({other.value}) and {point.distribution!r} "
                    f"({point.value}) both have an entry point {point.name!r}; of two nodes with one type that of "
                    f"{other.distribution!r} is served; uninstall one of them, or disable it with {DISABLED_VARIABLE}"
                )
                self._add(point.value, "entry_point", LoadError(problem))
            self._take_module(point.value, point.name, f"entry point {point.name!r} of {place}")

    # Modules

    def _take_file(self, path: str) -> None:
        full = os.path.realpath(path)
        if full in self._files:
            return
        self._files.add(full)
        stem = os.path.splitext(os.path.basename(path))[0]
        origin = f"target {path}"
        before = len(self._errors)
        try:
            if self._importing is not None:
                self._importing(path)
            module = import_file(path, reserved=self._reserved)
            found = nodes_in(module)
        except BaseException as error:  # noqa: BLE001  # a module may exit or interrupt: that is its failure (FND-8)
            if isinstance(error, LoadError):  # it has no module
                self._add(path, "import", error)
            else:
                self._add(stem, "import", error, origin)
            return
        if not found and len(self._errors) == before:
            self._add(stem, "import", LoadError(f"{path} defines no node; put @node on a function of it"))
        for node in found:
            self._list(node, stem, origin)

    def _take_module(self, name: str, namespace: str, origin: str) -> None:
        before = len(self._errors)
        try:
            module = self._bring_with_parents(name, origin)
            if module is None:
                return
            if hasattr(module, "__path__") and not self._brings_nodes(name, module):
                self._walk(module)
            found = nodes_in(module)
        except BaseException as error:  # noqa: BLE001  # a module may put anything in its own place
            self._add(name, "import", error, origin)
            return
        for node in found:
            self._list(node, namespace, origin or f"target {name}")
        is_told = len(self._errors) > before or any(one.startswith(name + ".") for one in self._failed)
        if not found and not is_told:
            self._add(name, "import", LoadError(f"{name} defines no node; put @node on a function of it"), origin)

    def _bring_with_parents(self, name: str, origin: str) -> ModuleType | None:
        """Import the packages above a module, and it: only right after its import is it known what a package brings."""
        module = None
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            inner = ".".join(parts[:end])
            is_new = inner not in sys.modules
            if not is_new and end < len(parts):
                continue
            module = self._bring(inner if all(parts) else name, origin, asked=name)
            if module is None:
                return None
            if is_new and hasattr(module, "__path__"):
                self._brings[inner] = bool(nodes_in(module))
        return module

    def _bring(self, name: str, origin: str = "", *, asked: str = "") -> ModuleType | None:
        """Import a module for itself; return None where it fails, now or before."""
        if name in self._failed:
            return None
        if self._importing is not None:
            self._importing(name)
        try:
            return import_module(name)
        except BaseException as error:  # noqa: BLE001  # a module may exit or interrupt: that is its failure (FND-8)
            # What is not there at all has no module of its own; the name that was asked for says more (FND-10).
            at_fault = asked if asked and isinstance(error, LoadError) else name
            self._failed.add(at_fault)
            self._add(at_fault, "import", error, origin)
            return None

    def _brings_nodes(self, name: str, package: ModuleType) -> bool:
        """Tell whether a package's `__init__` brings nodes along.

        Where others had imported it, its nodes may be there because of them; what it names itself is sure.
        """
        if name in self._brings:
            return self._brings[name]
        values = {id(value) for value in vars(package).values()}
        return any(node.module == name or id(node.fn) in values for node in nodes_in(package))

    def _walk(self, package: ModuleType) -> None:
        """Import every public module of a package, each for itself, in the order of their names (FND-9)."""
        try:
            inside = submodules(package)
        except BaseException as error:  # noqa: BLE001  # a package may set its path to anything
            self._add(package.__name__, "import", error)
            return
        for name, is_package in inside:
            module = self._bring(name)
            if module is not None and is_package:
                self._walk(module)

    # Nodes

    def _list(self, node: Node, namespace: str, origin: str) -> None:
        """List a node under its type, if it is new, wanted, in order, and the type is free."""
        if node in self._seen:  # FND-14
            return
        self._seen.add(node)
        node_type = None
        try:
            own = self._namespace_of(node, namespace)
            node_type = node_type_of(node, own)
            segment = node_type.partition(".")[0]
            self._segments.add(segment)
            if self._filter and segment not in self._filter:  # FND-7
                return
            node.complete()
        except BaseException as error:  # noqa: BLE001  # hints run code of the author's when they are read (FND-12)
            self._keep(_node_error(node, node_type, error))
            return
        other = self._nodes.get(node_type)
        if other is None or replaces(node, other.node):
            self._nodes[node_type] = Listed(node, own, node.module, origin)
        elif not _is_same_source(node, other.node):  # FND-13
            problem = (
                f"two nodes have the type {node_type!r}: {place_of(other.node)} ({other.origin}), which is served, and "
                f"{place_of(node)} ({origin}); give one of them another id or namespace: @node(id='...')"
            )
            self._add(node.module, "clash", DefinitionError(problem))

    def _namespace_of(self, node: Node, fallback: str) -> str:  # FND-5
        if node.namespace is not None:
            return node.namespace
        module = node.module
        while module:
            if module in self._packs:
                return self._packs[module]
            module = module.rpartition(".")[0]
        return fallback

    # Errors

    def _add(self, module: str, phase: str, error: BaseException, origin: str = "") -> None:
        self._keep(_load_error(module, phase, error, [_line_of(error, module), origin]))

    def _keep(self, fault: dict[str, str]) -> None:
        self._errors.append(fault)
        if self._tell is not None:
            self._tell(fault)


def _is_same_source(node: Node, other: Node) -> bool:
    """Tell whether two nodes are one piece of source that was read under two module names, as a file and installed."""
    mine: CodeType | None = getattr(node.fn, "__code__", None)
    its: CodeType | None = getattr(other.fn, "__code__", None)
    if mine is None or its is None or node.module == other.module:
        return False
    return os.path.realpath(mine.co_filename) == os.path.realpath(its.co_filename)


def _node_error(node: Node, node_type: str | None, error: BaseException) -> dict[str, str]:
    """Return the load error of a node, which names the node and its function (FND-12)."""
    try:
        place = f"node {node_type or node.id!r}, {place_of(node)}"
    except BaseException:  # noqa: BLE001  # an object that was made a node may have attributes that fail
        place = f"node {node.id!r}"
    return _load_error(node.module, "metadata", error, [place])


def _load_error(module: str, phase: str, error: BaseException, places: list[str]) -> dict[str, str]:
    """Return a load error: the exception's text and the places, without secrets and not too long (FND-10, FND-11)."""
    mask_secrets_of(all_nodes())
    kind = type(error).__name__
    try:
        text = str.__str__(str(error)).strip() or kind
    except BaseException as broken:  # noqa: BLE001  # the author's __str__ may fail, exit or interrupt
        text = f"<its text can't be made: {type(broken).__name__}>"
    place = "; ".join(filter(None, places))
    place = f" ({_shorten(place, _PLACE_LIMIT)})" if place else ""
    # The secrets first: of half a secret nothing would be found.
    return {
        "module": _shorten(module, _PLACE_LIMIT),
        "phase": phase,
        "error_type": _shorten(kind, _PLACE_LIMIT),
        "error": _shorten(text, _TEXT_LIMIT - len(place)) + place,
    }


def _shorten(text: str, limit: int) -> str:
    text = scrub(text)
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def _line_of(error: BaseException, module: str) -> str:
    """Return the last line of a module's package that an exception passed, for people, or nothing.

    What other packages did below it is the library's affair; its own line is what its author can change.
    """
    root, place = module.partition(".")[0], ""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__")
        if isinstance(name, str) and name.partition(".")[0] == root:
            place = f"{name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place
