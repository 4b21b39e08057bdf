"""Text tools: six nodes to read, to run and to start your own from.

Each one is a typed function. Its parameters are the input ports, its defaults their defaults, its return
type the output ports, and this is all there is to write:

    python -m octonode_sdk docs/examples/text_tools.py          under Octonode: every node; the request names one
    python -m octonode_sdk docs/examples/text_tools.py greet    this node only
    python docs/examples/text_tools.py                          the same as the first
    python -m nodetool.worker --stdio --nodes docs/examples/text_tools.py    under NodeTool: every node

`docs/examples/demo.py` shows them at work under both. A host may start a process for each call, so what only some calls
need is imported where it is used, and the hints are plain ones: nothing heavy is loaded to check them.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, TypedDict

from octonode_sdk import Context, Field, NodeError, node, run

_GREETINGS = {
    "de": ("Hallo, {}!", "Guten Tag, {}."),
    "en": ("Hello, {}!", "Good day, {}."),
    "es": ("¡Hola, {}!", "Buenos días, {}."),
    "fr": ("Salut, {} !", "Bonjour, {}."),
    "ja": ("{}さん、こんにちは。", "{}様、ご機嫌いかがでしょうか。"),
}


@node(icon="wave", output="greeting")
def greet(
    name: Annotated[str, Field(min_length=1, max_length=80, description="whom to greet")],
    language: Literal["de", "en", "es", "fr", "ja"] = "en",
    formal: bool = False,
    title: str | None = None,
) -> str:
    """Greet somebody in one of five languages.

    Args:
        language: ISO 639-1 code of the greeting's language.
        formal: whether to keep a polite distance.
        title: put before the name, such as "Dr.".

    Returns:
        The greeting, one sentence.

    Example:
        >>> greet("Ada")
        'Hello, Ada!'
        >>> greet("Meitner", language="de", formal=True, title="Prof.")
        'Guten Tag, Prof. Meitner.'
    """
    whom = f"{title} {name}" if title else name
    return _GREETINGS[language][formal].format(whom)


class WordCount(TypedDict):
    """A word and how often it occurs."""

    word: str
    count: int


class WordStatistics(TypedDict):
    """The output ports of `word_statistics`."""

    characters: int
    lines: int
    words: int
    distinct_words: int
    average_word_length: float
    longest_word: str | None
    reading_minutes: float
    top_words: list[WordCount]


# A run of letters and digits of any script, or several joined by apostrophes or hyphens: "fast-growing".
_WORD = r"[^\W_]+(?:['’-][^\W_]+)*"  # noqa: RUF001  # the typographic apostrophe is meant


@node(icon="calculator")
def word_statistics(
    text: str,
    top: Annotated[int, Field(ge=0, le=1000)] = 10,
    min_length: Annotated[int, Field(ge=1, le=100)] = 1,
    ignore: list[str] | None = None,
    words_per_minute: Annotated[float, Field(gt=0)] = 230.0,
) -> WordStatistics:
    """Count the words of a text.

    A word is a run of letters and digits; single apostrophes and hyphens inside it belong to it. Upper and
    lower case count as one word, and so do composed and decomposed accents.

    Args:
        text: the text to read.
        top: how many of the most frequent words to list; ties keep the order of the text.
        min_length: words with fewer characters are left out of the list.
        ignore: words to leave out of the list, such as "the".
        words_per_minute: reading speed of the reader.

    Returns:
        Totals over all words, and the list.

    Example:
        >>> found = word_statistics("The cat sat. The hat sat on the cat!", top=2, ignore=["the"])
        >>> found["words"], found["distinct_words"], found["longest_word"]
        (9, 5, 'the')
        >>> found["top_words"]
        [{'word': 'cat', 'count': 2}, {'word': 'sat', 'count': 2}]
    """
    words = re.findall(_WORD, _fold(text))
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    ignored = {_fold(word) for word in ignore or ()}
    listed = [word for word in counts if len(word) >= min_length and word not in ignored]
    listed.sort(key=lambda word: -counts[word])
    return {
        "characters": len(text),
        "lines": len(text.splitlines()),
        "words": len(words),
        "distinct_words": len(counts),
        "average_word_length": round(sum(map(len, words)) / len(words), 2) if words else 0.0,
        "longest_word": max(counts, key=len, default=None),
        "reading_minutes": round(len(words) / words_per_minute, 1),
        "top_words": [{"word": word, "count": counts[word]} for word in listed[:top]],
    }


def _fold(text: str) -> str:
    """Return `text` in the form in which equal words are equal strings."""
    import unicodedata

    return unicodedata.normalize("NFC", text.lower())


class ColumnSummary(TypedDict):
    """What one column of a table holds; `minimum`, `maximum` and `mean` are null unless it holds numbers."""

    name: str
    kind: Literal["number", "text", "empty"]
    filled: int
    missing: int
    distinct: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    most_common: str | None


class TableSummary(TypedDict):
    """The output ports of `csv_summary`."""

    rows: int
    columns: list[ColumnSummary]


@node(icon="database")
def csv_summary(
    table: str,
    delimiter: Literal[",", ";", "\t", "|"] = ",",
    decimal: Literal[".", ","] = ".",
    missing: list[str] | None = None,
) -> TableSummary:
    r"""Summarise each column of a CSV table.

    A column is a number column if every filled cell is a plain number: "NaN", "1e999" and "1_000" are text.

    Args:
        table: the table as CSV text; its first row names the columns.
        delimiter: what separates two cells.
        decimal: the decimal sign of numbers.
        missing: cells that count as not filled, besides empty ones; default "NA", "n/a" and "-".

    Returns:
        The number of rows without the header, and a summary for each column from left to right.

    Raises:
        NodeError: The table is empty, its quoting is broken, two columns share a name, or a row is longer or
            shorter than the header; the message gives the line.

    Example:
        >>> found = csv_summary("town;rain\nBergen;12,5\nBonn;NA\n", delimiter=";", decimal=",")
        >>> found["rows"]
        2
        >>> [(column["name"], column["kind"], column["mean"]) for column in found["columns"]]
        [('town', 'text', None), ('rain', 'number', 12.5)]
    """
    names, rows = _read_table(table, delimiter)
    blanks = {"", *(("NA", "n/a", "-") if missing is None else missing)}
    columns = [[cell for cell in map(str.strip, cells) if cell not in blanks] for cells in zip(*rows, strict=True)]
    if not rows:
        columns = [[] for _ in names]
    return {
        "rows": len(rows),
        "columns": [_summarise(name, cells, len(rows), decimal) for name, cells in zip(names, columns, strict=True)],
    }


def _read_table(table: str, delimiter: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a CSV text, all of them equally long; blank lines are skipped."""
    import csv
    import io

    # Spreadsheets write a byte-order mark; left in place it would become part of the first column's name.
    reader = csv.reader(io.StringIO(table.removeprefix("\ufeff"), newline=""), delimiter=delimiter, strict=True)
    names: list[str] = []
    rows: list[list[str]] = []
    try:
        for row in reader:
            if not row:
                continue
            if not names:
                names = [name.strip() for name in row]
            elif len(row) != len(names):
                cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                raise NodeError(f"line {reader.line_num} has {cells}, but the header has {len(names)}")
            else:
                rows.append(row)
    except csv.Error as error:
        raise NodeError(f"line {reader.line_num} is not CSV: {error}") from error
    if not names:
        raise NodeError("the table is empty: its first row must name the columns")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise NodeError(f"column names must differ, but {', '.join(map(repr, twice))} occurs more than once")
    return names, rows


