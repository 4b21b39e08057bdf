"""How `python -m octonode_sdk` finds its own modules: quickly, and under the rules of the standard machinery.

In processes of their own, on a copy of the package that each test may spoil.
"""

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ipc.support import PATIENCE, Outcome, clean_environment, invoke, serve_command, to_bytes, write_nodes

#: What a node sees of the package around it. What is loaded before its file is what the start needs.
HEAD = """
import inspect, sys, traceback
AT_START = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "octonode_sdk"}
META_PATH = [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path]
from octonode_sdk import node
from typing import Any

LINES = AT_START["octonode_sdk.ipc.lines"]
"""

REPORT = """
    @node
    def report() -> dict[str, Any]:
        try:
            AT_START["octonode_sdk.lanes"].run_call(None, {}, None, None)
        except AttributeError:
            trace = traceback.format_exc()
        return {
            "stamp": getattr(LINES, "STAMP", None),
            "doc": LINES.__doc__,
            "trace": trace,
            "meta_path": META_PATH,
            "source": inspect.getsource(LINES),
            "modules": {
                name: {
                    "loader": f"{type(module.__loader__).__module__}.{type(module.__loader__).__name__}",
                    "same": module.__loader__ is module.__spec__.loader,
                    "package": module.__package__,
                    "file": module.__file__,
                    "origin": module.__spec__.origin,
                    "cached": getattr(module, "__cached__", module.__spec__.cached),
                    "spec_cached": module.__spec__.cached,
                    "has_location": module.__spec__.has_location,
                }
                for name, module in AT_START.items()
            },
        }
    """

#: The loader of the quick way.
QUICK = "__main__._Loader"


