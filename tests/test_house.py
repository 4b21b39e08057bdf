"""House rules that can be read off the source: which way imports run, what is public, how a file looks."""

import ast
import importlib
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

#: Each package's modules from the lowest to the highest, without the package's name. A module imports only what
#: stands before it. A name covers the modules inside it that have no place of their own (`ipc` covers `ipc.runner`),
#: and those may import each other as long as there is no cycle. The package itself and `__main__` stand above
#: all and have no place here.
LAYERS: dict[str, tuple[str, ...]] = {
    "octonode_sdk": (
        "errors",
        "_quick",
        "field",
        "icons",
        "secrets",
        "ports",
        "hints",
        "metadata",
        "carry",
        "faults",
        "rich",
        "checks",
        "shapes",
        "values",
        "schema",
        "docstrings",
        "context",
        "options",
        "nodes",
        "manifest",
        "failures",
        "call",
        "lanes",
        "packs",
        "process",
        "ipc",
    ),
    "nodetool_worker": (
        "errors",
        "frames",
        "policy",
        "messages",
        "responses",
        "metadata",
        "entry_points",
        "inventory",
        "options",
        "pipes",
        "outbox",
        "capture",
        "calls",
        "bridge",
        "isolation",
        "worker",
        "stdio",
    ),
    "nodetool.worker": (),  # the name that NodeTool starts, and nothing else
    "onode": (
        "errors",
        "probe",  # what a child process runs; nobody imports it
        "fits",
        "words",
        "paper",
        "inputs",
        "containment",
        "entries",
        "diff",
        "diff_command",
        "children",
        "hosts",
        "describe",
        "call",
        "scan",
        "bench",
        "dev",
        "doctor",
        "app",
    ),
}

#: The other packages of ours that a package may import. Never the reverse.
BELOW = {
    "nodetool_worker": ("octonode_sdk",),
    "nodetool.worker": ("nodetool_worker",),
    "onode": ("octonode_sdk", "nodetool_worker"),
}

#: What may be imported from outside the standard library: the runtime dependencies, by import name.
DEPENDENCIES = {
    "PIL",
    "docstring_parser",
    "msgpack",
    "numpy",
    "psutil",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
}

#: What a package may import beside that: the extra that its users install.
EXTRAS = {"onode": {"rich", "typer", "watchfiles"}}

ALLOWED = sys.stdlib_module_names | DEPENDENCIES

#: A file longer than this holds two concepts.
LIMIT_LINES = 600

ROOT = Path(__file__).resolve().parent.parent
SOURCE_FOLDERS = (".ci", "bench", "docs", "scripts", "tests")  # beside the packages; those that this copy has
TEXT_SUFFIXES = {"", ".cfg", ".csv", ".json", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}


@dataclass(frozen=True)
class Module:
    """One module of a package, read but not imported."""

    package: str
    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_top(self) -> bool:
        """Whether it stands above the layers: the package itself and what `python -m` runs."""
        return self.name in (self.package, f"{self.package}.__main__")


@dataclass(frozen=True)
class Import:
    """What an import statement reaches.

    Attributes:
        module: The module, by absolute name.
        name: What is taken from the module, or None where that is the module itself.
        line: Where the statement stands.
    """

    module: str
    name: str | None
    line: int

    def __str__(self) -> str:
        return self.module if self.name is None else f"{self.module}.{self.name}"


