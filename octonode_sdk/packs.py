"""Finding nodes: a target (a file or a dotted module) -> the nodes that it defines."""

from __future__ import annotations

import os
import sys

from .errors import DefinitionError, LoadError
from .nodes import all_nodes, forget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence
    from types import ModuleType

    from .nodes import Node

__all__ = [
    "import_file",
    "import_module",
    "is_file",
    "load",
    "mask_secrets_of",
    "nodes_in",
    "nodes_of",
    "place_of",
    "replaces",
    "submodules",
]


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
    if is_file(target):
        return nodes_of(import_file(target), target)
    module = import_module(target)
    if hasattr(module, "__path__") and not nodes_in(module):
        _walk(module)
    return nodes_of(module, target)


def is_file(target: str) -> bool:
    """Tell whether a target is the path of a file, there or not, and no dotted name."""
    return target.endswith(".py") or os.sep in target or os.path.isfile(target)


def nodes_of(module: ModuleType, target: str) -> dict[str, Node]:
    """Return the nodes of an imported module by id: its own, its submodules', and those that it names as its own.

    Raises:
        LoadError: It has none.
        DefinitionError: One can't be read, or two have one id.
    """
    found: dict[str, Node] = {}
    for node in nodes_in(module):
        node.complete()
        other = found.get(node.id)
        if other is not None and not replaces(node, other):
            raise DefinitionError(
                f"two nodes of {target} have this id: {place_of(other)} and {place_of(node)}",
                node=node.id,
                way_out="give one of them another: @node(id='...')",
            )
        found[node.id] = node
    if not found:
        raise LoadError(f"{target} defines no node; put @node on a function of it")
    return found


def nodes_in(module: ModuleType) -> list[Node]:
    """Return a module's nodes in the order of definition: defined in it, inside of it, or among what it names."""
    name, values = module.__name__, {id(value) for value in vars(module).values()}
    return [
        node
        for node in all_nodes()
        if node.module == name or node.module.startswith(name + ".") or id(node.fn) in values
    ]


def _walk(package: ModuleType) -> None:
    """Import every public module of a package, and of the packages in it, in the order of their names."""
    for name, is_package in submodules(package):
        module = import_module(name)
        if is_package:
            _walk(module)


def submodules(package: ModuleType) -> list[tuple[str, bool]]:
    """Return the public modules right inside a package, in the order of their names, without importing them.

    Returns:
        Pairs of the full name and whether it is a package. A folder without `__init__` is none.
    """
    found: dict[str, bool] = {}
    for name, is_package in _listing(list(package.__path__)):
        if not name.startswith("_"):
            found.setdefault(name, is_package)
    return [(f"{package.__name__}.{name}", found[name]) for name in sorted(found)]


