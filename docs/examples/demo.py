"""Serve the nodes of `text_tools.py` on real files, and show what goes over the wire and what comes back.

This program plays the engine: it starts `python -m octonode_sdk`, writes Octonode envelopes to its stdin,
and reads its stdout and its stderr. It uses nothing but the standard library, so that what it shows is the
wire and not a client. Each line marked "ok" is a fact that was checked; the first one that does not hold ends
the demo with status 1.
"""

import argparse
import asyncio
import contextlib
import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

ROOT = Path(__file__).resolve().parents[2]
TARGET = "docs/examples/text_tools.py"
DATA = ROOT / "docs" / "examples" / "data"

RUNNER = (sys.executable, "-m", "octonode_sdk")
"""The command that serves a target; the tests put broken ones in its place."""

WIDTH = 100  # columns of the output
LONGEST_TEXT = 72  # characters of a text that are shown whole
LONGEST_LIST = 3  # items of a list that are shown
LINE_LIMIT_BYTES = 1 << 20  # the longest answer here has 12 KB
LOG_LIMIT_BYTES = 1 << 18  # what is kept of stderr; the rest is read and dropped

Envelope = dict[str, Any]  # a decoded envelope: wire data, checked field by field where it is used


class DemoError(Exception):
    """Something that the demo shows did not happen."""


