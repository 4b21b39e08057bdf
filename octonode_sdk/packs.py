"""Finding nodes: a target (a file or a dotted module) -> the nodes that it defines."""

from __future__ import annotations

import os
import sys

from .errors import DefinitionError, LoadError
from .nodes import all_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from .nodes import Node

__all__ = ["load", "nodes_of"]


def load(target: str) -> dict[str, Node]:
    """Import a target and return its nodes by id.

    A package whose `__init__` brings nodes along offers these, which lets its author keep slow modules away from the
    start; one that brings none is walked: every module in it is imported, save those whose name starts with `_`.

    Args:
        target: Path of a Python file, or dotted name of a module or package.

    Raises:
        LoadError: There is no such target, or it defines no node.
        DefinitionError: A node of it is ill-defined.
        BaseException: Whatever its own code raises.
    """
    is_file = target.endswith(".py") or os.sep in target or os.path.isfile(target)
    if is_file:
        return nodes_of(_import_file(target), target)
    module = _import_module(target)
    if hasattr(module, "__path__") and not any(_belongs(node, module) for node in all_nodes()):
        _walk(module)
    return nodes_of(module, target)


def nodes_of(module: ModuleType, target: str) -> dict[str, Node]:
    """Return the nodes of an imported module by id: its own, its submodules', and those that it names as its own.

    Raises:
        LoadError: It has none.
        DefinitionError: One can't be read, or two have one id.
    """
    found: dict[str, Node] = {}
    values = {id(value) for value in vars(module).values()}
    for node in all_nodes():
        if not _belongs(node, module, values):
            continue
        node.complete()
        other = found.get(node.id)
        if other is not None and not _same_place(other, node):
            raise DefinitionError(
                f"two nodes of {target} have this id: {_place(other)} and {_place(node)}",
                node=node.id,
                way_out="give one of them another: @node(id='...')",
            )
        found[node.id] = node
    if not found:
        raise LoadError(f"{target} defines no node; put @node on a function of it")
    return found


def _belongs(node: Node, module: ModuleType, values: set[int] | None = None) -> bool:
    """Tell whether a node is a module's: defined in it or inside it, or one of `values`, the ids of what it names."""
    if values is None:
        values = {id(value) for value in vars(module).values()}
    name = module.__name__
    return node.module == name or node.module.startswith(name + ".") or id(node.fn) in values


def _walk(package: ModuleType) -> None:
    """Import every public module of a package, and of the packages in it, in the order of their names."""
    from importlib import import_module
    from pkgutil import iter_modules

    for info in sorted(iter_modules(package.__path__), key=lambda info: info.name):
        if not info.name.startswith("_"):
            module = import_module(f"{package.__name__}.{info.name}")
            if info.ispkg:
                _walk(module)


def _place(node: Node) -> str:
    code = getattr(node.fn, "__code__", None)
    return f"{node.name} in {node.module}" + (f", line {code.co_firstlineno}" if code is not None else "")


def _same_place(one: Node, other: Node) -> bool:
    """Tell whether one definition replaces the other, as when a module runs twice."""
    place = (getattr(one.fn, "__module__", None), getattr(one.fn, "__qualname__", None))
    return place == (getattr(other.fn, "__module__", None), getattr(other.fn, "__qualname__", None)) and (
        getattr(one.fn, "__code__", one) is not getattr(other.fn, "__code__", other)
        and getattr(getattr(one.fn, "__code__", None), "co_firstlineno", 0)
        == getattr(getattr(other.fn, "__code__", None), "co_firstlineno", 1)
    )


def _import_module(name: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise LoadError(
                f"there is no module {error.name!r}; give the path of a file (such as ./nodes.py) or install the pack"
            ) from error
        raise


def _import_file(path: str) -> ModuleType:
    """Import a file under its stem, so that its functions pickle and a spawned child can import it as well.

    Its folder leads `sys.path`, as for `python file.py`. A file with the name of a standard or loaded module gets
    another name and its folder the last place, since it must not stand in for that module; a child that multiprocessing
    spawns does not find such a file.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    full = os.path.abspath(path)
    if os.path.isdir(full):
        name = os.path.basename(full)
        raise LoadError(f"{path!r} is a folder; give a file in it, or the dotted name of a package, such as {name!r}")
    if not os.path.isfile(full):
        raise LoadError(f"there is no file {path!r} (looked in {os.getcwd()}); check the path")
    folder, stem = os.path.dirname(full), os.path.splitext(os.path.basename(full))[0]
    # A dot would make the stem a module in a package; any other character does no harm, since nobody writes the import.
    taken = stem in sys.modules or stem in sys.stdlib_module_names or "." in stem
    name = f"_octonode_target_{''.join(c if c.isalnum() else '_' for c in stem)}" if taken else stem
    if taken:
        sys.path.append(folder)
    else:
        sys.path.insert(0, folder)
    spec = spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path!r} is no Python file; its name has to end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
