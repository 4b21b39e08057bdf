"""Pure: `name=value` words, or a JSON object, and the schema of a node's inputs -> the inputs of a call.

====================  =======================================================================================
`name=value`          typed by the schema: text as it stands; numbers, true, false, null, lists and objects as JSON
`name:=JSON`          JSON, whatever the schema says
`name=@file`          the text of a file
`name:=@file`         a file's JSON
====================  =======================================================================================

Where a port takes text and something else as well, what reads as JSON of that other type is that.
"""

from __future__ import annotations

import json

from .errors import UsageError
from .fits import fits
from .words import guess, json_text, resolved, schema_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

__all__ = ["check_inputs", "is_input", "parse_json", "read_object", "read_pairs", "read_words"]

_KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")


def is_input(word: str) -> bool:
    """Tell whether a word gives an input; the others name nodes."""
    return "=" in word


def parse_json(text: str, what: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        UsageError: It is none; NaN and infinity are none either.
    """

    def refuse(name: str) -> float:
        raise UsageError(f"{what} holds {name}, which JSON does not have; give a finite number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is no JSON: {error}; it is {_cut(text)}") from error


def read_object(text: str, what: str) -> dict[str, Any]:
    """Return the object of a JSON text.

    Raises:
        UsageError: It is something else.
    """
    value = parse_json(text, what)
    if not isinstance(value, dict):
        raise UsageError(f'{what} is {_cut(text)}; expected an object, such as {{"name": "Ada"}}')
    return value


def read_pairs(words: Sequence[str], what: str) -> dict[str, Any]:
    """Return the keys and values of `k=v` words: what reads as JSON is that, all else is text.

    Raises:
        UsageError: A word has no `=`.
    """
    made: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"{what} is {word!r}; write {what} key=value")
        made[key] = _json_or_text(text)
    return made


def read_words(
    words: Sequence[str], schema: Mapping[str, Any], *, node: str, dynamic: bool, read_file: Callable[[str], str]
) -> dict[str, Any]:
    """Return the inputs that words give.

    Args:
        words: Such as `width=3`.
        schema: Of the node's inputs.
        node: Its id, for people.
        dynamic: Whether it takes inputs beside those of the schema.
        read_file: Returns the text of a file; raises UsageError.

    Raises:
        UsageError: A word is no input, names none that the node has, or its value is of another type.
    """
    made: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise UsageError(f"{word!r} is no input; write name=value")
        port = _port(schema, name, node, dynamic)
        if text.startswith("@"):
            text = read_file(text[1:])
        elif not is_json:
            made[name] = _typed(text, port, schema, f"the input {name!r} of node {node!r}")
            continue
        made[name] = parse_json(text, f"the input {name!r}") if is_json else text
    return made


def check_inputs(inputs: Mapping[str, Any], schema: Mapping[str, Any], *, node: str, dynamic: bool) -> None:
    """Check that the node has these inputs and is given all that it needs; the runner checks the values.

    Raises:
        UsageError: Names what is not there, and what is missing.
    """
    for name in inputs:
        _port(schema, name, node, dynamic)
    missing = [name for name in schema.get("required", ()) if name not in inputs]
    if missing:
        ports = schema.get("properties", {})
        texts = [f"{name} ({schema_text(ports.get(name, {}), schema)})" for name in missing]
        raise UsageError(f"node {node!r} needs {', '.join(texts)}; give {' '.join(f'{name}=...' for name in missing)}")


def _port(schema: Mapping[str, Any], name: str, node: str, dynamic: bool) -> Any:
    ports = schema.get("properties", {})
    if name in ports:
        return ports[name]
    if dynamic:
        return schema.get("additionalProperties", {})
    known = f"it has {', '.join(ports)}" if ports else "it has none"
    raise UsageError(f"node {node!r} has no input {name!r}; {known}{guess(name, ports)}")


def _typed(text: str, port: Any, root: Mapping[str, Any], place: str) -> Any:
    """Return what a word says, by the port's schema."""
    schema = resolved(port, root)
    kinds = _kinds_of(schema, root)
    if kinds == {"string"}:
        _check_member(text, schema, place)
        return text
    value = _json_or_text(text)
    if fits(schema, value, dict(root)) is not False:
        return value
    # The text may look like a number and be meant as text; where both are wrong, the words are about what was meant.
    if "string" in kinds and fits(schema, text, dict(root)) is not False:
        return text
    if _kind_fits(value, kinds):
        if not isinstance(value, (list, dict)):
            _check_member(value, schema, place)
        return value  # of the type: the runner says what is wrong with it, and where
    raise UsageError(
        f"{place} is {_cut(text)}; expected {schema_text(schema, root)}{_example(kinds, place)}"
        f"{guess(text, map(str, schema.get('enum', ())))}"
    )


def _check_member(value: Any, schema: Mapping[str, Any], place: str) -> None:
    members = schema.get("enum")
    if isinstance(members, list) and value not in members:
        near = guess(str(value), [one for one in members if isinstance(one, str)])
        raise UsageError(f"{place} is {json_text(value)}; expected {schema_text(schema)}{near}")


def _kinds_of(schema: Any, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """Return the JSON types that a schema takes, as far as its words say."""
    one = resolved(schema, root)
    members = one.get("anyOf") or one.get("oneOf")
    if isinstance(members, list) and depth < 8:
        return set().union(*(_kinds_of(member, root, depth + 1) for member in members))
    kinds = one.get("type")
    if isinstance(kinds, str):
        return {kinds}
    return set(kinds) if isinstance(kinds, list) else set(_KINDS)


def _kind_fits(value: Any, kinds: set[str]) -> bool:
    return any(fits({"type": kind}, value, {}) for kind in kinds)


def _json_or_text(text: str) -> Any:
    def refuse(name: str) -> float:
        raise ValueError(name)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return text


def _example(kinds: set[str], place: str) -> str:
    name = place.partition("'")[2].partition("'")[0]
    if "array" in kinds and "string" not in kinds:
        return f" as JSON, such as {name}='[...]'"
    if "object" in kinds and "string" not in kinds:
        return f" as JSON, such as {name}='{{...}}'"
    return ": true or false" if kinds == {"boolean"} else ""


def _cut(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:57]!r}..."
