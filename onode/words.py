"""Pure: what is shown of schemas, amounts, times and typing errors, in words."""

from __future__ import annotations

import json
from difflib import get_close_matches

from .fits import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

__all__ = [
    "amount",
    "first_line",
    "guess",
    "histogram",
    "json_text",
    "percentile",
    "port_rows",
    "printable",
    "resolved",
    "schema_text",
    "seconds_text",
]

#: Members of a choice that are written out.
_MEMBERS = 8

#: References that are followed one after the other; more go in a circle.
_MOST_REFERENCES = 16

_BARS = " ▁▂▃▄▅▆▇█"


def guess(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest of the known words, or nothing."""
    names = list(known)
    lowered = {name.lower(): name for name in names}
    near = get_close_matches(word, names, n=1) or get_close_matches(word.lower(), lowered, n=1)
    return f"; did you mean {lowered.get(near[0], near[0])!r}?" if near else ""


def amount(number: int, thing: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def seconds_text(seconds: float) -> str:
    """Return a time with three digits: `1.23 s`, `45.6 ms`, `789 us`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds / 1e-6)} us"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def first_line(text: str | None) -> str:
    """Return the first line of a text that is not blank, or nothing."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def printable(text: str) -> str:
    """Return a text without what would steer a terminal: control characters but tab and line feed are escaped."""
    if text.isprintable():
        return text
    return "".join(
        one if one in "\n\t" or not (ord(one) < 32 or 0x7F <= ord(one) < 0xA0) else ascii(one)[1:-1] for one in text
    )


def json_text(value: Any, limit: int | None = None) -> str:
    """Return a value as JSON on one line, cut to `limit` characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if limit is None or len(text) <= limit else f"{text[: limit - 3]}..."


def percentile(times: Sequence[float], share: float) -> float:
    """Return the value of sorted times below which a share of them lies (nearest rank).

    Example:
        >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
        2.0
    """
    rank = -int(-share * len(times) // 1)
    return times[max(0, min(len(times), rank) - 1)]


def histogram(times: Sequence[float], columns: int = 24) -> str:
    """Return how sorted times are spread, between the first and the 99th percentile, as a line of bars.

    Example:
        >>> histogram([1.0, 1.0, 1.0, 2.0], 2)
        '█▃'
    """
    low, high = times[0], percentile(times, 0.99)
    if high <= low:
        return _BARS[-1]
    counts = [0] * columns
    for one in times:
        if one <= high:
            counts[min(columns - 1, int((one - low) / (high - low) * columns))] += 1
    top = max(counts)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // top)] for count in counts)


# Schemas


def resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with its local references followed; one that says nothing or can't be read becomes {}."""
    for _ in range(_MOST_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str):
            break
        schema = resolve(reference, dict(root))
    return schema if isinstance(schema, dict) else {}


def schema_text(schema: Any, root: Mapping[str, Any] | None = None, depth: int = 0) -> str:
    """Return a schema in a few words.

    Example:
        >>> schema_text({"type": "integer", "minimum": 1, "maximum": 9})
        'integer 1..9'
        >>> schema_text({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
        'list of text or null'
    """
    root = root if root is not None else schema if isinstance(schema, dict) else {}
    one = resolved(schema, root)
    if "enum" in one:
        shown = [json_text(member) for member in one["enum"][:_MEMBERS]]
        return " | ".join(shown) + (" | ..." if len(one["enum"]) > _MEMBERS else "")
    if "const" in one:
        return json_text(one["const"])
    members = one.get("anyOf") or one.get("oneOf")
    if isinstance(members, list):
        return " or ".join(dict.fromkeys(schema_text(member, root, depth) for member in members))
    kinds = one.get("type")
    names = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_kind_text(name, one, root, depth) for name in names)


def _kind_text(kind: Any, schema: dict[str, Any], root: Mapping[str, Any], depth: int) -> str:
    if kind is None:
        return "anything"
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return "bytes as base64"
        named = f" ({schema['format']})" if isinstance(schema.get("format"), str) else ""
        return "text" + named + _range(schema, "minLength", "maxLength", " characters")
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        return f"{kind}{_bounds(low, high, 'exclusiveMinimum' in schema, 'exclusiveMaximum' in schema)}"
    if kind == "array":
        items = schema.get("items")
        inner = f" of {schema_text(items, root, depth + 1)}" if items and depth < 2 else ""
        return "list" + inner
    if kind == "object":
        names = list(schema.get("properties", {}))
        if names and depth < 2:
            return "{" + ", ".join(names[:_MEMBERS]) + (", ..." if len(names) > _MEMBERS else "") + "}"
        values = schema.get("additionalProperties")
        return f"object of {schema_text(values, root, depth + 1)}" if isinstance(values, dict) and values else "object"
    return str(kind)


def _bounds(low: Any, high: Any, above: bool, below: bool) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f" {'>' if above else '>='} {low}"
    if low is None:
        return f" {'<' if below else '<='} {high}"
    return f" {'>' if above else ''}{low}..{'<' if below else ''}{high}"


def _range(schema: dict[str, Any], least: str, most: str, unit: str) -> str:
    bounds = _bounds(schema.get(least), schema.get(most), False, False)
    return f",{bounds}{unit}" if bounds else ""


def port_rows(schema: Any) -> list[tuple[str, str, str, str]]:
    """Return a row a property of an object's schema: name, type, default or `required`, description."""
    if not isinstance(schema, dict):
        return []
    rows = []
    for name, port in (schema.get("properties") or {}).items():
        said = port if isinstance(port, dict) else {}
        given = "required" if name in schema.get("required", ()) else ""
        if "default" in said:
            given = json_text(said["default"], 40)
        rows.append((name, schema_text(port, schema), given, " ".join(str(said.get("description", "")).split())))
    return rows
