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

    Args:
        target: Path of a Python file, or dotted name of a module or package.

    Raises:
        LoadError: There is no such target, or it defines no node.
        DefinitionError: A node of it is ill-defined.
        BaseException: Whatever its own code raises.
    """
    is_file = target.endswith(".py") or os.sep in target or os.path.isfile(target)
    module = _import_file(target) if is_file else _import_module(target)
    return nodes_of(module, target)


def nodes_of(module: ModuleType, target: str) -> dict[str, Node]:
    """Return the nodes of an imported module by id: its own, its submodules', and those that it names as its own.

    Raises:
        LoadError: It has none.
        DefinitionError: One can't be read, or two have one id.
    """
    name, inside = module.__name__, module.__name__ + "."
    values = {id(value) for value in vars(module).values()}
    found: dict[str, Node] = {}
    for node in all_nodes():
        if node.module != name and not node.module.startswith(inside) and id(node.fn) not in values:
            continue
        node.complete()
        other = found.get(node.id)
        if other is not None and not _same_place(other, node):
            raise DefinitionError(
                f"two nodes of {target} have this id, in {other.module} and {node.module}",
                node=node.id,
                way_out="give one of them another: @node(id='...')",
            )
        found[node.id] = node
    if not found:
        raise LoadError(f"{target} defines no node; put @node on a function of it")
    return found


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
    another name and its folder the last place, since it must not stand in for that module.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise LoadError(f"there is no file {path!r} (looked in {os.getcwd()}); check the path")
    folder, stem = os.path.dirname(full), os.path.splitext(os.path.basename(full))[0]
    taken = stem in sys.modules or stem in sys.stdlib_module_names or not stem.isidentifier()
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
        del sys.modules[name]
        raise
    return module
