"""One invocation: inputs -> validated arguments -> the function -> validated outputs, for every runner.

A `Plan` compiles a node once for a wire. It knows how to bind and how to collect; which thread or loop the function
runs on is the business of `lanes`.
"""

from __future__ import annotations

from .checks import compile_check, fresh_default
from .errors import CredentialError, Fault, InputsError, OutputsError, shorten
from .faults import json_kind, path_text
from .field import MISSING
from .ports import is_nullable, type_text
from .values import Policy, compile_dump, find_cycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .context import Context
    from .faults import Check
    from .nodes import Node
    from .ports import Port

__all__ = ["Collector", "Plan"]


class _Input:
    """One input, compiled."""

    __slots__ = ("accepts", "aliases", "convert", "default", "name", "null_is_default", "required")

    def __init__(self, port: Port, check: Check) -> None:
        self.name, self.aliases, self.required = port.name, port.aliases, port.required
        self.accepts, self.convert = check.accepts, check.convert
        #: Makes the value for a call that leaves the input out; None lets the function's own default stand.
        self.default: Callable[[], Any] | None = None if port.required else fresh_default(port)
        #: VAL-3.
        self.null_is_default = port.has_default and not is_nullable(port.type)


class Plan:
    """A node compiled for one wire.

    Args:
        node: The node.
        policy: The value policy of the wire; the node's own unless given.
    """

    def __init__(
        self,
        node: Node,
        *,
        policy: Policy | None = None,
    ) -> None:
        self.node = node
        self.fn = node.fn
        policy = policy or node.policy
        wire = {"raw_bytes": policy.raw_bytes, "non_finite": policy.non_finite == "keep"}
        self._inputs = [_Input(port, compile_check(port.type, **wire)) for port in node.inputs]
        #: Every name that an input may come under.
        self.known = frozenset(name for port in node.inputs for name in (port.name, *port.aliases))
        self._rest = None if node.rest_type is None else compile_check(node.rest_type, **wire)
        self._outputs = [(port, compile_dump(port.type, policy)) for port in node.outputs]
        self._record = None if node.record is None else compile_dump(node.model or node.record, policy)
        self.streams = node.streams
        self.is_async = node.signature.is_async or node.signature.is_async_generator
        self.context_name = node.context_name
        self._positional = tuple(node.positional)
        self._variadic = node.variadic
        #: Whether the node declares secrets.
        self.wants_secrets = bool(node.secrets)

    def secrets(self, given: dict[str, str] | None = None) -> dict[str, str]:
        """Return the values of the declared secrets, and mask them from now on.

        Args:
            given: Values that the host has sent; those that it has not come from the environment.

        Raises:
            CredentialError: A required one is not set. Names all that are missing (CTX-12).
        """
        from .secrets import read_environment, remember_secrets

        values = read_environment([secret.name for secret in self.node.secrets])
        if given:
            values |= {name: given[name] for name in values if given.get(name)}
        remember_secrets(values.values())
        missing = [secret.name for secret in self.node.secrets if secret.required and not values.get(secret.name)]
        if missing:
            raise CredentialError(missing, node=self.node.id)
        return values

    def bind(self, inputs: dict[str, Any], context: Context | None) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the call: defaults merged (EXE-8), every value checked (REQ-17, EXE-9).

        What becomes of an input that is left out or null is the table of docs/inputs.md.

        Raises:
            InputsError: Names every input that does not fit.
        """
        arguments: dict[str, Any] = {}
        faults: list[Fault] = []
        try:
            for one in self._inputs:
                name = one.name
                value = inputs.get(name, MISSING)
                if value is MISSING and one.aliases:
                    value = next((inputs[alias] for alias in one.aliases if alias in inputs), MISSING)
                if value is MISSING or (value is None and one.null_is_default):  # REQ-16
                    if one.default is not None:
                        arguments[name] = one.default()
                    else:
                        faults.append(Fault(path_text((None, name)), self._required_text(name)))
                elif one.accepts(value):
                    arguments[name] = value
                else:
                    arguments[name] = one.convert(value, (None, name), faults)
            if self._rest is not None:  # REQ-13, EXE-7
                for name, value in inputs.items():
                    if name not in self.known:
                        rest = self._rest
                        fits = rest.accepts(value)
                        arguments[name] = value if fits else rest.convert(value, (None, name), faults)
        except RecursionError:
            faults = [Fault("$", "the inputs are nested too deep")]
        if faults:
            self._guess_typos(inputs, faults)
            raise InputsError(faults, node=self.node.id)
        if self.context_name is not None:
            arguments[self.context_name] = context
        if not self._positional and self._variadic is None:
            return [], arguments
        places = [arguments.pop(name) for name in self._positional]
        if self._variadic is not None:
            places.extend(arguments.pop(self._variadic))
        return places, arguments

    def _guess_typos(self, inputs: dict[str, Any], faults: list[Fault]) -> None:
        """Say of a required input that is missing which unknown one may have been meant for it."""
        unknown = self.unknown_inputs(inputs)
        missing = {path_text((None, one.name)): one.name for one in self._inputs if one.name not in inputs}
        if not unknown or missing.keys().isdisjoint(fault.path for fault in faults):
            return
        from difflib import get_close_matches

        for fault in faults:
            near = get_close_matches(missing.get(fault.path, ""), unknown, n=1, cutoff=0.5)
            if near:
                fault.message += f"; did you mean it by {shorten(near[0])}, which the node does not have?"

    def _required_text(self, name: str) -> str:
        port = next(port for port in self.node.inputs if port.name == name)
        return f"is required: {type_text(port.type)}"

    def unknown_inputs(self, inputs: dict[str, Any]) -> list[str]:
        """Return the names of inputs that no port takes; they are ignored (REQ-12, EXE-6)."""
        return [] if self._rest is not None else [name for name in inputs if name not in self.known]

    def outputs(self, value: Any) -> dict[str, Any]:
        """Return what the function returned as a value for each declared port (RES-14, EXE-10).

        Raises:
            OutputsError: It does not fit the declaration (RES-16, EXE-11), or has no lossless form on the wire
                (ERR-11).
        """
        faults: list[Fault] = []
        made: dict[str, Any] = {}
        try:
            if self._record is not None:
                made = self._record.convert(value, None, faults) or made
                if self.node.model is not None:
                    self._check_ports(made, faults)
            elif self._outputs:
                port, check = self._outputs[0]
                made[port.name] = value if check.accepts(value) else check.convert(value, (None, port.name), faults)
                if value is None and faults:
                    faults[0].message += "; the function returned None: is a `return` missing?"
            elif value is not None:
                faults.append(Fault("$", f"the node is declared to return None, but returned {json_kind(value)}"))
        except RecursionError:
            faults = [self._depth_fault(value)]
        if faults:
            raise OutputsError(faults, node=self.node.id)
        return made

    def _check_ports(self, made: Any, faults: list[Fault]) -> None:
        """Refuse what a model's own serializers have made of it where that is no value for each port."""
        names = [port.name for port, _ in self._outputs]
        if not isinstance(made, dict):
            faults.append(Fault("$", f"expected an object of the outputs {', '.join(names)}, got {json_kind(made)}"))
            return
        for key in made:
            if key not in names:
                faults.append(Fault(path_text((None, key)), f"is no output of the node, which has {', '.join(names)}"))

    def partial(self, value: Any) -> dict[str, Any]:
        """Return what a generator yielded: for several ports a part of them is enough, and None says nothing of a port.

        Raises:
            OutputsError: A value does not fit its port, or a key is no port.
        """
        record = self.node.record
        if record is not None and record.form in ("namedtuple", "dataclass") and isinstance(value, record.cls):
            names = {port.name: record.attributes.get(port.name, port.name) for port, _ in self._outputs}
            value = {name: getattr(value, attribute, None) for name, attribute in names.items()}
        if self._record is None or not isinstance(value, dict):
            return self.outputs(value)
        faults: list[Fault] = []
        made: dict[str, Any] = {}
        checks = {port.name: check for port, check in self._outputs}
        try:
            for name, one in value.items():
                check = checks.get(name)
                if check is None:
                    known = ", ".join(checks)
                    faults.append(Fault(path_text((None, str(name))), f"is no output of the node, which has {known}"))
                elif one is None or check.accepts(one):
                    made[name] = one
                else:
                    made[name] = check.convert(one, (None, name), faults)
        except RecursionError:
            faults = [self._depth_fault(value)]
        if faults:
            raise OutputsError(faults, node=self.node.id)
        return made

    def _depth_fault(self, value: Any) -> Fault:
        cycle = find_cycle(value)
        root = (None, self._outputs[0][0].name) if self._record is None and self._outputs else None
        if cycle is False:
            return Fault(path_text(root), "is nested too deep")
        assert not isinstance(cycle, bool)  # find_cycle returns a path or False
        return Fault(path_text(cycle, path_text(root)), "contains itself; JSON can't hold a cycle")


