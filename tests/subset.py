"""The validator that every peer carries, the part of JSON Schema that SCH-1 to SCH-11 name."""

from typing import Any

__all__ = ["fits"]


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Tell whether a JSON value fits a schema as peers read it; any keyword that they do not know passes (SCH-1)."""
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_is_a(kind, value) for kind in kinds):  # SCH-2
            return False
    if "enum" in schema and not any(_is_same(member, value) for member in schema["enum"]):  # SCH-5
        return False
    if "anyOf" in schema and not any(fits(branch, value) for branch in schema["anyOf"]):  # SCH-10
        return False
    if isinstance(value, dict):  # SCH-11
        return _object_fits(schema, value)
    if isinstance(value, list) and "items" in schema:  # SCH-9
        return all(fits(schema["items"], one) for one in value)
    return True


def _object_fits(schema: dict[str, Any], value: dict[str, Any]) -> bool:
    if not all(name in value for name in schema.get("required", [])):  # SCH-6
        return False
    known = schema.get("properties", {})
    if not all(fits(known[name], one) for name, one in value.items() if name in known):  # SCH-7
        return False
    others = schema.get("additionalProperties", {})
    more = {name: one for name, one in value.items() if name not in known}
    return not more if others is False else all(fits(others, one) for one in more.values())  # SCH-8


def _is_a(kind: str, value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")
    match kind:
        case "integer":  # SCH-3
            return is_number and value == int(value)
        case "number":  # SCH-4
            return is_number
        case "null":
            return value is None
    return isinstance(value, {"string": str, "boolean": bool, "object": dict, "array": list}[kind])


def _is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same JSON: 1 is 1.0, and neither is true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return bool(one == other)
