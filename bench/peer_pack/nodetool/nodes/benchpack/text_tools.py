"""The peer's twin of `docs/examples/text_tools.py`: six nodes with the same ports and the same work.

Only what it costs to load and to describe them is measured; none of them is called.
"""
# nodetool-core is in an environment of its own, where no type checker looks: its base class is unknown here.
# mypy: disable-error-code="import-not-found,import-untyped,misc"

import asyncio
import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Any, TypedDict

from nodetool.workflows.base_node import BaseNode
from nodetool.workflows.processing_context import ProcessingContext
from nodetool.workflows.types import NodeProgress
from pydantic import Field

_GREETINGS = {
    "de": ("Hallo, {}!", "Guten Tag, {}."),
    "en": ("Hello, {}!", "Good day, {}."),
    "es": ("¡Hola, {}!", "Buenos días, {}."),
    "fr": ("Salut, {} !", "Bonjour, {}."),
    "ja": ("{}さん、こんにちは。", "{}様、ご機嫌いかがでしょうか。"),
}


class Language(StrEnum):
    """ISO 639-1 codes."""

    DE = "de"
    EN = "en"
    ES = "es"
    FR = "fr"
    JA = "ja"


class Delimiter(StrEnum):
    """What separates two cells."""

    COMMA = ","
    SEMICOLON = ";"
    TAB = "\t"
    BAR = "|"


class Decimal(StrEnum):
    """Decimal signs."""

    POINT = "."
    COMMA = ","


class Separator(StrEnum):
    """What stands between two words of a slug."""

    HYPHEN = "-"
    UNDERSCORE = "_"


class Unit(StrEnum):
    """What is kept together where it fits."""

    PARAGRAPH = "paragraph"
    LINE = "line"
    SENTENCE = "sentence"


class Greet(BaseNode):
    """Greet somebody in one of five languages."""

    name: str = Field(default="", max_length=80, description="whom to greet")
    language: Language = Field(default=Language.EN, description="ISO 639-1 code of the greeting's language.")
    formal: bool = Field(default=False, description="whether to keep a polite distance.")
    title: str | None = Field(default=None, description='put before the name, such as "Dr.".')

    class OutputType(TypedDict):
        greeting: str

    async def process(self, context: ProcessingContext) -> OutputType:
        whom = f"{self.title} {self.name}" if self.title else self.name
        return {"greeting": _GREETINGS[self.language.value][self.formal].format(whom)}


class WordStatistics(BaseNode):
    """Count the words of a text.

    A word is a run of letters and digits. Upper and lower case count as one word.
    """

    text: str = Field(default="", description="the text to read.")
    top: int = Field(default=10, ge=0, le=1000, description="how many of the most frequent words to list.")
    min_length: int = Field(default=1, ge=1, le=100, description="shorter words are left out of the list.")
    ignore: list[str] = Field(default=[], description="words to leave out of the list.")
    words_per_minute: float = Field(default=230.0, gt=0, description="reading speed of the reader.")

    class OutputType(TypedDict):
        characters: int
        lines: int
        words: int
        distinct_words: int
        average_word_length: float
        longest_word: str | None
        reading_minutes: float
        top_words: list[dict[str, Any]]

    async def process(self, context: ProcessingContext) -> OutputType:
        words = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", self.text.lower()))
        counts = Counter(words)
        listed = [word for word in counts if len(word) >= self.min_length and word not in self.ignore]
        listed.sort(key=lambda word: -counts[word])
        return {
            "characters": len(self.text),
            "lines": len(self.text.splitlines()),
            "words": len(words),
            "distinct_words": len(counts),
            "average_word_length": round(sum(map(len, words)) / len(words), 2) if words else 0.0,
            "longest_word": max(counts, key=len, default=None),
            "reading_minutes": round(len(words) / self.words_per_minute, 1),
            "top_words": [{"word": word, "count": counts[word]} for word in listed[: self.top]],
        }


