"""Run the nodes of `text_tools.py` under both hosts, on real files, and show what goes over each wire.

This program plays the hosts: it starts the runner of each, and writes and reads its messages itself
(`demo_hosts.py`), so that what it shows is the wire and not a client. Then it does the same with the client,
`Bridge`. Each line marked "ok" is a fact that was checked; the first one that does not hold ends the demo with
status 1.
"""

import argparse
import asyncio
import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs.examples.demo_hosts import Frames, Lines, Message, NodeProcess
from docs.examples.demo_paper import ROOT, DemoError, Paper, shorten_text
from nodetool_worker.bridge import Bridge, BridgeError, RequestFailedError

TARGET = "docs/examples/text_tools.py"
DATA = ROOT / "docs" / "examples" / "data"
TEXT = (DATA / "clouds.txt").read_text(encoding="utf-8")
TABLE = (DATA / "weather.csv").read_text(encoding="utf-8")

# The commands of the two hosts; the tests put broken ones in their place.
OCTONODE = (sys.executable, "-m", "octonode_sdk")
NODETOOL = (sys.executable, "-m", "nodetool.worker", "--stdio")

# The calls that both hosts make: a name, the node, its inputs.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "late": ("delay", {"text": "I was asked first.", "seconds": 1}),
    "table": ("csv_summary", {"table": TABLE}),
    "count": ("word_statistics", {"text": TEXT, "top": 3, "min_length": 4, "ignore": ["that"]}),
    "split": ("split_text", {"text": TEXT, "max_chars": 1500}),
    "slug": ("slugify", {"text": "Föhn & Ærø: das große Wetter", "replace": {"&": "und"}}),
    "hello": ("greet", {"name": "Ada", "language": "ja"}),
}
# Two that must fail: inputs that do not fit, and a refusal by the node itself.
FAILURES: dict[str, tuple[str, dict[str, Any]]] = {
    "wrong": ("greet", {"language": "la", "formal": "yes"}),
    "signs": ("slugify", {"text": "☁️ ⛈️"}),
}

Outputs = dict[str, Any]


# Octonode: JSON lines


def invoke(name: str) -> Message:
    """Return the Octonode request for one of the calls."""
    node, inputs = (CALLS | FAILURES)[name]
    return {"octonode": "1", "type": "invoke", "invocationId": name, "node": node, "inputs": inputs}


async def show_octonode(paper: Paper, timeout_s: float) -> tuple[dict[str, Outputs], dict[str, str]]:
    """Ask for a manifest, then make all calls at once; return the outputs, and the texts of the errors."""
    paper.title("1. Octonode: JSON lines")
    paper.note("The engine starts a process for a node, writes one request, and closes stdin: what is this node?")
    async with NodeProcess(OCTONODE, [TARGET, "word_statistics"], Lines(), paper, timeout_s, whole=["who"]) as process:
        await process.send({"octonode": "1", "type": "describe", "invocationId": "who", "node": "word_statistics"})
        process.close()
        manifest = part(await process.receive(["who"]), "manifest")
        await process.finish()
    paper.verify(
        "its input ports are the parameters; only 'text', which has no default, is required",
        manifest["inputs"]["required"] == ["text"] and "words_per_minute" in manifest["inputs"]["properties"],
        manifest,
    )

    paper.note("Without a node's name the process serves the whole file. All requests are written at once:")
    names = [*CALLS, *FAILURES]
    answers: dict[str, Message] = {}
    async with NodeProcess(OCTONODE, [TARGET], Lines(), paper, timeout_s, whole=["signs"]) as process:
        for name in names:
            await process.send(invoke(name))
        paper.note("The answers, in the order in which they come:")
        while len(answers) < len(names):
            answer = await process.receive([name for name in names if name not in answers])
            answers[answer["invocationId"]] = answer
        process.close()
        await process.finish()
        paper.logged(process.log)
    came = list(answers)
    paper.verify(f"'late' was asked first, and answered as no. {came.index('late') + 1}", came[0] != "late", came)
    errors = {name: part(answers[name], "error") for name in FAILURES}
    faults = {fault["path"]: fault["message"] for fault in errors["wrong"]["details"]["errors"]}
    paper.verify("inputs that do not fit: every fault is named, not only the first", len(faults) == 3, faults)
    for path, message in faults.items():
        paper.detail(f"{path}: {message}")
    outputs = {name: part(answers[name], "outputs") for name in CALLS}
    check_outputs(paper, outputs)
    return outputs, {name: error["message"] for name, error in errors.items()}


