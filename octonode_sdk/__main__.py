"""`python -m octonode_sdk TARGET [NODE]`: the Octonode runner.

Octonode starts a process a call, and most of what this package adds to a bare interpreter went into finding its own
modules: the standard machinery asks each finder in turn, and looks for every kind of module file. So while the runner's
modules load, a finder that knows where they are goes first. It reads the ordinary bytecode cache under the ordinary
rules, and leaves whatever is out of the ordinary to the standard loader.
"""

import gc
import sys
from importlib._bootstrap_external import _compile_bytecode  # type: ignore[attr-defined]  # the stub lacks it
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from os import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

_PREFIX = f"{__package__}."
_FOLDER = __file__.removesuffix("__main__.py")

#: Whether this package is source in a folder with its caches beside it: not in a zip file, nor bytecode alone.
_IS_PLAIN = bool(
    type(getattr(__spec__, "loader", None)) is SourceFileLoader
    and sys.implementation.cache_tag
    and not sys.pycache_prefix
)

#: The cache of `NAME.py`, relative to its folder.
_CACHE_HEAD, _, _CACHE_TAIL = cache_from_source("NAME.py").partition("NAME") if _IS_PLAIN else ("", "", "")


class _Loader(SourceFileLoader):
    """Takes a module's code from its cache where that is fresh; else does as the standard loader does."""

    cache: str

    def get_code(self, fullname: str) -> "CodeType | None":
        """Return the module's code."""
        try:
            with open(self.cache, "rb") as file:
                data = file.read()
            source = stat(self.path)
        except OSError:
            return super().get_code(fullname)
        # A cache starts with the magic number, flags (0: compared by time), and the source's time and size.
        if (
            data[:8] == MAGIC_NUMBER + b"\0\0\0\0"
            and int.from_bytes(data[8:12], "little") == int(source.st_mtime) & 0xFFFFFFFF
            and int.from_bytes(data[12:16], "little") == source.st_size & 0xFFFFFFFF
        ):
            # As the standard loader does it, for a broken cache and for one that was made in another folder too.
            code: CodeType = _compile_bytecode(memoryview(data)[16:], fullname, self.cache, self.path)
            return code
        return super().get_code(fullname)


class _Finder:
    """Finds the plain modules of this package."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of ours, or None."""
        if not name.startswith(_PREFIX) or path is None:
            return None
        folder, _, stem = (_FOLDER + name[len(_PREFIX) :].replace(".", "/")).rpartition("/")
        if stem in ("ipc", "process"):  # a package
            return None
        loader = _Loader(name, f"{folder}/{stem}.py")
        spec = ModuleSpec(name, loader, origin=loader.path)
        spec.has_location = True
        spec.cached = loader.cache = f"{folder}/{_CACHE_HEAD}{stem}{_CACHE_TAIL}"
        return spec


# A child that multiprocessing spawns imports this module under another name and must not serve (LIFE-21).
if __name__ == "__main__":
    # Nothing collects while modules load; what they make stays anyway. The runner turns it on again.
    gc.disable()
    if _IS_PLAIN:
        sys.meta_path.insert(0, _Finder)
    from .ipc.runner import main

    if _IS_PLAIN:
        sys.meta_path.remove(_Finder)
    sys.exit(main())
