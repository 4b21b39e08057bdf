"""Does a JSON value fit a JSON Schema? Yes, no, or not decided where a keyword is beyond what is read here.

The dialect is 2020-12. Read are the keywords of `READ`; what is unread counts only if nothing that is read says no.
"""

from __future__ import annotations

import re
from fractions import Fraction

from octonode_sdk.errors import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Schema: TypeAlias = "dict[str, Any] | bool"

__all__ = ["LISTS", "READ", "SAID", "bare", "fault_of", "fits", "is_multiple", "kind_of", "resolve", "same"]

#: Keywords that say nothing about which values fit; `aliases` are earlier names of a port, still taken.
SAID = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$id", "$schema", "aliases", "contentSchema", "default", "definitions"),
        *("deprecated", "description", "examples", "readOnly", "title", "writeOnly"),
    }
)
#: Keywords that are read, and what their value has to be: words of `_FORMS`.
_FORMS_OF = {
    "$ref": "text",
    "additionalProperties": "schema",
    "allOf": "schemas",
    "anyOf": "schemas",
    "const": "value",
    "enum": "list",
    "exclusiveMaximum": "number",
    "exclusiveMinimum": "number",
    "items": "schema",
    "maxItems": "number",
    "maxLength": "number",
    "maxProperties": "number",
    "maximum": "number",
    "minItems": "number",
    "minLength": "number",
    "minProperties": "number",
    "minimum": "number",
    "multipleOf": "number",
    "oneOf": "schemas",
    "pattern": "text",
    "prefixItems": "schemas",
    "properties": "map of schemas",
    "propertyNames": "schema",
    "required": "list of texts",
    "type": "text or list of texts",
    "uniqueItems": "value",
}
READ = frozenset(_FORMS_OF)
#: Read keywords that hold a list of schemas for the same value.
LISTS = ("allOf", "anyOf", "oneOf")
#: Keywords that hold a map whose keys are names and no keywords.
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


def kind_of(value: Any) -> str:
    """Return the JSON type of a value; each number is a `number`."""
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), (str, "string"), (int, "number"), (float, "number"), (list, "array"))
    return next((kind for cls, kind in kinds if isinstance(value, cls)), "object")


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same JSON: 1 is 1.0, and neither is true."""
    if kind_of(one) != kind_of(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def bare(schema: Any) -> Any:
    """Return a schema without what says nothing about which values fit; definitions stay."""
    if isinstance(schema, list):
        return [bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for word, value in schema.items():
        if word in _MAPS:
            made[word] = {key: bare(one) for key, one in value.items()} if isinstance(value, dict) else value
        elif word in ("enum", "const", "required"):
            made[word] = value
        elif word not in SAID:
            made[word] = bare(value)
    return made


def fault_of(schema: Any, path: str = "$") -> str | None:
    """Return what is wrong with the shape of a schema and where, or None."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{path} is {shorten(schema)}; expected a JSON Schema, which is an object"
    for word, value in schema.items():
        place = f"{path}.{word}"
        form = _FORMS_OF.get(word, "map of schemas" if word in _MAPS else "value")
        if not _FORMS[form](value):
            return f"{place} is {shorten(value)}; expected a {form}"
        inner: dict[str, Any] = {}
        if form == "schema":
            inner = {place: value}
        elif form == "schemas":
            inner = {f"{place}[{at}]": one for at, one in enumerate(value)}
        elif form == "map of schemas":
            inner = {f"{place}.{key}": one for key, one in value.items()}
        for at, one in inner.items():
            fault = fault_of(one, at)
            if fault is not None:
                return fault
    return None


def _is_number(value: Any) -> bool:
    return kind_of(value) == "number"


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


#: The forms of what keywords hold.
_FORMS: dict[str, Callable[[Any], bool]] = {
    "value": lambda _: True,
    "text": lambda value: isinstance(value, str),
    "number": _is_number,
    "list": lambda value: isinstance(value, list),
    "list of texts": _is_texts,
    "text or list of texts": lambda value: isinstance(value, str) or _is_texts(value),
    "schema": lambda value: isinstance(value, (dict, bool)),
    "schemas": lambda value: isinstance(value, list),
    "map of schemas": lambda value: isinstance(value, dict),
}