def package_folder(package: str) -> Path:
    """Return the folder of a package under test: the checkout's, or the installed wheel's."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def modules() -> dict[str, Module]:
    """Read every module of the packages, by full name."""
    found = {}
    for package in LAYERS:
        folder = package_folder(package)
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
            found[name] = Module(package, name, path, ast.parse(path.read_text(encoding="utf-8"), str(path)))
    return found


@cache
def files() -> dict[str, Path]:
    """Return the text files of the project that this copy has, by the name that a reader knows them by."""
    found: dict[str, Path] = {}
    for package in LAYERS:
        folder = package_folder(package)
        found |= {str(Path(*package.split("."), path.relative_to(folder))): path for path in folder.rglob("*")}
    for name in SOURCE_FOLDERS:
        found |= {str(path.relative_to(ROOT)): path for path in (ROOT / name).rglob("*")}
    found |= {path.name: path for path in ROOT.iterdir() if not path.name.startswith(".")}
    return {
        name: path
        for name, path in sorted(found.items())
        if path.is_file() and path.suffix in TEXT_SUFFIXES and "__pycache__" not in path.parts
    }


def sources() -> dict[str, str]:
    """Return the text of each Python file of the project, by name."""
    return {name: path.read_text(encoding="utf-8") for name, path in files().items() if path.suffix == ".py"}


# What an import reaches


def is_type_checking(test: ast.expr) -> bool:
    """Return whether an `if` asks for TYPE_CHECKING, under whatever module's name."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def walk_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree as `ast.walk` does, without what only a type checker sees."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child.test):
            for statement in child.orelse:
                yield from walk_run_time(statement)
        else:
            yield from walk_run_time(child)


def absolute_name(module: Module, level: int, name: str) -> str:
    """Resolve the name of a relative import of `level` dots, 0 being an absolute one."""
    if level == 0:
        return name
    parts = module.name.split(".")
    base = parts[: len(parts) - level + (1 if module.is_package else 0)]
    return ".".join([*base, name] if name else base)


def imported_names(module: Module) -> Iterator[Import]:
    """Yield what a module imports at run time, at its top or inside functions, by absolute name.

    `from package import name` counts as `package.name` where that is a module, else as `package`.
    """
    for node in walk_run_time(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = absolute_name(module, node.level, node.module or "")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                is_module = inner in modules()
                yield Import(inner if is_module else base, None if is_module else alias.name, node.lineno)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func).rpartition(".")[2]
            target = node.args[0].value
            if called in ("__import__", "import_module") and isinstance(target, str):
                bare = target.lstrip(".")
                yield Import(absolute_name(module, len(target) - len(bare), bare), None, node.lineno)


def is_inside(name: str, package: str) -> bool:
    """Return whether a module is a package or stands in it."""
    return name == package or name.startswith(package + ".")


def layer(package: str, name: str) -> int | None:
    """Return the place of a module in its package's LAYERS: its own, or that of the nearest module around it."""
    short = name.removeprefix(package + ".")
    while short:
        if short in LAYERS[package]:
            return LAYERS[package].index(short)
        short = short.rpartition(".")[0]
    return None


def is_upward(importer: Module, imported: str) -> bool:
    """Return whether an import goes up in a package: to a higher layer, or to what has none (the package itself)."""
    if not is_inside(imported, importer.package):
        return False
    here, there = layer(importer.package, importer.name), layer(importer.package, imported)
    return here is not None and (there is None or there > here)


def reason_against(importer: Module, entry: Import) -> str | None:
    """Return why a module must not import what stands outside of its package, or None if it may."""
    root = entry.module.partition(".")[0]
    if is_inside(entry.module, importer.package) or root in ALLOWED | EXTRAS.get(importer.package, set()):
        return None
    if not any(is_inside(entry.module, below) for below in BELOW.get(importer.package, ())):
        return "is neither declared nor below"
    home = modules().get(entry.module)
    if home is None:
        return "does not exist"
    names = [*entry.module.split("."), *([] if entry.name is None else [entry.name])]
    if any(name.startswith("_") and not name.endswith("__") for name in names):
        return "is private"
    is_listed = entry.name is None or entry.name in (listed_names(home) or []) or entry.name.endswith("__")
    return None if is_listed else f"is not in the __all__ of {entry.module}"


def test_each_module_has_a_place_in_the_layers() -> None:
    """Our own choice: whoever adds a module says where it stands."""
    assert [
        name for name, module in modules().items() if not module.is_top and layer(module.package, name) is None
    ] == []


