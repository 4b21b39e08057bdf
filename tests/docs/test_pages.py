"""What the pages say about the code: links, flags, variables, options and errors are those that there are."""

import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodetool_worker import inventory
from nodetool_worker.bridge import Bridge, BridgeError, RequestFailedError
from nodetool_worker.bridge.limits import read_limits
from nodetool_worker.bridge.process import worker_command
from nodetool_worker.options import HELP
from octonode_sdk import Context, node
from octonode_sdk.context import LEVELS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WORKER = (DOCS / "nodetool-worker.md").read_text(encoding="utf-8")
AUTHORING = (DOCS / "authoring.md").read_text(encoding="utf-8")

# Not where the wheel is tested.
ELSEWHERE = {"CONTRIBUTING.md", "CHANGELOG.md"}


def section(page: str, title: str) -> str:
    """Return what stands under a heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the tables in a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith(("| ", "|--"))]
    lines = [line for line, after in zip(lines, [*lines[1:], ""], strict=True) if not after.startswith("|--")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if not line.startswith("|--")]


def words(text: str) -> list[str]:
    """Return the first word of each piece of code."""
    return [code.split()[0] for code in re.findall(r"`([^`]+)`", text)]


def pages() -> list[Path]:
    """Return the README and the pages of docs/."""
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_link_leads_to_a_place_that_is_there(page: Path) -> None:
    """Our own choice: a page that is moved or renamed takes its links along."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if target.startswith("https://") or path in ELSEWHERE:
            continue
        there = page.parent / path if path else page
        assert there.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads], target


def test_the_flags_and_variables_of_the_page_are_those_of_the_help() -> None:
    """WOP-1 to WOP-11: both name every one."""
    table = section(WORKER, "Flags and variables")
    flags = {word for word in words(table) if word.startswith("--")}
    variables = {word for word in words(table) if re.fullmatch(r"[A-Z]+_[A-Z_]+", word)}
    assert flags == set(re.findall(r"--[a-z]+", HELP))
    assert variables == set(re.findall(r"\b(?:NODETOOL|OCTONODE|COMFYUI)_[A-Z_]+", HELP))


def test_the_flags_and_variables_elsewhere_on_the_page_are_among_them() -> None:
    """Our own choice: the text names no flag that the table does not."""
    rest = WORKER.replace(section(WORKER, "Driving a worker from a program"), "")
    assert set(re.findall(r"(?<![\w|-])--[a-z]+", rest)) <= set(re.findall(r"--[a-z]+", HELP))
    assert set(re.findall(r"\b(?:NODETOOL|OCTONODE|COMFYUI)_[A-Z_]+", rest)) <= {
        *re.findall(r"\b(?:NODETOOL|OCTONODE|COMFYUI)_[A-Z_]+", HELP),
        "NODETOOL_STDIO_READY",
    }


def test_the_variables_of_the_client_are_those_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """BRG-1, BRG-6, BRG-7 and BRG-9: each is read, and one that makes no sense is named in a warning."""
    table = rows(section(WORKER, "Driving a worker from a program"))
    variables = [words(row[0])[0] for row in table if re.match(r"`[A-Z_]+`$", row[0])]
    monkeypatch.setenv("NODETOOL_PYTHON", "python9")
    assert worker_command(None)[0] == "python9"
    told: list[str] = []
    read_limits(dict.fromkeys(variables, "nonsense"), told.append)
    assert sorted(text.split()[0] for text in told) == sorted(set(variables) - {"NODETOOL_PYTHON"})


def test_the_phases_of_load_errors_are_those_that_the_inventory_tells_of() -> None:
    """DSC-7: the page and the module name the same."""
    told = re.findall(r"^    (\w+)  +\w", inspect.getdoc(inventory) or "", re.MULTILINE)
    assert [words(row[0])[0] for row in rows(section(WORKER, "Where nodes come from"))] == told


def test_the_entry_point_of_the_page_is_toml_of_the_group() -> None:
    """FND-4: what people copy can be read."""
    (block,) = re.findall(r"```toml\n(.*?)```", WORKER, re.DOTALL)
    assert tomllib.loads(block)["project"]["entry-points"].keys() == {"octonode.nodes"}


def test_the_options_of_the_page_are_those_of_node() -> None:
    """Our own choice: an option that no page tells of is none, and the page promises no other."""
    listed = {word for row in rows(section(AUTHORING, "Options of `@node`")) for word in words(row[0])}
    assert listed == inspect.signature(node).parameters.keys() - {"fn"}


def test_the_page_tells_of_everything_that_a_context_has() -> None:
    """CTX-10: hosts and tests alone use the rest."""
    told = {word for row in rows(section(AUTHORING, "Context")) for word in re.findall(r"\w+", row[0])}
    for_hosts = {"cancel", "close", "on_cancel", "invocation_id", "was_told_on_loop"}
    assert {name for name in dir(Context) if not name.startswith("_")} - for_hosts <= told
    assert set(LEVELS) <= set(re.findall(r"\w+", section(AUTHORING, "Context")))


