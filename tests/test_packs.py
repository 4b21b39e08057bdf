"""Targets -> nodes: files, modules, packages, and what is wrong with them."""

import importlib
import os
import pickle
import pkgutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from octonode_sdk import nodes
from octonode_sdk.errors import DefinitionError, LoadError
from octonode_sdk.packs import import_file, load, nodes_of, submodules

GREET = """
from octonode_sdk import node

@node
def greet(name: str) -> str:
    return "Hello, " + name
"""


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Undo what loading does to the process: modules, the path, the known nodes."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "lib")])
    monkeypatch.setattr(nodes, "_nodes", dict(nodes._nodes))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    importlib.invalidate_caches()
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: str, source: str = GREET) -> str:
    """Write a file below the folder of the test; return its path."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(source), encoding="utf-8")
    return path


# Files


@pytest.mark.parametrize("path", ["pack_a.py", "./pack_a.py", "folder/pack_a.py", "folder with space/pack_a.py"])
def test_a_file_is_a_target(path: str) -> None:
    """Our own choice: the way to try a node is to name its file."""
    found = load(write(path))
    assert list(found) == ["greet"]
    assert found["greet"].fn("Ada") == "Hello, Ada"


def test_an_absolute_path_is_a_target(tmp_path: Path) -> None:
    """Our own choice: engines start nodes from folders of their own."""
    write("folder/pack_b.py")
    assert list(load(str(tmp_path / "folder" / "pack_b.py"))) == ["greet"]


def test_a_file_finds_the_module_beside_it() -> None:
    """Our own choice: as with `python file.py`, its folder leads the path."""
    write("folder/helper_a.py", "WORD = 'Salut'")
    path = write("folder/pack_c.py", "import helper_a\n" + GREET.replace('"Hello, "', "helper_a.WORD"))
    assert load(path)["greet"].fn("!") == "Salut!"


def test_functions_of_a_file_pickle_by_its_stem() -> None:
    """C026: a process pool sends functions by name."""
    fn = load(write("pack_d.py"))["greet"].fn
    assert fn.__module__ == "pack_d"
    assert pickle.loads(pickle.dumps(fn)) is fn


@pytest.mark.parametrize("stem", ["my-nodes", "2nd", "class", "naïve nodes"])
def test_a_file_whose_name_is_no_identifier_is_a_module_all_the_same(stem: str) -> None:
    """C026: a spawned child imports it by that name from the same folder."""
    fn = load(write(f"{stem}.py"))["greet"].fn
    assert fn.__module__ == stem
    assert pickle.loads(pickle.dumps(fn)) is fn


@pytest.mark.parametrize("stem", ["json", "types", "random", "turtle", "octonode_sdk", "nodes.v2", "__main__"])
def test_a_file_never_stands_in_for_a_module_of_the_same_name(stem: str) -> None:
    """Our own choice: `json.py` is a good name for nodes about JSON, and must not break the standard library."""
    before = sys.modules.get(stem)
    fn = load(write(f"folder/{stem}.py", "import json, types, random\nfrom octonode_sdk import Context\n" + GREET))[
        "greet"
    ].fn
    assert sys.modules.get(stem) is before or before is None
    assert importlib.import_module("json").dumps([1]) == "[1]"
    assert importlib.import_module("random").random() < 1
    assert fn.__module__ != stem
    assert pickle.loads(pickle.dumps(fn)) is fn


def test_a_file_that_is_not_there_is_told_with_the_folder_that_was_searched(tmp_path: Path) -> None:
    """LIFE-23: the usual cause is another working folder."""
    with pytest.raises(LoadError) as caught:
        load("missing.py")
    assert "'missing.py'" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("path", ["notes.txt", "folder/script", "folder"])
def test_what_is_no_python_file_is_refused(path: str) -> None:
    """LIFE-23."""
    if path == "folder":
        Path("folder").mkdir()
        path = "./folder"
    else:
        write(path)
    with pytest.raises(LoadError) as caught:
        load(path)
    assert path in str(caught.value)


def test_a_file_is_read_as_utf_8_or_as_its_own_coding_line_says() -> None:
    """C031."""
    Path("pack_e.py").write_bytes(GREET.replace("Hello", "Grüße, 世界 😀").encode())
    assert load("pack_e.py")["greet"].fn("") == "Grüße, 世界 😀, "
    Path("pack_f.py").write_bytes(b"# coding: latin-1\n" + GREET.replace("Hello", "Gr\u00fc\u00dfe").encode("latin-1"))
    assert load("pack_f.py")["greet"].fn("") == "Grüße, "


# Modules and packages


def test_a_module_is_a_target_by_its_dotted_name() -> None:
    """Our own choice: installed packs have no path."""
    write("lib/pack_g/__init__.py", "")
    write("lib/pack_g/inner.py")
    assert list(load("pack_g.inner")) == ["greet"]


def test_a_package_that_brings_its_nodes_along_offers_these_and_nothing_else_is_imported() -> None:
    """Our own choice: its author decides what a start costs."""
    write("lib/pack_h/__init__.py", "from .inner import greet")
    write("lib/pack_h/inner.py", GREET + "\n@node\ndef other() -> int:\n    return 1\n")
    write("lib/pack_h/slow.py", "raise AssertionError('imported')")
    assert list(load("pack_h")) == ["greet", "other"]


def test_a_package_that_brings_no_nodes_is_walked() -> None:
    """Our own choice: every public module in it, in the order of the names."""
    write("lib/pack_i/__init__.py", "")
    write("lib/pack_i/b.py")
    write("lib/pack_i/a.py", GREET.replace("greet", "first"))
    write("lib/pack_i/deep/__init__.py", "")
    write("lib/pack_i/deep/c.py", GREET.replace("greet", "third"))
    write("lib/pack_i/_private.py", "raise AssertionError('imported')")
    write("lib/pack_i/__main__.py", "raise AssertionError('imported')")
    assert list(load("pack_i")) == ["first", "greet", "third"]


def test_the_modules_of_a_package_are_those_that_pkgutil_finds() -> None:
    """Our own choice: with less to load. Folders without `__init__` and names with a dot are no modules."""
    files = "a.py b/__init__.py b.py c-d.py e.f.py g.pyc h.so i/j.py k/__init__.pyc l.txt .py .n/__init__.py o.abi3.so"
    for name in ("pack_y", "more/pack_y"):
        for file in files.split():
            write(f"lib/{name}/{file}", "")
    write("lib/more/pack_y/z/__init__.py", "")
    package = importlib.import_module("pack_y")
    package.__path__ = [str(Path("lib/more/pack_y").absolute()), *package.__path__]
    wanted = {(f"pack_y.{info.name}", info.ispkg) for info in pkgutil.iter_modules(package.__path__)}
    assert submodules(package) == sorted(wanted)
    package.__path__.append(str(Path("missing").absolute()))
    assert submodules(package) == sorted(wanted)
    assert ("pack_y.b", True) in wanted
    assert ("pack_y.z", True) in wanted


def test_a_package_in_a_zip_file_is_walked() -> None:
    """Our own choice: its modules are found by another finder."""
    with zipfile.ZipFile("packs.zip", "w") as archive:
        archive.writestr("pack_z/__init__.py", "")
        archive.writestr("pack_z/a.py", GREET)
        archive.writestr("pack_z/deep/__init__.py", "")
        archive.writestr("pack_z/deep/b.py", GREET.replace("greet", "second"))
    sys.path.append(str(Path("packs.zip").absolute()))
    assert list(load("pack_z")) == ["greet", "second"]


def test_nodes_that_a_module_only_imports_for_use_are_its_own_and_those_of_an_imported_module_are_not() -> None:
    """Our own choice: what stands in the target's names is offered."""
    write("lib/pack_j.py", GREET + "\n@node\ndef hidden() -> int:\n    return 1\n")
    write("lib/pack_k.py", "import pack_j\nfrom pack_j import greet\n" + GREET.replace("greet", "own"))
    assert sorted(load("pack_k")) == ["greet", "own"]


