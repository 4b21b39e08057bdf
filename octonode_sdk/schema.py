"""Step three: ports -> JSON Schema.

The peers of the wire read a small subset of JSON Schema (SCH-1 to SCH-11), so whatever a schema means it means within
that subset (SCH-12); further keywords (bounds, formats) tell people and stricter readers more, and the runner enforces
them (SCH-21). Types are written where they stand; `$defs` hold only what refers to itself (SCH-16).
"""

from __future__ import annotations

from .errors import DefinitionError, Fault, shorten
from .ports import (
    Alias,
    Anything,
    Array,
    Base64,
    Choice,
    FixedArray,
    Flags,
    Mapping,
    Null,
    Record,
    Rich,
    Scalar,
    Union,
)
from .values import Policy, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .ports import Constraints, Port, PortType

__all__ = ["object_schema", "type_schema"]

_WORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTH_WORDS = {
    Scalar: ("minLength", "maxLength"),
    Array: ("minItems", "maxItems"),
    Mapping: ("minProperties", "maxProperties"),
}
_INTEGER_TEXT = r"^(0|-?[1-9][0-9]*)$"


def object_schema(
    ports: list[Port],
    *,
    outputs: bool,
    policy: Policy,
    defaults: dict[str, Any] | None = None,
    rest: PortType | None = None,
) -> dict[str, Any]:
    """Return the schema of a node's inputs or outputs: an object with a property a port (SCH-15).

    Args:
        ports: The ports.
        outputs: Whether they leave the node.
        policy: The node's value policy; it widens output types where it lets a number become null or text.
        defaults: JSON forms of the defaults, by port.
        rest: The type of further inputs, where the node takes any.

    Raises:
        DefinitionError: A port can't be described; with the port as parameter, without the node.
    """
    writer = _Writer(outputs, policy)
    schema: dict[str, Any] = {"type": "object"}
    properties = schema["properties"] = {}
    for port in ports:
        try:
            properties[port.name] = writer.port(port, defaults or {})
        except DefinitionError as error:
            place = error.parameter or port.name
            raise DefinitionError(error.problem, parameter=place, way_out=error.way_out) from error
    required = [port.name for port in ports if port.required]  # SCH-19
    if required:
        schema["required"] = required
    # Unknown keys are never refused here, since calls ignore them (SCH-18).
    if rest is not None and not isinstance(rest, Anything):
        schema["additionalProperties"] = writer.type(rest)
    if writer.definitions:
        schema["$defs"] = writer.definitions
    return schema


def type_schema(port_type: PortType, *, outputs: bool, policy: Policy) -> dict[str, Any]:
    """Return the schema of one type."""
    writer = _Writer(outputs, policy)
    schema = writer.type(port_type)
    if writer.definitions:
        schema["$defs"] = writer.definitions
    return schema


