"""Schemas, amounts and times in words: our own choice."""

import random
from typing import Any

import pytest

from onode.words import (
    amount,
    first_line,
    guess,
    histogram,
    percentile,
    port_rows,
    printable,
    schema_text,
    seconds_text,
)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "anything"),
        ({"type": "string"}, "text"),
        ({"type": "string", "minLength": 1, "maxLength": 3}, "text, 1..3 characters"),
        ({"type": "string", "format": "date"}, "text (date)"),
        ({"type": "string", "contentEncoding": "base64"}, "bytes as base64"),
        ({"type": "integer", "minimum": 1}, "integer >= 1"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "number >0..1"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["integer", "null"]}, "integer or null"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"enum": list(range(20))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | ..."),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        ({"type": "object", "properties": {"a": {}, "b": {}}}, "{a, b}"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of text"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text or null"),
        ({"$ref": "#/$defs/T", "$defs": {"T": {"type": "integer"}}}, "integer"),
        ({"$ref": "#/$defs/T", "$defs": {"T": {"$ref": "#/$defs/T"}}}, "anything"),
    ],
)
def test_a_schema_reads_as_a_few_words(schema: dict[str, Any], text: str) -> None:
    """Our own choice."""
    assert schema_text(schema) == text


def test_a_port_has_its_default_or_is_required() -> None:
    """Our own choice: a row a port, in their order."""
    schema = {
        "properties": {"a": {"type": "string", "description": "the\n  a"}, "b": {"type": "integer", "default": 3}},
        "required": ["a"],
    }
    assert port_rows(schema) == [("a", "text", "required", "the a"), ("b", "integer", "3", "")]
    assert port_rows("no schema") == []


def test_amounts_times_and_lines() -> None:
    """Our own choice: three digits, and the singular."""
    assert [amount(1, "node"), amount(0, "node")] == ["1 node", "0 nodes"]
    assert [seconds_text(one) for one in (1.234, 0.0456, 0.000789)] == ["1.23 s", "45.6 ms", "789 us"]
    assert first_line("\n  a\nb") == "a"
    assert first_line(None) == ""


def test_a_word_that_is_near_is_guessed_whatever_its_case() -> None:
    """Our own choice: one guess, or none."""
    assert guess("GREET", ["greet", "count"]) == "; did you mean 'greet'?"
    assert guess("xyz", ["greet", "count"]) == ""


def test_what_would_steer_a_terminal_is_written_out() -> None:
    """Our own choice: a node's text can't clear the screen of the one who reads it."""
    assert printable("a\x1b[2Jb\tc\nd\x9b\x07é") == "a\\x1b[2Jb\tc\nd\\x9b\\x07é"


def test_percentiles_are_values_that_were_measured() -> None:
    """Our own choice: nearest rank, as a sort shows it."""
    times = sorted(random.Random(4).sample(range(1000), 100))
    assert percentile(times, 0.5) == times[49]
    assert percentile(times, 0.99) == times[98]
    assert percentile([7.0], 0.99) == 7.0


def test_a_histogram_shows_where_the_times_are() -> None:
    """Our own choice: the highest bar is full, a time that occurs is seen, none is none."""
    bars = histogram([1.0] * 90 + [10.0] * 9 + [1000.0], 10)
    assert (len(bars), bars[0], bars[-1], set(bars[1:-1])) == (10, "█", "▁", {" "})
    assert histogram([2.0, 2.0]) == "█"
