"""Targets -> the nodes that the worker serves, and a load error for everything else."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodetool_worker.inventory import split_targets, take_inventory
from octonode_sdk import DefinitionError, nodes, secrets
from tests.nodetool.packkit import a_node, as_it_was, clean, install, places, write

#: Longest text of a load error, in characters.
LIMIT = 2000


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    yield from as_it_was(monkeypatch, tmp_path)


# Targets


def test_files_and_modules_are_targets_in_the_order_in_which_they_are_given() -> None:
    """FND-1, FND-2, DSC-3."""
    write("folder/zebra.py", a_node("run"))
    write("lib/pack_a.py", a_node("stop") + a_node("go_on"))
    found = take_inventory(["folder/zebra.py", "pack_a"], [])
    assert clean(found) == ["zebra.Run", "pack_a.Stop", "pack_a.GoOn"]
    assert [entry["node_type"] for entry in found.entries()] == list(found.nodes)
    assert found.nodes["zebra.Run"].module == "zebra"
    assert found.nodes["pack_a.GoOn"].namespace == "pack_a"


def test_nothing_to_find_is_an_empty_inventory() -> None:
    """FND-16."""
    found = take_inventory([], [])
    assert (clean(found), found.namespaces, found.entries()) == ([], [], [])


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("", []),
        ("a.py", ["a.py"]),
        (os.pathsep.join(["", "a/b.py", " acme.nodes ", " ", "c"]), ["a/b.py", "acme.nodes", "c"]),
    ],
)
def test_the_variable_holds_targets_as_path_does(text: str, targets: list[str]) -> None:
    """FND-3."""
    assert split_targets(text) == targets


def test_a_drive_divides_nothing_where_paths_are_separated_by_semicolons(monkeypatch: pytest.MonkeyPatch) -> None:
    """FND-3."""
    monkeypatch.setattr(os, "pathsep", ";")
    assert split_targets(r"C:\nodes\a.py;D:\b.py") == [r"C:\nodes\a.py", r"D:\b.py"]


def test_files_of_one_name_in_several_folders_are_all_read() -> None:
    """FND-2: `nodes.py` is what most files are called."""
    targets = [write(f"{folder}/nodes.py", a_node(folder)) for folder in ("one", "two", "three")]
    assert clean(take_inventory(targets, [])) == ["nodes.One", "nodes.Two", "nodes.Three"]


def test_a_file_with_the_name_of_a_pack_does_not_stand_in_for_it() -> None:
    """Our own choice: the pack is imported after it."""
    write("acme.py", a_node("mine"))
    write("lib/acme/__init__.py", "")
    write("lib/acme/texts.py", a_node("join"))
    install("acme-texts", "acme = acme.texts")
    assert clean(take_inventory(["./acme.py"], [])) == ["acme.Mine", "acme.Join"]


@pytest.mark.parametrize(("target", "word"), [("missing.py", "no file"), ("./folder", "folder"), ("notes.txt", "ends")])
def test_what_is_no_python_file_is_told_by_the_target_as_it_was_given(target: str, word: str) -> None:
    """FND-10: it has no module."""
    Path("folder").mkdir()
    Path("notes.txt").write_text("", encoding="utf-8")
    write("good.py", a_node("run"))
    found = take_inventory([target, "good.py"], [])
    assert list(found.nodes) == ["good.Run"]
    (error,) = found.load_errors
    assert error["module"] == target
    assert error["phase"] == "import"
    assert word.removesuffix("s") in error["error"]


@pytest.mark.parametrize("target", ["no_such_pack", "no_such_pack.inner", "good.inner", ".good", "good..x", "."])
def test_a_module_that_is_not_there_is_told_by_the_name_that_was_asked_for(target: str) -> None:
    """FND-10."""
    write("lib/good.py", a_node("run"))
    found = take_inventory([target, "good"], [])
    assert list(found.nodes) == ["good.Run"]
    assert places(found) == [(target, "import", "LoadError")]


def test_a_target_without_nodes_is_told() -> None:
    """Our own choice: an empty list would leave its author without a word."""
    write("lib/empty/__init__.py", "")
    found = take_inventory([write("bare.py", ""), "empty"], [])
    assert places(found) == [("bare", "import", "LoadError"), ("empty", "import", "LoadError")]
    assert "put @node on a function" in found.load_errors[0]["error"]


def test_a_node_that_a_target_names_is_its_own_and_one_that_its_imports_define_is_not() -> None:
    """FND-7: what stands outside of every target can't be executed."""
    write("lib/helper_b.py", a_node("named") + a_node("hidden"))
    write("lib/pack_b.py", "import helper_b\nfrom helper_b import named\n" + a_node("own"))
    assert clean(take_inventory(["pack_b"], [])) == ["pack_b.Named", "pack_b.Own"]