def check_outputs(paper: Paper, outputs: dict[str, Outputs]) -> None:
    """Check the outputs against a reading of the files by other means."""
    rows = list(csv.DictReader(io.StringIO(TABLE, newline="")))
    readings = [float(row["t_max_c"]) for row in rows if row["t_max_c"]]
    columns = {column["name"]: column for column in outputs["table"]["columns"]}
    warmest = columns["t_max_c"]
    paper.verify(
        f"csv_summary: {outputs['table']['rows']} rows, {len(columns)} columns; t_max_c from {warmest['minimum']} to"
        f" {warmest['maximum']} °C",
        (outputs["table"]["rows"], list(columns), warmest["minimum"], warmest["maximum"])
        == (len(rows), list(rows[0]), min(readings), max(readings)),
        warmest,
    )
    first = outputs["count"]["top_words"][0]
    words = [word.strip(".,:;!?()\"'") for word in TEXT.lower().split()]
    paper.verify(
        f"word_statistics: of {len(TEXT):,} characters the most frequent word is {first['word']!r}, {first['count']}"
        " times, counted another way as well",
        (outputs["count"]["characters"], words.count(first["word"])) == (len(TEXT), first["count"]),
        outputs["count"],
    )
    chunks = outputs["split"]["chunks"]
    paper.verify(
        f"split_text: {len(chunks)} chunks; put together they are the file", "".join(chunks) == TEXT, len(chunks)
    )


# NodeTool: frames


def node_type(node: str) -> str:
    """Return the name under which NodeTool knows a node of the file: `text_tools.SplitText` for `split_text`."""
    return "text_tools." + "".join(word.capitalize() for word in node.split("_"))


def execute(name: str, request_id: str = "", *, kind: str = "execute") -> Message:
    """Return the NodeTool request for one of the calls."""
    node, inputs = (CALLS | FAILURES)[name]
    return {
        "type": kind,
        "request_id": request_id or name,
        "data": {"node_type": node_type(node), "fields": inputs, "node_id": f"node-{name}"},
    }


async def show_nodetool(paper: Paper, timeout_s: float) -> tuple[dict[str, Outputs], dict[str, str]]:
    """Make the same calls of a NodeTool worker, and what Octonode has no word for; return the same."""
    paper.title("2. NodeTool: MessagePack frames")
    paper.note("One worker serves everything. It says on stderr that it is ready; then it is asked what it has.")
    arguments, whole = ["--nodes", TARGET], ["what", "signs"]
    async with NodeProcess(NODETOOL, arguments, Frames(), paper, timeout_s, whole=whole) as process:
        await process.ready("NODETOOL_STDIO_READY")
        await process.send({"type": "discover", "request_id": "what", "data": {}})
        found = (await process.receive(["what"]))["data"]
        types = [entry["node_type"] for entry in found["nodes"]]
        paper.verify(
            f"it has the same {len(types)} nodes",
            sorted(types) == sorted({node_type(node) for node, _ in CALLS.values()}) and not found["load_errors"],
            types,
        )
        paper.note("The same calls, all at once. What a node tells while it works comes in frames of its own:")
        outputs, errors = await run_all(process, paper)
        await show_stream(process, paper, outputs["split"])
        await show_cancel(process, paper)
        paper.note("The host closes stdin, and the worker leaves.")
        process.close()
        await process.finish()
        paper.logged(process.log)
    return outputs, errors


async def run_all(process: NodeProcess, paper: Paper) -> tuple[dict[str, Outputs], dict[str, str]]:
    """Make all calls at once; return their outputs, and the texts of the errors."""
    for name in (*CALLS, *FAILURES):
        await process.send(execute(name))
    paper.note("What comes back:")
    ends: dict[str, Message] = {}
    seen: list[str] = []
    while len(ends) < len(CALLS) + len(FAILURES):
        frame = await process.receive([name for name in (*CALLS, *FAILURES) if name not in ends])
        seen.append(frame["type"])
        if frame["type"] in ("result", "error"):
            ends[frame["request_id"]] = frame
    paper.verify(f"{seen.count('progress')} of these frames tell of progress", "progress" in seen, seen)
    paper.verify(f"{seen.count('update')} carry what a node logged", "update" in seen, seen)
    trace = part(ends["signs"], "data").get("traceback", "")
    paper.verify("an error of node code has a traceback, from the author's first line on:", "slugify" in trace, trace)
    for line in trace.splitlines():
        paper.detail(shorten_text(line, 90))
    return (
        {name: part(part(ends[name], "data"), "outputs") for name in CALLS},
        {name: part(ends[name], "data")["error"] for name in FAILURES},
    )


async def show_stream(process: NodeProcess, paper: Paper, whole: Outputs) -> None:
    """Take the outputs of a generator one by one."""
    paper.note("A generator, asked to stream: each yield is a chunk, and the result behind them is empty.")
    await process.send(execute("split", "stream", kind="execute.stream"))
    chunks: list[Outputs] = []
    while (frame := await process.receive(["stream"]))["type"] != "result":
        if frame["type"] == "error":
            raise DemoError(f"the stream failed: {part(frame, 'data').get('error')}")
        if frame["type"] == "chunk":
            chunks.append(frame["data"]["outputs"])
    last = {port: value for chunk in chunks for port, value in chunk.items()}
    paper.verify(
        f"{len(chunks)} chunks; the last value of each port is what `execute` gave at once", last == whole, chunks
    )


