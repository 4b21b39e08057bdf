"""The examples in docs/examples: their nodes called as plain functions, and the demo run as a process."""

import asyncio
import csv
import doctest
import inspect
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from docs.examples import demo, demo_hosts, text_tools
from docs.examples.demo_paper import DemoError, Paper
from octonode_sdk import Context, NodeError

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "examples" / "data"
CLOUDS = (DATA / "clouds.txt").read_text(encoding="utf-8")
WEATHER = (DATA / "weather.csv").read_text(encoding="utf-8")

NODES = ("csv_summary", "delay", "greet", "slugify", "split_text", "word_statistics")

# Far above what the demo takes (about 4 s), far below the limit of the whole run.
DEMO_LIMIT_S = 150


@pytest.mark.parametrize("name", NODES)
def test_each_node_has_an_example_in_its_docstring_that_holds(name: str) -> None:
    """Our own choice: what people copy is run."""
    (found,) = doctest.DocTestFinder(recurse=False).find(getattr(text_tools, name), name, text_tools, vars(text_tools))
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(found)
    assert runner.failures == 0
    assert runner.tries > 0


@pytest.mark.parametrize("name", NODES)
def test_each_node_describes_all_of_its_ports_in_its_docstring_or_its_hints(name: str) -> None:
    """Our own choice: an example shows the whole of what an author should write."""
    function = getattr(text_tools, name)
    docstring = inspect.getdoc(function) or ""
    hints = get_type_hints(function, include_extras=True)
    for port in hints.keys() - {"ctx", "return"}:
        assert f"\n    {port}: " in docstring or "description=" in repr(hints[port]), f"{name}.{port}"


def test_the_text_is_read_whole_and_its_words_are_counted() -> None:
    """Counted here with another tool: split at white space, bared of punctuation."""
    found = text_tools.word_statistics(CLOUDS, top=5, min_length=4, ignore=["That"])
    assert found["characters"] == len(CLOUDS)
    assert found["lines"] == CLOUDS.count("\n")
    counts = Counter(word.strip(".,:;!?()\"'°") for word in CLOUDS.lower().split())
    assert found["top_words"] == [
        {"word": entry["word"], "count": counts[entry["word"]]} for entry in found["top_words"]
    ]
    assert found["top_words"][0]["word"] == "clouds"
    assert [entry["count"] for entry in found["top_words"]] == sorted(
        (count for word, count in counts.items() if len(word) >= 4 and word.isalpha() and word != "that"),
        reverse=True,
    )[:5]
    assert found["longest_word"] == "schäfchenwolken"


def test_composed_and_decomposed_accents_count_as_one_word() -> None:
    """Our own choice: equal to the eye is equal to the count."""
    found = text_tools.word_statistics("Fo\u0308hn F\u00f6hn FÖHN")
    assert found["top_words"] == [{"word": "f\u00f6hn", "count": 3}]


def test_an_empty_text_has_no_words_and_no_longest_one() -> None:
    """Our own choice: nothing to divide by is no failure."""
    found = text_tools.word_statistics(" \n☁️\n")
    assert (found["words"], found["longest_word"], found["average_word_length"]) == (0, None, 0.0)
    assert found["top_words"] == []


def test_the_weather_log_is_summarised_column_by_column() -> None:
    """Checked against `csv.DictReader`; the file has quoted cells, a line break, missing values."""
    rows = list(csv.DictReader(io.StringIO(WEATHER, newline="")))
    found = text_tools.csv_summary(WEATHER)
    assert found["rows"] == len(rows) == 60
    assert [column["name"] for column in found["columns"]] == list(rows[0])
    kinds = {column["name"]: column["kind"] for column in found["columns"]}
    assert [name for name, kind in kinds.items() if kind == "text"] == [
        "date",
        "wind_from",
        "clouds",
        "remark",
    ]
    for column in found["columns"]:
        cells = [row[column["name"]] for row in rows if row[column["name"]]]
        assert (column["filled"], column["missing"]) == (len(cells), len(rows) - len(cells))
        assert column["distinct"] == len(set(cells))
        assert column["most_common"] == Counter(cells).most_common(1)[0][0]
        if column["kind"] == "number":
            numbers = [float(cell) for cell in cells]
            assert (column["minimum"], column["maximum"]) == (min(numbers), max(numbers))
            assert column["mean"] == pytest.approx(sum(numbers) / len(numbers))
        else:
            assert (column["minimum"], column["maximum"], column["mean"]) == (None, None, None)