def test_modules_import_only_what_stands_below_them() -> None:
    """Imports run one way; moving one into a function does not cure it."""
    upward = [
        f"{name}, line {entry.line}: {entry}"
        for name, module in modules().items()
        for entry in imported_names(module)
        if is_upward(module, entry.module)
    ]
    assert upward == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Our own choice: this holds inside a layer as well."""
    graph = {
        name: {entry.module for entry in imported_names(module) if entry.module in modules()} - {name}
        for name, module in modules().items()
        if not module.is_top
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' <- '.join(error.args[1])}")


def test_modules_import_nothing_but_declared_dependencies_and_what_the_package_below_makes_public() -> None:
    """The packages need the declared dependencies and no others; octonode_sdk never imports nodetool_worker."""
    foreign = [
        f"{name}, line {entry.line}: {entry} {reason}"
        for name, module in modules().items()
        for entry in imported_names(module)
        if (reason := reason_against(module, entry))
    ]
    assert foreign == []


#: Where tests of a package stand; pages in docs/ may show all of them.
TEST_FOLDERS = {"nodetool_worker": ("tests/nodetool/", "tests/docs/"), "onode": ("tests/onode/", "tests/docs/")}


def test_tests_that_import_a_package_stand_in_the_folder_that_mirrors_it() -> None:
    """Our own choice: tests/nodetool/ is nodetool_worker's, and tests/onode/ is onode's."""
    misplaced = [
        name
        for name, text in sources().items()
        for package, folders in TEST_FOLDERS.items()
        if name.startswith("tests/") and not name.startswith(folders)
        for entry in imported_names(Module("tests", name, files()[name], ast.parse(text, name)))
        if is_inside(entry.module, package)
    ]
    assert misplaced == []


# What is public


def assigned_names(target: ast.expr) -> Iterator[str]:
    """Yield the names that an assignment to `target` defines."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from assigned_names(element)


def defined_names(body: list[ast.stmt], *, run_time: bool = True) -> Iterator[tuple[str, bool]]:
    """Yield each name that top-level statements define, save imports, and whether it is there at run time."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name, run_time
            case ast.Assign():
                for target in statement.targets:
                    for name in assigned_names(target):
                        yield name, run_time
            case ast.AnnAssign():
                for name in assigned_names(statement.target):
                    yield name, run_time
            case ast.If():
                inner = run_time and not is_type_checking(statement.test)
                yield from defined_names(statement.body, run_time=inner)
                yield from defined_names(statement.orelse, run_time=run_time)
            case ast.Try():
                handled = [handler.body for handler in statement.handlers]
                for block in (statement.body, *handled, statement.orelse):
                    yield from defined_names(block, run_time=run_time)


def listed_names(module: Module) -> list[str] | None:
    """Return the module's `__all__`, or None where it has none."""
    for statement in module.tree.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(statement, ast.AnnAssign):
            target = statement.target
        if isinstance(target, ast.Name) and target.id == "__all__":
            assert isinstance(statement, ast.Assign | ast.AnnAssign)
            assert statement.value is not None
            value = ast.literal_eval(statement.value)
            assert isinstance(value, list | tuple), "__all__ is a list or tuple of texts"
            return [str(name) for name in value]
    return None


def faults_of_names(module: Module) -> Iterator[str]:
    """Yield what is wrong with the names of a module that is no package."""
    listed = listed_names(module)
    if listed is None:
        yield f"{module.name} has no __all__"
        return
    defined = dict(defined_names(module.tree.body))
    public = {name for name, run_time in defined.items() if run_time and not name.startswith("_")}
    for name in sorted(public - {"TYPE_CHECKING"} - set(listed)):
        yield f"{module.name}.{name} is neither in __all__ nor private by name"
    for name in sorted(set(listed) - set(defined)):
        yield f"{module.name}.{name} is in __all__ and not defined there"
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{module.name}.{name} is twice in __all__"


def test_public_names_of_a_module_are_those_it_lists() -> None:
    """Public is what `__all__` lists; the rest starts with `_`."""
    rooms = [module for module in modules().values() if not module.is_package and not module.is_top]
    assert [fault for module in rooms for fault in faults_of_names(module)] == []


