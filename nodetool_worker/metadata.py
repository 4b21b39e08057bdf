"""What `discover` reports of a node: its ports in NodeTool's words for types.

Properties and outputs are described in the same structured form, since the host compares types word by word where two
nodes are joined. One table, `type_metadata`, says which word stands for which port type.
"""

from __future__ import annotations

from octonode_sdk.checks import fresh_default
from octonode_sdk.errors import DefinitionError, Fault, shorten
from octonode_sdk.faults import path_text
from octonode_sdk.field import MISSING
from octonode_sdk.ports import (
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
    uses,
)
from octonode_sdk.values import MAX_EXACT_INTEGER, Policy, compile_dump, plain

from .frames import encode_data
from .policy import POLICY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from octonode_sdk.nodes import Node
    from octonode_sdk.ports import Port, PortType

__all__ = ["entry_of", "node_type_of", "title_of", "type_metadata"]

#: NodeTool's names of the types that hold no others; those of scalars go by their kind, JSON Schema's word (NMD-9).
_NAMES: dict[type, str] = {Anything: "any", Null: "none", Base64: "bytes", Flags: "int"}
_NAMES_OF_KINDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "none"}


def node_type_of(node: Node, namespace: str) -> str:
    """Return a node's type at the host: namespace, a dot, and the id in camel case.

    The id is split at whatever is no letter or digit, and the first letter of each part becomes a capital; the rest
    stays as it is, so `splitHTML` is `SplitHTML`. Letters of every script count. An id may start with a digit: the host
    takes the type for a text and no identifier. An empty namespace leaves the dot out.

    Args:
        node: The node; a namespace of its own wins, even an empty one.
        namespace: That of its pack or file.

    Raises:
        DefinitionError: The id has neither letter nor digit.
    """
    words = _words(node.id)
    if not words:
        raise DefinitionError(
            f"the id {node.id!r} has no letter or digit to make a NodeTool type of",
            node=node.id,
            way_out="give one: @node(id='...')",
        )
    name = "".join(word[0].upper() + word[1:] for word in words)
    own = _namespace_of(node, namespace)
    return f"{own}.{name}" if own else name


def title_of(node: Node) -> str:
    """Return the name that people see: the label, even an empty one, else the id in words (`Split HTML`)."""
    return node.label if node.label is not None else _title(node.id)


def type_metadata(port_type: PortType, *, outputs: bool = False) -> dict[str, Any]:
    """Return a port type as NodeTool's TypeMetadata, the same for all spellings of a hint (NMD-6, NMD-15).

    Args:
        port_type: The type.
        outputs: Whether values of it leave the node; some of pydantic's types have another form then.

    Returns:
        `type` (a name), `optional` (whether None is a value, as it is for `any`) and `type_args` (a list of the same:
        one for a list, two for a dict, one a place for a tuple) (NMD-7, NMD-10). An enum has `values`, and `type_name`
        if it is a class: the host joins two of them only if they are equal.

    Raises:
        DefinitionError: It has no such form; without node and parameter.
    """
    return _Reader(outputs).type(port_type)


def entry_of(node: Node, namespace: str) -> dict[str, Any]:
    """Return the entry that `discover` reports of a node: plain values, every key a text.

    Args:
        node: The node.
        namespace: That of its pack or file, for a node without one of its own.

    Raises:
        DefinitionError: A port, a default or a text of the node can't be told to the host.
    """
    from octonode_sdk.docstrings import read_docstring

    described, texts = read_docstring(node.doc)
    described = _with_tags(described, node.doc)
    entry: dict[str, Any] = {
        "node_type": node_type_of(node, namespace),  # NMD-1
        "title": title_of(node),  # NMD-3
        "description": node.description if node.description is not None else described,  # NMD-4
        "namespace": _namespace_of(node, namespace),  # NMD-2
        "layout": "default",
        "properties": [_property(port, node, texts) for port in node.inputs],  # NMD-5
        "outputs": _outputs(node),  # NMD-20
        "required_settings": [secret.name for secret in node.secrets],  # NMD-24
        "recommended_models": [  # NMD-26, NMD-27
            {key: value for key, value in model.items() if value is not None} for model in node.recommended_models
        ],
        "is_streaming_output": node.streams,  # NMD-21
        "is_streaming_input": False,  # NMD-22
        "is_dynamic": node.dynamic,  # NMD-23
        "supports_dynamic_inputs": node.dynamic,
        "supports_dynamic_outputs": False,
    }
    if node.requires_vram_gb:
        entry["requires_vram_gb"] = float(node.requires_vram_gb)  # NMD-25
    try:
        encode_data(entry)
    except UnicodeEncodeError as error:
        from octonode_sdk.shapes import find_surrogate

        broken = find_surrogate(entry)
        assert not isinstance(broken, bool)  # find_surrogate returns a path or False
        raise DefinitionError(
            f"has a text at {path_text(broken)} of what `discover` reports that is no Unicode text",
            node=node.id,
            way_out="take the lone surrogate out",
        ) from error
    return entry