class _Writer:
    def __init__(self, outputs: bool, policy: Policy) -> None:
        self._outputs, self._policy = outputs, policy
        self.definitions: dict[str, Any] = {}
        self._open: dict[int, str] = {}
        self._referred: set[str] = set()
        #: Names in `definitions` of what pydantic describes, by its own name and all of its own definitions.
        self.known: dict[str, str] = {}

    def port(self, port: Port, defaults: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a port: its type's, with what is said of the port itself."""
        schema = self.type(port.type)
        for name in ("title", "description"):
            value = getattr(port, name)
            if value is not None:
                schema[name] = value
        if port.examples is not None:
            schema["examples"] = _examples(port)
        if port.name in defaults:
            schema["default"] = defaults[port.name]
        return schema

    def type(self, port_type: PortType) -> dict[str, Any]:
        """Return the schema of a type, as a new dict."""
        if isinstance(port_type, Scalar):
            return self._scalar(port_type)
        if isinstance(port_type, Anything):
            return {}
        if isinstance(port_type, Null):
            return {"type": "null"}  # SCH-14
        if isinstance(port_type, Base64):
            return {"type": "string", "contentEncoding": "base64", **_base64_bounds(port_type.constraints)}
        if isinstance(port_type, Choice):
            return _choice([wire for wire, _ in port_type.members])
        if isinstance(port_type, Flags):
            return {"type": "integer", "minimum": 0, "maximum": port_type.mask}
        if isinstance(port_type, Array):
            schema = {"type": "array", "items": self.type(port_type.item), **_bounds(port_type.constraints, Array)}
            if self._outputs and port_type.container in (set, frozenset):
                schema["uniqueItems"] = True
            return schema
        if isinstance(port_type, FixedArray):
            items = [self.type(one) for one in port_type.items]
            # Peers know `items` alone; with maxItems it says nothing beyond prefixItems to a reader of both (SCH-20).
            size = len(items)
            places = {"prefixItems": items, "items": _any_of(items)} if items else {"items": {}}
            return {"type": "array", **places, "minItems": size, "maxItems": size}
        if isinstance(port_type, Mapping):
            return self._mapping(port_type)
        if isinstance(port_type, Union):
            return _any_of([self.type(member) for member in port_type.members])
        if isinstance(port_type, Rich):
            return self._rich(port_type)
        return self._recursive(port_type)

    def _scalar(self, port_type: Scalar) -> dict[str, Any]:
        kinds = [port_type.kind, *self._extra_kinds(port_type.kind)]
        return {"type": kinds if kinds[1:] else kinds[0], **_bounds(port_type.constraints, Scalar)}

    def _mapping(self, port_type: Mapping) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object"}
        value = self.type(port_type.value)
        if value:
            schema["additionalProperties"] = value
        key = port_type.key
        if isinstance(key, Choice):
            schema["propertyNames"] = {"enum": [str(wire) for wire, _ in key.members]}
        elif isinstance(key, Scalar) and key.kind == "integer":
            schema["propertyNames"] = {"pattern": _INTEGER_TEXT}
        elif isinstance(key, Scalar) and key.constraints is not None:
            schema["propertyNames"] = _bounds(key.constraints, Scalar)
        return {**schema, **_bounds(port_type.constraints, Mapping)}

    def _recursive(self, port_type: Record | Alias) -> dict[str, Any]:
        """Write a record or alias in place; one that contains itself goes to `$defs` under its name."""
        kind = "object" if isinstance(port_type, Record) else None
        if id(port_type) in self._open:
            name = self._open[id(port_type)]
            self._referred.add(name)
            return _reference(name, kind)
        name = "".join(one if one.isalnum() else "_" for one in port_type.name)
        while name in self._open.values() or name in self.definitions:
            name += "_"
        self._open[id(port_type)] = name
        schema = self.type(port_type.target) if isinstance(port_type, Alias) else self._record(port_type)
        if name not in self._referred:
            del self._open[id(port_type)]
            return schema
        self.definitions[name] = schema  # stays open: a later place refers to the same definition
        return _reference(name, kind)  # SCH-17

    def _record(self, record: Record) -> dict[str, Any]:
        fields = [field for field in record.fields if self._outputs or field.name not in record.computed]
        schema: dict[str, Any] = {"type": "object", "title": record.name}
        if record.doc:
            schema["description"] = " ".join(record.doc.strip().partition("\n\n")[0].split())
        schema["properties"] = {field.name: self.port(field, {}) for field in fields}
        required = [field.name for field in fields if field.required or (self._outputs and record.form != "typeddict")]
        if required:
            schema["required"] = required
        return schema

    def _rich(self, port_type: Rich) -> dict[str, Any]:
        from pydantic.errors import PydanticUserError

        from .rich import json_schema

        try:
            schema = json_schema(port_type, outputs=self._outputs)
        except PydanticUserError as error:  # a name that is not defined, or a type without a schema, inside a model
            problem = f"is a {port_type.name}, which pydantic can't describe: {str(error).splitlines()[0]}"
            raise DefinitionError(
                problem, way_out="give its fields types that pydantic has a JSON schema for"
            ) from error
        return _Inliner(self, schema, self._extra_kinds).schema()

    def _extra_kinds(self, kind: str) -> list[str]:
        """Return what the node's value policy may make of an output of this kind."""
        if not self._outputs or kind not in ("integer", "number"):
            return []
        policy = self._policy
        extra = (
            ["string"] if policy.big_integers == "text" or (kind == "number" and policy.non_finite == "text") else []
        )
        return ["null", *extra] if kind == "number" and policy.non_finite == "null" else extra


class _Inliner:
    """Rewrites pydantic's schema in the peers' subset: references in place, `anyOf` and `enum` alone (SCH-13)."""

    def __init__(self, writer: _Writer, schema: dict[str, Any], extra_kinds: Callable[[str], list[str]]) -> None:
        self._writer, self._root, self._extra_kinds = writer, schema, extra_kinds
        self._definitions = schema.get("$defs", {})
        self._names: dict[str, str] = {}
        self._open: set[str] = set()

    def schema(self) -> dict[str, Any]:
        made = self._rewrite({key: value for key, value in self._root.items() if key != "$defs"})
        assert isinstance(made, dict)  # a schema object stays one
        return made

    def _rewrite(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._rewrite(one) for one in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            rest = {key: value for key, value in node.items() if key != "$ref"}
            name = reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
            return {**self._resolve(name), **self._rewrite(rest)}
        made: dict[str, Any] = {}
        for key, value in node.items():
            if key in ("properties", "patternProperties"):
                made[key] = {name: self._rewrite(one) for name, one in value.items()}
            elif key in ("default", "examples", "enum", "required"):
                made[key] = value
            elif key == "type" and isinstance(value, str) and self._extra_kinds(value):
                made[key] = [value, *self._extra_kinds(value)]
            elif key == "const":
                made["enum"] = [value]
            elif key == "oneOf":
                made["anyOf"] = self._rewrite(value)
            elif key == "additionalProperties" and value is True:
                continue
            elif key != "discriminator":  # it points into $defs, and anyOf says the same to a validator
                made[key] = self._rewrite(value)
        if "allOf" in made and len(made["allOf"]) == 1:
            made = {**made.pop("allOf")[0], **made}
        if "prefixItems" in made and "items" not in made:
            made["items"] = _any_of(made["prefixItems"])
        return made

    def _resolve(self, name: str) -> dict[str, Any]:
        """Return a definition in place, or a reference if it contains itself."""
        kind = self._definitions[name].get("type")
        if name in self._open:
            return _reference(self._names.setdefault(name, self._free_name(name)), kind)
        key = f"{name} {self._definitions}"
        if key in self._writer.known:  # the same type at another port
            return _reference(self._writer.known[key], kind)
        if name in self._names:
            return _reference(self._names[name], kind)
        self._open.add(name)
        made = self._rewrite(self._definitions[name])
        self._open.discard(name)
        if name not in self._names:
            assert isinstance(made, dict)  # a schema object stays one
            return made
        self._writer.definitions[self._names[name]] = made
        self._writer.known[key] = self._names[name]
        return _reference(self._names[name], kind)

    def _free_name(self, name: str) -> str:
        while name in self._writer.definitions or name in self._names.values():
            name += "_"
        return name


def _bounds(constraints: Constraints | None, cls: type) -> dict[str, Any]:
    if constraints is None:
        return {}
    shortest, longest = _LENGTH_WORDS[cls]
    words = {**_WORDS, "min_length": shortest, "max_length": longest}
    return {words[name]: value for name, value in constraints.given()}


def _base64_bounds(constraints: Constraints | None) -> dict[str, Any]:
    """Return the bounds of the text: base64 writes each three bytes, and what is left of them, as four characters."""
    sizes = dict(constraints.given()) if constraints is not None else {}
    words = (("min_length", "minLength"), ("max_length", "maxLength"))
    return {word: -(-sizes[name] // 3) * 4 for name, word in words if name in sizes}


def _examples(port: Port) -> list[Any]:
    faults: list[Fault] = []
    examples: list[Any] = plain(port.examples, None, faults, Policy())
    if faults:
        problem = f"has the examples {shorten(port.examples)}: {faults[0].message.partition(';')[0]}"
        raise DefinitionError(problem, way_out="give examples that JSON can hold")
    return examples


def _choice(wires: list[Any]) -> dict[str, Any]:
    names = {bool: "boolean", str: "string", int: "integer", float: "number"}
    kinds = list(dict.fromkeys(names[type(wire)] for wire in wires))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": wires}


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema that takes what any of `schemas` takes; a bare list of types where that says it all."""
    unique: list[dict[str, Any]] = []
    for schema in schemas:
        if schema not in unique:
            unique.append(schema)
    if {} in unique:
        return {}
    if len(unique) == 1:
        return dict(unique[0])
    if all(set(schema) == {"type"} for schema in unique):
        kinds: list[str] = []
        for schema in unique:
            kinds += schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {"type": list(dict.fromkeys(kinds))}
    return {"anyOf": unique}


def _reference(name: str, kind: Any) -> dict[str, Any]:
    """Return a local reference; beside it the JSON type where there is one, which is all that peers read of it."""
    reference = {"$ref": "#/$defs/" + name.replace("~", "~0").replace("/", "~1")}
    return {**reference, "type": kind} if isinstance(kind, str) else reference
