"""What is printed: tables and colours on a terminal, plain text elsewhere, and JSON where it is asked for.

The result of a command goes to stdout, and all that is said around it to stderr. Values of secrets are masked in both.
"""

from __future__ import annotations

import json
import os
import sys

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from octonode_sdk.secrets import mask

from .errors import DONE, NO_READER
from .words import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

__all__ = ["Paper"]


class Paper:
    """Where a command prints.

    Attributes:
        as_json: Whether stdout gets one JSON document and nothing else.
        out, err: The consoles of stdout and stderr. They know NO_COLOR and what a terminal can show.
        is_rich: Whether stdout is a terminal, and people read there.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.err = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self.is_rich = self.out.is_terminal and not as_json

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line of the result; `style` is one of rich's, for terminals."""
        self._put(self.out, text, style)

    def say(self, text: str, style: str = "dim") -> None:
        """Say something beside the result, on stderr."""
        self._put(self.err, text, style)

    def error(self, text: str) -> None:
        """Say why the command failed: one line on stderr."""
        self._put(self.err, f"onode: {' '.join(text.split())}", "bold red")

    def _put(self, console: Console, text: str, style: str) -> None:
        text = printable(mask(text))
        if console.is_terminal:
            console.print(Text(text, style=style))
        else:  # as it is: a width is a matter of terminals
            console.file.write(f"{text}\n")
            console.file.flush()

    def json(self, value: Any) -> None:
        """Print a JSON document on stdout."""
        self.out.file.write(_dump(value) + "\n")
        self.out.file.flush()

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
        """Print a table; elsewhere than on a terminal, its columns as text, without a head."""
        cells = [[printable(mask(cell)) for cell in row] for row in rows]
        if not cells:
            return
        if self.is_rich:
            table = Table(title=escape(title) or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
            for number, head in enumerate(heads):
                table.add_column(escape(head), style="bold" if number == 0 else "", overflow="fold")
            for row in cells:
                table.add_row(*map(Text, row))
            self.out.print(table, soft_wrap=False)
            return
        if title:
            self.line(title)
        widths = [max(len(row[at]) for row in cells) for at in range(len(heads))]
        for row in cells:
            texts = [cell.replace("\n", " ").ljust(width) for cell, width in zip(row, widths, strict=True)]
            self.line(("  " if title else "") + "  ".join(texts).rstrip())

    def value(self, value: Any) -> None:
        """Print a JSON value for people."""
        text = _dump(value)
        if self.is_rich:
            from rich.syntax import Syntax

            self.out.print(Syntax(text, "json", theme="ansi_dark", background_color="default", word_wrap=True))
        else:
            self.line(text)

    def flush(self) -> int:
        """Write out what is kept back; return NO_READER where nobody reads any more, else DONE."""
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # Python would complain at its end as well.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return NO_READER
        return DONE


def _dump(value: Any) -> str:
    """Return a value as JSON; bytes, which NodeTool's frames may hold, are told by their number."""
    return mask(json.dumps(value, ensure_ascii=False, indent=2, default=_told))


def _told(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, (bytes, bytearray, memoryview)) else str(value)