def _summarise(name: str, cells: list[str], rows: int, decimal: str) -> ColumnSummary:
    """Summarise one column from its filled `cells`."""
    numbers = _as_numbers(cells, decimal)
    counts: dict[str, int] = {}
    for cell in cells:
        counts[cell] = counts.get(cell, 0) + 1
    return {
        "name": name,
        "kind": "number" if numbers else "text" if cells else "empty",
        "filled": len(cells),
        "missing": rows - len(cells),
        "distinct": len(counts),
        "minimum": min(numbers, default=None),
        "maximum": max(numbers, default=None),
        "mean": _mean(numbers) if numbers else None,
        "most_common": max(counts, key=lambda cell: counts[cell], default=None),
    }


def _as_numbers(cells: list[str], decimal: str) -> list[float]:
    """Return the cells as finite numbers, or an empty list as soon as one of them is something else."""
    # `float` alone would also take "nan", "inf", "1_000" and digits of other scripts.
    pattern = re.compile(r"[+-]?(?:\d+D?\d*|D\d+)(?:[eE][+-]?\d+)?".replace("D", re.escape(decimal)), re.ASCII)
    numbers: list[float] = []
    for cell in cells:
        number = float(cell.replace(decimal, ".")) if pattern.fullmatch(cell) else None
        if number is None or abs(number) == float("inf"):
            return []
        numbers.append(number)
    return numbers