@pytest.mark.parametrize("name", ["no_such_pack", "no_such_pack.inner", "pack_l.inner", "pack_m.inner"])
def test_a_module_that_is_not_there_is_told_with_the_way_out(name: str) -> None:
    """LIFE-23."""
    write("lib/pack_l/__init__.py", "")
    write("lib/pack_m.py", "")
    with pytest.raises(LoadError) as caught:
        load(name)
    assert "there is no module" in str(caught.value)
    assert "./nodes.py" in str(caught.value)


def test_a_module_that_the_target_needs_and_lacks_is_its_own_error() -> None:
    """LIFE-23: the target is there, and its author has to know which import failed."""
    write("lib/pack_n.py", "import no_such_library\n" + GREET)
    with pytest.raises(ModuleNotFoundError) as caught:
        load("pack_n")
    assert caught.value.name == "no_such_library"


# What can be wrong inside


@pytest.mark.parametrize(
    "source", ["", "def greet(name: str) -> str:\n    return name\n", "from octonode_sdk import node"]
)
def test_a_target_without_nodes_is_told_so(source: str) -> None:
    """LIFE-23."""
    path = write("pack_o.py", source)
    with pytest.raises(LoadError, match=r"pack_o\.py defines no node; put @node on a function"):
        load(path)
    write("lib/pack_p/__init__.py", "")
    with pytest.raises(LoadError, match="pack_p defines no node"):
        load("pack_p")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def broken(:\n", SyntaxError),
        ("if 1:\nx = 1\n", IndentationError),
        ("raise SystemExit(3)", SystemExit),
        ("raise KeyboardInterrupt", KeyboardInterrupt),
        ("import no_such_library", ModuleNotFoundError),
        ("1 / 0", ZeroDivisionError),
        ("import sys\ndel sys.modules[__name__]\n1 / 0", ZeroDivisionError),
    ],
)
def test_what_a_target_raises_at_import_comes_out_and_no_half_module_is_left(
    source: str, error: type[BaseException]
) -> None:
    """LIFE-23, C112: the same target can be tried again."""
    path = write("pack_q.py", source)
    with pytest.raises(error):
        load(path)
    assert "pack_q" not in sys.modules
    write("pack_q.py", GREET.replace("greet", "mended_and_longer"))
    assert "mended_and_longer" in load(path)


