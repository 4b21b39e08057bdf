"""The border of the process: how a worker starts, dies and is ended. The fake worker does what it is told."""

import gc
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nodetool_worker.bridge.client import Bridge
from nodetool_worker.bridge.limits import Limits
from nodetool_worker.bridge.process import worker_command
from nodetool_worker.errors import (
    BlobTransferError,
    BridgeClosedError,
    IncompatibleWorkerError,
    StreamLostError,
    WorkerDiedError,
    WorkerStartError,
)
from tests.nodetool.bridge.support import PATIENCE, fake_command

_BLOB = b"0123456789" * 1000


def spawn(*faults: str, **options: Any) -> Bridge:
    """Start the fake worker with these faults."""
    return Bridge.spawn(fake_command(*faults), **{"limits": Limits(), **options})


class Watch:
    """Somebody's process, told apart from a later one with the same number."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    def ends(self, timeout: float = PATIENCE) -> bool:
        """Wait for its end; return False if that does not come."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def __del__(self) -> None:
        os.close(self._fd)


# The start


def test_a_worker_is_started_used_and_ended() -> None:
    """BRG-1, BRG-2, BRG-3, BRG-20."""
    with spawn() as bridge:
        assert bridge.pid is not None
        watch = Watch(bridge.pid)
        assert bridge.protocol_version == 6
        assert bridge.supports_model_preparation("wan")
        assert bridge.execute("fake.Echo", {"a": 1}, blobs={"b": b"c"}).data == {
            "outputs": {"a": 1},
            "blobs": {"b": b"c"},
        }
        asked = bridge.execute("fake.Ask", node_id="n").outputs["asked"]
        assert asked == {
            "node_type": "fake.Ask",
            "fields": {},
            "secrets": {},
            "node_id": "n",
            "blob_transfer": "chunked-v1",
        }
        assert bridge.execute("fake.Echo").outputs == {}
    assert watch.ends()
    assert bridge.close() == 0


def test_the_command_has_the_interpreter_that_the_variable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """BRG-1."""
    monkeypatch.delenv("NODETOOL_PYTHON", raising=False)
    assert worker_command(None) == [sys.executable, "-m", "nodetool.worker", "--stdio"]
    monkeypatch.setenv("NODETOOL_PYTHON", "/opt/python")
    line = worker_command(None, nodes=["a.py", "b"], namespaces=["x", "y"])
    assert line == [
        *["/opt/python", "-m", "nodetool.worker", "--stdio"],
        *["--nodes", "a.py", "--nodes", "b", "--namespaces", "x,y"],
    ]
    assert worker_command(["worker", "--stdio"], namespaces=["x"]) == ["worker", "--stdio", "--namespaces", "x"]
    with pytest.raises(TypeError, match=r"give a list, such as \['worker', '--stdio'\]"):
        worker_command("worker --stdio")


def test_readiness_is_seen_in_whatever_pieces_it_comes() -> None:
    """BRG-2, C044: in the middle of a line, and without its end."""
    with spawn("split-ready") as bridge:
        assert bridge.protocol_version == 6


def test_a_worker_that_does_not_get_ready_is_ended(tmp_path: Path) -> None:
    """BRG-2, BRG-15."""
    said = threading.Event()
    pids: list[int] = []
    script = tmp_path / "silent.py"
    script.write_text(
        "import os, sys, time\nprint(os.getpid(), file=sys.stderr, flush=True)\ntime.sleep(1000)\n", encoding="utf-8"
    )

    def note(line: str) -> None:
        pids.append(int(line))
        said.set()

    with pytest.raises(WorkerStartError) as caught:
        Bridge.spawn([sys.executable, str(script)], startup_timeout=1.0, on_stderr=note)
    error = caught.value
    assert "did not say NODETOOL_STDIO_READY on stderr within 1 s; give it more time (startup_timeout)" in str(error)
    assert said.is_set()
    assert (error.status, error.stderr_tail) == (None, [str(pids[0])])
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_worker_that_dies_before_it_is_ready_shows_its_last_lines() -> None:
    """BRG-2, BRG-15: the last one has no end."""
    with pytest.raises(WorkerStartError, match="ended with status 3 before it was ready") as caught:
        spawn("die")
    assert caught.value.stderr_tail == ["first line", "last line"]
    assert str(caught.value).endswith("the last lines on its stderr:\n  first line\n  last line")
    assert (caught.value.status, caught.value.command) == (3, fake_command("die"))