class Paper:
    """Print the demo's output, coloured where that can be seen.

    Args:
        stream: where to print.
        colour: whether to use ANSI colours.
    """

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        self._stream = stream
        self._colour = colour
        self.checks = 0

    def title(self, text: str) -> None:
        """Begin a section."""
        self._line(f"\n{self._paint('1', text)}\n{'=' * len(text)}")

    def note(self, text: str) -> None:
        """Print a paragraph of explanation."""
        self._line(f"\n{text}")

    def command(self, arguments: Sequence[str]) -> None:
        """Print the command that was started, without this machine's paths."""
        self._line("\n" + self._paint("1", "$ " + " ".join(arguments)))

    def sent(self, line: bytes) -> None:
        """Print a line that the engine wrote to stdin."""
        self._envelope(">", "36", "stdin", line)

    def received(self, line: bytes) -> None:
        """Print a line that the node wrote to stdout."""
        self._envelope("<", "32", "stdout", line)

    def logged(self, text: str) -> None:
        """Print what the node wrote to stderr, apart from the envelopes."""
        self._line("\n" + self._paint("33", "! stderr, for people; the engine never reads it"))
        for line in text.splitlines():
            self._line(self._paint("33", "! ") + shorten_text(line, WIDTH))

    def checked(self, text: str) -> None:
        """Print a fact that was checked."""
        self.checks += 1
        self._line(f"{self._paint('32', 'ok')} {text}")

    def detail(self, text: str) -> None:
        """Print a line that belongs to the fact above it."""
        self._line(f"   {text}")

    def _envelope(self, mark: str, colour: str, channel: str, line: bytes) -> None:
        head = f"{mark} {channel}, a line of {len(line)} bytes"
        self._line("\n" + self._paint(colour, head))
        body = lay_out(shorten(json.loads(line)), WIDTH - 2)
        self._line("\n".join(f"{self._paint(colour, mark)} {part}" for part in body.splitlines()))

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def _line(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


def shorten_text(text: str, limit: int) -> str:
    """Return `text` as it is, or its beginning and a note of its length if it has over `limit` characters.

    Example:
        >>> shorten_text("a field guide to clouds", 7)
        'a field… (23 characters)'
    """
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def shorten(value: Any) -> Any:
    """Return a JSON value with its long texts and long lists shortened, each with a note of its length.

    Example:
        >>> shorten({"counts": [1, 2, 3, 4, 5]})
        {'counts': [1, 2, 3, '… (5 items)']}
    """
    if isinstance(value, str):
        # A traceback names files by full path; the reader knows them from the project's folder on.
        return shorten_text(value.replace(f"{ROOT}{os.sep}", ""), LONGEST_TEXT)
    if isinstance(value, list):
        # A short list of texts, such as the members of an enum, says more whole.
        texts = all(isinstance(item, str) for item in value)
        if len(value) <= LONGEST_LIST or (texts and sum(map(len, value)) <= LONGEST_TEXT):
            return [shorten(item) for item in value]
        return [*map(shorten, value[:LONGEST_LIST]), f"… ({len(value):,} items)"]
    if isinstance(value, dict):
        return {key: shorten(item) for key, item in value.items()}
    return value


def lay_out(value: Any, width: int, indent: int = 0, taken: int = 0) -> str:
    """Return a JSON value as text, each object and list on one line where it fits.

    Args:
        value: the value.
        width: columns of the whole text.
        indent: columns to the left of lines after the first.
        taken: columns of the first line that are used already, besides `indent`.

    Example:
        >>> print(lay_out({"name": "Ada", "tags": ["engine", "poetry"]}, 40))
        {
          "name": "Ada",
          "tags": ["engine", "poetry"]
        }
    """
    flat = json.dumps(value, ensure_ascii=False)
    if indent + taken + len(flat) <= width or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        heads = [json.dumps(key, ensure_ascii=False) + ": " for key in value]
        items = [
            head + lay_out(item, width, inner, len(head) + 1) for head, item in zip(heads, value.values(), strict=True)
        ]
        opening, closing = "{}"
    else:
        items = [lay_out(item, width, inner, 1) for item in value]
        opening, closing = "[]"
    lines = f",\n{' ' * inner}".join(items)
    return f"{opening}\n{' ' * inner}{lines}\n{' ' * indent}{closing}"


def invoke(invocation_id: str, node: str, inputs: dict[str, object]) -> Envelope:
    """Return an invoke request."""
    return {
        "octonode": "1",
        "type": "invoke",
        "invocationId": invocation_id,
        "node": node,
        "inputs": inputs,
        "context": {"runId": "demo", "env": "dev", "attempt": 1, "config": {}},
    }


class NodeProcess:
    """A started node process; leaving the block ends it, whatever it is doing.

    Args:
        arguments: what follows the runner's command.
        paper: where lines are shown as they pass.
        timeout_s: bound of each single wait.
    """

    def __init__(self, arguments: Sequence[str], paper: Paper, timeout_s: float) -> None:
        self._arguments = arguments
        self._paper = paper
        self._timeout_s = timeout_s
        self._log = bytearray()

    async def __aenter__(self) -> "NodeProcess":
        self._paper.command(["python", "-m", "octonode_sdk", *self._arguments])
        self._process = await asyncio.create_subprocess_exec(
            *RUNNER,
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
            limit=LINE_LIMIT_BYTES,
        )
        # All three are pipes, as asked for above.
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin, self._stdout, self._stderr = (
            self._process.stdin,
            self._process.stdout,
            self._process.stderr,
        )
        # Read from the start: a process whose stderr nobody reads blocks as soon as that pipe is full.
        self._reading_log = asyncio.create_task(self._read_log())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            with contextlib.suppress(TimeoutError):  # the process is dead; a child of its may still hold a pipe
                await asyncio.wait_for(self._process.wait(), self._timeout_s)
        self._reading_log.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading_log

    @property
    def log(self) -> str:
        """What the process has written to stderr so far."""
        return self._log.decode("utf-8", "backslashreplace")

    async def send(self, request: Envelope) -> None:
        """Write one request."""
        line = json.dumps(request, ensure_ascii=False).encode() + b"\n"
        self._paper.sent(line)
        try:
            self._stdin.write(line)
            async with asyncio.timeout(self._timeout_s):
                await self._stdin.drain()
        except TimeoutError:
            raise DemoError(f"{self._timeout_s:g} s after it was sent, a request is still unread") from None
        except ConnectionError:
            pass  # The process is gone; the wait for its answer tells how it ended.

    def close(self) -> None:
        """Close stdin: there are no more requests."""
        self._stdin.close()

    async def receive(self, waiting_for: Sequence[str]) -> Envelope:
        """Return the next answer.

        Args:
            waiting_for: the invocation ids that are not answered yet.

        Raises:
            DemoError: There is none within the bound, or the line is no answer to one of these requests.
        """
        ids = ", ".join(map(repr, waiting_for))
        try:
            async with asyncio.timeout(self._timeout_s):
                line = await self._stdout.readline()
                if not line:
                    status = await self._process.wait()
                    await self._reading_log
                    raise DemoError(f"no answer to {ids}: the process ended with status {status}{self._tail()}")
        except TimeoutError:
            raise DemoError(f"no answer to {ids} within {self._timeout_s:g} s{self._tail()}") from None
        except ValueError:
            raise DemoError(f"no answer to {ids}: a line of over {LINE_LIMIT_BYTES:,} bytes came") from None
        try:
            answer = json.loads(line)
        except ValueError:
            raise DemoError(f"stdout carries a line that is not JSON: {shorten_text(repr(line), WIDTH)}") from None
        self._paper.received(line)
        if not isinstance(answer, dict) or answer.get("invocationId") not in waiting_for:
            raise DemoError(f"the answer carries the id of no open request; open are {ids}")
        return answer

    async def finish(self) -> None:
        """Check that nothing more comes, and that the process ends well.

        Raises:
            DemoError: It writes another line, goes on after the bound, or ends with another status than 0.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                rest = await self._stdout.read(WIDTH)
                status = await self._process.wait()
                await self._reading_log
        except TimeoutError:
            raise DemoError(f"{self._timeout_s:g} s after its stdin was closed, the process still runs") from None
        verify(self._paper, "nothing else came on stdout", not rest, rest)
        verify(self._paper, "after the end of its stdin the process left with status 0", status == 0, status)

    async def _read_log(self) -> None:
        while data := await self._stderr.read(1 << 16):
            self._log += data[: LOG_LIMIT_BYTES - len(self._log)]

    def _tail(self) -> str:
        last = [shorten_text(line, WIDTH) for line in self.log.strip().splitlines()[-3:]]
        return "; the end of its stderr:\n  " + "\n  ".join(last) if last else "; its stderr is empty"


def verify(paper: Paper, fact: str, holds: bool, found: object) -> None:
    """Print `fact` as checked if it holds.

    Raises:
        DemoError: It does not hold; the message shows what was `found`.
    """
    if not holds:
        raise DemoError(f"this does not hold: {fact}; found {shorten_text(repr(found), 400)}")
    paper.checked(fact)


def payload(answer: Envelope, kind: Literal["outputs", "manifest"]) -> Envelope:
    """Return what a good answer carries.

    Raises:
        DemoError: The answer is an error, or carries something else.
    """
    value = answer.get(kind)
    if answer.get("octonode") != "1" or answer.get("status") != "ok" or not isinstance(value, dict):
        raise DemoError(f"a good answer with {kind} was due, found {shorten_text(json.dumps(answer), 400)}")
    return value


def error_of(answer: Envelope) -> Envelope:
    """Return the error object of a failed answer.

    Raises:
        DemoError: The answer is no error.
    """
    error = answer.get("error")
    if answer.get("octonode") != "1" or answer.get("status") != "error" or not isinstance(error, dict):
        raise DemoError(f"an error was due, found {shorten_text(json.dumps(answer), 400)}")
    return error


async def call_once(request: Envelope, paper: Paper, timeout_s: float) -> Envelope:
    """Start a process for one request, close its stdin, and return its one answer."""
    async with NodeProcess([TARGET, request["node"]], paper, timeout_s) as process:
        await process.send(request)
        process.close()
        answer = await process.receive([request["invocationId"]])
        await process.finish()
        if process.log:
            paper.logged(process.log)
        return answer


async def show_one_shot(paper: Paper, text: str, timeout_s: float) -> None:
    """Describe one node, then invoke it, in a process each."""
    paper.title("1. One-shot: a process for each request")
    paper.note(
        "The engine writes one line, closes stdin and reads one line. First: what is this node?\n"
        "(Each envelope is one line on the wire; it is laid out and shortened here for reading.)"
    )
    request: Envelope = {
        "octonode": "1",
        "type": "describe",
        "invocationId": "who",
        "node": "word_statistics",
    }
    manifest = payload(await call_once(request, paper, timeout_s), "manifest")
    verify(
        paper,
        "the manifest is that of word_statistics, in Python, with the icon that it asked for",
        (manifest.get("id"), manifest.get("language"), manifest.get("icon"))
        == ("word_statistics", "python", "calculator"),
        manifest,
    )
    inputs, outputs = manifest.get("inputs", {}), manifest.get("outputs", {})
    verify(
        paper,
        "its input ports are the parameters; only 'text', which has no default, is required",
        (list(inputs["properties"]), inputs["required"])
        == (["text", "top", "min_length", "ignore", "words_per_minute"], ["text"]),
        inputs,
    )
    verify(
        paper,
        "its output ports are the fields of the TypedDict that it returns",
        {"characters", "lines", "words", "top_words"} <= outputs["properties"].keys(),
        outputs,
    )

    paper.note("Now the same node on a real file, docs/examples/data/clouds.txt:")
    ignore = ["the", "a", "and", "of", "in", "is", "it", "to", "for", "that", "on", "at"]
    answer = await call_once(
        invoke("count", "word_statistics", {"text": text, "top": 3, "ignore": ignore}), paper, timeout_s
    )
    found = payload(answer, "outputs")
    verify(
        paper,
        f"it read the whole file: {len(text):,} characters in {text.count(chr(10))} lines",
        (found["characters"], found["lines"]) == (len(text), text.count("\n")),
        found,
    )
    words = [word.strip(".,:;!?()\"'") for word in text.lower().split()]
    first = found["top_words"][0]
    verify(
        paper,
        f"the most frequent word is {first['word']!r}, {first['count']} times, counted another way as well",
        words.count(first["word"]) == first["count"],
        words.count(first["word"]),
    )


async def show_worker(paper: Paper, text: str, table: str, timeout_s: float) -> None:
    """Serve all nodes from one process, with all requests in flight at once."""
    paper.title("2. Worker: one process, many requests in flight")
    paper.note(
        "Without a node's name the process serves all of the file, and each request names its node.\n"
        "All requests are written before the first answer is read."
    )
    requests = [
        invoke("late", "delay", {"text": "I was asked first.", "seconds": 1}),
        invoke("table", "csv_summary", {"table": table}),
        invoke("split", "split_text", {"text": text, "max_chars": 1500}),
        invoke("slug", "slugify", {"text": "Föhn & Ærø: das große Wetter", "replace": {"&": "und"}}),
        invoke("wrong", "greet", {"language": "la", "formal": "yes"}),
        invoke("signs", "slugify", {"text": "☁️ ⛈️"}),
        invoke("hello", "greet", {"name": "Ada", "language": "ja"}),
    ]
    asked = [request["invocationId"] for request in requests]
    answers: dict[str, Envelope] = {}
    async with NodeProcess([TARGET], paper, timeout_s) as process:
        for request in requests:
            await process.send(request)
        paper.note(f"{len(requests)} requests are in flight. The answers, in the order in which they come:")
        while len(answers) < len(asked):
            answer = await process.receive([each for each in asked if each not in answers])
            answers[answer["invocationId"]] = answer
        paper.note("The engine closes stdin, and the process leaves.\n")
        process.close()
        await process.finish()
        log = process.log
    paper.logged(log)

    paper.title("3. What came back")
    paper.note("The answers:\n")
    came = list(answers)
    verify(
        paper,
        f"{len(asked)} requests, {len(came)} answers, one for each",
        sorted(came) == sorted(asked),
        came,
    )
    verify(
        paper,
        f"they came out of order: 'late' was asked first and answered as no. {came.index('late') + 1}",
        came.index("late") > 0,
        came,
    )
    verify(
        paper,
        "'late' came back unchanged",
        payload(answers["late"], "outputs") == {"text": "I was asked first."},
        answers["late"],
    )
    check_table(paper, payload(answers["table"], "outputs"), table)
    parts = payload(answers["split"], "outputs")
    verify(
        paper,
        f"split_text: {parts['count']} chunks of at most 1500 characters; put together they are the file",
        "".join(parts["chunks"]) == text
        and len(parts["chunks"]) == parts["count"]
        and max(map(len, parts["chunks"])) <= 1500,
        parts,
    )
    verify(
        paper,
        "slugify: fohn-und-aero-das-grosse-wetter, on two ports",
        payload(answers["slug"], "outputs") == {"slug": "fohn-und-aero-das-grosse-wetter", "shortened": False},
        answers["slug"],
    )
    verify(
        paper,
        "greet: Adaさん、こんにちは。",
        payload(answers["hello"], "outputs") == {"greeting": "Adaさん、こんにちは。"},
        answers["hello"],
    )

    paper.note("The failures, which are answers like any other:\n")
    wrong = error_of(answers["wrong"])
    faults = {fault["path"]: fault["message"] for fault in wrong["details"]["errors"]}
    verify(
        paper,
        "inputs that do not fit are a VALIDATION_ERROR, which a retry would not help",
        (wrong["code"], wrong["retryable"]) == ("VALIDATION_ERROR", False),
        wrong,
    )
    verify(
        paper,
        "it lists every fault, not only the first:",
        faults.keys() == {"$.name", "$.language", "$.formal"},
        faults,
    )
    for path, message in faults.items():
        paper.detail(f"{path}: {message}")
    signs = error_of(answers["signs"])
    verify(
        paper,
        f"the node's own refusal is {signs['code']}: {signs['message']}",
        (signs["code"], signs["retryable"]) == ("NON_RETRYABLE", False) and "☁️" in signs["message"],
        signs,
    )

    paper.note("The log, which came on stderr and disturbed nothing:\n")
    line = "holding a text of 18 characters for 1 s"
    verify(paper, f"delay logged {line!r}", line in log, log)
    line = f"split {len(text)} characters into {parts['count']} chunks"
    verify(paper, f"split_text logged {line!r}", line in log, log)


def check_table(paper: Paper, found: Envelope, table: str) -> None:
    """Check the summary of the weather log against a reading of our own."""
    rows = list(csv.DictReader(io.StringIO(table, newline="")))
    columns = {column["name"]: column for column in found["columns"]}
    verify(
        paper,
        f"csv_summary: {len(rows)} rows, {len(columns)} columns",
        (found["rows"], list(columns)) == (len(rows), list(rows[0])),
        found,
    )
    warmest = columns["t_max_c"]
    values = [float(row["t_max_c"]) for row in rows if row["t_max_c"]]
    verify(
        paper,
        f"csv_summary: t_max_c from {warmest['minimum']} to {warmest['maximum']} °C,"
        f" {warmest['missing']} days without a reading",
        (warmest["minimum"], warmest["maximum"], warmest["missing"])
        == (min(values), max(values), len(rows) - len(values)),
        warmest,
    )


async def show(paper: Paper, timeout_s: float) -> None:
    """Run the whole demo."""
    text = (DATA / "clouds.txt").read_text(encoding="utf-8")
    table = (DATA / "weather.csv").read_text(encoding="utf-8")
    paper.note(
        "Octonode runs each node as a process of its own: JSON lines in, JSON lines out.\n"
        "Marks: > the engine writes to stdin   < the node writes to stdout   ! the node's stderr"
    )
    try:
        await show_one_shot(paper, text, timeout_s)
        await show_worker(paper, text, table, timeout_s)
    except (LookupError, TypeError) as fault:
        raise DemoError(f"the last answer lacks a field, or holds a value of another type: {fault!r}") from fault
    paper.note(f"All {paper.checks} checks hold.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="demo.py",
        description="Serve docs/examples/text_tools.py on real files, and show what goes over the wire.",
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
        asyncio.run(show(paper, options.timeout))
    except DemoError as error:
        print(f"demo.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