def _mean(numbers: list[float]) -> float:
    """Return the mean to 12 significant digits, without the overflow and the drift of a running sum."""
    import math

    return float(f"{math.fsum(number / len(numbers) for number in numbers):.12g}")


class Slug(NamedTuple):
    """The output ports of `slugify`."""

    slug: str
    shortened: bool


# Letters that no Unicode decomposition takes apart.
_SPELLED_OUT = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i"}
)


@node(icon="wand")
def slugify(
    text: str,
    max_length: Annotated[int, Field(ge=1, le=200)] = 80,
    separator: Literal["-", "_"] = "-",
    ascii_only: bool = True,
    replace: dict[str, str] | None = None,
) -> Slug:
    """Turn a title into a name that is safe in an address or a file name.

    Args:
        text: the title.
        max_length: most characters of the slug; it is cut between words where it can be.
        separator: what stands between two words.
        ascii_only: whether to keep only a to z and 0 to 9; otherwise letters of every script stay.
        replace: words to write for signs, such as {"&": "and"}; applied first, in the given order.

    Returns:
        The slug, and whether words were lost to `max_length`.

    Raises:
        NodeError: Nothing in the text can stand in a slug.

    Example:
        >>> slugify("Föhn & Ærø: das große Wetter", replace={"&": "und"})
        Slug(slug='fohn-und-aero-das-grosse-wetter', shortened=False)
        >>> slugify("Clouds that mountains make", max_length=12)
        Slug(slug='clouds-that', shortened=True)
        >>> slugify("入道雲 ☁️", ascii_only=False).slug
        '入道雲'
    """
    import unicodedata

    spelled = text
    for sign, word in (replace or {}).items():
        spelled = spelled.replace(sign, f" {word} ")
    if ascii_only:
        spelled = unicodedata.normalize("NFKD", spelled.lower().translate(_SPELLED_OUT))
        spelled = "".join(char for char in spelled if not unicodedata.combining(char))
        words = re.findall(r"[a-z0-9]+", spelled)
    else:
        spelled = unicodedata.normalize("NFKC", spelled.lower())
        # Vowel signs of Indic scripts are marks: part of a word, but no word by themselves.
        spelled = "".join(char if char.isalnum() or unicodedata.category(char)[0] == "M" else " " for char in spelled)
        words = [word for word in spelled.split() if any(map(str.isalnum, word))]
    if not words:
        raise NodeError(
            f"nothing in {text[:40]!r} can stand in a slug; give a text with letters or digits"
            + (", or set ascii_only to false" if ascii_only else ""),
            details={"text": text, "ascii_only": ascii_only},
        )
    whole = separator.join(words)
    if len(whole) <= max_length:
        return Slug(whole, shortened=False)
    end = whole.rfind(separator, 0, max_length + 1)
    return Slug(whole[: end if end > 0 else max_length], shortened=True)


