"""A node's manifest: what it says of itself when it is asked to describe (MAN-1 and following)."""

from __future__ import annotations

from .errors import DefinitionError, Fault, shorten
from .field import MISSING
from .nodes import LENIENT
from .schema import object_schema, type_schema
from .values import Policy, compile_dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .nodes import Node
    from .ports import Port, Rich

__all__ = ["manifest"]


def manifest(node: Node) -> dict[str, Any]:
    """Return the manifest of a node as a JSON object. What the author did not give is absent, not null (MAN-17).

    It is made of the ports alone, so all spellings of a hint give the same one (MAN-18).

    Raises:
        DefinitionError: A hint or a default can't be described.
    """
    from .docstrings import read_docstring

    description, texts = read_docstring(node.doc)
    inputs = [_described(port, texts) for port in node.inputs]
    outputs = node.outputs
    defaults = _defaults(node)
    made: dict[str, Any] = {"id": node.id, "language": "python"}  # MAN-1, MAN-2, MAN-9
    if node.label is not None:
        made["label"] = node.label  # MAN-3
    text = node.description if node.description is not None else description
    if text or node.description is not None:
        made["description"] = text  # MAN-4
    if node.symbol is not None:
        made["symbol"] = node.symbol  # MAN-5
    if node.icon is not None:
        made["icon"] = node.icon  # MAN-11
    if defaults:
        made["defaults"] = defaults  # MAN-6
    place = "the return" if node.record is None else "the return.{}"
    try:
        made["inputs"] = object_schema(
            inputs, outputs=False, policy=node.policy, defaults=defaults, rest=node.rest_type
        )  # MAN-7
        made["outputs"] = object_schema(outputs, outputs=True, policy=node.policy)  # MAN-8
        if node.model is not None:
            _as_dumped(made["outputs"], node.model, node.policy)
    except DefinitionError as error:
        at = place.format(error.parameter) if "inputs" in made else error.parameter
        raise DefinitionError(error.problem, node=node.id, parameter=at, way_out=error.way_out) from error
    if node.config is not None:
        made["config"] = node.config  # MAN-12
    if node.workflow_id is not None:
        made["workflowId"] = node.workflow_id  # MAN-13
    return made


#: What a port says of itself, or what an output does not have.
_PORTS_OWN = ("title", "description", "default", "readOnly")


def _as_dumped(schema: dict[str, Any], model: Rich, policy: Policy) -> None:
    """Let the outputs be of the types that the model's own serializers make of its fields."""
    dumped = type_schema(model, outputs=True, policy=policy)
    for name, port in schema["properties"].items():
        said = {key: port[key] for key in ("title", "description", "examples") if key in port}
        field = dumped.get("properties", {}).get(name)
        if field is not None:  # a model that contains itself is described elsewhere, and by its fields here
            plain = {
                key: value for key, value in field.items() if key not in ("title", "description", "default", "readOnly")
            }
            schema["properties"][name] = {**plain, **said}
    if "$defs" in dumped:
        schema["$defs"] = {**dumped["$defs"], **schema.get("$defs", {})}


def _described(port: Port, texts: dict[str, str]) -> Port:
    """Return the port with the docstring's text, where the hint itself says nothing."""
    if port.description is not None or port.name not in texts:
        return port
    from copy import copy

    described = copy(port)
    described.description = texts[port.name]
    return described


def _defaults(node: Node) -> dict[str, Any]:
    """Return the JSON forms of the fixed defaults. A default without one (NaN) works, but can't be told.

    Raises:
        DefinitionError: The port's own type refuses it. That of a light type was checked when the node was defined.
    """
    policy = Policy()
    defaults: dict[str, Any] = {}
    for port in node.inputs:
        if port.default is MISSING:
            continue
        check = compile_dump(port.type, policy)
        if check.accepts(port.default):
            defaults[port.name] = port.default
            continue
        faults: list[Fault] = []
        value = check.convert(port.default, None, faults)
        if not faults:
            defaults[port.name] = value
            continue
        compile_dump(port.type, LENIENT).convert(port.default, None, refused := list[Fault]())
        if refused:
            raise DefinitionError(
                f"has the default {shorten(port.default)}, which its own type refuses: {refused[0].message}",
                node=node.id,
                parameter=port.name,
                way_out="change the default or the annotation",
            )
    return defaults