class Collector:
    """Keeps the last value of each port that a generator yields, for hosts that take one answer (RES-15, EXE-12)."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last: dict[str, Any] = {}
        outputs = plan.node.outputs
        self._nullable = {port.name for port in outputs if is_nullable(port.type)}
        #: Ports for which a None may stand that says nothing of them: those of a node with several.
        self._may_pass = self._nullable if len(outputs) > 1 else set[str]()

    def take(self, value: Any) -> dict[str, Any]:
        """Take one yielded value; return it by port.

        Where a node has several outputs a None does not replace an earlier value: authors yield it for those that have
        nothing new.

        Raises:
            OutputsError: It does not fit.
        """
        part = self._plan.partial(value)
        for name, one in part.items():
            if one is not None or (name in self._nullable and not (name in self._may_pass and name in self._last)):
                self._last[name] = one
        return part

    def outputs(self) -> dict[str, Any]:
        """Return the last value of each port, at the end.

        Raises:
            OutputsError: A port that has to be there was never yielded.
        """
        ports = self._plan.node.outputs
        faults = [
            Fault(path_text((None, port.name)), "the generator ended without a value for it")
            for port in ports
            if port.required and port.name not in self._last
        ]
        if faults:
            raise OutputsError(faults, node=self._plan.node.id)
        return self._last