def is_multiple(value: float, of: float) -> bool:
    """Tell whether a number is a whole multiple of another, both as they are written in decimals."""
    return of != 0 and (Fraction(str(value)) / Fraction(str(of))).denominator == 1


def resolve(reference: str, root: Schema) -> Schema | None:
    """Return what a local reference (`#/$defs/Tree`) names, or None if that is not there."""
    place: Any = root
    if not reference.startswith("#"):
        return None
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(place, dict) or key not in place:
            return None
        place = place[key]
    return place if isinstance(place, (dict, bool)) else None


def fits(schema: Schema, value: Any, root: Schema, open_: tuple[str, ...] = ()) -> bool | None:
    """Tell whether a value fits; None where that is not decided.

    Args:
        schema: The schema.
        value: A JSON value.
        root: Where its references lead.
        open_: References that are being followed for this very value.
    """
    if isinstance(schema, bool):
        return schema
    told: list[bool | None] = [_own(schema, value)]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = None if reference in open_ else resolve(reference, root)
        told.append(None if target is None else fits(target, value, root, (*open_, reference)))
    for word in LISTS:
        if word in schema:
            told.append(_count(word, [fits(one, value, root, open_) for one in schema[word]]))
    if isinstance(value, list):
        told += _items(schema, value, root)
    elif isinstance(value, dict):
        told += _properties(schema, value, root)
    return _all(told)


def _all(told: list[bool | None]) -> bool | None:
    if False in told:
        return False
    return None if None in told else True


def _count(word: str, told: list[bool | None]) -> bool | None:
    """Return the verdict of `allOf`, `anyOf` or `oneOf` from those of its branches."""
    if word == "allOf":
        return _all(told)
    if word == "oneOf":
        return told.count(True) == 1 if told.count(True) > 1 or None not in told else None
    return True if True in told else None if None in told else False


def _own(schema: dict[str, Any], value: Any) -> bool | None:
    """Return the verdict of the keywords that speak of the value alone."""
    kind = kind_of(value)
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        is_whole = kind == "number" and value == value // 1
        if kind not in kinds and not ("integer" in kinds and is_whole):
            return False
    if "enum" in schema and not any(same(one, value) for one in schema["enum"]):
        return False
    if "const" in schema and not same(schema["const"], value):
        return False
    if kind == "number" and not _number(schema, value):
        return False
    sizes = {"string": "Length", "array": "Items", "object": "Properties"}
    if kind in sizes and not schema.get("min" + sizes[kind], 0) <= len(value) <= schema.get(
        "max" + sizes[kind], float("inf")
    ):
        return False
    if kind == "array" and schema.get("uniqueItems") is True and not _is_unique(value):
        return False
    unread = not (schema.keys() <= READ | SAID)
    if kind == "string" and "pattern" in schema:
        try:
            return (re.search(schema["pattern"], value) is not None) and (None if unread else True)
        except re.error:
            return None
    return None if unread else True


def _is_unique(values: list[Any]) -> bool:
    return not any(same(one, other) for at, one in enumerate(values) for other in values[:at])


def _number(schema: dict[str, Any], value: float) -> bool:
    return (
        ("minimum" not in schema or value >= schema["minimum"])
        and ("maximum" not in schema or value <= schema["maximum"])
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
        and ("multipleOf" not in schema or is_multiple(value, schema["multipleOf"]))
    )


def _items(schema: dict[str, Any], value: list[Any], root: Schema) -> list[bool | None]:
    places = schema.get("prefixItems", [])
    told = [fits(one, item, root) for one, item in zip(places, value, strict=False)]
    return told + [fits(schema.get("items", True), item, root) for item in value[len(places) :]]


def _properties(schema: dict[str, Any], value: dict[str, Any], root: Schema) -> list[bool | None]:
    known = schema.get("properties", {})
    told: list[bool | None] = [name in value for name in schema.get("required", [])]
    for name, one in value.items():
        told.append(fits(known[name] if name in known else schema.get("additionalProperties", True), one, root))
        told.append(fits(schema.get("propertyNames", True), name, root))
    return told