def _namespace_of(node: Node, namespace: str) -> str:
    return node.namespace if node.namespace is not None else namespace


# Names


def _words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text; a mark belongs to the letter that it follows."""
    words: list[str] = []
    inside = False
    for one in text:
        if inside and (one.isalnum() or _is_mark(one)):
            words[-1] += one
        elif one.isalnum():
            words.append(one)
            inside = True
        else:
            inside = False
    return words


def _is_mark(one: str) -> bool:
    if one.isascii():
        return False
    from unicodedata import category

    return category(one).startswith("M")


def _title(name: str) -> str:
    """Return a name in words with capitals, `fit_mode` as `Fit Mode`; one without any letter or digit as it is."""
    parts = [part for word in _words(name) for part in _capital_parts(word)]
    return " ".join(part[0].upper() + part[1:] for part in parts) or name


def _capital_parts(word: str) -> list[str]:
    """Split camel case before a capital that opens a word: `splitHTMLPage` is split, HTML, Page."""
    starts = [0]
    for at in range(1, len(word)):
        rest = word[at + 1 : at + 3]
        opens = rest[:1].islower() and not (rest[0] == "s" and not rest[1:].islower())  # the plural of URL is no word
        if word[at].isupper() and (word[at - 1].islower() or opens):
            starts.append(at)
    return [word[start:end] for start, end in zip(starts, [*starts[1:], len(word)], strict=True)]


# Types


def _made(name: str, args: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    return {"type": name, "optional": name in ("any", "none"), "type_args": list(args)}  # NMD-7, NMD-8


def _any_dict() -> dict[str, Any]:
    """Return the type of an object with fields: the host has no word for its fields, so it may hold anything."""
    return _made("dict", [_made("str"), _made("any")])  # NMD-14


def _union(members: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Join types: None makes an optional one, unions in unions are one, and what is there twice is there once.

    A member is never optional itself: what None is for one of them it is for the union (NMD-8, NMD-11).
    """
    flat: list[dict[str, Any]] = []
    optional = False
    for member in members:
        if member["type"] == "any":
            return _made("any")
        optional = optional or member["optional"] or member["type"] == "none"
        for one in member["type_args"] if member["type"] == "union" else [{**member, "optional": False}]:
            if one["type"] != "none" and one not in flat:
                flat.append(one)
    if not flat:
        return _made("none" if optional else "any")
    return {**(flat[0] if len(flat) == 1 else _made("union", flat)), "optional": optional}


def _choice(values: list[Any], cls: type | None = None) -> dict[str, Any]:
    """Return the type of a choice (NMD-12, NMD-13).

    The `values` of the host are texts and numbers, so a truth value among them is a `bool` beside the enum.
    """
    members: list[dict[str, Any]] = []
    offered = [value for value in values if type(value) in (str, int, float)]
    for value in offered:
        if type(value) is int and abs(value) > MAX_EXACT_INTEGER:
            raise DefinitionError(f"offers {value}, which the host would round", way_out="offer texts")
    if offered:
        named = {} if cls is None else {"type_name": f"{cls.__module__}.{cls.__qualname__}"}
        members.append({**_made("enum"), "values": offered, **named})
    if any(type(value) is bool for value in values):
        members.append(_made("bool"))
    if None in values:
        members.append(_made("none"))
    if any(isinstance(value, (list, dict)) for value in values):
        members.append(_made("any"))
    return _union(members)


