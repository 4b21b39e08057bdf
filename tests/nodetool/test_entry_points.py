"""The entry points of installed packs: found as `importlib.metadata` finds them, without its price."""

import importlib.metadata
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodetool_worker.entry_points import GROUP, EntryPoint, canonical_name, find_entry_points
from tests.data_cases import parametrize_cases

Lines = list[tuple[str, str, str]]


def install(folder: Path, name: str, text: str | bytes | None, *, kind: str = "dist-info") -> None:
    """Put what an installer leaves of a distribution into a folder."""
    info = folder / f"{name}.{kind}"
    info.mkdir(parents=True)
    title = name.partition("-")[0]
    file = "PKG-INFO" if kind == "egg-info" else "METADATA"
    (info / file).write_text(f"Metadata-Version: 2.1\nName: {title}\nVersion: 1\n", encoding="utf-8")
    if text is not None:
        data = text if isinstance(text, bytes) else text.encode()
        (info / "entry_points.txt").write_bytes(data)


def lines(found: list[EntryPoint]) -> Lines:
    """Return what entry points say."""
    return [(one.distribution, one.name, one.value) for one in found]


def as_importlib_finds_them(path: list[str]) -> Lines:
    """Return the same from `importlib.metadata`, whose distributions of one name shadow each other."""
    seen: dict[str, Any] = {}
    for distribution in importlib.metadata.distributions(path=path):
        seen.setdefault(canonical_name(distribution.metadata["Name"]), distribution)
    return sorted(
        (
            (name, point.name, point.value)
            for name, one in seen.items()
            for point in one.entry_points.select(group=GROUP)
        ),
        key=lambda line: (line[1], line[0], line[2]),
    )


@pytest.fixture
def no_importlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a question to `importlib.metadata` fail the test."""

    def refuse(**_: object) -> None:
        raise AssertionError("importlib.metadata was asked")

    monkeypatch.setattr(importlib.metadata, "distributions", refuse)


@parametrize_cases("nodetool/entry_points/lines")
@pytest.mark.usefixtures("no_importlib")
def test_lines_of_the_group_are_read_and_one_that_is_no_such_line_is_told_and_costs_itself(
    case: dict[str, Any], tmp_path: Path
) -> None:
    """FND-4, C115."""
    install(tmp_path, "acme-1.0", case["text"])
    found = find_entry_points(path=[str(tmp_path)])
    assert [[one.name, one.value] for one in found if one.fault is None] == case["found"]
    faults = [one.fault for one in found if one.fault is not None]
    assert len(faults) == len(case.get("faulty", []))
    for fault, line in zip(faults, case.get("faulty", []), strict=True):
        assert line in fault
        assert "namespace = package.module" in fault


def test_what_is_found_is_what_importlib_finds(tmp_path: Path) -> None:
    """Our own choice: every other tool sees the same packs."""
    first, second = tmp_path / "first", tmp_path / "second"
    install(first, "Acme_Images-1.0", "[octonode.nodes]\nb = images.one\na = images.two\n")
    install(first, "shadow-2.0", None)
    install(first, "plain-1.0", "[console_scripts]\nplain = plain:main\n")
    install(first, "old", "[octonode.nodes]\na = old\n", kind="egg-info")
    install(second, "acme.images-0.9", "[octonode.nodes]\na = shadowed\n")
    install(second, "shadow-1.0", "[octonode.nodes]\na = shadowed\n")
    install(second, "other-1.0", "[octonode.nodes]\na = other\n")
    (second / "single.egg-info").write_text("Name: single\n", encoding="utf-8")
    (second / "empty.dist-info").mkdir()
    (second / "empty.dist-info" / "METADATA").write_text("Name: empty\n", encoding="utf-8")
    path = [str(first), str(tmp_path / "missing"), str(second), str(first)]
    wanted = [
        ("acme-images", "a", "images.two"),
        ("old", "a", "old"),
        ("other", "a", "other"),
        ("acme-images", "b", "images.one"),
    ]
    assert lines(find_entry_points(path=path)) == wanted == as_importlib_finds_them(path)


@pytest.mark.usefixtures("no_importlib")
def test_the_path_of_the_process_is_searched_with_the_current_folder_where_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own choice: '' is the current folder."""
    install(tmp_path, "acme-1.0", "[octonode.nodes]\nacme = acme\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [""])
    assert lines(find_entry_points()) == [("acme", "acme", "acme")]


def test_a_zip_file_on_the_path_is_searched_too(tmp_path: Path) -> None:
    """Our own choice: what is out of the ordinary is left to `importlib.metadata`."""
    install(tmp_path / "folder", "plain-1.0", "[octonode.nodes]\nplain = plain\n")
    archive = tmp_path / "packs.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped-1.0.dist-info/METADATA", "Name: zipped\n")
        file.writestr("zipped-1.0.dist-info/entry_points.txt", "[octonode.nodes]\nzipped = zipped\nbad = a:b\n")
    path = [str(archive), str(tmp_path / "folder")]
    found = find_entry_points(path=path)
    assert lines(found) == [("zipped", "bad", "a:b"), ("plain", "plain", "plain"), ("zipped", "zipped", "zipped")]
    assert [one.name for one in found if one.fault is not None] == ["bad"]