@pytest.mark.parametrize("cell", ["nan", "inf", "1e999", "1_000", "٣", "1,5", "0x10", "."], ids=ascii)
def test_a_cell_that_is_no_plain_number_makes_a_column_text(cell: str) -> None:
    """Python's `float` takes some of these; JSON carries none of their values."""
    (_, column) = text_tools.csv_summary(f"n;x\n1;2\n1;{cell}\n", delimiter=";")["columns"]
    assert (column["kind"], column["mean"], column["distinct"]) == ("text", None, 2)


def test_what_counts_as_missing_can_be_chosen() -> None:
    """Our own choice: the default list is replaced, empty cells stay missing."""
    table = "x,y\nNA,1\n?,2\n,3\n"
    assert text_tools.csv_summary(table)["columns"][0]["missing"] == 2
    assert text_tools.csv_summary(table, missing=["?", "NA"])["columns"][0]["kind"] == "empty"


def test_a_table_of_nothing_but_a_header_has_empty_columns() -> None:
    """Our own choice; the byte-order mark of a spreadsheet is no part of the first name."""
    found = text_tools.csv_summary("\ufeffday,rain\r\n")
    assert found["rows"] == 0
    assert [(column["name"], column["kind"]) for column in found["columns"]] == [
        ("day", "empty"),
        ("rain", "empty"),
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "the table is empty: its first row must name the columns"),
        ("a,b\n1,2\n\n3\n", "line 4 has 1 cell, but the header has 2"),
        ("a\n1\n2,3\n", "line 3 has 2 cells, but the header has 1"),
        ("a,b,a\n1,2,3\n", "column names must differ, but 'a' occurs more than once"),
        ('a\n"open\n', "line 2 is not CSV: unexpected end of data"),
    ],
    ids=["empty", "short row", "long row", "same name", "open quote"],
)
def test_a_table_that_cannot_be_read_is_refused_with_its_line(table: str, message: str) -> None:
    """A refusal is a NodeError: a retry with the same table would not help."""
    with pytest.raises(NodeError, match=f"^{re.escape(message)}$") as caught:
        text_tools.csv_summary(table)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("text", "options", "slug", "shortened"),
    [
        ("Cielo empedrado, ¡suelo mojado!", {}, "cielo-empedrado-suelo-mojado", False),
        ("Łódź, Straße 7 ⛈️", {"separator": "_"}, "lodz_strasse_7", False),
        ("20 °C & up", {"replace": {"&": "and", "°C": "degrees"}}, "20-degrees-and-up", False),
        ("हिन्दी ☁️", {"ascii_only": False}, "हिन्दी", False),
        ("cloud", {"max_length": 5}, "cloud", False),
        ("clouds", {"max_length": 5}, "cloud", True),
        ("mares tails", {"max_length": 5}, "mares", True),
        ("mares tails", {"max_length": 8}, "mares", True),
    ],
    ids=ascii,
)
def test_a_title_becomes_a_slug(text: str, options: dict[str, Any], slug: str, shortened: bool) -> None:
    """Our own choice of what a safe name is."""
    assert text_tools.slugify(text, **options) == text_tools.Slug(slug, shortened)


def test_a_title_without_letters_is_refused_with_the_way_out() -> None:
    """The message names the value and what to do about it."""
    with pytest.raises(NodeError, match=r"^nothing in '鰯雲' can stand in a slug; .* set ascii_only to false$"):
        text_tools.slugify("鰯雲")
    assert text_tools.slugify("鰯雲", ascii_only=False).slug == "鰯雲"


@pytest.mark.parametrize("by", ["paragraph", "line", "sentence"])
@pytest.mark.parametrize("max_chars", [1, 7, 80, 1000, 5780, 1_000_000])
def test_the_chunks_of_a_text_put_together_are_the_text(by: Any, max_chars: int) -> None:
    """What `split_text` promises: nothing is lost, and no chunk is too long or empty."""
    *parts, last = text_tools.split_text(CLOUDS, max_chars=max_chars, by=by, ctx=Context())
    chunks = [part["chunk"] for part in parts]
    assert "".join(chunks) == CLOUDS
    assert all(0 < len(chunk) <= max_chars for chunk in chunks)
    assert [part["index"] for part in parts] == list(range(len(parts)))
    assert last == {"chunks": chunks, "count": len(chunks)}