@pytest.mark.parametrize("target", ["lib/pack_half.py", "pack_half", "pack_whole"])
def test_a_target_that_fails_leaves_neither_nodes_nor_modules_nor_a_folder_on_the_path(target: str) -> None:
    """C112: nodes that were defined again, and were another module's, are that one's as before."""
    write("lib/pack_good.py", GREET)
    write("lib/pack_half.py", GREET + "import pack_good\nnode(id='mine')(pack_good.greet)\nraise SystemExit\n")
    write("lib/pack_whole/__init__.py", "from . import inner\n1 / 0\n")
    write("lib/pack_whole/inner.py", GREET)
    good = load("pack_good")
    before, path, known = set(sys.modules), list(sys.path), nodes.all_nodes()
    with pytest.raises((SystemExit, ZeroDivisionError)):
        load(target)
    assert set(sys.modules) == before
    assert sys.path == path
    assert nodes.all_nodes() == known
    assert load("pack_good") == good


def test_files_of_one_name_are_modules_of_their_own_and_none_takes_a_reserved_name() -> None:
    """Our own choice: `nodes.py` is a name that many folders have."""
    paths = [write(f"folder_{number}/pack_same.py") for number in range(3)]
    modules = [import_file(path) for path in paths]
    assert len({module.__name__ for module in modules}) == 3
    assert [sys.modules[module.__name__] for module in modules] == modules
    kept = import_file(write("pack_kept.py"), reserved={"pack_kept"})
    assert kept.__name__ == "_octonode_target_pack_kept"