def test_an_egg_is_searched_too(tmp_path: Path) -> None:
    """Our own choice: as above."""
    egg = tmp_path / "acme-1.0-py3.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    (egg / "EGG-INFO" / "PKG-INFO").write_text("Name: acme\n", encoding="utf-8")
    (egg / "EGG-INFO" / "entry_points.txt").write_text("[octonode.nodes]\nacme = acme\n", encoding="utf-8")
    assert lines(find_entry_points(path=[str(egg)])) == [("acme", "acme", "acme")]


class _Finder:
    """A finder with distributions of its own."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def find_spec(self, *_: object) -> None:
        return None

    def find_distributions(self, *_: object) -> Iterator[Any]:
        return self._make()


def test_a_finder_of_another_kind_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own choice: as above."""
    install(tmp_path / "hidden", "acme-1.0", "[octonode.nodes]\nacme = acme\n")
    hidden = importlib.metadata.Distribution.at(tmp_path / "hidden" / "acme-1.0.dist-info")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, _Finder(lambda: iter([hidden]))])
    assert lines(find_entry_points(path=[])) == [("acme", "acme", "acme")]


def test_a_finder_that_fails_is_told_and_what_was_found_before_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C115."""

    def fail() -> Iterator[Any]:
        raise RuntimeError("no such shelf")

    install(tmp_path, "acme-1.0", "[octonode.nodes]\nacme = acme\n")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, _Finder(fail)])
    broken, fine = find_entry_points(path=[str(tmp_path)])
    assert fine.name == "acme"
    assert "no such shelf" in str(broken.fault)


@pytest.mark.usefixtures("no_importlib")
def test_a_file_that_is_no_text_is_told_and_costs_its_own_distribution(tmp_path: Path) -> None:
    """C115: `importlib.metadata` would find nothing at all."""
    install(tmp_path, "broken-1.0", b"[octonode.nodes]\na = \xff\n")
    install(tmp_path, "foreign-1.0", b"[other]\na = \xff\n")
    install(tmp_path, "acme-1.0", "[octonode.nodes]\nacme = acme\n")
    broken, fine = find_entry_points(path=[str(tmp_path)])
    assert (broken.distribution, broken.name) == ("broken", "")
    assert "entry_points.txt can't be read" in str(broken.fault)
    assert (fine.distribution, fine.fault) == ("acme", None)


def test_metadata_without_a_name_costs_its_own_distribution_in_a_zip_file_too(tmp_path: Path) -> None:
    """C115."""
    archive = tmp_path / "packs.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("broken-1.0.dist-info/entry_points.txt", "[octonode.nodes]\na = a\n")
        file.writestr("acme-1.0.dist-info/METADATA", "Name: acme\n")
        file.writestr("acme-1.0.dist-info/entry_points.txt", "[octonode.nodes]\nacme = acme\n")
    found = find_entry_points(path=[str(archive)])
    assert [one.value for one in found if one.fault is None] == ["acme"]
    (broken,) = [one for one in found if one.fault is not None]
    assert "broken-1.0.dist-info" in broken.distribution


@pytest.mark.parametrize("spelling", ["acme-images", "Acme_Images", "acme.images", " ACME--_images"])
def test_every_spelling_of_a_distribution_is_one_name(spelling: str) -> None:
    """Our own choice: as package indexes have it."""
    assert canonical_name(spelling) == "acme-images"


def test_the_search_loads_neither_importlib_metadata_nor_what_it_needs(interpreter: str, tmp_path: Path) -> None:
    """Our own choice: a start takes no longer than it must."""
    install(tmp_path, "acme-1.0", "[octonode.nodes]\nacme = acme\n")
    code = (
        "import sys\n"
        "from nodetool_worker.entry_points import find_entry_points\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "before = set(sys.modules)\n"
        "assert [one.name for one in find_entry_points()] == ['acme']\n"
        "print(sorted({'importlib.metadata', 'asyncio', 'inspect', 're', 'typing'} & (set(sys.modules) - before)))"
    )
    command = [interpreter, "-c", code, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=30)
    assert run.stdout.strip() == "[]"
