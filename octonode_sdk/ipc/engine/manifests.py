"""Manifests that are known, by the command and the times of its files.

A describe starts a process. What it says can only change with the program, so it is asked again once a file that the
command names has changed (ENG-27): the program itself, a script, a module after `-m` or in place of a file.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from .process import Program

    Stamp: TypeAlias = "tuple[tuple[str, int, int], ...]"

__all__ = ["Manifests", "shared", "stamp_of"]

#: Commands and nodes whose manifest is kept; a manifest has some kilobytes.
_KEPT = 256


def stamp_of(program: Program) -> Stamp:
    """Return the files that a command names, each with its time in nanoseconds and its size in bytes."""
    folder = program.cwd or os.curdir
    stamps: dict[str, tuple[str, int, int]] = {}
    for place, word in enumerate(program.command):
        for path in _files_of(word, folder, program, is_first=place == 0):
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                continue
            stamps[path] = (path, status.st_mtime_ns, status.st_size)
    return tuple(sorted(stamps.values()))


def _files_of(word: str, folder: str, program: Program, *, is_first: bool) -> list[str]:
    path = os.path.join(folder, word)
    if os.path.isfile(path):
        return [os.path.abspath(path)]
    if is_first:
        from shutil import which

        found = which(word, path=program.environment().get("PATH"))
        return [] if found is None else [os.path.abspath(found)]
    parts = word.split(".")
    if not all(part.isidentifier() for part in parts):
        return []
    files = []
    for base in [folder, *_import_folders(program)]:
        inner = os.path.join(base, *parts)
        for candidate in (f"{inner}.py", os.path.join(inner, "__init__.py"), os.path.join(inner, "__main__.py")):
            if os.path.isfile(candidate):
                files.append(os.path.abspath(candidate))
        if files:
            break
    return files


def _import_folders(program: Program) -> list[str]:
    """Return where the command's Python may look for a module; that of another interpreter is not known."""
    folders = program.environment().get("PYTHONPATH", "").split(os.pathsep)
    return [one for one in [*folders, *sys.path] if one]


class Manifests:
    """Answers to describes. Errors are not kept: the next one may go well."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Stamp, dict[str, Any]]] = {}

    def get(self, program: Program, node: str | None, stamp: Stamp) -> dict[str, Any] | None:
        """Return a copy of the envelope that is known, or None where there is none or a file has changed."""
        known = self._known.get(_key(program, node))
        if known is None or known[0] != stamp:
            return None
        from copy import deepcopy

        return deepcopy(known[1])

    def put(self, program: Program, node: str | None, stamp: Stamp, envelope: dict[str, Any]) -> None:
        """Keep an envelope with a manifest; `stamp` is from before the process was started."""
        from copy import deepcopy

        key = _key(program, node)
        self._known.pop(key, None)
        self._known[key] = (stamp, deepcopy(envelope))
        while len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]


def _key(program: Program, node: str | None) -> tuple[Any, ...]:
    return (*program.command, None, os.path.abspath(program.cwd or os.curdir), node, *sorted(program.env.items()))


#: That of all engines of this process.
shared = Manifests()