def test_a_worker_that_does_not_know_stdio_is_called_too_old() -> None:
    """BRG-15."""
    with pytest.raises(WorkerStartError, match="too old to know --stdio; install its Python environment again"):
        spawn("no-stdio")


def test_a_module_that_is_missing_is_named_with_the_way_to_install_it(tmp_path: Path) -> None:
    """BRG-15."""
    line = [sys.executable, "-c", "import sys; sys.exit('No module named nodetool.worker')"]
    with pytest.raises(WorkerStartError, match="-m pip install octonode-sdk"):
        Bridge.spawn(line)


@pytest.mark.parametrize("line", [["/nowhere/python"], [sys.executable, "\0"]])
def test_what_can_not_be_started_is_an_error_that_names_it(line: list[str]) -> None:
    """BRG-2."""
    with pytest.raises(WorkerStartError, match="can't be started"):
        Bridge.spawn(line)


def test_a_worker_below_the_floor_is_ended() -> None:
    """BRG-4, BRG-20."""
    with pytest.raises(IncompatibleWorkerError):
        spawn("version=0")


def test_a_worker_without_a_version_is_version_one() -> None:
    """BRG-4, BRG-5, BLB-5: and is not asked for chunks."""
    with spawn("no-version", "blender") as bridge:
        assert bridge.protocol_version == 1
        assert not bridge.supports_models()
        assert bridge.supports_blender()
        assert "blob_transfer" not in bridge.execute("fake.Ask").outputs["asked"]


def test_the_environment_and_the_folder_are_what_the_caller_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own choice: variables are added to ours, and None takes one away."""
    monkeypatch.setenv("TAKEN_AWAY", "1")
    code = "import os, sys; sys.exit(' '.join((os.environ['ADDED'], str(os.environ.get('TAKEN_AWAY')), os.getcwd())))"
    with pytest.raises(WorkerStartError) as caught:
        Bridge.spawn([sys.executable, "-c", code], env={"ADDED": "x", "TAKEN_AWAY": None}, cwd=tmp_path)
    assert caught.value.stderr_tail == [f"x None {tmp_path.resolve()}"]


# Its log


def test_a_flood_on_stderr_holds_up_nothing() -> None:
    """BRG-15, C023: it is read all the time, and the last 200 lines are kept."""
    lines: list[str] = []
    with spawn(on_stderr=lines.append) as bridge:
        bridge.execute("fake.Flood", {"lines": 10_000})
        bridge.close()
        assert len(lines) == 10_001
        assert bridge.stderr_tail == lines[-200:]
        assert lines[-1].startswith("9999 ")


def test_a_function_for_stderr_that_fails_is_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    """Our own choice: the worker is not held up by it."""
    with spawn(on_stderr=lambda _line: 1 // 0) as bridge:
        bridge.execute("fake.Flood", {"lines": 2000})
        bridge.close()
        assert len(bridge.stderr_tail) == 200
    assert caplog.text.count("on_stderr has failed") == 1


# Its death


def test_a_worker_that_ends_fails_what_is_open_with_its_status_and_last_lines() -> None:
    """BRG-15, BRG-16."""
    with spawn() as bridge:
        waiting = bridge.start("fake.Never")
        with pytest.raises(WorkerDiedError) as caught:
            bridge.execute("fake.Exit", {"status": 4})
        assert caught.value.status == 4
        assert caught.value.stderr_tail[-1] == "about to leave"
        assert "the worker ended with status 4; the request" in str(caught.value)
        with pytest.raises(WorkerDiedError) as second:
            waiting.result(PATIENCE)
        assert second.value.request_id == waiting.request_id
        with pytest.raises(WorkerDiedError, match="status 4"):
            bridge.status()


def test_a_worker_that_is_killed_is_said_to_be() -> None:
    """BRG-16."""
    with spawn() as bridge:
        with pytest.raises(WorkerDiedError, match=r"was ended by signal 9 \(SIGKILL\)") as caught:
            bridge.execute("fake.Kill")
        assert caught.value.status == -9
        assert bridge.close() == -9


def test_a_frame_that_is_cut_by_the_end_is_said_to_be() -> None:
    """BRG-16."""
    with spawn() as bridge, pytest.raises(WorkerDiedError, match="ended with status 0 in the middle of a frame"):
        bridge.execute("fake.Half")


def test_a_worker_that_closes_its_stdout_and_stays_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """BRG-16: it can't answer any more."""
    monkeypatch.setattr("nodetool_worker.bridge.link._LAST_SECONDS", 0.2)
    with spawn() as bridge:
        assert bridge.pid is not None
        watch = Watch(bridge.pid)
        with pytest.raises(WorkerDiedError, match="has closed its stdout without ending, and was killed"):
            bridge.execute("fake.CloseStdout")
        assert watch.ends()


