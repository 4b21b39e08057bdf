"""What node code prints and logs, in memory: told to its own call, and on stderr as well."""

import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodetool_worker import capture
from nodetool_worker.capture import CallLogStream, capture_logging
from octonode_sdk.lanes import inherit_context
from tests.nodetool.sessionkit import PATIENCE, Host

NODES = """
import asyncio, logging, threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from nodetool_worker.capture import CallLogStream
from octonode_sdk import Context, node

print = partial(print, file=CallLogStream())  # what sys.stdout is in a worker; here pytest has its own

@node
def prints(text: str, times: int = 1) -> None:
    for _ in range(times):
        print(text, end="")

@node
def prints_it() -> None:
    print(TEXT, end="")

@node
def logs(fail: bool = False, *, ctx: Context) -> None:
    logger = logging.getLogger("acme")
    logger.debug("low")
    logger.info("info %s", 1)
    logger.warning("warn\\udc80")
    logger.error("err")
    logger.critical("crit")

@node
def from_thread(name: str, *, ctx: Context) -> None:
    def tell():
        ctx.log(f"log {name}")
        ctx.progress(1, 1, name)
        print(f"print {name}")
    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(print, f"pool {name}").result()

@node
async def from_tasks(name: str, *, ctx: Context) -> None:
    async def tell():
        await asyncio.sleep(0)
        ctx.log(f"log {name}")
        print(f"print {name}")
    await asyncio.gather(tell(), tell())
"""


@pytest.fixture
def module(new_module: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The names of the nodes."""
    return new_module("t_capture", NODES)


@pytest.fixture
def host(module: dict[str, Any]) -> Host:
    """A session with the nodes."""
    return Host(module)


@pytest.fixture
def logged() -> Iterator[logging.Handler]:
    """Capture logging as in a worker, and undo it; the handler that does it."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    capture_logging("INFO")
    [handler] = [one for one in root.handlers if one not in before]
    yield handler
    for handler in [*root.handlers]:
        if handler not in before:
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\n", ["one"]),
        ("one\ntwo\n\n  \nthree\n", ["one", "two", "three"]),
        ("no end", ["no end"]),
        ("one\nrest", ["one", "rest"]),
        ("\n \n", []),
        ("a\udc80\n", ["a\\udc80"]),
    ],
)
def test_each_printed_line_is_a_log_of_its_own(
    host: Host, module: dict[str, Any], capfd: pytest.CaptureFixture[str], text: str, lines: list[str]
) -> None:
    """UPD-15, UPD-17, EXE-21: before the terminal frame, and on stderr as well."""
    module["TEXT"] = text
    found = host.run("PrintsIt")
    assert host.logs() == [("info", line) for line in lines]
    assert found[-1]["type"] == "result"
    module["print"](end="", flush=True)
    assert capfd.readouterr().err == text.replace("\udc80", "\\udc80")


def test_a_line_that_does_not_end_is_sent_in_parts(host: Host) -> None:
    """UPD-15: no memory grows with it."""
    host.run("Prints", text="x" * 3_000, times=10)
    assert [len(text) for _, text in host.logs()] == [9_000, 9_000, 9_000, 3_000]
    host.run("Prints", text="", id_="none")
    assert host.logs("none") == []


@pytest.mark.usefixtures("logged")
def test_what_a_node_logs_is_told_by_its_own_severity(
    host: Host, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """UPD-16: once, and on stderr as well."""
    monkeypatch.setattr(sys, "stderr", CallLogStream())
    host.run("Logs")
    assert host.logs() == [
        ("info", "info 1"),
        ("warning", "warn\\udc80"),
        ("error", "err"),
        ("error", "crit"),
    ]
    assert capfd.readouterr().err == (
        "[info] acme: info 1\n[warning] acme: warn\\udc80\n[error] acme: err\n[critical] acme: crit\n"
    )


def test_a_record_that_can_t_be_made_fails_nobody(logged: logging.Handler, capfd: pytest.CaptureFixture[str]) -> None:
    """UPD-16: as logging's own handlers do it."""
    logged.handle(logging.LogRecord("acme", logging.INFO, "a.py", 1, "%d", ("x",), None))
    assert "Logging error" in capfd.readouterr().err


def test_logging_is_captured_from_the_moment_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """UPD-16: and is not loaded for that."""
    called: list[str] = []
    monkeypatch.setattr(capture, "_install_handler", called.append)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for name in [name for name in sys.modules if name == "logging"]:
        monkeypatch.delitem(sys.modules, name)
    finders = len(sys.meta_path)
    capture_logging("WARNING")
    assert (called, "logging" in sys.modules) == ([], False)
    assert len(sys.meta_path) == finders + 1
    __import__("textwrap")
    __import__("logging")
    assert called == ["WARNING"]
    assert len(sys.meta_path) == finders


def test_what_is_told_reaches_its_own_request_from_threads_and_tasks(host: Host) -> None:
    """UPD-18: with several calls at once."""
    inherit_context()
    names = ("a", "b", "c", "d")
    ended = [
        host.start(host.ask(node, f"{node} {name}", name=name))
        for node in ("FromThread", "FromTasks")
        for name in names
    ]
    assert all(event.wait(PATIENCE) for event in ended)
    host.outbox.pump()
    for name in names:
        texts = [text for _, text in host.logs(f"FromThread {name}")]
        assert texts == [f"log {name}", f"print {name}", f"pool {name}"]
        assert [
            one["message"]
            for one in [frame["data"] for frame in host.frames(f"FromThread {name}") if frame["type"] == "progress"]
        ] == [name]
        texts = [text for _, text in host.logs(f"FromTasks {name}")]
        assert sorted(texts) == sorted([f"log {name}", f"print {name}"] * 2)
