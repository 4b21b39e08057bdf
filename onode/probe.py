"""A program of its own that loads node code and reports what it finds: `python -m onode.probe JOB`.

The command itself never imports node code: what hangs, exits or crashes there costs this process alone. JOB is a JSON
object, and each line on stdout another:

========  ===========================================================================================================
job       `mode` ("load": all or nothing, as a runner does it; "scan": each module and node for itself, as a worker
          does it; "import": the module alone), `target`, `root` (a folder that leads `sys.path`), `single` (the
          nodes that this very module defines, and no walk), `skip` (modules that are not to be imported)
========  ===========================================================================================================

================================  ===================================================================================
{"importing": MODULE}             before each import, so that who waits knows where it hangs
{"node": MANIFEST, ...}           with `module`, `name`, `file`, `line`, `dynamic`, `streams` and `secrets`
{"fault": TEXT, ...}              with `module`, `error_type` and `stack` (null where no node code has raised)
{"imported": SECONDS}             mode "import": how long it took
{"files": [PATH, ...]}            the source files that are loaded now
{"end": true}                     the last line
================================  ===================================================================================

What node code prints goes to stderr. The process ends when its stdin does, so it never outlives the one who asked.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter

from octonode_sdk.errors import DefinitionError, LoadError
from octonode_sdk.failures import failure_of
from octonode_sdk.manifest import manifest
from octonode_sdk.nodes import all_nodes, hand_faults_to
from octonode_sdk.packs import (
    import_file,
    import_module,
    is_file,
    load,
    mask_secrets_of,
    nodes_in,
    place_of,
    replaces,
    submodules,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType, TracebackType
    from typing import Any

    from octonode_sdk.nodes import Node

__all__ = ["Probe", "main"]


class Probe:
    """Does one job.

    Args:
        job: See above.
        out: Descriptor for the report.
    """

    def __init__(self, job: dict[str, Any], out: int) -> None:
        self._mode: str = job["mode"]
        self._target: str = job["target"]
        self._single: bool = job.get("single", False)
        self._skip = frozenset(job.get("skip", ()))
        self._out = out
        self._ids: dict[str, Node] = {}

    def run(self) -> None:
        """Do the job; whatever node code raises becomes a fault."""
        try:
            if self._mode == "load":
                self._tell({"importing": self._target})
                for node in load(self._target).values():
                    self._node(node)
            elif self._mode == "import":
                self._tell({"importing": self._target})
                began = perf_counter()
                import_module(self._target)
                self._tell({"imported": perf_counter() - began})
            else:
                hand_faults_to(self._fault)
                self._scan()
        except BaseException as error:  # noqa: BLE001  # node code may raise anything, SystemExit too
            self._fault(self._target, error)
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        self._tell({"files": sorted(file for file in files if isinstance(file, str) and file.endswith(".py"))})
        self._tell({"end": True})

    def _scan(self) -> None:
        if is_file(self._target):
            self._tell({"importing": self._target})
            modules = [import_file(self._target)]
        else:
            found = self._bring(self._target)
            modules = [] if found is None else [found]
            if found is not None and hasattr(found, "__path__") and not self._single and not nodes_in(found):
                self._walk(found)
        for module in modules:
            for node in nodes_in(module):
                if not self._single or self._is_own(node, module):
                    self._list(node)

    def _is_own(self, node: Node, module: ModuleType) -> bool:
        """Tell whether a module defines a node itself: others name it, or a module inside of it has it."""
        code = getattr(node.fn, "__code__", None)
        file = getattr(module, "__file__", None)
        if code is None or file is None:
            return node.module == module.__name__
        return bool(os.path.realpath(code.co_filename) == os.path.realpath(file))

    def _bring(self, name: str) -> ModuleType | None:
        if name in self._skip:
            return None
        self._tell({"importing": name})
        try:
            return import_module(name)
        except BaseException as error:  # noqa: BLE001  # it costs this module alone
            self._fault(name, error)
            return None

    def _walk(self, package: ModuleType) -> None:
        for name, is_package in submodules(package):
            module = self._bring(name)
            if module is not None and is_package:
                self._walk(module)

    def _list(self, node: Node) -> None:
        try:
            node.complete()
            other = self._ids.get(node.id)
            if other is not None and not replaces(node, other):
                raise DefinitionError(
                    f"two nodes have this id: {place_of(other)} and {place_of(node)}",
                    node=node.id,
                    way_out="give one of them another: @node(id='...')",
                )
            self._node(node)
            self._ids[node.id] = node
        except BaseException as error:  # noqa: BLE001  # hints and defaults run code of the author's
            self._fault(node.module, error)

    def _node(self, node: Node) -> None:
        code = getattr(node.fn, "__code__", None)
        self._tell(
            {
                "node": manifest(node),
                "module": node.module,
                "name": node.name,
                "file": None if code is None else code.co_filename,
                "line": None if code is None else code.co_firstlineno,
                "dynamic": node.dynamic,
                "streams": node.streams,
                "secrets": [secret.name for secret in node.secrets],
            }
        )

    def _fault(self, module: str, error: BaseException) -> None:
        mask_secrets_of(all_nodes())
        while error.__traceback__ is not None and error.__traceback__.tb_frame.f_globals is globals():
            error.__traceback__ = error.__traceback__.tb_next  # this program's own lines tell its author nothing
        failure = failure_of(error)
        is_ours = isinstance(error, (LoadError, DefinitionError))
        place = "" if is_ours else _place_in(error.__traceback__, self._target)
        self._tell(
            {
                "fault": failure.message + place,
                "module": module,
                "error_type": type(error).__name__,
                "stack": None if is_ours else failure.stack,
            }
        )

    def _tell(self, event: dict[str, Any]) -> None:
        import json

        data = json.dumps(event).encode() + b"\n"
        while data:
            data = data[os.write(self._out, data) :]


def _place_in(trace: TracebackType | None, target: str) -> str:
    """Return the last line that an exception passed outside of libraries, for people: its author can change that."""
    place = ""
    libraries = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep)
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        ours = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] in ("octonode_sdk", "onode")
        if os.path.isabs(name) and not ours and not name.startswith(libraries):
            place = f" ({os.path.basename(name)}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _end_with_stdin(descriptor: int) -> None:
    """End this process when its stdin ends: nobody waits for it any more."""
    try:
        while os.read(descriptor, 4096):
            pass
    finally:
        os._exit(0)


def main(arguments: list[str]) -> int:
    """Take stdout for the report, leave stderr to node code, and do the job."""
    import json
    from _thread import start_new_thread

    job = json.loads(arguments[0])
    out, given = os.dup(1), os.dup(0)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    start_new_thread(_end_with_stdin, (given,))
    if job.get("root"):
        sys.path.insert(0, job["root"])
    Probe(job, out).run()
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(0)  # threads of node code must not keep it
