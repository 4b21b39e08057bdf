"""How a call fails, in memory: one error for whatever leaves the node, and what it says; secrets, and the folder."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octonode_sdk.secrets import forget_secrets
from tests.nodetool.sessionkit import Host

NODES = """
import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Optional
from octonode_sdk import Context, NodeError, node

class Own(BaseException): pass
class Deadly(Exception):
    def __str__(self): raise SystemExit(9)
class Mute(Exception):
    def __str__(self): raise RuntimeError("mute")
class Odd(Exception):
    def __str__(self): return 5

FAULTS = {
    "value": lambda: ValueError("no such colour"),
    "bare": lambda: ValueError(),
    "key": lambda: KeyError("kk"),
    "exit": lambda: SystemExit(3),
    "exit without a word": lambda: SystemExit(),
    "interrupt": lambda: KeyboardInterrupt("now"),
    "generator exit": lambda: GeneratorExit("closed"),
    "stop": lambda: StopIteration("no more rows"),
    "stop async": lambda: StopAsyncIteration("no more rows"),
    "cancelled": lambda: asyncio.CancelledError(),
    "own": lambda: Own("mine"),
    "deadly": lambda: Deadly(),
    "mute": lambda: Mute(),
    "odd": lambda: Odd(),
    "recursion": lambda: RecursionError("too deep"),
    "memory": lambda: MemoryError(),
    "surrogate": lambda: ValueError("a\\udc80b"),
    "long": lambda: ValueError("x" * 5_000_000),
    "said": lambda: NodeError("slow down"),
    "silent": lambda: NodeError(""),
    "group": lambda: ExceptionGroup("many", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])]),
    "crowd": lambda: BaseExceptionGroup("crowd", [Own(str(n)) for n in range(9)]),
}

@node
def fail(name: str) -> None:
    raise FAULTS[name]()

@node
async def fail_late(name: str) -> None:
    await asyncio.sleep(0)
    raise FAULTS[name]()

@node
def fail_between(name: str) -> Iterator[int]:
    yield 1
    raise FAULTS[name]()

@node
async def fail_between_late(name: str) -> AsyncIterator[int]:
    yield 1
    raise FAULTS[name]()

@node
def one_number() -> int:
    return "five"

@node
def take(number: int, size: int = 5, maybe: Optional[int] = 7, rows: list[int] = [1]) -> list[Any]:
    return [number, size, maybe, rows]

@node
def echo(value: Any = "default") -> Any:
    return value

@node(secrets=["T_KEY", "T_OTHER"])
def secretive(leak: str = "", *, ctx: Context) -> str:
    key = ctx.secret("T_KEY")
    if leak == "undeclared":
        return ctx.secret("PATH")
    ctx.log(f"the key is {key}")
    ctx.progress(1, 2, f"with {key}")
    ctx.preview({"a": [key], key: 1})
    if leak == "error":
        raise ValueError(f"bad key {key}")
    return "ok"

@node
def folder(fail: bool, *, ctx: Context) -> str:
    (ctx.temp_dir / "a").write_text("x")
    FOLDERS.append(ctx.temp_dir)
    if fail:
        raise ValueError
    return str(ctx.temp_dir.exists())

FOLDERS = []
"""

TEXTS = {
    "value": "ValueError: no such colour",
    "bare": "ValueError",
    "key": "KeyError: 'kk'",
    "exit": "SystemExit: 3",
    "exit without a word": "SystemExit",
    "interrupt": "KeyboardInterrupt: now",
    "generator exit": "GeneratorExit: closed",
    "stop": "StopIteration: no more rows",
    "stop async": "StopAsyncIteration: no more rows",
    "cancelled": "CancelledError: a task that the node waited for was cancelled by its own library",
    "own": "Own: mine",
    "deadly": "Deadly: <its text can't be made: SystemExit>",
    "mute": "Mute: <its text can't be made: RuntimeError>",
    "odd": "Odd: <its text can't be made: TypeError>",
    "recursion": "RecursionError: too deep",
    "memory": "MemoryError",
    "surrogate": "ValueError: a\\udc80b",
    "said": "slow down",
    "silent": "NodeError",
    "group": "ExceptionGroup: many (2 sub-exceptions) [ValueError: a; "
    "ExceptionGroup: inner (1 sub-exception) [KeyError: 'b']]",
    "crowd": "BaseExceptionGroup: crowd (9 sub-exceptions) [Own: 0; Own: 1; Own: 2; Own: 3; Own: 4; ...]",
}


@pytest.fixture
def module(new_module: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The names of the nodes."""
    return new_module("t_failures", NODES)


@pytest.fixture
def host(module: dict[str, Any]) -> Host:
    """A session with the nodes."""
    return Host(module)


@pytest.mark.parametrize("node", ["Fail", "FailLate", "FailBetween", "FailBetweenLate"])
@pytest.mark.parametrize("name", TEXTS)
def test_whatever_leaves_a_node_is_the_one_error_of_its_request_and_ends_nothing_else(
    host: Host, node: str, name: str
) -> None:
    """EXE-16 to EXE-21, EXE-23, EXE-25, CAN-14, RID-11, RID-12: sync and async, plain and between two yields."""
    found = host.run(node, name=name, stream=True)
    assert [frame["type"] for frame in found] == ["chunk", "error"][-len(found) :]
    assert len(found) == (2 if "Between" in node else 1)
    data = found[-1]["data"]
    assert data["error"] == TEXTS[name]
    assert data["traceback"].startswith("Traceback (most recent call last):") or name in ("group", "crowd")
    assert 'File "t_failures"' in data["traceback"]
    assert host.outputs("Echo") == {"output": "default"}
    assert host.error("FailLate", name="value") == TEXTS["value"]  # the loop goes on as well