# What fails


@pytest.mark.parametrize(
    "faulty",
    [
        "@node\ndef a(x: 1) -> int:\n    return 1\n",
        "@node\ndef a(x: int = 'b') -> int:\n    return 1\n",
        "@node(icon='no such icon')\ndef a() -> int:\n    return 1\n",
        "@node\nclass A: ...\n",
    ],
)
def test_an_ill_defined_node_costs_itself_and_not_its_module(faulty: str) -> None:
    """FND-12: and the decorator raises again for everybody else."""
    write("lib/pack_d.py", a_node("first") + faulty + a_node("last"))
    found = take_inventory(["pack_d"], [])
    assert list(found.nodes) == ["pack_d.First", "pack_d.Last"]
    assert places(found) == [("pack_d", "metadata", "DefinitionError")]
    assert found.load_errors[0]["error"].startswith(("node 'a'", "node 'A'"))
    with pytest.raises(DefinitionError):
        nodes.node(icon="no such icon")(places)


def test_a_module_of_which_no_node_is_left_is_told_of_once() -> None:
    """FND-12: that it defines no node follows from the fault."""
    write("folder/lone.py", "@node\ndef a(x: 1) -> int:\n    return 1\n")
    assert places(take_inventory(["folder/lone.py"], [])) == [("lone", "metadata", "DefinitionError")]