def _listing(paths: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield what `pkgutil.iter_modules` yields, which loads `typing` and `inspect`; plain folders need neither."""
    if not all(map(_has_standard_finder, paths)):
        from pkgutil import iter_modules

        for info in iter_modules(paths):
            yield info.name, info.ispkg
        return
    from importlib.machinery import all_suffixes

    suffixes = sorted(all_suffixes(), key=len, reverse=True)
    for path in paths:
        for entry in _names_in(path):
            name = _stem(entry, suffixes)
            if name:
                if name != "__init__" and "." not in name:
                    yield name, False
            elif "." not in entry and any(
                _stem(one, suffixes) == "__init__" for one in _names_in(os.path.join(path, entry))
            ):
                yield entry, True


def _has_standard_finder(path: str) -> bool:
    """Tell whether the modules below a path are found by the finder for folders, and by nobody's own."""
    from importlib.machinery import FileFinder

    finder: object = sys.path_importer_cache.get(path)
    if finder is None:
        for hook in sys.path_hooks:
            try:
                finder = hook(path)
            except ImportError:
                continue
            break
    return type(finder) is FileFinder


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # a package comes before the module of the same name, as for `import`
    except OSError:  # no folder, or one that may not be read, in which `import` finds nothing either
        return []


def _stem(file: str, suffixes: Sequence[str]) -> str | None:
    """Return the name of a file's module, or None where it can't hold one."""
    return next((file.removesuffix(suffix) for suffix in suffixes if file.endswith(suffix)), None)


def place_of(node: Node) -> str:
    """Return where a node is defined, for people: `greet in acme.texts, line 4`."""
    code = getattr(node.fn, "__code__", None)
    return f"{node.name} in {node.module}" + (f", line {code.co_firstlineno}" if code is not None else "")


def replaces(node: Node, other: Node) -> bool:
    """Tell whether a definition replaces another, earlier one, as when a module runs twice."""
    place = (getattr(other.fn, "__module__", None), getattr(other.fn, "__qualname__", None))
    return place == (getattr(node.fn, "__module__", None), getattr(node.fn, "__qualname__", None)) and (
        getattr(other.fn, "__code__", other) is not getattr(node.fn, "__code__", node)
        and getattr(getattr(other.fn, "__code__", None), "co_firstlineno", 0)
        == getattr(getattr(node.fn, "__code__", None), "co_firstlineno", 1)
    )


def import_module(name: str) -> ModuleType:
    """Import a module by its dotted name. One that fails leaves neither nodes nor half a module, so it can be retried.

    Raises:
        LoadError: There is no such module.
        BaseException: Whatever its own code raises.
    """
    from importlib import import_module

    if not all(name.split(".")):
        raise LoadError(f"{name!r} is neither the path of a file nor the dotted name of a module, such as 'acme.nodes'")
    known = all_nodes()
    try:
        return import_module(name)
    except BaseException as error:
        _take_back(name, known)
        lacks = error.name if isinstance(error, ModuleNotFoundError) else None
        if isinstance(lacks, str) and (name == lacks or name.startswith(lacks + ".")):
            raise LoadError(
                f"there is no module {lacks!r}; give the path of a file (such as ./nodes.py) or install the pack"
            ) from error
        raise


def import_file(path: str, *, reserved: Container[str] = ()) -> ModuleType:
    """Import a file under its stem, so that its functions pickle and a spawned child can import it as well.

    Its folder leads `sys.path`, as for `python file.py`. A file with the name of a standard or loaded module gets
    another name and its folder the last place, since it must not stand in for that module; a child that multiprocessing
    spawns does not find such a file. A file that fails leaves nothing, so it can be retried.

    Args:
        path: Of the file.
        reserved: Names of modules that are not loaded yet, and for which the file must not stand in either.

    Raises:
        LoadError: There is no such file, or it is no Python file.
        BaseException: Whatever its own code raises.
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
    taken = stem in sys.modules or stem in sys.stdlib_module_names or stem in reserved or "." in stem
    name = _free_name(stem) if taken else stem
    spec = spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path!r} is no Python file; its name has to end in .py")
    adds = not taken or folder not in sys.path
    if adds:
        sys.path.insert(len(sys.path) if taken else 0, folder)
    module = module_from_spec(spec)
    known = all_nodes()
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        _take_back(name, known)
        if adds and folder in sys.path:
            sys.path.remove(folder)
        raise
    return module


def _free_name(stem: str) -> str:
    """Return a module name made of a stem that no loaded module has."""
    base = name = f"_octonode_target_{''.join(c if c.isalnum() else '_' for c in stem)}"
    number = 1
    while name in sys.modules:
        number += 1
        name = f"{base}_{number}"
    return name


def _take_back(name: str, known: list[Node]) -> None:
    """Undo what a module that failed has left: modules inside of what is gone, and nodes of what is gone.

    The import system takes out the module itself. What it had imported whole stays, its helpers among it: they are in
    order, and others may hold them already.

    Args:
        name: Of the module.
        known: The nodes that there were before.
    """
    root = name.partition(".")[0] + "."
    for inner in sorted(one for one in list(sys.modules) if one.startswith(root)):
        if inner.rpartition(".")[0] not in sys.modules:
            sys.modules.pop(inner, None)
    before = set(map(id, known))
    new = [node for node in all_nodes() if id(node) not in before]
    gone = [node for node in new if _is_gone(node.module) or _is_gone(getattr(node.fn, "__module__", None))]
    mask_secrets_of(gone)  # the error of their module may hold what they have declared, and nobody can ask them later
    forget(gone, known)


def mask_secrets_of(nodes: Iterable[Node]) -> None:
    """Mask what the environment holds of the secrets that nodes declare, before an error at import is told (ERR-21)."""
    names = [secret.name for node in nodes for secret in node.secrets]
    if names:
        from .secrets import read_environment, remember_secrets

        remember_secrets(read_environment(names).values())


def _is_gone(module: object) -> bool:
    return isinstance(module, str) and module not in sys.modules