@pytest.mark.parametrize("node", ["Fail", "FailLate"])
def test_a_text_of_five_megabytes_is_cut_and_says_so(host: Host, node: str) -> None:
    """EXE-22."""
    data = host.data(node, name="long")
    for text in (data["error"], data["traceback"]):
        assert 9_000 < len(text) <= 10_000
        assert "characters left out" in text
    assert data["error"].startswith("ValueError: xxx")


def test_texts_are_cut_to_what_a_small_frame_holds(module: dict[str, Any]) -> None:
    """EXE-22, FRM-5: the error frame itself has to pass."""
    host = Host(module, limit_bytes=4_000)
    data = host.data("Fail", name="long")
    assert len(data["error"]) > 200
    assert max(len(piece) for piece in host.pipe.written.split(b"\x83\xa4type")) < 4_000


@pytest.mark.parametrize("name", ["value", "group"])
def test_a_traceback_begins_with_the_author_s_line_and_names_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """EXE-23, EXE-24: files are named as imports find them."""
    source = tmp_path / "deep" / "t_traced.py"
    source.parent.mkdir()
    source.write_text(NODES, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "t_traced"}
    exec(compile(NODES, str(source), "exec"), names)
    host = Host(names)
    for folders, shown in (sys.path, "t_traced.py"), ([*sys.path, str(tmp_path)], os.path.join("deep", "t_traced.py")):
        monkeypatch.setattr(sys, "path", folders)
        trace = host.data("Fail", name=name)["traceback"]
        assert str(tmp_path) not in trace
        assert os.path.dirname(os.__file__) not in trace
        assert trace.split('File "')[1].startswith(f'{shown}"')
        assert "octonode_sdk" not in trace
        assert "nodetool_worker" not in trace


def test_what_the_host_did_wrong_has_no_traceback(host: Host) -> None:
    """EXE-3, EXE-9, EXE-11, EXE-23, FND-7: nor has what does not fit its declaration."""
    assert host.data("Missing") == {"error": "Unknown node type: t.Missing"}
    assert host.data("Ech") == {"error": "Unknown node type: t.Ech; did you mean 't.Echo'?"}
    data = host.data("Take", number="5", size="x", rows=[1, "a"])
    assert list(data) == ["error"]
    assert "3 faults in the inputs: $.number: " in data["error"]
    assert "$.size: " in data["error"]
    assert "$.rows[1]: " in data["error"]
    data = host.data("OneNumber")
    assert list(data) == ["error"]
    assert "$.output: " in data["error"]


def test_secrets_come_from_the_request_or_the_environment_and_are_masked(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXE-26, EXE-29: in errors, tracebacks, logs, progress and previews."""
    monkeypatch.setenv("T_KEY", "from-environment")
    monkeypatch.setenv("T_OTHER", "other-value")
    for secrets, value in ({"T_KEY": "from-request"}, "from-request"), ({"T_KEY": ""}, "from-environment"):
        data = host.data("Secretive", leak="error", more={"secrets": secrets})
        assert data["error"] == "ValueError: bad key ***"
        assert "***" in data["traceback"]
        assert value.encode() not in host.pipe.written
    assert host.logs() == [("info", "the key is ***")] * 2
    kinds = [frame["data"] for frame in host.frames("q") if frame["type"] in ("progress", "update")]
    assert [one.get("message") for one in kinds if "message" in one] == ["with ***"] * 2
    assert [one["value"] for one in kinds if one.get("type") == "preview_update"] == [{"a": ["***"], "***": 1}] * 2
    forget_secrets()


def test_a_secret_that_is_not_declared_is_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """EXE-27: whether or not the request and the environment have it."""
    monkeypatch.setenv("T_OTHER", "second")
    text = host.error("Secretive", leak="undeclared", more={"secrets": {"T_KEY": "first", "PATH": "third"}})
    assert "the secret 'PATH' is not declared" in text
    forget_secrets()


def test_secrets_that_lack_a_value_are_named_all_before_the_node_runs(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXE-28."""
    for name in ("T_KEY", "T_OTHER"):
        monkeypatch.delenv(name, raising=False)
    assert host.data("Secretive") == {
        "error": "node 'secretive': the secrets T_KEY, T_OTHER are not set; add them to the settings of the host"
    }
    assert len(host.frames("q")) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_the_folder_of_a_call_is_gone_before_its_terminal_frame(
    host: Host, module: dict[str, Any], fails: bool
) -> None:
    """EXE-38."""
    seen: list[bool] = []
    put = host.outbox.put

    def watch(entry: Any, **arguments: Any) -> None:
        seen.append(module["FOLDERS"][-1].exists())
        put(entry, **arguments)

    host.outbox.put = watch  # type: ignore[method-assign]  # watched
    host.run("Folder", fail=fails)
    assert seen == [False]
    assert len(module["FOLDERS"]) == 1