class TextParts(TypedDict, total=False):
    """The output ports of `split_text`: the first two with each chunk, the others at the end."""

    chunk: str
    index: int
    chunks: list[str]
    count: int


# What ends a piece of each kind, the space behind it included.
_ENDS = {
    "paragraph": r"\n\s*\n",
    "line": r"\n",
    # Western sentences end before a space, Chinese and Japanese ones with the full-width signs alone.
    "sentence": r"[.!?…。\uFF01\uFF1F]+[\"'”\u2019»)\]」]*(?:\s+|(?<=[。\uFF01\uFF1F」]))",
}


@node(icon="split")
def split_text(
    text: str,
    max_chars: Annotated[int, Field(ge=1, le=1_000_000)] = 1000,
    by: Literal["paragraph", "line", "sentence"] = "paragraph",
    *,
    ctx: Context,
) -> Iterator[TextParts]:
    r"""Split a text into chunks, between paragraphs, lines or sentences.

    Each chunk is handed on as soon as it is known. Nothing is lost: the chunks put together are the text. A
    piece that is too long by itself is cut between words, and a word that is too long between characters.

    Args:
        text: the text to split.
        max_chars: most characters of a chunk.
        by: what is kept together where it fits.

    Yields:
        `chunk` and its `index` from 0, one after the other; at the end all `chunks` and their `count`.

    Example:
        >>> parts = list(split_text("One. Two! Three?", max_chars=10, by="sentence", ctx=Context()))
        >>> parts[0]
        {'chunk': 'One. Two! ', 'index': 0}
        >>> parts[-1]
        {'chunks': ['One. Two! ', 'Three?'], 'count': 2}
    """
    chunks: list[str] = []
    done = 0
    for chunk in _pack(_pieces(text, _ENDS[by]), max_chars):
        ctx.check_cancelled()
        yield {"chunk": chunk, "index": len(chunks)}
        chunks.append(chunk)
        done += len(chunk)
        ctx.progress(done, len(text), f"chunk {len(chunks)}")
    ctx.log(f"split {len(text)} characters into {len(chunks)} chunks")
    yield {"chunks": chunks, "count": len(chunks)}


def _pieces(text: str, end: str) -> Iterator[str]:
    """Yield the text piece by piece, each up to and with a match of `end`."""
    start = 0
    for match in re.finditer(end, text):
        yield text[start : match.end()]
        start = match.end()
    if start < len(text):
        yield text[start:]


def _pack(pieces: Iterator[str], limit: int) -> Iterator[str]:
    """Yield the pieces in order, put together up to `limit` characters and cut where one is longer."""
    chunk = ""
    for piece in pieces:
        if chunk and len(chunk) + len(piece) > limit:
            yield chunk
            chunk = ""
        start = 0
        while len(piece) - start > limit:
            space = max(piece.rfind(" ", start, start + limit), piece.rfind("\n", start, start + limit))
            end = space + 1 if space >= start else start + limit
            yield piece[start:end]
            start = end
        chunk += piece[start:]
    if chunk:
        yield chunk


@node(icon="clock", output="text")
async def delay(
    text: str,
    seconds: Annotated[float, Field(ge=0, le=3600)] = 1.0,
    *,
    ctx: Context,
) -> str:
    """Pass a text on after a pause, without holding up other calls.

    Args:
        text: what to pass on.
        seconds: how long to wait.

    Returns:
        The text, unchanged.

    Example:
        >>> import asyncio
        >>> asyncio.run(delay("later", seconds=0, ctx=Context()))
        'later'
    """
    import asyncio

    ctx.log(f"holding a text of {len(text)} characters for {seconds:g} s")
    await asyncio.sleep(seconds)
    return text


if __name__ == "__main__":
    run()
