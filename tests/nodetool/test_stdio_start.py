"""The worker as a process: what it is started with, and what it does before and beside the calls."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ipc.support import PATIENCE
from tests.nodetool.support import Worker, discover, environment_of, execute, outputs_of, status

NODES = """
    import threading
    from typing import Any

    from octonode_sdk import node

    IMPORTED_ON = threading.current_thread() is threading.main_thread()

    @node
    def started() -> list[str]:
        children = open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii").read().split()
        return [str(IMPORTED_ON), str("later" in sys.modules), *children]

    @node
    def echo(x: Any) -> Any:
        return x

    @node
    def keys() -> Any:
        return {"a": [{"__proto__": 1, "b": "__proto__"}]}
"""


def test_node_modules_are_imported_on_the_main_thread_and_nothing_else_is_for_an_answer(tmp_path: Path) -> None:
    """FND-17, DSC-14, C029: a library may insist on the main thread; and a status must not wait for a process."""
    (tmp_path / "later.py").write_text("", encoding="utf-8")
    with Worker(tmp_path, NODES) as worker:
        worker.send(discover(), status())
        worker.until_end("discover")
        worker.until_end("status")
        assert outputs_of(worker.call("Started")) == {"output": ["True", "False"]}


def test_the_key_of_an_object_s_prototype_is_sent_as_hosts_read_it(tmp_path: Path) -> None:
    """VAL-20: some decoders refuse the whole frame, and the host then gives up the worker."""
    with Worker(tmp_path, NODES) as worker:
        wanted = {"output": {"a": [{"__proto_": 1, "b": "__proto__"}]}}
        assert outputs_of(worker.call("Keys")) == wanted
        worker.send(execute("Echo", "k", x=bytes(70_000) + b"__proto__"))  # no key, and not copied
        assert outputs_of(worker.until_end("k"))["output"].endswith(b"__proto__")


def run_with(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a worker that does not get as far as to serve."""
    line = [sys.executable, "-m", "nodetool_worker", *arguments]
    return subprocess.run(line, capture_output=True, timeout=PATIENCE, check=False, env=environment_of())


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
def test_help_and_version_go_to_stdout(flag: str) -> None:
    """WOP-13: and nothing is served."""
    run = run_with(flag)
    assert run.returncode == 0
    assert run.stderr == b""
    assert (b"octonode-sdk " if flag == "--version" else b"usage: python -m nodetool.worker --stdio") in run.stdout


def test_without_stdio_it_says_that_there_is_no_server() -> None:
    """WOP-14: and not a word on stdout, which a host may read."""
    run = run_with()
    assert run.returncode == 2
    assert run.stdout == b""
    assert b"only --stdio" in run.stderr