def package_folder() -> Path:
    """Return the folder of the package under test."""
    spec = importlib.util.find_spec("octonode_sdk")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without caches, in a folder that Python looks into first."""
    copied = tmp_path / "lib" / "octonode_sdk"
    shutil.copytree(package_folder(), copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def start(package: Path, *flags: str, **environment: str) -> Outcome:
    """Serve the report from this package: a folder that holds it, or a zip file."""
    folder = package.parent.parent
    path = write_nodes(folder, REPORT, name="report_nodes.py", head=HEAD)
    command = [sys.executable, *flags, "-m", "octonode_sdk", str(path)]
    return serve_command(command, to_bytes(invoke()), cwd=folder, PYTHONPATH=str(package.parent), **environment)


def report(package: Path, *flags: str, **environment: str) -> Any:
    """Return what the node reports."""
    outcome = start(package, *flags, **environment)
    assert (outcome.status, outcome.stderr) == (0, ""), outcome
    return outcome.outputs["output"]


def stamp(package: Path, text: str, *, as_old: bool = False) -> None:
    """Write a stamp into a module, perhaps without a new time."""
    path = package / "ipc" / "lines.py"
    times = path.stat()
    source = path.read_text(encoding="utf-8").partition("\nSTAMP")[0]
    path.write_text(f"{source}\nSTAMP = {text!r}\n", encoding="utf-8")
    moved = 0 if as_old else 10
    os.utime(path, (times.st_atime, times.st_mtime + moved))


def cache_of(path: Path, *, optimization: str = "") -> Path:
    """Return where Python keeps the bytecode of a source."""
    return Path(importlib.util.cache_from_source(str(path), optimization=optimization))


def caches(folder: Path) -> set[str]:
    """Return the names of the cache files below a folder."""
    return {path.name for path in folder.rglob("*.pyc")}


# What is found, and how


def test_each_module_of_the_start_is_found_the_quick_way_and_looks_like_any_other(package: Path) -> None:
    """Our own choice: a module that is not found so costs start-up time; and the finder is gone behind the start."""
    for _ in range(2):  # without caches, and with them
        found = report(package)
        assert "_Finder" not in found["meta_path"]
        assert found["meta_path"][-1] == "PathFinder"
        packages = {"octonode_sdk", "octonode_sdk.ipc", "octonode_sdk.process"}
        assert {"octonode_sdk.ipc.runner", "octonode_sdk.lanes"} <= set(found["modules"])
        assert [
            name for name, about in found["modules"].items() if (about["loader"] == QUICK) == (name in packages)
        ] == []
        for name, about in found["modules"].items():
            place = package.parent / name.replace(".", "/")
            path = place / "__init__.py" if name in packages else place.with_suffix(".py")
            assert about == {
                "loader": about["loader"],
                "same": True,
                "package": name if name in packages else name.rpartition(".")[0],
                "file": str(path),
                "origin": str(path),
                "cached": str(cache_of(path)),
                "spec_cached": str(cache_of(path)),
                "has_location": True,
            }
            assert cache_of(path).exists()


def test_sources_and_tracebacks_show(package: Path) -> None:
    """Our own choice: a debugger and a bug report need them."""
    for _ in range(2):
        found = report(package)
        assert found["source"] == (package / "ipc" / "lines.py").read_text(encoding="utf-8")
        assert f'File "{package / "lanes.py"}", line ' in found["trace"]
        assert "places, arguments = plan.bind(inputs, context)" in found["trace"]


def test_tracebacks_show_a_package_where_it_is_and_not_where_it_was_compiled(package: Path, tmp_path: Path) -> None:
    """Our own choice: an image is built in one folder and copied to another, caches and times included."""
    report(package)
    moved = tmp_path / "elsewhere" / "octonode_sdk"
    shutil.copytree(package, moved)
    shutil.rmtree(package)
    found = report(moved)
    assert f'File "{moved / "lanes.py"}", line ' in found["trace"]
    assert "places, arguments = plan.bind(inputs, context)" in found["trace"]


@pytest.mark.parametrize("name", ["with space", "übergröße ✓", "100%s %(x)s", 'it\'s "so" {x}', "a\udcffb"], ids=ascii)
def test_the_package_may_lie_under_any_path(package: Path, name: str) -> None:
    """Our own choice: spaces, other scripts, and what a template would take for its own."""
    folder = package.parent.parent / name / "lib"
    shutil.copytree(package, folder / package.name)
    command = [sys.executable, "-m", "octonode_sdk", str(write_nodes(folder, "@node\ndef a() -> int:\n    return 1\n"))]
    for _ in range(2):
        outcome = serve_command(command, to_bytes(invoke()), cwd=folder, PYTHONPATH=str(folder))
        assert (outcome.status, outcome.stderr) == (0, "")
        assert outcome.outputs == {"output": 1}
    assert cache_of(folder / "octonode_sdk" / "lanes.py").exists()


def test_the_package_may_lie_in_a_zip_file(package: Path, tmp_path: Path) -> None:
    """Our own choice: zipapps do."""
    archive = tmp_path / "lib" / "octonode.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.rglob("*.py"):
            file.write(path, path.relative_to(package.parent))
    shutil.rmtree(package)
    path = write_nodes(tmp_path, "@node\ndef a() -> str:\n    return sys.modules['octonode_sdk.lanes'].__file__\n")
    command = [sys.executable, "-m", "octonode_sdk", str(path)]
    outcome = serve_command(command, to_bytes(invoke()), cwd=tmp_path, PYTHONPATH=str(archive))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.outputs == {"output": str(archive / "octonode_sdk" / "lanes.py")}


def test_the_package_may_come_without_sources(package: Path, tmp_path: Path) -> None:
    """Our own choice: frozen applications ship bytecode alone."""
    for path in package.rglob("*.py"):
        py_compile.compile(str(path), cfile=f"{path}c", doraise=True)
        path.unlink()
    path = write_nodes(tmp_path, "@node\ndef a() -> str:\n    return sys.modules['octonode_sdk.lanes'].__file__\n")
    command = [sys.executable, "-m", "octonode_sdk", str(path)]
    outcome = serve_command(command, to_bytes(invoke()), cwd=tmp_path, PYTHONPATH=str(package.parent))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.outputs == {"output": str(package / "lanes.pyc")}


# Caches


def test_a_stale_cache_is_not_used(package: Path) -> None:
    """Our own choice: the rules are Python's, the time and the size of the source."""
    stamp(package, "one")
    assert report(package)["stamp"] == "one"
    stamp(package, "two")  # the same size, another time
    assert report(package)["stamp"] == "two"
    stamp(package, "three", as_old=True)  # another size, the same time
    assert report(package)["stamp"] == "three"
    stamp(package, "other", as_old=True)  # neither: the cache is taken, as everywhere
    assert report(package)["stamp"] == "three"


def no_folder(package: Path) -> dict[str, str]:
    """Put files where the folders of caches should be made, which stops the superuser as well."""
    for folder in (package, package / "ipc", package / "process"):
        (folder / "__pycache__").write_bytes(b"")
    return {}


