"""What `demo.py` prints, and how: messages laid out and shortened, facts that were checked, and what fails them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]

WIDTH = 108  # columns of the output
LONGEST_TEXT = 64  # characters of a text that are shown
SHORT_TEXT = 32  # the same, in a message of one line
LONGEST_LIST = 2  # items of a list that are shown


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
        self._is_after_message = False
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

    def sent(self, message: Any, size: str, *, whole: bool = False) -> None:
        """Print a message that the host wrote to stdin, on one line unless it is to be shown whole."""
        self._message(">", "36", message, size, whole)

    def received(self, message: Any, size: str, *, whole: bool = False) -> None:
        """Print a message that came on stdout, on one line unless it is to be shown whole."""
        self._message("<", "32", message, size, whole)

    def logged(self, text: str) -> None:
        """Print what came on stderr."""
        self._line("\n" + self._paint("33", "! stderr, for people"))
        for line in text.splitlines():
            self._line(self._paint("33", "! ") + shorten_text(line, WIDTH))
        self._is_after_message = True

    def verify(self, fact: str, holds: bool, found: object) -> None:
        """Print `fact` as checked if it holds.

        Raises:
            DemoError: It does not hold; the message shows what was `found`.
        """
        if not holds:
            raise DemoError(f"this does not hold: {fact}; found {shorten_text(repr(found), 400)}")
        self.checks += 1
        gap = "\n" if self._is_after_message else ""
        self._line(f"{gap}{self._paint('32', 'ok')} {fact}")

    def detail(self, text: str) -> None:
        """Print a line that belongs to the one above it."""
        self._line(f"   {text}")

    def _message(self, mark: str, colour: str, message: Any, size: str, whole: bool) -> None:
        if whole:
            parts = [*lay_out(shorten(message), WIDTH - 2).splitlines(), f"({size})"]
        else:
            room = WIDTH - len(size) - 6
            text = json.dumps(shorten(message, SHORT_TEXT), ensure_ascii=False)
            parts = [f"{text if len(text) <= room else text[:room] + '…'}  ({size})"]
        gap = "" if self._is_after_message else "\n"
        self._line(gap + "\n".join(f"{self._paint(colour, mark)} {part}" for part in parts))
        self._is_after_message = True

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def _line(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
        self._is_after_message = False


def shorten_text(text: str, limit: int) -> str:
    """Return `text` as it is, or its beginning and a note of its length if it has over `limit` characters.

    Example:
        >>> shorten_text("a field guide to clouds", 7)
        'a field… (23 characters)'
    """
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def shorten(value: Any, longest: int = LONGEST_TEXT) -> Any:
    """Return a value with its long texts and long lists shortened, each with a note of its length.

    Example:
        >>> shorten({"counts": [1, 2, 3, 4, 5]})
        {'counts': [1, 2, '… (5 items)']}
    """
    if isinstance(value, str):
        # A traceback names files by full path; the reader knows them from the project's folder on.
        return shorten_text(value.replace(f"{ROOT}{os.sep}", ""), longest)
    if isinstance(value, list):
        # A short list of texts, such as the members of an enum, says more whole.
        texts = all(isinstance(item, str) for item in value)
        if len(value) <= LONGEST_LIST or (texts and sum(map(len, value)) <= longest):
            return [shorten(item, longest) for item in value]
        return [*(shorten(item, longest) for item in value[:LONGEST_LIST]), f"… ({len(value):,} items)"]
    if isinstance(value, dict):
        return {key: shorten(item, longest) for key, item in value.items()}
    return value


def lay_out(value: Any, width: int, indent: int = 0, taken: int = 0) -> str:
    """Return a JSON value as text: on one line where it fits, else with as many short items a line as fit.

    Args:
        value: the value.
        width: columns of the whole text.
        indent: columns to the left of lines after the first.
        taken: columns of the first line that are used already, besides `indent`.

    Example:
        >>> print(lay_out({"name": "Ada", "born": 1815, "tags": ["engine", "poetry"]}, 40))
        {
          "name": "Ada", "born": 1815,
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
    lines = items[:1]
    for item in items[1:]:
        is_short = "\n" not in lines[-1] + item and inner + len(lines[-1]) + 2 + len(item) < width
        lines[-1:] = [f"{lines[-1]}, {item}"] if is_short else [lines[-1], item]
    body = f",\n{' ' * inner}".join(lines)
    return f"{opening}\n{' ' * inner}{body}\n{' ' * indent}{closing}"
