"""From a hint to its check and its dump, for the tests of values; and the pools that the property tests draw from."""

from typing import Any

from octonode_sdk.call import Plan
from octonode_sdk.carry import Carrier
from octonode_sdk.checks import compile_check
from octonode_sdk.errors import Fault
from octonode_sdk.field import MISSING
from octonode_sdk.hints import Scope
from octonode_sdk.nodes import Node, node, node_of
from octonode_sdk.ports import Port, PortType
from octonode_sdk.values import Policy, compile_dump

#: What the two hosts do with values that JSON lacks.
OCTONODE = Policy()
NODETOOL = Policy(raw_bytes=True, non_finite="keep", text_keys=True)


def port_of(hint: Any, *, default: Any = MISSING) -> Port:
    """Return the input port of a parameter with this hint."""
    return Carrier("test").port("x", hint, Scope(globals()), default=default)


def type_of(hint: Any) -> PortType:
    """Return the port type that carries a hint."""
    return port_of(hint).type


def check(hint: Any, value: Any, **wire: bool) -> tuple[Any, list[Fault]]:
    """Take a value in, as a port of this hint does; return what the node gets, and the faults."""
    compiled = compile_check(type_of(hint), **wire)
    if compiled.accepts(value):
        return value, []
    faults: list[Fault] = []
    return compiled.convert(value, None, faults), faults


def dump(hint: Any, value: Any, policy: Policy = OCTONODE) -> tuple[Any, list[Fault]]:
    """Send a value out, as a port of this hint does; return what goes over the wire, and the faults."""
    compiled = compile_dump(type_of(hint), policy)
    if compiled.accepts(value):
        return value, []
    faults: list[Fault] = []
    return compiled.convert(value, None, faults), faults


def accepted(hint: Any, value: Any, **wire: bool) -> Any:
    """Return what a node gets for an input, which has to fit."""
    made, faults = check(hint, value, **wire)
    assert faults == []
    return made


def refusal(hint: Any, value: Any, **wire: bool) -> list[tuple[str, str]]:
    """Return the faults of an input, each as (path, message)."""
    _, faults = check(hint, value, **wire)
    return [(fault.path, fault.message) for fault in faults]


def sent(hint: Any, value: Any, policy: Policy = OCTONODE) -> Any:
    """Return what goes over the wire for an output, which has to fit."""
    made, faults = dump(hint, value, policy)
    assert faults == []
    return made


def unsent(hint: Any, value: Any, policy: Policy = OCTONODE) -> list[tuple[str, str]]:
    """Return the faults of an output, each as (path, message)."""
    _, faults = dump(hint, value, policy)
    return [(fault.path, fault.message) for fault in faults]


def define(hints: dict[str, Any], returns: Any = None, **options: Any) -> Node:
    """Return a node with these input hints that returns its inputs as they came."""
    space: dict[str, Any] = {}
    exec(f"def made({'*, ' if hints else ''}{', '.join(hints)}): return locals()", space)
    made = space["made"]
    made.__annotations__ = {**hints, "return": returns}
    return node_of(node(**options)(made))


def call(fn: Any, inputs: dict[str, Any], *, policy: Policy | None = None) -> dict[str, Any]:
    """Call a sync node that is no generator as a runner does; return its outputs."""
    plan = Plan(node_of(fn), policy=policy)
    places, arguments = plan.bind(inputs, None)
    return plan.outputs(fn(*places, **arguments))