@pytest.mark.parametrize("name", [".inner", "pack..inner", "."])
def test_what_is_neither_a_file_nor_a_dotted_name_is_told_so(name: str) -> None:
    """LIFE-23."""
    with pytest.raises(LoadError, match="neither the path of a file nor the dotted name"):
        load(name)


def test_a_folder_is_told_from_the_package_that_it_may_be(tmp_path: Path) -> None:
    """LIFE-23."""
    write("acme/__init__.py")
    for path in ("acme/", str(tmp_path / "acme") + os.sep):
        with pytest.raises(LoadError, match=r"is a folder; give a file in it, or .* such as 'acme'"):
            load(path)


def test_two_nodes_with_one_id_are_refused_with_both_places() -> None:
    """Our own choice: never the last one."""
    path = write("pack_r.py", GREET + "\n@node(id='greet')\ndef other() -> int:\n    return 1\n")
    with pytest.raises(DefinitionError) as caught:
        load(path)
    assert "'greet'" in str(caught.value)
    assert "@node(id=" in str(caught.value)
    write("lib/pack_s/__init__.py", "")
    write("lib/pack_s/a.py")
    write("lib/pack_s/b.py")
    with pytest.raises(DefinitionError, match=r"greet in pack_s\.a, line 4 and greet in pack_s\.b, line 4"):
        load("pack_s")


def test_two_functions_from_one_factory_with_one_id_are_refused() -> None:
    """Our own choice: they share their code and are two nodes all the same."""
    source = """
        from octonode_sdk import node

        def make(number: int):
            @node
            def scale(value: float) -> float:
                return value * number
            return scale

        double, triple = make(2), make(3)
        """
    with pytest.raises(DefinitionError, match="scale"):
        load(write("pack_t.py", source))


def test_a_module_that_is_read_again_replaces_its_nodes() -> None:
    """Our own choice: a reload is no clash."""
    write("lib/pack_u.py")
    load("pack_u")
    module = importlib.reload(sys.modules["pack_u"])
    found = nodes_of(module, "pack_u")
    assert found["greet"].fn is module.greet


def test_an_annotation_may_name_what_is_defined_further_down() -> None:
    """Our own choice: hints are read once the whole module is there."""
    source = """
        from __future__ import annotations
        from dataclasses import dataclass
        from octonode_sdk import node

        @node
        def area(box: Box) -> int:
            return box.side ** 2

        @dataclass
        class Box:
            side: int
        """
    (port,) = load(write("pack_v.py", source))["area"].inputs
    assert port.name == "box"


def test_an_annotation_that_names_nothing_is_told_when_the_target_is_loaded() -> None:
    """Our own choice: not at the first call."""
    path = write("pack_w.py", "from octonode_sdk import node\n\n@node\ndef a(x: 'Missing') -> int:\n    return 1\n")
    with pytest.raises(DefinitionError, match="Missing"):
        load(path)


@pytest.mark.parametrize(
    "option",
    [
        "icon='no-such-icon'",
        "symbol='x' * 17",
        "symbol='\\N{GRINNING FACE}' * 9",
        "symbol=''",
        "workflow_id=''",
        "label=3",
        "config=[1]",
        "config={'a': float('nan')}",
    ],
)
def test_an_option_that_the_wire_does_not_take_is_told_when_the_target_is_loaded(option: str) -> None:
    """MAN-19: not when the node is described."""
    path = write("pack_x.py", f"from octonode_sdk import node\n\n@node({option})\ndef a() -> int:\n    return 1\n")
    with pytest.raises(DefinitionError, match="node 'a'"):
        load(path)