class _Reader:
    """Reads port types; remembers the aliases around the one in hand, since an alias may hold itself."""

    def __init__(self, outputs: bool) -> None:
        self._outputs = outputs
        self._above: set[int] = set()

    def type(self, port_type: PortType) -> dict[str, Any]:
        own = getattr(port_type, "nodetool_type", None)  # a port type may bring its name along
        if own is not None:
            return _made(own)
        name = _NAMES.get(type(port_type))
        if name is not None:
            return _made(name)
        if isinstance(port_type, Scalar):
            return _made(_NAMES_OF_KINDS[port_type.kind])
        if isinstance(port_type, Choice):
            return _choice([wire for wire, _ in port_type.members], port_type.cls)
        if isinstance(port_type, Array):  # a tuple of any length as well: the host's tuples have a type for each place
            return _made("list", [self.type(port_type.item)])
        if isinstance(port_type, FixedArray):
            return _made("tuple", map(self.type, port_type.items))
        if isinstance(port_type, Mapping):
            return _made("dict", [self.type(port_type.key), self.type(port_type.value)])
        if isinstance(port_type, Union):
            return _union(map(self.type, port_type.members))
        if isinstance(port_type, Rich):
            return _made("str") if _is_text(port_type) else _of_schema(_schema(port_type, outputs=self._outputs))
        return self._alias(port_type) if isinstance(port_type, Alias) else _any_dict()  # a Record

    def _alias(self, alias: Alias) -> dict[str, Any]:
        if id(alias) in self._above:
            return _made("any")
        self._above.add(id(alias))
        made = self.type(alias.target)
        self._above.discard(id(alias))
        return made


def _is_text(port_type: Rich) -> bool:
    """Tell whether a type of the standard library goes as its text: dates, times, durations, Decimal, UUID, Path.

    NodeTool's own `date`, `datetime` and `file_path` are maps at the host (`{year, month, day}`, `{path}`). Under these
    names it would offer editors and edges whose values our ports, which take and give texts, refuse (NMD-14).
    """
    cls = port_type.cls
    return port_type.hint is cls and (cls.__module__ in ("datetime", "decimal", "uuid") or hasattr(cls, "__fspath__"))


def _schema(port_type: PortType, *, outputs: bool) -> dict[str, Any]:
    from octonode_sdk.schema import type_schema

    return type_schema(port_type, outputs=outputs, policy=POLICY)