class CsvSummary(BaseNode):
    """Summarise each column of a CSV table."""

    table: str = Field(default="", description="the table as CSV text; its first row names the columns.")
    delimiter: Delimiter = Field(default=Delimiter.COMMA, description="what separates two cells.")
    decimal: Decimal = Field(default=Decimal.POINT, description="the decimal sign of numbers.")
    missing: list[str] = Field(default=["NA", "n/a", "-"], description="cells that count as not filled.")

    class OutputType(TypedDict):
        rows: int
        columns: list[dict[str, Any]]

    async def process(self, context: ProcessingContext) -> OutputType:
        names, *rows = csv.reader(io.StringIO(self.table, newline=""), delimiter=self.delimiter.value, strict=True)
        columns = [
            self._summarise(name, [row[column] for row in rows if row[column] not in ("", *self.missing)], len(rows))
            for column, name in enumerate(names)
        ]
        return {"rows": len(rows), "columns": columns}

    def _summarise(self, name: str, cells: list[str], rows: int) -> dict[str, Any]:
        try:
            numbers = [float(cell.replace(self.decimal.value, ".")) for cell in cells]
        except ValueError:
            numbers = []
        return {
            "name": name,
            "kind": "number" if numbers else "text" if cells else "empty",
            "filled": len(cells),
            "missing": rows - len(cells),
            "distinct": len(set(cells)),
            "minimum": min(numbers, default=None),
            "maximum": max(numbers, default=None),
            "mean": sum(numbers) / len(numbers) if numbers else None,
            "most_common": max(cells, key=cells.count, default=None),
        }


class Slugify(BaseNode):
    """Turn a title into a name that is safe in an address or a file name."""

    text: str = Field(default="", description="the title.")
    max_length: int = Field(default=80, ge=1, le=200, description="most characters of the slug.")
    separator: Separator = Field(default=Separator.HYPHEN, description="what stands between two words.")
    ascii_only: bool = Field(default=True, description="whether to keep only a to z and 0 to 9.")
    replace: dict[str, str] = Field(default={}, description="words to write for signs, applied first.")

    class OutputType(TypedDict):
        slug: str
        shortened: bool

    async def process(self, context: ProcessingContext) -> OutputType:
        spelled = self.text
        for sign, word in self.replace.items():
            spelled = spelled.replace(sign, f" {word} ")
        folded = unicodedata.normalize("NFKD" if self.ascii_only else "NFKC", spelled.lower())
        whole = self.separator.value.join(re.findall(r"[a-z0-9]+" if self.ascii_only else r"[^\W_]+", folded))
        return {"slug": whole[: self.max_length], "shortened": len(whole) > self.max_length}


class SplitText(BaseNode):
    """Split a text into chunks, between paragraphs, lines or sentences."""

    text: str = Field(default="", description="the text to split.")
    max_chars: int = Field(default=1000, ge=1, le=1_000_000, description="most characters of a chunk.")
    by: Unit = Field(default=Unit.PARAGRAPH, description="what is kept together where it fits.")

    class OutputType(TypedDict):
        chunk: str | None
        index: int | None
        chunks: list[str] | None
        count: int | None

    async def gen_process(self, context: ProcessingContext) -> AsyncGenerator[OutputType, None]:
        ends = {Unit.PARAGRAPH: r"(?<=\n\n)", Unit.LINE: r"(?<=\n)", Unit.SENTENCE: r"(?<=[.!?])\s+"}
        chunks: list[str] = []
        done = 0
        for piece in re.split(ends[self.by], self.text):
            for start in range(0, len(piece), self.max_chars):
                chunks.append(piece[start : start + self.max_chars])
                yield {"chunk": chunks[-1], "index": len(chunks) - 1, "chunks": None, "count": None}
                done += len(chunks[-1])
                context.post_message(NodeProgress(node_id=self.id, progress=done, total=len(self.text)))
        yield {"chunk": None, "index": None, "chunks": chunks, "count": len(chunks)}


class Delay(BaseNode):
    """Pass a text on after a pause, without holding up other calls."""

    text: str = Field(default="", description="what to pass on.")
    seconds: float = Field(default=1.0, ge=0, le=3600, description="how long to wait.")

    class OutputType(TypedDict):
        text: str

    async def process(self, context: ProcessingContext) -> OutputType:
        await asyncio.sleep(self.seconds)
        return {"text": self.text}