@pytest.mark.parametrize("garbage", [b"Hello, world\n", b"\0\0\0\1\xc1", b"\xff\xff\xff\xff"])
def test_garbage_ends_the_worker(garbage: bytes) -> None:
    """BRG-13: text that something in it prints, bytes that are no message, a length over the limit."""
    with spawn() as bridge:
        assert bridge.pid is not None
        watch = Watch(bridge.pid)
        waiting = bridge.start("fake.Never")
        with pytest.raises(StreamLostError) as caught:
            bridge.execute("fake.Bytes", {"bytes": garbage})
        assert caught.value.stderr_tail == ["NODETOOL_STDIO_READY"]
        with pytest.raises(StreamLostError):
            waiting.result(PATIENCE)
        assert watch.ends()


def test_a_child_that_holds_the_pipe_open_does_not_hide_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """BRG-16, BRG-20: it is ended with its worker."""
    with spawn() as bridge:
        child = Watch(bridge.execute("fake.Child", {"holds_stdout": True}).outputs["pid"])
        with pytest.raises(WorkerDiedError, match="ended with status 5"):
            bridge.execute("fake.Exit", {"status": 5})
        assert child.ends()


# Chunks over a real pipe


def chunks(*changes: tuple[int, str, Any]) -> list[dict[str, Any]]:
    """Return the frames of one blob in chunks, with changes: (frame, key, value)."""
    import hashlib

    frames: list[dict[str, Any]] = [{"type": "blob.start", "data": {"name": "o", "size": len(_BLOB)}}]
    for offset in range(0, len(_BLOB), 4000):
        data = {"name": "o", "offset": offset, "bytes": _BLOB[offset : offset + 4000]}
        frames.append({"type": "blob.chunk", "data": data})
    end = {"name": "o", "size": len(_BLOB), "sha256": hashlib.sha256(_BLOB).hexdigest()}
    frames += [{"type": "blob.end", "data": end}, {"type": "result", "data": {"outputs": {"a": 1}, "blobs": {}}}]
    for place, key, value in changes:
        frames[place]["data"][key] = value
    return frames


def test_a_blob_in_chunks_is_put_together() -> None:
    """BLB-5, C070."""
    with spawn() as bridge:
        answer = bridge.execute("fake.Frames", {"frames": chunks()})
        assert answer.outputs == {"a": 1}
        assert answer.blobs == {"o": _BLOB}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ((1, "offset", 1), "offset 1; expected 0"),
        ((-2, "sha256", "0" * 64), "has the SHA-256"),
        ((0, "size", 5000), "which passes its size 5000"),
        ((0, "size", 3 << 30), "which is over the limit of 2147483648 bytes"),
    ],
)
def test_a_blob_that_does_not_fit_fails_its_call_and_cancels_it(change: Any, problem: str) -> None:
    """BLB-5, C070: the worker gets the cancel, and serves on."""
    told = threading.Event()
    with spawn(on_stderr=lambda line: told.set() if line.startswith("cancel ") else None) as bridge:
        with pytest.raises(BlobTransferError, match=problem):
            bridge.execute("fake.Frames", {"frames": chunks(change)})
        assert told.wait(PATIENCE)
        assert bridge.execute("fake.Echo", {"a": 1}).outputs == {"a": 1}


def test_large_blobs_go_both_ways() -> None:
    """VAL-14, FRM-2: inline, in frames that no pipe holds."""
    content = os.urandom(1 << 20) * 8
    with spawn() as bridge:
        blobs = {"a": content, "b": memoryview(content)[: 3 << 20]}
        assert bridge.execute("fake.Echo", blobs=blobs).blobs == {"a": content, "b": content[: 3 << 20]}