def _of_schema(
    schema: dict[str, Any], definitions: dict[str, Any] | None = None, above: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the type that a JSON Schema describes: of what pydantic alone knows, there is nothing else to read.

    Args:
        schema: The schema, in the subset that `octonode_sdk.schema` writes.
        definitions: What its references name; its own `$defs` unless given.
        above: Names of the definitions that this one stands in.
    """
    if definitions is None:
        definitions = schema.get("$defs", {})
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    if name:
        return _made("any") if name in above else _of_schema(definitions[name], definitions, (*above, name))
    if "enum" in schema:
        return _choice(schema["enum"])
    if "anyOf" in schema:
        return _union(_of_schema(one, definitions, above) for one in schema["anyOf"])
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        return _union(_of_schema({**schema, "type": one}, definitions, above) for one in kind)
    if kind == "array":
        if "prefixItems" in schema:
            return _made("tuple", [_of_schema(one, definitions, above) for one in schema["prefixItems"]])
        return _made("list", [_inner(schema.get("items"), definitions, above)])
    if kind == "object":
        if "properties" in schema:
            return _any_dict()
        return _made("dict", [_made("str"), _inner(schema.get("additionalProperties"), definitions, above)])
    if "contentEncoding" in schema:
        return _made("bytes")
    return _made(_NAMES_OF_KINDS.get(kind, "any"))


def _inner(schema: Any, definitions: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
    return _of_schema(schema, definitions, above) if isinstance(schema, dict) else _made("any")


# Properties


def _property(port: Port, node: Node, texts: dict[str, str]) -> dict[str, Any]:
    try:
        kind = type_metadata(port.type)
        made: dict[str, Any] = {"name": port.name, "type": kind}
        default = _default(port)
        if default is not None:  # NMD-16
            made["default"] = default
        made["title"] = port.title if port.title is not None else _title(port.name)  # NMD-19
        description = port.description if port.description is not None else texts.get(port.name)
        if description is not None:
            made["description"] = description
        made.update(_limits(port.type))  # NMD-18
        if kind["type"] == "enum":
            made["values"] = list(kind["values"])
        made["required"] = port.required  # NMD-17
        if uses(_is_object, port.type):
            made.update(_object_hints(port.type))
    except DefinitionError as error:
        raise _placed(error, node, port.name) from error
    return made


def _placed(error: DefinitionError, node: Node, place: str) -> DefinitionError:
    return DefinitionError(error.problem, node=node.id, parameter=place, way_out=error.way_out)


def _with_tags(description: str, doc: str) -> str:
    """Return the description with what NodeTool's editor reads out of a docstring: tags, and use cases (NMD-4).

    It takes the second line for a list of tags with commas, and shows what stands under "Use cases:". Only what looks
    like these is kept: a sentence that goes on in the second line of a docstring is no list of tags.
    """
    lines = [line.strip() for line in doc.strip().splitlines()]
    tags = [one.strip() for one in lines[1].split(",")] if len(lines) > 1 else []
    has_tags = len(tags) > 1 and all(0 < len(tag) <= 30 and tag[-1] not in ".:;" for tag in tags)
    has_tags = has_tags and (len(lines) == 2 or not lines[2])
    start = next((index for index, line in enumerate(lines) if line.lower() == "use cases:"), len(lines))
    uses: list[str] = []
    for line in lines[start:]:
        if not line and len(uses) > 1:
            break
        if line:
            uses.append(line)
    if not has_tags and not uses:
        return description
    first = [lines[0], ", ".join(tags)] if has_tags else [description, ""]
    return "\n".join([*first, *(["", *uses] if uses and has_tags else uses)])


def _default(port: Port) -> Any:
    """Return a port's default as it goes over the wire, or None where there is none to tell.

    A default None is not told: to the host a property without a default has none, nil or absent, and a call without
    the input gets None in both cases. Nor is what the wire would alter (an integer beyond 2**53, half a character): it
    stays in the process, and a call that leaves the input out gets it.

    Raises:
        DefinitionError: The port's own type refuses it. That of a light type was checked when the node was defined.
    """
    if port.default_factory is not None:
        return _made_by_factory(port)
    if port.default is MISSING or port.default is None:
        return None
    check = compile_dump(port.type, POLICY)
    if check.accepts(port.default):
        return _tellable(fresh_default(port)())  # a copy: what is the function's own is not handed out
    faults: list[Fault] = []
    value = check.convert(port.default, None, faults)
    if not faults:
        return _tellable(value)
    lenient = Policy(non_finite="keep", big_integers="text", raw_bytes=True)
    compile_dump(port.type, lenient).convert(port.default, None, refused := list[Fault]())
    if refused:
        raise DefinitionError(
            f"has the default {shorten(port.default)}, which its own type refuses: {refused[0].message}",
            way_out="change the default or the annotation",
        )
    return None


def _made_by_factory(port: Port) -> Any:
    """Return what a factory makes, if it makes the same each time: the host puts it into each new node of a workflow.

    So `list` shows an empty list, while a new UUID or the time of day is not told and stays fresh for each call.
    """
    make = fresh_default(port)
    check = compile_dump(port.type, POLICY)
    made: list[Any] = []
    for _ in range(2):
        try:
            value, faults = make(), list[Fault]()
            made.append(value if check.accepts(value) else check.convert(value, None, faults))
        except Exception:  # noqa: BLE001  # a factory that fails does so for the call that needs it; others need none
            return None
        if faults:
            return None
    return _tellable(made[0]) if made[0] == made[1] else None


def _tellable(value: Any) -> Any:
    from octonode_sdk.shapes import find_surrogate

    return value if find_surrogate(value) is False else None


def _limits(port_type: PortType) -> dict[str, Any]:
    """Return `min` and `max` of a number, also of one beside None or a text; both are included, as the host has them.

    Several numbers have the limits that hold for all of them. A float's open bound is told as it is: there is no
    nearest number inside it that people would want to see.
    """
    ranges = [_range(schema) for schema in _numbers(port_type)]
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    made: dict[str, Any] = {}
    if lows and None not in lows:
        made["min"] = min(lows)
    if highs and None not in highs:
        made["max"] = max(highs)
    return made


def _numbers(port_type: PortType) -> Iterator[dict[str, Any]]:
    """Yield the schemas of the numbers that a type allows by themselves, not inside lists or objects."""
    if isinstance(port_type, Union):
        for member in port_type.members:
            yield from _numbers(member)
    elif isinstance(port_type, (Scalar, Flags)) or (isinstance(port_type, Rich) and not _is_text(port_type)):
        waiting = [_schema(port_type, outputs=False)]
        while waiting:
            schema = waiting.pop()
            waiting += schema.get("anyOf", [])
            if schema.get("type") in ("integer", "number") and "enum" not in schema:
                yield schema


def _range(schema: dict[str, Any]) -> tuple[Any, Any]:
    """Return the least and the greatest value of a number's schema, each None where there is none."""
    low, above = _finite(schema.get("minimum")), _finite(schema.get("exclusiveMinimum"))
    high, below = _finite(schema.get("maximum")), _finite(schema.get("exclusiveMaximum"))
    if schema["type"] == "integer":
        from math import ceil, floor

        low, above = None if low is None else ceil(low), None if above is None else floor(above) + 1
        high, below = None if high is None else floor(high), None if below is None else ceil(below) - 1
    lows, highs = [one for one in (low, above) if one is not None], [one for one in (high, below) if one is not None]
    return _limit(max(lows, default=None)), _limit(min(highs, default=None))


def _finite(bound: Any) -> Any:
    return bound if type(bound) in (int, float) and bound - bound == 0 else None


def _limit(bound: Any) -> Any:
    """Return a limit as the host can hold it: beyond 2**53 it has floats alone, and beyond those nothing."""
    if bound is None or abs(bound) <= MAX_EXACT_INTEGER:
        return bound
    try:
        return float(bound)
    except OverflowError:
        return None


def _is_object(port_type: PortType) -> bool:
    if isinstance(port_type, Rich):
        return not _is_text(port_type) and type_metadata(port_type)["type"] == "dict"
    return isinstance(port_type, Record)


def _object_hints(port_type: PortType) -> dict[str, Any]:
    """Return the JSON Schema of a property that holds an object with fields, which `dict` alone does not tell."""
    faults: list[Fault] = []
    schema = plain(_schema(port_type, outputs=False), None, faults, POLICY)
    return {} if faults else {"json_schema_extra": schema}  # only a hint, not worth the node


# Outputs


def _outputs(node: Node) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    place = "the return" if node.record is None else "the return.{}"
    name = ""
    try:
        changed = _changed_by_model(node)
        for port in node.outputs:
            name = port.name
            kind = changed[name] if name in changed else type_metadata(port.type, outputs=True)
            made.append({"name": name, "type": kind, **({"stream": True} if node.streams else {})})
    except DefinitionError as error:
        raise _placed(error, node, place.format(name).removesuffix(".")) from error
    return made


def _changed_by_model(node: Node) -> dict[str, dict[str, Any]]:
    """Return the types of the outputs for which the model's own serializers make something else of the field."""
    if node.model is None:
        return {}
    dumped = _schema(node.model, outputs=True)
    changed: dict[str, dict[str, Any]] = {}
    for port in node.outputs:
        field = dumped.get("properties", {}).get(port.name)  # a model that contains itself is described elsewhere
        if field is not None:
            kind = _of_schema(field, dumped.get("$defs", {}))
            if kind != _of_schema(_schema(port.type, outputs=True)):
                changed[port.name] = kind
    return changed
