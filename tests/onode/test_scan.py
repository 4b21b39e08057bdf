"""`onode scan`: what is there, what is not and why, and that nothing holds it up."""

from pathlib import Path

import pytest

from .kit import HEAD, onode, write

A_NODE = "@node\ndef {}(x: int) -> int:\n    '''Give it back.'''\n    return x\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a good file, one of each fault, a package, and what must not be imported."""
    write(tmp_path / "good.py", A_NODE.format("good"))
    write(tmp_path / "raises.py", "raise ValueError('boom')\n")
    write(tmp_path / "exits.py", "raise SystemExit(3)\n")
    write(tmp_path / "crashes.py", "import os\nos._exit(4)\n")
    write(tmp_path / "hangs.py", "import time\nwhile True: time.sleep(0.1)\n")
    write(tmp_path / "half.py", A_NODE.format("whole") + "@node\ndef ill(x) -> int: ...\n")
    write(tmp_path / "pack" / "one.py", "from .helper import x\n" + A_NODE.format("one"))
    write(tmp_path / "pack" / "helper.py", "from .sub import two\nx = 1\n")
    write(tmp_path / "pack" / "sub" / "__init__.py", "")
    write(tmp_path / "pack" / "sub" / "two.py", A_NODE.format("two"))
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "setup.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    write(tmp_path / ".hidden" / "no.py", "raise SystemExit\n")
    write(tmp_path / "env" / "no.py", "raise SystemExit\n")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    return tmp_path


@pytest.mark.parametrize("host", ["octonode", "nodetool"])
def test_a_folder_is_listed_with_every_fault_and_nothing_holds_it_up(host: str, folder: Path) -> None:
    """Our own choice: each file costs itself alone; what does not mention the package is not imported."""
    done = onode("scan", ".", "--timeout", "3", "--host", host, "--json", cwd=folder)
    assert done.status == 1
    ids = {one["id"].rpartition(".")[2].lower() for one in done.json["nodes"]}
    assert ids == {"good", "whole", "one", "two"}
    why = {one["place"]: one["error"] for one in done.json["faults"]}
    assert why.keys() == {"raises.py", "exits.py", "crashes.py", "hangs.py", "half.py"}
    assert "boom" in why["raises.py"]
    assert "SystemExit: 3" in why["exits.py"]
    assert "status 4" in why["crashes.py"]
    assert "has not ended within 3.00 s" in why["hangs.py"]
    assert "'x' has no annotation" in why["half.py"]
    assert done.err == "4 nodes, 5 not loaded\n"


def test_people_get_the_place_of_each_node(tmp_path: Path) -> None:
    """Our own choice: as editors open it."""
    write(tmp_path / "sub" / "good.py", A_NODE.format("good"))
    done = onode("scan", "sub", cwd=tmp_path)
    assert (done.status, done.out) == (0, "good  sub/good.py:2  Give it back.\n")


def test_a_module_is_walked_and_goes_on_behind_what_ends_it(tmp_path: Path) -> None:
    """FND-9: each module for itself, also one that hangs or crashes."""
    acme = tmp_path / "lib" / "acme"
    acme.mkdir(parents=True)
    (acme / "__init__.py").touch()
    write(acme / "a.py", A_NODE.format("a"))
    write(acme / "b.py", "import os\nos._exit(4)\n")
    write(acme / "c.py", "import time\ntime.sleep(1000)\n")
    write(acme / "d.py", A_NODE.format("d"))
    env = {"PYTHONPATH": str(tmp_path / "lib")}
    done = onode("scan", "acme", "--timeout", "2", "--json", cwd=tmp_path, env=env)
    assert [one["id"] for one in done.json["nodes"]] == ["a", "d"]
    assert [one["place"] for one in done.json["faults"]] == ["acme.b", "acme.c"]


def test_a_node_that_others_name_is_listed_once_and_where_it_is(tmp_path: Path) -> None:
    """Our own choice."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").write_text("# octonode_sdk\nfrom .one import one\n", encoding="utf-8")
    write(tmp_path / "acme" / "one.py", A_NODE.format("one"))
    done = onode("scan", ".", cwd=tmp_path)
    assert (done.status, done.out) == (0, "one  acme/one.py:2  Give it back.\n")


def test_two_nodes_of_one_id_are_a_fault(tmp_path: Path) -> None:
    """REQ-7: the first stays."""
    write(tmp_path / "two.py", "@node(id='a')\ndef b() -> int: ...\n@node(id='a')\ndef c() -> int: ...\n")
    done = onode("scan", "two.py", "--json", cwd=tmp_path)
    assert (done.status, len(done.json["nodes"]), len(done.json["faults"])) == (1, 1, 1)
    assert "two nodes have this id" in done.json["faults"][0]["error"]


def test_where_nothing_is_found_it_says_so(tmp_path: Path) -> None:
    """Our own choice: status 2, since a wrong place is the likely reason."""
    (tmp_path / "plain.py").write_text("x = 1\n", encoding="utf-8")
    write(tmp_path / "none.py", "x = 1\n")
    for place in (".", "none.py"):
        done = onode("scan", place, cwd=tmp_path)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"onode: there is no node in {place} ")


def install_pack(folder: Path) -> dict[str, str]:
    """Install a pack below a folder; return the variable that finds it."""
    info = folder / "lib" / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[octonode.nodes]\nacme = acme_nodes\n", encoding="utf-8")
    (folder / "lib" / "acme_nodes.py").write_text(HEAD + A_NODE.format("packed"), encoding="utf-8")
    return {"PYTHONPATH": str(folder / "lib")}


@pytest.mark.parametrize("host", ["octonode", "nodetool"])
def test_the_installed_packs_are_listed(host: str, tmp_path: Path) -> None:
    """FND-4: by their entry points."""
    env = install_pack(tmp_path)
    done = onode("scan", "--packs", "--host", host, "--json", cwd=tmp_path, env=env)
    (found,) = done.json["nodes"]
    assert (done.status, found["id"]) == (0, "packed" if host == "octonode" else "acme.Packed")


def test_without_packs_it_says_what_one_is(tmp_path: Path) -> None:
    """Our own choice."""
    done = onode("scan", "--packs", cwd=tmp_path)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "octonode.nodes" in done.err


def test_doctor_shows_the_packs_with_the_time_of_their_import(tmp_path: Path) -> None:
    """Our own choice: and what a worker serves here."""
    env = install_pack(tmp_path)
    done = onode("doctor", "--json", cwd=tmp_path, env=env)
    (pack,) = done.json["packs"]
    assert (done.status, done.json["problems"]) == (0, [])
    assert (pack["module"], pack["nodes"], pack["import_seconds"] > 0) == ("acme_nodes", 1, True)
    assert done.json["worker"]["nodes"] == ["acme.Packed"]
    assert {one["name"] for one in done.json["distributions"]} >= {"octonode-sdk", "msgpack", "pydantic"}
    (cli,) = [one for one in done.json["extras"] if one["name"] == "cli"]
    assert (cli["missing"], cli["install"], sorted(cli["versions"])) == ([], None, ["rich", "typer", "watchfiles"])


def test_doctor_names_a_pack_that_does_not_load(tmp_path: Path) -> None:
    """Our own choice: status 1, and why."""
    env = install_pack(tmp_path)
    (tmp_path / "lib" / "acme_nodes.py").write_text("raise ValueError('boom')\n", encoding="utf-8")
    done = onode("doctor", cwd=tmp_path, env=env)
    assert done.status == 1
    assert "problem: pack acme: acme_nodes: ValueError: boom" in done.out
