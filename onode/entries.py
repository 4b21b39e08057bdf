"""Pure: an entry of NodeTool's `discover` -> the manifest that says the same of its ports: one judge serves both.

A type that has only a name there (`image`, `hf.text_to_image`) becomes an object with that name in its field `type`:
it fits itself and nothing else, as the host compares names.
"""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["FLAGS", "manifest_of", "type_schema_of"]

#: What an entry says of the node beside its ports and texts, in the order in which changes of it are told.
FLAGS = (
    "is_streaming_output",
    "is_streaming_input",
    "is_dynamic",
    "supports_dynamic_outputs",
    "requires_vram_gb",
    "recommended_models",
)

_PLAIN: dict[str, dict[str, Any]] = {
    "any": {},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "float": {"type": "number"},
    "int": {"type": "integer"},
    "none": {"type": "null"},
    "str": {"type": "string"},
}
#: Other spellings of these names, as workers that flatten types to text write them.
_SPELLINGS = {"Any": "any", "None": "none", "NoneType": "none", "object": "any"}


def manifest_of(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of an entry; what the wire of Octonode has no word for stands under `nodetool`.

    Raises:
        TypeError, ValueError, KeyError: The entry has not the shape of one.
    """
    made: dict[str, Any] = {"id": entry["node_type"], "language": "python"}
    for key, word in (("title", "label"), ("description", "description")):
        if key in entry:
            made[word] = entry[key]
    inputs = {port["name"]: _input(port) for port in entry.get("properties", [])}
    required = [port["name"] for port in entry.get("properties", []) if port.get("required")]
    outputs = {port["name"]: type_schema_of(port["type"]) for port in entry.get("outputs", [])}
    made["inputs"] = {"type": "object", "properties": inputs, **({"required": required} if required else {})}
    made["outputs"] = {"type": "object", "properties": outputs, "required": list(outputs)}
    made["required_settings"] = entry.get("required_settings") or []
    made["nodetool"] = {key: entry[key] for key in FLAGS if key in entry}
    return made


def _input(port: dict[str, Any]) -> dict[str, Any]:
    schema = type_schema_of(port["type"])
    bounds = {word: port[key] for key, word in (("min", "minimum"), ("max", "maximum")) if port.get(key) is not None}
    said: dict[str, Any] = {key: port[key] for key in ("aliases", "default", "description", "title") if key in port}
    if "title" in schema and "title" in said:
        said.pop("title")
    return {**schema, **bounds, **said}


def type_schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a TypeMetadata, or of its text form (`list[int]`, `Union[int, NoneType]`).

    Raises:
        TypeError: It is neither.
    """
    if isinstance(kind, str):
        return _of_text(kind)
    if not isinstance(kind, dict) or not isinstance(kind.get("type"), str):
        raise TypeError(f"the type {kind!r} has no name")
    name, args = kind["type"], list(map(type_schema_of, kind.get("type_args") or []))
    if name == "enum" and isinstance(kind.get("values"), list):
        named = {"type_name": kind["type_name"]} if kind.get("type_name") else {}
        made: dict[str, Any] = {"enum": kind["values"], **named}
    else:
        made = _of_text(name) if not args else _built(name, args)
    return _any_of([made, _PLAIN["none"]]) if kind.get("optional") and made else made


def _built(name: str, args: list[dict[str, Any]]) -> dict[str, Any]:
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "list": lambda: {"type": "array", "items": args[0]},
        "set": lambda: {"type": "array", "items": args[0]},
        "dict": lambda: {"type": "object", "additionalProperties": args[-1]},
        "tuple": lambda: {"type": "array", "prefixItems": args, "minItems": len(args), "maxItems": len(args)},
        "union": lambda: _any_of(args),
        "optional": lambda: _any_of([*args, _PLAIN["none"]]),
    }
    maker = makers.get(name.lower())
    return _named(f"{name}[{', '.join(map(repr, args))}]") if maker is None else maker()


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    flat: list[dict[str, Any]] = []
    for schema in schemas:
        flat += schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return {} if {} in flat else flat[0] if len(flat) == 1 else {"anyOf": flat}


def _named(name: str) -> dict[str, Any]:
    if name in ("list", "tuple", "set"):
        return {"type": "array"}
    if name == "dict":
        return {"type": "object"}
    return {"type": "object", "properties": {"type": {"const": name}}, "required": ["type"]}


def _of_text(text: str) -> dict[str, Any]:
    """Read a type that is written as Python writes it; what can't be read is a name."""
    name = _SPELLINGS.get(text, text)
    if name in _PLAIN:
        return dict(_PLAIN[name])
    if not any(one in text for one in "[|"):
        return _named(name)
    try:
        return _of_tree(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return _named(text)


def _of_tree(tree: ast.expr) -> dict[str, Any]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitOr):
        return _any_of([_of_tree(tree.left), _of_tree(tree.right)])
    if isinstance(tree, ast.Subscript):
        inner = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        name = ast.unparse(tree.value).rpartition(".")[2]
        if name == "Literal":
            return {"enum": [one.value if isinstance(one, ast.Constant) else ast.unparse(one) for one in inner]}
        return _built(name, list(map(_of_tree, inner)))
    return _of_text(ast.unparse(tree))
