"""The two names that start the worker, and other packages that claim the name `nodetool`. In processes of their own."""

import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ipc.support import PATIENCE, clean_environment

NAMES = ("nodetool_worker", "nodetool.worker")


def run(interpreter: str, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, without input, and return what it said."""
    return subprocess.run(
        [interpreter, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
        cwd=folder,
        env=clean_environment(**environment),
    )


def assert_tells_its_version(outcome: subprocess.CompletedProcess[str]) -> None:
    """Check that the worker answered `--version`, and that nothing went wrong."""
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert version("octonode-sdk") in outcome.stdout.split()


def write_package(library: Path, name: str, source: str) -> None:
    """Write the `__init__.py` of a package that another distribution might bring."""
    folder = library.joinpath(*name.split("."))
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(source, encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_worker_starts_under_either_name(name: str, interpreter: str, tmp_path: Path) -> None:
    """FND-18, FND-19: NodeTool starts `nodetool.worker`; `nodetool_worker` is there where that name is taken."""
    assert_tells_its_version(run(interpreter, tmp_path, "-m", name, "--version"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("module", ["", ".__main__"], ids=["package", "main module"])
def test_a_child_that_imports_the_main_module_again_does_not_serve(
    name: str, module: str, interpreter: str, tmp_path: Path
) -> None:
    """FRM-29: a spawned process pool imports it under the name `__mp_main__`."""
    code = (
        "import runpy, sys\n"
        "runpy.run_module(sys.argv.pop(1), run_name='__mp_main__', alter_sys=True)\n"
        "print('nodetool_worker.stdio' in sys.modules)"
    )
    outcome = run(interpreter, tmp_path, "-c", code, name + module, "--version")
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "False\n", "")


def test_nodetool_is_a_namespace_that_others_may_share() -> None:
    """FND-18: an `__init__.py` of ours would hide the `nodetool.*` packages of other distributions."""
    spec = find_spec("nodetool.worker")
    assert spec is not None
    assert spec.origin is not None
    assert not Path(spec.origin).parent.with_name("__init__.py").exists()


@pytest.mark.parametrize("place", ["first", "last"])
def test_packages_of_other_distributions_stand_beside_the_worker(place: str, interpreter: str, tmp_path: Path) -> None:
    """FND-18: whichever comes first on the path."""
    library = tmp_path / "library"
    write_package(library, "nodetool.other", "NAME = __name__\n")
    code = (
        "import sys\n"
        "sys.path.insert({'first': 0, 'last': len(sys.path)}[sys.argv[1]], sys.argv[2])\n"
        "import nodetool.other, nodetool.worker\n"
        "print(nodetool.other.NAME, nodetool.worker.__name__)"
    )
    outcome = run(interpreter, tmp_path, "-c", code, place, str(library))
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "nodetool.other nodetool.worker\n", "")


def test_the_worker_starts_beside_packages_of_other_distributions(interpreter: str, tmp_path: Path) -> None:
    """FND-18: those come first on the path here."""
    write_package(tmp_path / "library", "nodetool.other", "")
    environment = {"PYTHONPATH": str(tmp_path / "library")}
    assert_tells_its_version(run(interpreter, tmp_path, "-m", "nodetool.worker", "--version", **environment))


def test_the_worker_starts_under_its_own_name_where_another_package_owns_nodetool(
    interpreter: str, tmp_path: Path
) -> None:
    """FND-19: a package with an `__init__.py` hides the namespace, and with it `nodetool.worker`."""
    write_package(tmp_path / "library", "nodetool", "")
    environment = {"PYTHONPATH": str(tmp_path / "library")}
    hidden = run(interpreter, tmp_path, "-m", "nodetool.worker", "--version", **environment)
    assert hidden.returncode == 1
    assert "No module named nodetool.worker" in hidden.stderr
    assert_tells_its_version(run(interpreter, tmp_path, "-m", "nodetool_worker", "--version", **environment))