def test_frames_with_other_ids_are_faults_and_no_answers() -> None:
    """BRG-11: wrong ids, no ids, two terminal frames."""
    wrong: list[dict[str, Any]] = [{"type": "result", "data": {}, "request_id": id_} for id_ in ("nobody", None, "", 5)]
    good = {"type": "result", "data": {"outputs": {"a": 1}, "blobs": {}}}
    with spawn() as bridge:
        assert bridge.execute("fake.Frames", {"frames": [*wrong, good, good]}).outputs == {"a": 1}
        bridge.execute("fake.Echo")
        assert len(bridge.faults) == 5


# The end


def test_a_worker_that_ignores_the_end_of_its_input_is_terminated() -> None:
    """BRG-20."""
    bridge = spawn("ignore-end")
    assert bridge.close(0.1) == -signal.SIGTERM


def test_a_worker_that_ignores_everything_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """BRG-20."""
    monkeypatch.setattr("nodetool_worker.bridge.process._TERMINATE_SECONDS", 0.2)
    bridge = spawn("ignore-end", "ignore-term")
    assert bridge.close(0.1) == -signal.SIGKILL


def test_no_child_of_a_worker_is_left() -> None:
    """BRG-20: whatever the worker leaves behind is ended with it."""
    with spawn() as bridge:
        child = Watch(bridge.execute("fake.Child").outputs["pid"])
        assert not child.ends(0)
    assert child.ends()


def test_a_worker_that_reads_nothing_is_ended_all_the_same() -> None:
    """BRG-20: a request that it has never taken is left."""
    script = "import sys, time; print('NODETOOL_STDIO_READY', file=sys.stderr, flush=True); time.sleep(1000)"
    bridge = Bridge.spawn([sys.executable, "-c", script], handshake=False)
    handle = bridge.start("a.B", {"x": bytes(10_000_000)})
    assert bridge.close(0.1) == -signal.SIGTERM
    with pytest.raises(BridgeClosedError):
        handle.result(PATIENCE)


def test_a_host_that_ends_without_closing_leaves_no_worker(interpreter: str) -> None:
    """BRG-20: also one that ignores the end of its input."""
    code = (
        "import sys\n"
        "from nodetool_worker.bridge import Bridge\n"
        "bridge = Bridge.spawn(sys.argv[1:])\n"
        "print(bridge.pid, flush=True)\n"
        "sys.stdin.readline()\n"
    )
    line = [interpreter, "-c", code, *fake_command("ignore-end", "ignore-term")]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        watch = Watch(int(host.stdout.readline()))
        host.stdin.close()
        assert host.wait(PATIENCE) == 0
        assert watch.ends()


def use_in_every_way() -> None:
    """Have bridges that end well, that end by a death, and that do not start."""
    with spawn() as bridge:
        bridge.execute("fake.Echo", {"x": "x" * 1_000_000})
        bridge.stream("fake.Never").close()
    with spawn() as bridge:
        handle = bridge.start("fake.Never")
        bridge.start("fake.Kill")
        with pytest.raises(WorkerDiedError):
            handle.result(PATIENCE)
    with pytest.raises(WorkerStartError):
        spawn("die")


def test_a_closed_bridge_leaves_no_descriptor_and_no_thread() -> None:
    """BRG-20: also without the help of the collector."""

    def held() -> tuple[int, set[str]]:
        names = {thread.name for thread in threading.enumerate() if thread.name.startswith("bridge-")}
        return len(os.listdir("/proc/self/fd")), names

    gc.collect()
    gc.disable()
    try:
        before = held()
        for _ in range(5):
            use_in_every_way()
        assert held() == before
    finally:
        gc.enable()


def test_signals_for_the_terminal_do_not_reach_the_worker() -> None:
    """Our own choice: Ctrl-C is for the host, which then ends its worker in order."""
    with spawn() as bridge:
        assert bridge.pid is not None
        assert os.getpgid(bridge.pid) == bridge.pid != os.getpgid(0)


def test_a_status_that_somebody_else_took_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """BRG-16: a host may wait for all its children by itself."""

    def gone(*_: object) -> None:
        raise ChildProcessError

    monkeypatch.setattr(os, "waitid", gone)
    bridge = spawn()
    assert bridge.pid is not None
    with pytest.raises(WorkerDiedError, match="the worker ended, and how is not known; the request") as caught:
        bridge.execute("fake.Exit", {"status": 5})
    assert caught.value.status is None
    assert bridge.close() is None
    assert os.waitpid(bridge.pid, 0)[1] >> 8 == 5