def re_exported_names(module: Module) -> dict[str, str]:
    """Return the public names that a package takes from its modules, each with its home. Lazy ones count."""
    return {
        alias.asname or alias.name: absolute_name(module, node.level, node.module or "")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        and is_inside(absolute_name(module, node.level, node.module or ""), module.package)
        for alias in node.names
        if not (alias.asname or alias.name).startswith("_")
    }


PACKAGES = [name for name, module in modules().items() if module.is_package]


@pytest.mark.parametrize("name", PACKAGES)
def test_package_lists_what_it_re_exports_and_type_checkers_see_the_same(name: str) -> None:
    """Public is what `__all__` lists and the package re-exports."""
    module = modules()[name]
    listed = set(listed_names(module) or []) - {key for key, _ in defined_names(module.tree.body)}
    homes = re_exported_names(module)
    assert listed == set(homes)
    package = importlib.import_module(name)
    for key, home in homes.items():
        assert key in (listed_names(modules()[home]) or []), f"{key} is not in the __all__ of {home}"
        value = getattr(importlib.import_module(home), key)
        assert getattr(package, key) is value, f"{key} is not that of {home}"


@pytest.mark.parametrize("name", PACKAGES)
def test_no_name_of_a_package_is_hidden_by_a_module_of_the_same_name(name: str, interpreter: str) -> None:
    """Our own choice: loading a module sets its name on the package, and a lazy `__getattr__` is not asked.

    In a process of its own, since the order of imports decides.
    """
    inner = [other for other in modules() if other.startswith(name + ".") and not other.endswith(".__main__")]
    code = (
        "import importlib, sys, types\n"
        "package = [importlib.import_module(name) for name in sys.argv[1:]][0]\n"
        "listed = getattr(package, '__all__', [])\n"
        "print([key for key in listed if isinstance(getattr(package, key), types.ModuleType)])"
    )
    command = [interpreter, "-c", code, name, *inner]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=60)
    assert run.stdout.strip() == "[]"


# How a file looks


def lines_that_match(pattern: re.Pattern[str]) -> list[str]:
    """Return the place of each line of the project's files in which `pattern` is found."""
    return [
        f"{name}, line {number}"
        for name, path in files().items()
        for number, line in enumerate(path.read_bytes().decode("utf-8", "surrogateescape").splitlines(), 1)
        if pattern.search(line)
    ]


def test_each_source_file_starts_with_a_docstring() -> None:
    """A reader learns from its first lines what a module is for."""
    trees = {name: ast.parse(text, name) for name, text in sources().items()}
    assert [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)] == []


def test_each_source_file_is_short_enough() -> None:
    """A file over the limit is two rooms without a wall."""
    lengths = {name: len(text.splitlines()) for name, text in sources().items()}
    assert {name: length for name, length in lengths.items() if length > LIMIT_LINES} == {}


def test_each_suppression_names_its_rule_and_its_reason() -> None:
    """Style: `# type: ignore[misc]  # stub lacks the overload`."""
    bare = re.compile(r"#\s*(type:\s*ignore|noqa)(?!(\[[\w, -]+\]|:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)\s+\S)")
    comments = [
        (f"{name}, line {token.start[0]}", token.string)
        for name, text in sources().items()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    assert [place for place, comment in comments if bare.search(comment)] == []


def test_no_file_has_an_unfinished_mark() -> None:
    """What is missing is in an issue, not in the source."""
    assert lines_that_match(re.compile(r"\b(TO(?:DO)|FIX(?:ME))\b")) == []


def test_no_file_names_a_folder_of_the_machine_it_was_written_on() -> None:
    """A path that exists on one machine only is wrong on all others."""
    private = {f"{Path.home()}/", f"{sys.base_prefix}/"} - {"//", "/usr/", "/usr/local/"}
    if len(ROOT.parts) > 2:  # a checkout right below the root has a name that any text may contain
        private.add(f"{ROOT}/")
    assert lines_that_match(re.compile("|".join(map(re.escape, sorted(private))))) == []
