"""Installed packs, clashes and the filter; what `discover` reports of each node that is left."""

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from nodetool_worker.inventory import split_names, take_inventory
from nodetool_worker.metadata import entry_of
from tests.nodetool.packkit import a_node, as_it_was, clean, install, places, write


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    yield from as_it_was(monkeypatch, tmp_path)


# Entry points


def test_entry_points_come_after_the_targets_by_name_and_name_the_namespace() -> None:
    """FND-1, FND-4, FND-5."""
    write("lib/pack_r.py", a_node("one") + a_node("two", "namespace='mine'"))
    write("lib/pack_s/__init__.py", "")
    write("lib/pack_s/inner.py", a_node("three"))
    write("own.py", a_node("four"))
    install("a-dist", "zoo = pack_r")
    install("b-dist", "ant.hill = pack_s")
    found = take_inventory(["own.py"], [])
    assert clean(found) == ["own.Four", "ant.hill.Three", "zoo.One", "mine.Two"]
    assert found.namespaces == ["ant", "mine", "own", "zoo"]
    assert found.nodes["mine.Two"].namespace == "mine"


def test_packs_are_left_out_on_request_and_a_node_keeps_its_namespace() -> None:
    """FND-5: saved workflows name the type."""
    write("lib/pack_t/__init__.py", "")
    write("lib/pack_t/inner.py", a_node("run"))
    write("lib/other_t.py", "raise AssertionError('imported')")
    install("t-dist", "tee = pack_t", "other = other_t")
    assert clean(take_inventory(["pack_t.inner"], [], packs=False)) == ["tee.Run"]
    assert clean(take_inventory(["pack_t"], [], packs=False)) == ["tee.Run"]


def test_a_node_that_several_targets_lead_to_is_there_once() -> None:
    """FND-14."""
    write("lib/pack_u/__init__.py", "")
    write("lib/pack_u/inner.py", a_node("run"))
    write("lib/pack_v.py", "from pack_u.inner import run\n")
    install("u-dist", "far = pack_u", "near = pack_u.inner", "also = pack_u.inner")
    install("v-dist", "again = pack_v")
    targets = ["pack_v", "pack_u", "lib/pack_v.py", "./lib/pack_v.py", "pack_u.inner", "pack_u.inner"]
    imported: list[str] = []
    assert clean(take_inventory(targets, [], importing=imported.append)) == ["also.Run"]
    assert [name for name in imported if name.endswith("pack_v.py")] == ["lib/pack_v.py"]


def test_the_source_of_a_pack_is_read_as_a_file_too_and_is_no_clash() -> None:
    """FND-14: it is one definition under two module names."""
    write("lib/acme.py", a_node("run"))
    install("acme", "acme = acme")
    found = take_inventory(["lib/acme.py"], [])
    assert clean(found) == ["acme.Run"]
    assert found.nodes["acme.Run"].origin == "target lib/acme.py"


def test_of_two_nodes_with_one_type_the_first_stays_and_both_places_are_told() -> None:
    """FND-13, C113: never the last one."""
    write("lib/pack_w.py", a_node("run"))
    write("lib/pack_x.py", "\n" + a_node("run") + a_node("other"))
    install("w-dist", "same = pack_w")
    install("x-dist", "same = pack_x")
    found = take_inventory([], [])
    assert list(found.nodes) == ["same.Run", "same.Other"]
    assert found.nodes["same.Run"].module == "pack_w"
    assert places(found) == [("pack_x", "entry_point", "LoadError"), ("pack_x", "clash", "DefinitionError")]
    names, clash = (one["error"] for one in found.load_errors)
    for word in ("'w-dist'", "'x-dist'", "'same'", "pack_w", "pack_x"):
        assert word in names
    for word in ("'same.Run'", "run in pack_w, line 3", "'w-dist'", "run in pack_x, line 4", "'x-dist'", "@node(id="):
        assert word in clash


