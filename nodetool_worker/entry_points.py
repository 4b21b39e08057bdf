"""The entry points of installed packs, found without the start-up time of `importlib.metadata`.

Importing that module takes longer than the rest of this package's start. What it does for plain folders is little: it
lists them, and reads one file of each distribution. That much is done here, by the same rules; where anything is out of
the ordinary (a zip file or a finder of its own on the path), `importlib.metadata` itself is asked.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["GROUP", "EntryPoint", "canonical_name", "find_entry_points"]

#: The group in which packs name their nodes: `[project.entry-points."octonode.nodes"]`.
GROUP = "octonode.nodes"


class EntryPoint:
    """One line of a distribution: `name = module`.

    Attributes:
        distribution: Canonical name of the distribution.
        name: The pack's namespace; empty where the lines can't be read.
        value: The module or package to walk, as it is written.
        fault: What is wrong with the line or its file, for people, or None.
    """

    __slots__ = ("distribution", "fault", "name", "value")

    def __init__(self, distribution: str, name: str, value: str, fault: str | None = None) -> None:
        self.distribution, self.name, self.value, self.fault = distribution, name, value, fault

    def __repr__(self) -> str:
        return f"EntryPoint({self.distribution!r}, {self.name!r}, {self.value!r}, {self.fault!r})"


def canonical_name(distribution: str) -> str:
    """Return a distribution's name in the one spelling that stands for all of them: `Acme_Images` -> `acme-images`."""
    name = distribution.strip().lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name


def find_entry_points(group: str = GROUP, path: Sequence[str] | None = None) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name, then by distribution.

    Of two distributions with one name the first on the path counts, whatever the other one says. Nothing is imported,
    and a file that can't be read costs its own distribution alone.

    Args:
        group: Their group.
        path: Folders to search; `sys.path` unless given.
    """
    places = list(sys.path if path is None else path)
    found = _scan(group, places)
    if found is None:
        found = _ask_importlib(group, places)
    return sorted(found, key=lambda one: (one.name, one.distribution, one.value))


def _scan(group: str, places: Sequence[object]) -> list[EntryPoint] | None:
    """Return what the folders have, or None where a look at them does not settle it."""
    finder = getattr(sys.modules.get("_frozen_importlib_external"), "PathFinder", None)
    asked = [one for one in sys.meta_path if getattr(one, "find_distributions", None) is not None]
    if finder is None or asked != [finder]:
        return None
    mark = group.encode()
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for place in dict.fromkeys(places):
        if type(place) is not str or place.lower().rstrip("/\\").endswith(".egg"):
            return None
        try:
            entries = os.listdir(place or ".")
        except FileNotFoundError:
            continue
        except OSError:  # a zip file, or what else is no folder
            return None
        for entry in entries:
            if not entry.lower().endswith((".dist-info", ".egg-info")):
                continue
            stem = entry.rpartition(".")[0].partition("-")[0]
            if not stem or not entry.endswith((".dist-info", ".egg-info")):
                return None  # its name stands in its metadata alone
            name = canonical_name(stem)
            if name in seen:
                continue
            seen.add(name)
            try:
                data = _read(os.path.join(place, entry, "entry_points.txt"))
                if mark in data:
                    found += _parse(data.decode("utf-8"), group, name)
            except (OSError, UnicodeDecodeError) as error:
                found.append(EntryPoint(name, "", "", f"its entry_points.txt can't be read: {error}"))
    return found


def _read(path: str) -> bytes:
    """Return what a file holds; nothing where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
        return b""  # `importlib.metadata` takes these for no file as well


def _ask_importlib(group: str, places: list[str]) -> list[EntryPoint]:
    """Return what `importlib.metadata` finds. A distribution or finder that fails costs itself."""
    from importlib.metadata import distributions

    found: list[EntryPoint] = []
    seen: set[str] = set()
    try:
        for distribution in distributions(path=places):
            name = str(getattr(distribution, "_path", distribution))
            try:
                name = canonical_name(distribution.metadata["Name"])
                if name not in seen:
                    seen.add(name)
                    found += _parse(distribution.read_text("entry_points.txt") or "", group, name)
            except Exception as error:  # noqa: BLE001  # metadata may be broken, and finders of others do as they like
                found.append(EntryPoint(name, "", "", f"its metadata can't be read: {type(error).__name__}: {error}"))
    except Exception as error:  # noqa: BLE001  # as above
        fault = f"a finder on sys.meta_path fails: {type(error).__name__}: {error}"
        found.append(EntryPoint("(unknown)", "", "", fault))
    return found


def _parse(text: str, group: str, distribution: str) -> Iterator[EntryPoint]:
    """Yield the lines of a group. The form is that of an INI file with `=` alone between name and value."""
    section = None
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line.strip("[]")
        elif section == group:
            name, _, value = (part.strip() for part in line.partition("="))
            fault = None
            if not name or not all(part.isidentifier() for part in value.split(".")):
                fault = f"its line {line!r} in [{group}] is not of the form: namespace = package.module"
            yield EntryPoint(distribution, name, value, fault)