@pytest.mark.parametrize(
    "prepare", [no_folder, lambda package: {"PYTHONDONTWRITEBYTECODE": "1"}], ids=["unwritable", "switched off"]
)
def test_without_a_cache_the_sources_serve(package: Path, prepare: Callable[[Path], dict[str, str]]) -> None:
    """Our own choice: a folder that cannot be written to, and a Python that is told not to."""
    environment = prepare(package)
    stamp(package, "one")
    assert report(package, **environment)["stamp"] == "one"
    stamp(package, "two", as_old=True)
    assert report(package, **environment)["stamp"] == "two"
    assert caches(package) == set()


def test_caches_may_be_kept_elsewhere(package: Path, tmp_path: Path) -> None:
    """Our own choice: then the standard machinery finds everything."""
    prefix = tmp_path / "caches"
    for _ in range(2):
        found = report(package, PYTHONPYCACHEPREFIX=str(prefix))
        assert QUICK not in {about["loader"] for about in found["modules"].values()}
        assert found["modules"]["octonode_sdk.lanes"]["cached"].startswith(str(prefix))
    assert caches(package) == set()
    assert cache_of(Path("lanes.py")).name in caches(prefix)


@pytest.mark.parametrize(("flag", "tag"), [("-O", "opt-1"), ("-OO", "opt-2")])
def test_optimised_code_has_caches_of_its_own(package: Path, flag: str, tag: str) -> None:
    """Our own choice: as Python does it."""
    path = package / "ipc" / "lines.py"
    with path.open("a", encoding="utf-8") as file:
        file.write("\nSTAMP = __debug__\n")
    assert report(package)["stamp"] is True
    for _ in range(2):
        found = report(package, flag)
        assert found["stamp"] is False
        assert (found["doc"] is None) == (flag == "-OO")
        assert found["modules"]["octonode_sdk.ipc.lines"]["cached"] == str(cache_of(path, optimization=tag[-1]))
        assert found["modules"]["octonode_sdk.ipc.lines"]["loader"] == QUICK
        assert cache_of(path, optimization=tag[-1]).exists()
    assert report(package)["stamp"] is True


@pytest.mark.parametrize(("mode", "seen"), [("CHECKED_HASH", "two"), ("UNCHECKED_HASH", "one")])
def test_a_cache_that_is_compared_by_hash_is(package: Path, mode: str, seen: str) -> None:
    """Our own choice: reproducible builds have those; an unchecked one is not compared at all."""
    stamp(package, "one")
    path = package / "ipc" / "lines.py"
    py_compile.compile(str(path), doraise=True, invalidation_mode=py_compile.PycInvalidationMode[mode])
    assert report(package)["stamp"] == "one"
    stamp(package, "two", as_old=True)
    assert report(package)["stamp"] == seen


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:16],
        lambda data: data[:-20],
        lambda data: b"\0\0\r\n" + data[4:],
        lambda data: data[:4] + b"\xff\0\0\0" + data[8:],
        lambda data: data[:16] + b"N",
        lambda data: data[:16] + b"i\1\0\0\0",
        lambda data: data[:16] + b"\xff" * 100,
        lambda data: data + b"more",
    ],
    ids=["empty", "head", "no code", "cut", "magic", "flags", "None", "number", "noise", "longer"],
)
def test_a_broken_cache_is_taken_as_the_standard_loader_takes_it(
    package: Path, spoil: Callable[[bytes], bytes]
) -> None:
    """Our own choice: made anew, or the same error."""
    stamp(package, "one")
    report(package)
    cache = cache_of(package / "ipc" / "lines.py")
    spoilt = spoil(cache.read_bytes())
    cache.write_bytes(spoilt)
    standard = subprocess.run(
        [sys.executable, "-c", "import octonode_sdk.ipc.lines as lines; print(lines.STAMP)"],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
        cwd=package.parent,
        env=clean_environment(PYTHONPATH=str(package.parent), PYTHONDONTWRITEBYTECODE="1"),
    )
    outcome = start(package)
    if standard.returncode == 0:
        assert standard.stdout == "one\n"
        assert outcome.outputs["output"]["stamp"] == "one"
    else:
        assert outcome.status == 1
        assert outcome.stderr.splitlines()[-1] == standard.stderr.splitlines()[-1]