async def show_cancel(process: NodeProcess, paper: Paper) -> None:
    """Start a call that would take an hour, and cancel it once it runs."""
    paper.note("A call of an hour, cancelled as soon as its node has logged something:")
    fields = {"text": "never", "seconds": 3600}
    await process.send(
        {"type": "execute", "request_id": "hour", "data": {"node_type": "text_tools.Delay", "fields": fields}}
    )
    started = await process.receive(["hour"])
    await process.send({"type": "cancel", "request_id": "hour", "data": {}})
    ended = await process.receive(["hour"])
    paper.verify(
        "it ran, and then ended with the one error of a cancelled call",
        (started["type"], ended["type"], ended["data"].get("error"))
        == ("update", "error", "Node execution was cancelled"),
        ended,
    )


# The client

SNIPPET = """\
    with Bridge.spawn(nodes=["docs/examples/text_tools.py"]) as bridge:
        greeting = bridge.execute("text_tools.Greet", {"name": "Ada", "language": "ja"}).outputs["greeting"]
        for chunk in bridge.stream("text_tools.SplitText", {"text": text}, on_progress=show):
            print(chunk.outputs)"""


def show_bridge(paper: Paper) -> tuple[dict[str, Outputs], dict[str, str]]:
    """Make the same calls with the client; return the same."""
    paper.title("3. The same worker, driven by nodetool_worker.bridge")
    paper.note(f"A program that wants answers and not frames needs no more than this:\n\n{SNIPPET}\n")
    outputs: dict[str, Outputs] = {}
    errors: dict[str, str] = {}
    with Bridge.spawn(list(NODETOOL), nodes=[TARGET], cwd=ROOT) as bridge:
        for name, (node, inputs) in (CALLS | FAILURES).items():
            try:
                outputs[name] = bridge.execute(node_type(node), inputs).outputs
            except RequestFailedError as error:
                errors[name] = error.error
        node, inputs = CALLS["split"]
        told: list[str | None] = []
        stream = bridge.stream(node_type(node), inputs, on_progress=lambda progress: told.append(progress.message))
        chunks = [chunk.outputs for chunk in stream]
    paper.verify(f"{len(outputs)} calls gave outputs, {len(errors)} failed", list(errors) == list(FAILURES), errors)
    paper.verify(
        f"a stream gave {len(chunks)} chunks, and told of {told[-1]!r} before it ended",
        chunks[-1]["chunks"] == outputs["split"]["chunks"],
        chunks,
    )
    return outputs, errors


def part(message: Message, key: str) -> dict[str, Any]:
    """Return what a message carries under a key.

    Raises:
        DemoError: It carries none.
    """
    value = message.get(key)
    if not isinstance(value, dict):
        raise DemoError(f"an answer with {key} was due, found {shorten_text(json.dumps(message), 400)}")
    return value


def show(paper: Paper, timeout_s: float) -> None:
    """Run the whole demo."""
    paper.note(
        "The nodes of docs/examples/text_tools.py, under both hosts. No line of them knows which one it is.\n"
        "Marks: > the host writes to stdin   < the nodes' process writes to stdout   ! its stderr"
    )
    try:
        octonode = asyncio.run(show_octonode(paper, timeout_s))
        nodetool = asyncio.run(show_nodetool(paper, timeout_s))
        bridge = show_bridge(paper)
    except BridgeError as error:
        raise DemoError(f"the client failed: {error}") from error
    except (LookupError, TypeError) as fault:
        raise DemoError(f"the last answer lacks a field, or holds a value of another type: {fault!r}") from fault
    paper.title("4. The same everywhere")
    for name, (node, _) in CALLS.items():
        texts = [json.dumps(outputs[name], sort_keys=True) for outputs, _ in (octonode, nodetool, bridge)]
        paper.verify(
            f"{name}: {node} gave the same {len(texts[0]):,} characters of outputs, written as JSON",
            len(set(texts)) == 1,
            texts,
        )
    paper.verify("the node's own refusal reads the same", octonode[1]["signs"] == nodetool[1]["signs"], nodetool[1])
    paper.note(f"All {paper.checks} checks hold: both hosts gave equal outputs for all {len(CALLS)} calls.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="demo.py",
        description="Run docs/examples/text_tools.py under both hosts on real files, and show what goes over the wire.",
        epilog="Exit status: 0 when every answer came and every check held, else 1. "
        "Colours appear on a terminal, unless NO_COLOR is set.",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="bound of each single wait (default: %(default)g)",
    )
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that can't show a sign gets its code point; the demo is not about terminals.
        sys.stdout.reconfigure(errors="backslashreplace")
    paper = Paper(sys.stdout, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    try:
        show(paper, options.timeout)
    except DemoError as error:
        print(f"demo.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