def test_ids_that_become_one_type_clash_in_one_module_as_well() -> None:
    """FND-13: functions of one factory too, which share their code."""
    source = """
        def make(number: int):
            @node
            def scale(value: int) -> int:
                return value * number
            return scale

        double, triple = make(2), make(3)
        """
    found = take_inventory([write("pack_y.py", a_node("two_words") + a_node("TwoWords") + dedent(source))], [])
    assert list(found.nodes) == ["pack_y.TwoWords", "pack_y.Scale"]
    assert found.nodes["pack_y.TwoWords"].node.id == "two_words"
    assert found.nodes["pack_y.Scale"].node.fn(1) == 2
    assert places(found) == [("pack_y", "clash", "DefinitionError")] * 2


def test_a_module_that_is_read_again_replaces_its_nodes() -> None:
    """FND-14: a reload is no clash."""
    write("lib/pack_z.py", a_node("run"))
    take_inventory(["pack_z"], [])
    module = importlib.reload(sys.modules["pack_z"])
    found = take_inventory(["pack_z"], [])
    assert clean(found) == ["pack_z.Run"]
    assert found.nodes["pack_z.Run"].node.fn is module.run


def test_broken_entry_points_are_told_with_their_distribution_and_the_others_load() -> None:
    """C115."""
    write("lib/good.py", a_node("run"))
    write("lib/exits.py", "raise SystemExit(3)")
    install("one-dist", "a = exits", "z = good")
    install("two-dist", "b = good:run", "c = no_such_pack")
    (Path("lib") / "three-1.0.dist-info").mkdir()
    (Path("lib") / "three-1.0.dist-info" / "entry_points.txt").write_bytes(b"[octonode.nodes]\nd = \xff\n")
    found = take_inventory([], [])
    assert list(found.nodes) == ["z.Run"]
    assert sorted(places(found)) == [
        ("exits", "import", "SystemExit"),
        ("good:run", "entry_point", "LoadError"),
        ("no_such_pack", "import", "LoadError"),
        ("three", "entry_point", "LoadError"),
    ]
    owners = {one["module"]: one["error"] for one in found.load_errors}
    assert "entry point 'a' of distribution 'one-dist'" in owners["exits"]
    assert "distribution 'two-dist'" in owners["good:run"]
    assert "entry point 'c' of distribution 'two-dist'" in owners["no_such_pack"]