@pytest.mark.parametrize(
    ("source", "error_type", "word"),
    [
        ("import no_such_library", "ModuleNotFoundError", "no_such_library"),
        ("def broken(:", "SyntaxError", "invalid syntax"),
        ("if 1:\nx = 1", "IndentationError", "expected an indented block"),
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("import sys\nsys.exit(3)", "SystemExit", "3"),
        ("raise SystemExit", "SystemExit", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit", "GeneratorExit"),
        ("class MyOwn(BaseException):\n    pass\nraise MyOwn('why')", "MyOwn", "why"),
        ("class Bad(Exception):\n    def __str__(self):\n        raise SystemExit\nraise Bad", "Bad", "can't be made"),
        ("import sys\ndel sys.modules[__name__]\n1 / 0", "ZeroDivisionError", "division by zero"),
    ],
)
@pytest.mark.parametrize("how", ["file", "module", "submodule", "entry point"])
def test_whatever_a_module_raises_costs_it_alone_and_leaves_nothing(
    how: str, source: str, error_type: str, word: str
) -> None:
    """FND-8, FND-9, FND-10, FND-11, C112, C115."""
    whole = a_node("lost") + source
    write("lib/good.py", a_node("run"))
    name, targets = {
        "file": ("bad", ["folder/bad.py", "good"]),
        "module": ("bad", ["bad", "good"]),
        "submodule": ("pack_c.bad", ["pack_c", "good"]),
        "entry point": ("bad", ["good"]),
    }[how]
    path = {"file": "folder/bad.py", "submodule": "lib/pack_c/bad.py"}.get(how, "lib/bad.py")
    write("lib/pack_c/__init__.py", "")
    write("lib/pack_c/fine.py", a_node("run"))
    if how == "entry point":
        install("bad-pack", "bad = bad")
    before, known = list(sys.path), nodes.all_nodes()
    write(path, whole)
    found = take_inventory(targets, [])
    assert list(found.nodes) == [*(["pack_c.Run"] if how == "submodule" else []), "good.Run"]
    assert places(found) == [(name, "import", error_type)]
    assert word in found.load_errors[0]["error"]
    assert name not in sys.modules
    assert sys.path == before
    assert "lost" not in [node.id for node in nodes.all_nodes() if node not in known]
    importlib.invalidate_caches()
    write(path, "# mended\n" + a_node("back"))
    again = take_inventory(targets, [])
    assert again.load_errors == []
    assert [node_type.rpartition(".")[2] for node_type in again.nodes].count("Back") == 1


def test_the_place_in_the_module_is_told_and_not_that_in_a_library_below_it() -> None:
    """FND-11: a bare "list index out of range" helps nobody."""
    write("lib/library_d.py", "def look():\n    return [][1]\n")
    write("lib/pack_d/__init__.py", "")
    write("lib/pack_d/bad.py", "\nimport library_d\nlibrary_d.look()\n")
    (error,) = take_inventory(["pack_d"], []).load_errors
    assert error["error"] == "list index out of range (pack_d.bad, line 4)"


def test_the_rest_of_a_pack_is_there_and_what_its_bad_module_had_imported_whole_stays() -> None:
    """C112: two nodes listed, the helper in order, the half module gone."""
    write("lib/pack_e/__init__.py", "")
    write("lib/pack_e/a.py", a_node("one"))
    write("lib/pack_e/b.py", "from . import _helper\n" + a_node("two") + "raise RuntimeError('not today')\n")
    write("lib/pack_e/c.py", a_node("three"))
    write("lib/pack_e/_helper.py", a_node("shared"))
    found = take_inventory(["pack_e"], [])
    assert list(found.nodes) == ["pack_e.One", "pack_e.Shared", "pack_e.Three"]
    assert places(found) == [("pack_e.b", "import", "RuntimeError")]
    assert "pack_e._helper" in sys.modules
    assert "pack_e.b" not in sys.modules


def test_what_lies_inside_of_a_package_that_fails_goes_with_it() -> None:
    """C112: else a retry would find modules that ran and whose nodes are gone."""
    write("lib/pack_f/__init__.py", "from . import inner\nimport sys\nif not hasattr(sys, 'pack_f'):\n    1 / 0\n")
    write("lib/pack_f/inner.py", a_node("run"))
    found = take_inventory(["pack_f"], [])
    assert (list(found.nodes), places(found)) == ([], [("pack_f", "import", "ZeroDivisionError")])
    assert [name for name in sys.modules if name.startswith("pack_f")] == []
    assert not any(node.module.startswith("pack_f") for node in nodes.all_nodes())
    sys.pack_f = True  # type: ignore[attr-defined]  # a switch that the module sees
    try:
        assert clean(take_inventory(["pack_f"], [])) == ["pack_f.Run"]
    finally:
        del sys.pack_f  # type: ignore[attr-defined]  # as above


def test_a_module_that_fails_inside_of_another_one_that_fails_leaves_no_node_either() -> None:
    """C112."""
    write("lib/pack_g/__init__.py", "")
    write("lib/pack_g/a.py", "from . import b\n" + a_node("one"))
    write("lib/pack_g/b/__init__.py", "from . import deep\n" + a_node("two") + "1 / 0")
    write("lib/pack_g/b/deep.py", a_node("three"))
    found = take_inventory(["pack_g"], [])
    assert (list(found.nodes), len(found.load_errors)) == ([], 2)
    assert [name for name in sys.modules if name.startswith("pack_g")] == ["pack_g"]
    assert not any(node.module.startswith("pack_g") for node in nodes.all_nodes())


def test_a_bad_module_does_not_take_a_node_of_another_one_with_it() -> None:
    """FND-9: it had decorated the other one's function again."""
    write("lib/pack_h/__init__.py", "")
    write("lib/pack_h/a.py", a_node("run"))
    write("lib/pack_h/b.py", "from .a import run\nnode(id='mine')(run)\nraise SystemExit\n")
    found = take_inventory(["pack_h"], [])
    assert (list(found.nodes), places(found)) == (["pack_h.Run"], [("pack_h.b", "import", "SystemExit")])


def test_a_package_that_fails_is_told_once_and_its_modules_not_at_all() -> None:
    """FND-10: one fault, one error."""
    write("lib/pack_i/__init__.py", "1 / 0")
    write("lib/pack_i/a.py", a_node("run"))
    install("pack-i", "one = pack_i.a", "two = pack_i")
    assert places(take_inventory(["pack_i.a", "pack_i"], [])) == [("pack_i", "import", "ZeroDivisionError")]
    write("lib/pack_rest/__init__.py", "")
    write("lib/pack_rest/a.py", "1 / 0")
    found = take_inventory(["pack_rest.a", "pack_rest"], [], packs=False)
    assert places(found) == [("pack_rest.a", "import", "ZeroDivisionError")]


def test_a_module_that_puts_something_else_in_its_place_costs_itself() -> None:
    """FND-8."""
    write("lib/odd.py", "import sys\nsys.modules[__name__] = 3\n")
    write("lib/good.py", a_node("run"))
    found = take_inventory(["odd", "good"], [])
    assert (list(found.nodes), [one["module"] for one in found.load_errors]) == (["good.Run"], ["odd"])


def test_a_package_whose_path_is_no_list_costs_itself() -> None:
    """FND-8."""
    write("lib/odd/__init__.py", "")
    write("lib/odd/inner/__init__.py", "__path__ = 3\n")
    write("lib/odd/other.py", a_node("run"))
    found = take_inventory(["odd"], [])
    assert (list(found.nodes), places(found)) == (["odd.Run"], [("odd.inner", "import", "TypeError")])


@pytest.mark.parametrize("way", ["module", "file"])
def test_an_ill_defined_node_costs_itself_and_is_named_with_its_function(way: str) -> None:
    """FND-12, C115."""
    source = "\n@node(id='wrong')\ndef bad(x: 'Missing') -> int:\n    return 1\n" + a_node("run")
    write("lib/pack_j.py", source)
    found = take_inventory(["pack_j" if way == "module" else "lib/pack_j.py"], [])
    assert (list(found.nodes), places(found)) == (["pack_j.Run"], [("pack_j", "metadata", "DefinitionError")])
    error = found.load_errors[0]["error"]
    assert "'pack_j.Wrong', bad in pack_j, line 3" in error
    assert "Missing" in error


def test_an_annotation_that_exits_costs_its_node() -> None:
    """FND-12."""
    source = "import sys\n\n@node\ndef bad(x: 'Later or sys.exit(4)') -> int:\n    return 1\n" + a_node("run")
    found = take_inventory([write("pack_k.py", source + "\nLater = None\n")], [])
    assert (list(found.nodes), places(found)) == (["pack_k.Run"], [("pack_k", "metadata", "SystemExit")])


def test_a_text_is_cut_and_its_secrets_are_masked_before() -> None:
    """FND-11, ERR-21: of half a secret nothing would be masked any more."""
    secrets.remember_secrets(["hunter-two-and-more"])
    end = " ... (pack_l, line 2; target pack_l.py)"
    text = "x" * (LIMIT - len(end) - 5) + "hunter-two-and-more" * 100
    (error,) = take_inventory([write("pack_l.py", f"raise ValueError({text!r})")], []).load_errors
    assert len(error["error"]) == LIMIT
    assert error["error"].endswith("x*****" + end)


def test_the_secrets_of_nodes_that_are_lost_are_masked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """ERR-21, C103: the module that fails is the one that knows the token."""
    monkeypatch.setenv("LOST_TOKEN", "tok-9f8e7d6c5b4a")
    monkeypatch.setenv("KEPT_TOKEN", "tok-1a2b3c4d5e6f")
    write("lib/kept.py", a_node("run", "secrets=['KEPT_TOKEN']"))
    fails = "raise ValueError(os.environ['KEPT_TOKEN'] + ' ' + os.environ['LOST_TOKEN'])"
    write("lib/lost.py", "import os\n" + a_node("run", "secrets=['LOST_TOKEN']") + fails)
    (error,) = take_inventory(["kept", "lost"], []).load_errors
    assert error["error"] == "*** *** (lost, line 7)"


def test_each_load_error_is_told_when_it_arises_and_each_module_before_it_is_imported() -> None:
    """FND-15, C122: an import that hangs can be named."""
    told: list[tuple[str, str]] = []
    write("lib/pack_m/__init__.py", "")
    write("lib/pack_m/a.py", "1 / 0")
    write("lib/pack_m/b.py", a_node("run"))
    take_inventory(
        ["pack_m"],
        [],
        tell=lambda error: told.append(("error", error["module"])),
        importing=lambda name: told.append(("import", name)),
    )
    names = [("import", "pack_m"), ("import", "pack_m.a"), ("error", "pack_m.a"), ("import", "pack_m.b")]
    assert told == names


# Packages


def test_a_package_that_brings_its_nodes_along_offers_these_whatever_was_imported_before() -> None:
    """Our own choice: its author decides what a start costs."""
    write("lib/pack_n/__init__.py", "from . import quick\n")
    write("lib/pack_n/quick.py", a_node("run"))
    write("lib/pack_n/slow.py", "raise AssertionError('imported')")
    assert clean(take_inventory(["pack_n.quick", "pack_n"], [])) == ["quick.Run"]


def test_a_package_of_which_a_module_is_known_already_is_walked_all_the_same() -> None:
    """Our own choice: that module's nodes are not what the package's `__init__` brings along."""
    write("lib/pack_o/__init__.py", "")
    write("lib/pack_o/a.py", a_node("one"))
    write("lib/pack_o/b.py", a_node("two"))
    assert clean(take_inventory(["pack_o.a", "pack_o"], [])) == ["a.One", "pack_o.Two"]


def test_a_package_that_a_helper_had_imported_in_part_is_walked_all_the_same() -> None:
    """Our own choice: as above, where nobody saw its import."""
    write("lib/pack_p/__init__.py", "")
    write("lib/pack_p/a.py", a_node("one"))
    write("lib/pack_p/b.py", a_node("two"))
    write("lib/user_p.py", "import pack_p.a\n" + a_node("run"))
    assert clean(take_inventory(["user_p", "pack_p"], [])) == ["user_p.Run", "pack_p.One", "pack_p.Two"]


def test_a_package_without_init_and_packages_in_it_are_walked() -> None:
    """Our own choice: as far as the import system sees packages, by name, without those that start with `_`."""
    write("lib/space_q/b.py", a_node("two"))
    write("lib/space_q/a/__init__.py", "")
    write("lib/space_q/a/deep.py", a_node("one"))
    write("lib/space_q/c-d.py", a_node("three"))
    write("lib/space_q/_private.py", "raise AssertionError('imported')")
    write("lib/space_q/bare/inner.py", "raise AssertionError('imported')")
    assert clean(take_inventory(["space_q"], [])) == ["space_q.One", "space_q.Two", "space_q.Three"]


# The process


def test_taking_an_inventory_loads_no_heavy_module_and_packs_may_print_and_log(
    interpreter: str, tmp_path: Path
) -> None:
    """Our own choice: a start takes no longer than it must. A pack is walked without `inspect` and `typing`."""
    write("lib/pack_nine/__init__.py", "")
    write("lib/pack_nine/a.py", "print('a banner')\n" + a_node("run"))
    install("nine-dist", "nine = pack_nine")
    code = (
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from nodetool_worker.inventory import take_inventory\n"
        "found = take_inventory([], [])\n"
        "assert list(found.nodes) == ['nine.Run'], found.load_errors\n"
        "heavy = 'asyncio importlib.metadata inspect json logging pkgutil pydantic re typing'.split()\n"
        "print(sorted(set(heavy) & set(sys.modules)))"
    )
    command = [interpreter, "-c", code, str(tmp_path / "lib")]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=30)
    assert run.stdout.splitlines() == ["a banner", "[]"]