NODES = """
import os
import sys
from collections.abc import Iterator
from octonode_sdk import Context, NodeError, node

@node
def refuse() -> int:
    raise NodeError("NodeError's own text")

@node
def search() -> int:
    raise ValueError("no digits in 'x'")

@node
def greet(name: str, language: str, formal: bool) -> str:
    return name

@node
def count() -> int:
    return "a"

@node(secrets=["API_KEY"])
def fetch(ctx: Context) -> int:
    return 1

@node(isolated=True)
def crash() -> int:
    import signal
    signal.raise_signal(signal.SIGSEGV)

@node(isolated=True)
def leave() -> int:
    os._exit(4)

@node
def large() -> bytes:
    return bytes(70_000)

@node
def wait(ctx: Context) -> int:
    from time import sleep
    ctx.log("begun")
    while True:
        ctx.check_cancelled()
        sleep(0.001)

@node
def say(ctx: Context) -> str:
    import logging
    import subprocess
    print("printed")
    sys.stderr.write("to stderr\\n")
    logging.getLogger("pack").warning("logged")
    ctx.log("told", "error")
    ctx.progress(0.5, 3, "half")
    ctx.preview([1])
    ctx.preview(b"x")
    os.write(1, b"raw\\n")
    subprocess.run([sys.executable, "-c", "print('child')"], check=True)
    try:
        return input()
    except EOFError:
        return "end"
"""


@pytest.fixture(scope="module")
def worker(interpreter: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """Return a worker with these nodes."""
    path = tmp_path_factory.mktemp("pages") / "demo.py"
    path.write_text(NODES, encoding="utf-8")
    env = {"NODETOOL_BRIDGE_MAX_FRAME_SIZE": "65536", "API_KEY": None}
    command = [interpreter, "-m", "nodetool_worker", "--stdio"]
    with Bridge.spawn(command, nodes=[str(path)], env=env) as bridge:
        yield bridge


def matches(text: str, error: str) -> bool:
    """Tell whether an error is the one of the page, where `...` stands for anything."""
    return re.fullmatch(re.escape(text).replace(r"\.\.\.", ".*"), error, re.DOTALL) is not None


def errors_of_the_page() -> list[tuple[str, str]]:
    """Return the errors of the page, and for each the node, or the message, that fails with it.

    Two are left out: a frame that can't be read and the end of the worker are no calls; tests/nodetool/ has them.
    """
    failing = ["Refuse", "Search", "Greet", "Count", "Fetch", "Wait", "Gret", "Crash", "Leave", "Large"]
    table = [row[0].replace("`", "") for row in rows(section(WORKER, "Errors"))]
    texts = [text for text in table if not text.startswith(("the worker is ending", "Malformed"))]
    assert len(texts) == len(table) - 2
    return list(zip(texts, [*failing, "ping", "models.list_cached"], strict=True))


@pytest.mark.parametrize(("text", "failing"), errors_of_the_page())
def test_an_error_reads_as_the_page_says(worker: Bridge, text: str, failing: str) -> None:
    """EXE-3, EXE-9, EXE-11, EXE-18, EXE-28, ISO-3, RID-7, PRV-1: the texts are read from the page."""

    def fail() -> None:
        if failing == "Wait":
            call = worker.start("demo.Wait", on_update=lambda _update: call.cancel())
            call.result(30)
        elif failing[0].isupper():
            fields = {"language": 1, "formal": "yes"} if failing == "Greet" else {}
            worker.execute(f"demo.{failing}", fields)
        else:
            worker.request(failing)

    with pytest.raises(RequestFailedError) as caught:
        fail()
    assert matches(text.replace("text_tools.", "demo."), caught.value.error), caught.value.error


def test_what_a_node_says_goes_where_the_page_says(worker: Bridge) -> None:
    """UPD-1 to UPD-17 and FRM-22: the rows of the page, in one call."""
    came: list[tuple[object, ...]] = []
    result = worker.execute(
        "demo.Say",
        on_progress=lambda one: came.append(("progress", one.done, one.total, one.message)),
        on_update=lambda one: came.append((one.kind, *(one.data.get(key) for key in ("severity", "content", "value")))),
    )
    assert result.outputs == {"output": "end"}
    assert came == [
        ("log_update", "info", "printed", None),
        ("log_update", "info", "to stderr", None),
        ("log_update", "warning", "logged", None),
        ("log_update", "error", "told", None),
        ("progress", 0.5, 3, "half"),
        ("preview_update", None, None, [1]),
        ("binary_update", None, None, None),
    ]


def test_a_worker_that_is_not_there_is_told_of_with_its_command() -> None:
    """BRG-15: the client's errors have one base, as the page says."""
    with pytest.raises(BridgeError, match="no_such_module"):
        Bridge.spawn([sys.executable, "-m", "no_such_module"])