@pytest.mark.parametrize("text", ["bad", "x, bad ,", "bad-dist", "Bad_Dist"])
def test_a_disabled_pack_is_never_imported(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """FND-20, C115: by the name of its entry point or of its distribution."""
    write("lib/broken.py", "raise SystemExit")
    write("lib/good.py", a_node("run"))
    install("bad-dist", "bad = broken")
    install("good-dist", "good = good")
    assert len(take_inventory([], []).load_errors) == 1
    monkeypatch.setenv("OCTONODE_DISABLED_PACKS", text)
    imported: list[str] = []
    assert clean(take_inventory([], [], importing=imported.append)) == ["good.Run"]
    assert imported == ["good"]
    monkeypatch.delenv("OCTONODE_DISABLED_PACKS")
    assert clean(take_inventory([], [], disabled=split_names(text))) == ["good.Run"]


# The filter


def test_the_filter_looks_at_the_first_segment_of_the_type() -> None:
    """FND-6, FND-7."""
    write("lib/pack_one.py", a_node("a") + a_node("b", "namespace='deep.down'") + a_node("c", "namespace='deeper'"))
    found = take_inventory(["pack_one"], [" deep", "", "pack_one ", " "])
    assert clean(found) == ["pack_one.A", "deep.down.B"]
    assert found.namespaces == ["deep", "pack_one"]
    assert [entry["node_type"] for entry in found.entries()] == list(found.nodes)
    assert found.find("deeper.C") is None


def test_a_decorator_may_put_a_node_into_the_filter_that_its_pack_is_not_in() -> None:
    """FND-7: so packs are imported before they are filtered."""
    write("lib/pack_two.py", a_node("a") + a_node("b", "namespace='wanted'"))
    install("two-dist", "pack = pack_two")
    assert clean(take_inventory([], ["wanted"])) == ["wanted.B"]


def test_a_namespace_that_no_node_has_is_told_with_those_that_there_are() -> None:
    """FND-21: a slip in the filter would look like a worker without nodes."""
    write("lib/pack_three.py", a_node("a") + a_node("b", "namespace='deep.down'"))
    found = take_inventory(["pack_three"], ["deep", "typo"])
    assert list(found.nodes) == ["deep.down.B"]
    assert places(found) == [("typo", "filter", "LoadError")]
    assert "'typo'; there are deep, pack_three" in found.load_errors[0]["error"]
    assert "there are no nodes" in take_inventory([], ["x"]).load_errors[0]["error"]


def test_an_ill_defined_node_outside_of_the_filter_is_no_error() -> None:
    """FND-7: it would not be served anyway."""
    path = write(
        "pack_four.py", "\n@node\ndef bad(x: 'Missing') -> int:\n    return 1\n" + a_node("a", "namespace='b'")
    )
    assert clean(take_inventory([path], ["b"])) == ["b.A"]


# Entries


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the entry of a node called `bad` fail as badly as can be; return the ids of those that were made."""
    made: list[str] = []

    def make(node: Any, namespace: str) -> dict[str, Any]:
        made.append(node.id)
        if node.id == "bad":
            raise SystemExit(5)
        return entry_of(node, namespace)

    monkeypatch.setattr("nodetool_worker.inventory.entry_of", make)
    return made


def test_a_node_that_cannot_be_described_is_no_longer_there_and_is_told(picky: list[str]) -> None:
    """DSC-3, DSC-4: what is not listed can't be executed either."""
    told: list[dict[str, str]] = []
    path = write("pack_five.py", a_node("one") + a_node("bad") + a_node("two"))
    found = take_inventory([path], [], tell=told.append)
    assert (len(found.nodes), picky) == (3, [])
    assert [entry["node_type"] for entry in found.entries()] == ["pack_five.One", "pack_five.Two"] == list(found.nodes)
    assert places(found) == [("pack_five", "metadata", "SystemExit")]
    assert "'pack_five.Bad', bad in pack_five, line 7" in found.load_errors[0]["error"]
    assert told == found.load_errors
    assert found.entries()[0] is found.entries()[0]
    assert picky == ["one", "bad", "two"]


def test_a_node_that_cannot_be_described_is_not_found_before_discover_either(picky: list[str]) -> None:
    """DSC-3."""
    found = take_inventory([write("pack_six.py", a_node("one") + a_node("bad") + a_node("two"))], [])
    assert found.find("pack_six.Bad") is None
    listed = found.find("pack_six.Two")
    assert listed is not None
    assert listed.node.id == "two"
    assert found.find("pack_six.None") is None
    assert picky == ["bad", "two"]
    assert places(found) == [("pack_six", "metadata", "SystemExit")]


def test_an_entry_that_cannot_be_packed_costs_its_node_alone() -> None:
    """DSC-4: in one piece, none of them would be sent."""

    def pack(entry: dict[str, Any]) -> str:
        if entry["node_type"] == "pack_seven.Bad":
            raise OverflowError("too big")
        return str(entry["node_type"])

    found = take_inventory([write("pack_seven.py", a_node("one") + a_node("bad") + a_node("two"))], [])
    assert found.pack_entries(pack) == ["pack_seven.One", "pack_seven.Two"] == list(found.nodes)
    assert found.pack_entries(pack) == ["pack_seven.One", "pack_seven.Two"]
    assert len(found.entries()) == 2
    assert found.find("pack_seven.Bad") is None
    assert places(found) == [("pack_seven", "metadata", "OverflowError")]
    assert "too big (node 'pack_seven.Bad', bad in pack_seven, line 7)" in found.load_errors[0]["error"]


def test_entries_are_made_once_however_many_threads_ask(picky: list[str]) -> None:
    """Our own choice: `discover` and a call may come at once."""
    source = "".join(a_node(f"n{number}") for number in range(40)) + a_node("bad")
    found = take_inventory([write("pack_eight.py", source)], [])
    start = threading.Barrier(4)

    def ask() -> None:
        start.wait(30)
        found.entries()
        found.find("pack_eight.N39")
        found.pack_entries(len)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(picky) == sorted([*(f"n{number}" for number in range(40)), "bad"])
    assert len(found.load_errors) == 1