def test_chunks_end_between_paragraphs_where_these_fit() -> None:
    """Every paragraph of the file is shorter than the chunks asked for."""
    *parts, _ = text_tools.split_text(CLOUDS, max_chars=1500, ctx=Context())
    assert len(parts) > 2
    assert all(part["chunk"].endswith("\n\n") for part in parts[:-1])


def test_sentences_end_without_a_space_where_the_script_has_none() -> None:
    """Our own choice; a decimal point ends nothing."""
    parts = text_tools.split_text("雲だ。雨だ\uff01 It is 3.5 km up. Yes", max_chars=14, by="sentence", ctx=Context())
    assert [part["chunk"] for part in parts if "chunk" in part] == [
        "雲だ。雨だ\uff01 ",
        "It is 3.5 km ",
        "up. Yes",
    ]


def test_an_empty_text_has_no_chunks() -> None:
    """Our own choice: no chunk, not an empty one."""
    assert list(text_tools.split_text("", ctx=Context())) == [{"chunks": [], "count": 0}]


def test_a_delayed_text_is_passed_on_unchanged() -> None:
    """The function stays awaitable under its decorator."""
    assert asyncio.run(text_tools.delay("☁️", seconds=0, ctx=Context())) == "☁️"


def run_demo(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the demo as `make demo` does."""
    return subprocess.run(
        [sys.executable, "docs/examples/demo.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=DEMO_LIMIT_S,
        check=False,
    )


def test_the_demo_shows_both_wires_and_every_check_holds() -> None:
    """The demo ends at the first fact that does not hold; here its own count and its main facts are read."""
    done = run_demo()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    facts = [line.removeprefix("ok ") for line in lines if line.startswith("ok ")]
    assert lines[-1] == f"All {len(facts)} checks hold: both hosts gave equal outputs for all 6 calls."
    for expected in (
        "its input ports are the parameters; only 'text', which has no default, is required",
        "csv_summary: 60 rows, 9 columns; t_max_c from 5.4 to 24.6 °C",
        "inputs that do not fit: every fault is named, not only the first",
        "it has the same 6 nodes",
        "an error of node code has a traceback, from the author's first line on:",
        "6 chunks; the last value of each port is what `execute` gave at once",
        "it ran, and then ended with the one error of a cancelled call",
        "hello: greet gave the same 73 characters of outputs, written as JSON",
        "the node's own refusal reads the same",
    ):
        assert expected in facts
    assert facts.count("nothing else came on stdout") == 3
    for shown in (
        "$ python -m octonode_sdk docs/examples/text_tools.py word_statistics",
        "$ python -m nodetool.worker --stdio --nodes docs/examples/text_tools.py",
        '> {"octonode": "1", "type": "describe", "invocationId": "who", "node": "word_statistics"}',
        '>   "octonode": "1", "type": "invoke", "invocationId": "signs", "node": "slugify",',
        '<   "type": "error", "request_id": "signs",',
        '> {"type": "cancel", "request_id": "hour", "data": {}}  (4 + 35 B)',
        "! NODETOOL_STDIO_READY",
    ):
        assert shown in lines, shown
    for kind in ("progress", "update", "chunk", "result"):
        assert any(line.startswith(f'< {{"type": "{kind}", "request_id": "stream"') for line in lines), kind
    assert any(line.startswith("! ") and "holding a text of 18 characters for 1 s" in line for line in lines)
    assert "\x1b" not in done.stdout
    assert str(ROOT) not in done.stdout


def test_the_demo_explains_itself() -> None:
    """`--help` starts no node."""
    done = run_demo("--help")
    assert done.returncode == 0
    assert "--timeout SECONDS" in done.stdout
    assert "$ python" not in done.stdout


def test_the_demo_prints_where_a_terminal_lacks_the_signs() -> None:
    """The output is about the wire, and must not fail for an emoji."""
    done = run_demo(PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u2601" in done.stdout


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"),
    [(True, None, True), (True, "1", False), (True, "", True), (False, None, False)],
    ids=["terminal", "terminal with NO_COLOR", "terminal with an empty NO_COLOR", "no terminal"],
)
def test_colours_appear_on_a_terminal_unless_no_color_is_set(
    terminal: bool, no_color: str | None, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As no-color.org has it: an empty variable counts as not set."""
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(demo, "OCTONODE", (sys.executable, "-c", ""))
    assert demo.main([]) == 1
    assert ("\x1b[" in out.getvalue()) is coloured


ANSWER = {"octonode": "1", "type": "manifest", "invocationId": "who", "status": "ok", "manifest": {}}


@pytest.mark.parametrize(
    ("program", "timeout_s", "message"),
    [
        ("", 30, "no answer to 'who': the process ended with status 0; its stderr is empty"),
        (
            "import sys; sys.exit('no such pack')",
            30,
            "no answer to 'who': the process ended with status 1; the end of its stderr:\n  no such pack",
        ),
        ("import time; time.sleep(600)", 0.5, "no answer to 'who' within 0.5 s"),
        ("print('hello')", 30, r"stdout carries a line that is not JSON: b'hello\n'"),
        ("print('{}')", 30, "the answer carries the id of no open request; open are 'who'"),
        (f"print('x' * {2 * demo_hosts.LIMIT_BYTES})", 30, "a line of over 1,048,576 bytes came"),
        (f"print({json.dumps(ANSWER)!r}); print()", 30, "this does not hold: nothing else came on stdout"),
        (f"print({json.dumps(ANSWER)!r}); exit(3)", 30, "left with status 0; found 3"),
        (f"print({json.dumps(ANSWER)!r})", 30, "the last answer lacks a field"),
        (f"print({json.dumps(ANSWER | {'manifest': None})!r})", 30, "an answer with manifest was due"),
    ],
    ids=[
        "silent",
        "fails",
        "hangs",
        "chatters",
        "wrong id",
        "long line",
        "second line",
        "bad status",
        "wrong manifest",
        "error",
    ],
)
def test_a_demo_that_misses_something_fails_and_says_what(
    program: str,
    timeout_s: float,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each check of the demo can fail: here the node's process is one that is broken on purpose."""
    monkeypatch.setattr(demo, "OCTONODE", (sys.executable, "-c", program))
    assert demo.main(["--timeout", str(timeout_s)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("demo.py: ")
    assert message in printed.err
    assert "checks hold" not in printed.out


READY = "import sys, time; print('NODETOOL_STDIO_READY', file=sys.stderr, flush=True); "


@pytest.mark.parametrize(
    ("program", "timeout_s", "message"),
    [
        ("", 30, "not ready: the process ended with status 0; its stderr is empty"),
        ("import time; time.sleep(600)", 0.5, "not ready within 0.5 s"),
        (READY + "print('hello')", 30, "a frame of over 1,048,576 bytes came, or no frame: b'hell'"),
        (READY + r"sys.stdout.buffer.write(b'\0\0\0\1\xc1')", 30, "stdout carries a frame that is not MessagePack"),
        (READY + r"sys.stdout.buffer.write(b'\0\0\0\2\x80')", 30, "stdout ended inside a frame: b'\\x80'"),
        (READY + r"sys.stdout.buffer.write(b'\0\0\0\1\x80')", 30, "the id of no open request; open are 'what'"),
    ],
    ids=["silent", "hangs", "chatters", "no MessagePack", "half a frame", "no id"],
)
def test_the_demo_says_what_is_wrong_with_frames(
    program: str, timeout_s: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for the other wire."""
    monkeypatch.setattr(demo, "NODETOOL", (sys.executable, "-c", program))
    with pytest.raises(DemoError, match=re.escape(message)):
        asyncio.run(demo.show_nodetool(Paper(io.StringIO(), colour=False), timeout_s))


def test_outputs_that_differ_between_the_hosts_fail_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal is equal as JSON: 1 and 1.0 are not."""

    async def octonode(_paper: Paper, _timeout_s: float) -> tuple[dict[str, Any], dict[str, str]]:
        return {name: {"output": 1} for name in demo.CALLS}, {"signs": "no"}

    async def nodetool(paper: Paper, timeout_s: float) -> tuple[dict[str, Any], dict[str, str]]:
        outputs, errors = await octonode(paper, timeout_s)
        return outputs | {"slug": {"output": 1.0}}, errors

    monkeypatch.setattr(demo, "show_octonode", octonode)
    monkeypatch.setattr(demo, "show_nodetool", nodetool)
    monkeypatch.setattr(demo, "show_bridge", lambda paper: asyncio.run(octonode(paper, 1)))
    with pytest.raises(DemoError, match="this does not hold: slug: slugify gave the same"):
        demo.show(Paper(io.StringIO(), colour=False), 1)
