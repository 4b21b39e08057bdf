"""`@node` and the definition that it makes of a function. The function itself comes back unchanged."""

from __future__ import annotations

import sys

from .carry import Carrier
from .errors import DefinitionError, Fault, shorten
from .field import MISSING
from .hints import (
    KEYWORD,
    POSITIONAL,
    POSITIONAL_ONLY,
    VAR_KEYWORD,
    VAR_POSITIONAL,
    callable_name,
    peel,
    read_signature,
)
from .options import check_options
from .ports import NULL, Array, Choice, Null, Port, Record, Rich, Union, uses
from .values import Policy, compile_dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Literal, TypeVar, overload

    from .hints import Parameter, Signature
    from .ports import PortType
    from .secrets import Secret

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["LENIENT", "Node", "all_nodes", "forget", "hand_faults_to", "node", "node_of"]

_nodes: dict[Any, Node] = {}

_STREAM_NAMES = {"Iterator", "Generator", "AsyncIterator", "AsyncGenerator"}
_STREAM_NAMES_OF_GENERATORS = _STREAM_NAMES | {"Iterable", "AsyncIterable"}
_AWAITABLE_NAMES = {"Awaitable", "Coroutine"}

#: What a default may be. A host can't be told some of it (NaN), but it stays in the process.
LENIENT = Policy(non_finite="keep", big_integers="text", raw_bytes=True)


class Node:
    """One node: a function, what the author said of it, and the ports that its hints make.

    Attributes:
        fn: The function as it was decorated.
        id: Stable id, unique within its module.
        module: Name of the module in which it was decorated.
        inputs, outputs: The ports.
        record: The declared type of several outputs, or None for a single value.
        model: The same where it is pydantic's, which then makes JSON of it as a whole, by its own serializers.
        streams: Whether the function is a generator whose values are partial outputs.
        context_name: The parameter that takes the Context, or None.
        rest_type: Type of further inputs of a dynamic node, or None.
    """

    def __init__(
        self, fn: Callable[..., Any], options: dict[str, Any], *, module: str, locals_: Mapping[str, Any]
    ) -> None:
        self.fn, self.module = fn, module
        self.name = callable_name(fn)
        said = check_options(options, self.name)
        self.id: str = said["id"]
        self.namespace: str | None = said["namespace"]
        self.label: str | None = said["label"]
        self.description: str | None = said["description"]
        self.icon: str | None = said["icon"]
        self.symbol: str | None = said["symbol"]
        self.output_name: str | None = said["output"]
        self.config: dict[str, Any] | None = said["config"]
        self.workflow_id: str | None = said["workflow_id"]
        self.requires_vram_gb: float | None = said["requires_vram_gb"]
        self.recommended_models: tuple[dict[str, Any], ...] = said["recommended_models"]
        self.dynamic: bool = said["dynamic"]
        self.isolated: bool = said["isolated"]
        self.retry_on: tuple[Any, ...] = said["retry_on"]
        self.secrets: list[Secret] = said["secrets"]
        self.policy = Policy(non_finite=said["non_finite"], big_integers=said["big_integers"])
        self._locals = locals_
        self._read = False
        self._place: str | None = None
        self._inputs: list[Port] = []
        self._outputs: list[Port] = []
        self._signature: Signature | None = None
        self.record: Record | None = None
        self.model: Rich | None = None
        self.streams = False
        self.context_name: str | None = None
        self.rest_type: PortType | None = None
        self.positional: list[str] = []
        self.variadic: str | None = None
        try:
            self._read_hints()
        except NameError:
            # The name may be defined further down in the module; `load` and the first use look again.
            self._read = False

    def __repr__(self) -> str:
        return f"<Node {self.id!r} of {self.module}>"

    @property
    def inputs(self) -> list[Port]:
        """The input ports, in the order of the parameters."""
        self.complete()
        return self._inputs

    @property
    def outputs(self) -> list[Port]:
        """The output ports; empty for a node that returns None."""
        self.complete()
        return self._outputs

    @property
    def signature(self) -> Signature:
        """What the function says of itself."""
        self.complete()
        assert self._signature is not None  # complete() reads it or raises
        return self._signature

    @property
    def doc(self) -> str:
        """The docstring, without its indentation."""
        return _dedent(self.signature.doc)

    def complete(self) -> None:
        """Read the hints, if names were missing when the function was decorated.

        Raises:
            DefinitionError: A name is still missing, or a hint can't be carried.
        """
        if self._read:
            return
        try:
            self._read_hints()
        except NameError as error:
            raise DefinitionError(
                f"has an annotation with a name that is not defined at run time ({error})",
                node=self.id,
                parameter=self._place,
                way_out="import it outside of `if TYPE_CHECKING:`, or define it in the module",
            ) from error

    def _read_hints(self) -> None:
        carrier = Carrier(self.id)
        try:
            self._read_signature(carrier)
        except NameError:
            self._place = carrier.parameter
            raise
        except RecursionError as error:
            raise DefinitionError(
                "has an annotation that grows without end as it is read",
                node=self.id,
                parameter=(carrier.parameter or "").partition(".")[0],
                way_out="let a generic class refer to itself with the same arguments, and an alias by `type X = ...`",
            ) from error
        except DefinitionError as error:
            if error.node is not None:
                raise
            place = error.parameter or carrier.parameter
            raise DefinitionError(error.problem, node=self.id, parameter=place, way_out=error.way_out) from error

    def _read_signature(self, carrier: Carrier) -> None:
        try:
            signature = read_signature(self.fn, self._locals)
        except TypeError as error:
            raise DefinitionError(
                f"{self.fn!r} has no signature to read ({error})",
                node=self.id,
                way_out="wrap it in a function with annotations",
            ) from error
        self._inputs, self.positional, self.variadic = [], [], None
        self.context_name = None
        # What stands before `*args` has to be passed by place, since `*args` takes what follows it.
        last_by_place = KEYWORD if any(p.kind == VAR_POSITIONAL for p in signature.parameters) else POSITIONAL
        if hasattr(self.fn, "dispatch") and hasattr(self.fn, "registry"):  # functools.singledispatch reads one by place
            for parameter in signature.parameters[:1]:
                parameter.kind = POSITIONAL_ONLY
        for parameter in signature.parameters:
            carrier.parameter = parameter.name
            self._read_parameter(parameter, carrier, by_place=parameter.kind < last_by_place)
        if self.dynamic and self.rest_type is None:
            raise DefinitionError(
                "dynamic=True has no **kwargs to take further inputs", node=self.id, way_out="add **kwargs: Any"
            )
        self._check_names(self._inputs, "input")
        for port in self._inputs:
            self._check_default(port)
        self._read_returns(signature, carrier)
        self._check_names(self._outputs, "output")
        self._signature = signature
        self._locals = {}
        signature.close()
        self._read = True

    def _read_parameter(self, parameter: Parameter, carrier: Carrier, *, by_place: bool) -> None:
        if _is_context(parameter):
            if self.context_name is not None:
                raise DefinitionError(
                    "is a second Context", node=self.id, parameter=parameter.name, way_out="one is enough"
                )
            if parameter.kind in (VAR_POSITIONAL, VAR_KEYWORD):
                raise DefinitionError(
                    "is any number of Contexts", node=self.id, parameter=parameter.name, way_out="take the star away"
                )
            self.context_name = parameter.name
            if by_place:
                self.positional.append(parameter.name)
            return
        if parameter.kind in (VAR_POSITIONAL, VAR_KEYWORD):
            star = "*" if parameter.kind == VAR_POSITIONAL else "**"
            if not self.dynamic:
                raise DefinitionError(
                    f"takes any number of values ({star}{parameter.name})",
                    node=self.id,
                    parameter=parameter.name,
                    way_out="name each input, or say @node(dynamic=True)",
                )
            hint = object if parameter.hint is MISSING else parameter.hint
            port = carrier.port(parameter.name, hint, parameter.scope)
            if parameter.kind == VAR_KEYWORD:
                self.rest_type = port.type
            else:
                self.variadic = parameter.name
                self._inputs.append(
                    Port(
                        parameter.name,
                        Array(port.type, tuple),
                        default=(),
                        required=False,
                        description=port.description,
                    )
                )
            return
        if parameter.hint is MISSING and parameter.name in ("self", "cls"):
            raise DefinitionError(
                "belongs to a method",
                node=self.id,
                parameter=parameter.name,
                way_out="decorate a function, or a method bound to its object: node(tool.method)",
            )
        if parameter.lost_hint:
            raise DefinitionError(
                "has lost its annotation, since functools.wraps replaced those of the wrapper",
                node=self.id,
                parameter=parameter.name,
                way_out=f"set it again: wrapper.__annotations__ |= {{{parameter.name!r}: ...}}",
            )
        port = carrier.port(parameter.name, parameter.hint, parameter.scope, default=parameter.default)
        self._inputs.append(port)
        if by_place:
            self.positional.append(parameter.name)

    def _check_names(self, ports: list[Port], what: str) -> None:
        seen: set[str] = set()
        for port in ports:
            for name in (port.name, *port.aliases):
                if name in seen:
                    raise DefinitionError(f"two {what}s are called {name!r}", node=self.id, way_out="rename one")
                seen.add(name)

    def _check_default(self, port: Port) -> None:
        """Refuse a default that its own hint does not allow. Rich types are left to the manifest and the first call."""
        if port.default is MISSING or port.default is None:
            return
        if uses(lambda one: isinstance(one, Rich), port.type):
            return
        kinds = [one for one in (port.type.members if isinstance(port.type, Union) else [port.type]) if one is not NULL]
        only = kinds[0] if len(kinds) == 1 else None
        cls: Any = None
        if isinstance(only, Choice) or (isinstance(only, Record) and only.form != "typeddict"):
            cls = only.cls
        if cls is not None and not isinstance(port.default, cls):
            # A host sends a value or an object for it; the function gets defaults as they are, and expects the class's.
            raise DefinitionError(
                f"has the default {shorten(port.default)}, which is no {cls.__name__}",
                node=self.id,
                parameter=port.name,
                way_out=f"use a member, such as {cls.__name__}.{next(iter(cls)).name}"
                if isinstance(only, Choice)
                else f"make one: {cls.__name__}(...)",
            )
        check = compile_dump(port.type, LENIENT)
        if check.accepts(port.default):
            return
        faults: list[Fault] = []
        check.convert(port.default, None, faults)
        if faults:
            fault = faults[0]
            place = "" if fault.path == "$" else f" at {fault.path}"
            raise DefinitionError(
                f"has the default {shorten(port.default)}, which its own type refuses{place}: {fault.message}",
                node=self.id,
                parameter=port.name,
                way_out="change the default or the annotation",
            )

    def _read_returns(self, signature: Signature, carrier: Carrier) -> None:
        carrier.parameter = "the return"
        hint = signature.returns
        if hint is MISSING:
            raise DefinitionError(
                "has no annotation",
                node=self.id,
                parameter="the return",
                way_out="write `-> str`, or `-> None` for a node without outputs",
            )
        scope = signature.scope
        metadata: tuple[Any, ...] = ()
        inner, inside, around = peel(hint, scope)
        if _origin_name(inner) in _AWAITABLE_NAMES and getattr(inner, "__args__", None):
            hint, scope, metadata = inner.__args__[-1], inside, around
            inner, inside, around = peel(hint, scope)
        generates = signature.is_generator or signature.is_async_generator
        names = _STREAM_NAMES_OF_GENERATORS if generates else _STREAM_NAMES
        self.streams = generates or _origin_name(inner) in names
        if self.streams:
            args = getattr(inner, "__args__", None)
            if not (_origin_name(inner) in names and args):
                raise DefinitionError(
                    "says nothing of the values that the generator yields",
                    node=self.id,
                    parameter="the return",
                    way_out="write `-> Iterator[str]` (AsyncIterator for an async generator)",
                )
            hint, scope, metadata = args[0], inside, (*metadata, *around)
        if metadata:  # what is said of the stream is said of its port; typing is loaded, since it made the metadata
            hint = sys.modules["typing"].Annotated[(hint, *metadata)]
        port = carrier.port(self.output_name or "output", hint, scope, place="the return")
        port.required = True
        self.record, self.model, self._outputs = None, None, [port]
        if isinstance(port.type, Null):
            self._outputs = []
            if self.output_name is not None:
                raise DefinitionError(
                    f"is None, which is no output to call {self.output_name!r}",
                    node=self.id,
                    parameter="the return",
                    way_out="annotate what the function returns, or leave output= out",
                )
        elif self.output_name is None:
            record = port.type if isinstance(port.type, Record) else carrier.model(port.type, scope)
            if record is not None:
                self.record, self._outputs = record, [_as_output(field, record) for field in record.fields]
                self.model = port.type if isinstance(port.type, Rich) else None


def _as_output(field: Port, record: Record) -> Port:
    """Return a record's field as an output port: it is always there, unless a TypedDict says NotRequired."""
    return Port(
        field.name,
        field.type,
        required=field.required or record.form != "typeddict",
        title=field.title,
        description=field.description,
        examples=field.examples,
    )


def _origin_name(hint: Any) -> str:
    """Return the name of a generic hint's class, or of the class itself."""
    name = getattr(getattr(hint, "__origin__", hint), "__name__", "")
    return name if isinstance(name, str) else ""


def _is_context(parameter: Parameter) -> bool:
    """Tell whether a parameter takes the Context: by its annotation, never by its name.

    The one exception is a parameter called `ctx` that a `functools.wraps` wrapper has added: wraps() takes away its
    annotation, and with it the only other way to know.
    """
    if parameter.lost_hint:
        return parameter.name == "ctx"
    hint, scope, _ = peel(parameter.hint, parameter.scope)
    args: tuple[Any, ...] = () if isinstance(hint, type) else getattr(hint, "__args__", None) or ()
    if len(args) == 2 and type(None) in args:  # `Context | None`
        hint, _, _ = peel(args[0] if args[1] is type(None) else args[1], scope)
    return isinstance(hint, type) and getattr(hint, "__octonode_context__", False) is True


def _dedent(doc: str) -> str:
    """Return a docstring without the indentation of its lines, as `inspect.cleandoc` does."""
    lines = doc.expandtabs().splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    return "\n".join([lines[0].strip(), *(line[margin:].rstrip() for line in lines[1:])]).strip() if lines else ""


if TYPE_CHECKING:

    @overload
    def node(fn: F, /) -> F: ...
    @overload
    def node(
        *,
        id: str | None = None,
        namespace: str | None = None,
        label: str | None = None,
        description: str | None = None,
        icon: str | None = None,
        symbol: str | None = None,
        output: str | None = None,
        secrets: Iterable[str | Secret] = (),
        config: Mapping[str, Any] | None = None,
        retry_on: Iterable[type[BaseException]] = (),
        requires_vram_gb: float | None = None,
        recommended_models: Iterable[Mapping[str, Any]] = (),
        dynamic: bool = False,
        isolated: bool = False,
        workflow_id: str | None = None,
        non_finite: Literal["error", "null", "text"] = "error",
        big_integers: Literal["error", "text"] = "error",
    ) -> Callable[[F], F]: ...
    def node(fn: Any = None, /, **options: Any) -> Any: ...

else:

    def node(
        fn=None,
        /,
        *,
        id=None,
        namespace=None,
        label=None,
        description=None,
        icon=None,
        symbol=None,
        output=None,
        secrets=(),
        config=None,
        retry_on=(),
        requires_vram_gb=None,
        recommended_models=(),
        dynamic=False,
        isolated=False,
        workflow_id=None,
        non_finite="error",
        big_integers="error",
    ):
        """Make a typed function a workflow node; it comes back unchanged.

        Parameters become input ports, the return annotation the outputs, the docstring's first paragraph the
        description. Usable bare (`@node`) or with options (`@node(icon="wand")`).

        Args:
            fn: The function, where the decorator is used bare.
            id: Stable id in saved workflows; the function's name unless given. Renaming it breaks them.
            namespace: First part of NodeTool's node type; the pack's or the file's name unless given.
            label: Name shown to people.
            description: Text shown to people; the docstring's first paragraph unless given.
            icon: One of the names in `octonode_sdk.icons.ICONS`.
            symbol: A glyph of at most 16 characters.
            output: Name of the single output port, "output" unless given. With it a TypedDict, NamedTuple, dataclass or
                model is one port instead of one a field.
            secrets: Names (or `Secret`s) of what the node may read with `ctx.secret`.
            config: Advisory default of the node's configuration.
            retry_on: Exceptions that are worth a retry: their errors are marked retryable.
            requires_vram_gb: Memory of the graphics card that a call needs.
            recommended_models: Models that a host may offer for the node, each a dict with at least `id` and `type`.
            dynamic: Whether the node takes further inputs, through `**kwargs`.
            isolated: Whether NodeTool's worker runs each call in a process of its own: a crash or an endless loop then
                costs that call alone.
            workflow_id: The workflow that the node stands for.
            non_finite: What becomes of NaN and infinity in outputs: an error, null or text.
            big_integers: What becomes of integers beyond 2**53 in outputs: an error or text.

        Raises:
            DefinitionError: An annotation is missing or can't be carried, or an option is wrong.
        """
        options = {name: value for name, value in locals().items() if name != "fn"}
        frame = sys._getframe(1)
        # Inside a function the annotations may name its locals, which string annotations can't reach by themselves.
        at_module_level = frame.f_locals is frame.f_globals
        known = {} if at_module_level else dict(frame.f_locals)
        module = frame.f_globals.get("__name__", "__main__")
        if fn is not None:
            return _define(fn, options, module, known)
        return lambda function: _define(function, options, module, known)


def _define(fn: Any, options: dict[str, Any], module: str, locals_: Mapping[str, Any]) -> Any:
    try:
        if isinstance(fn, type) or not callable(fn):
            what = "a class" if isinstance(fn, type) else repr(fn)
            name = getattr(fn, "__name__", None)
            raise DefinitionError(f"@node is on {what}", node=name, way_out="put it on a function")
        _nodes[_key(fn)] = Node(fn, options, module=module, locals_=locals_)
    except DefinitionError as error:
        if _on_fault is None:
            raise
        _on_fault(module, error)
    return fn


#: Takes what is wrong with a definition, with its module's name; None lets the decorator raise it.
_on_fault: Callable[[str, DefinitionError], object] | None = None


def hand_faults_to(take: Callable[[str, DefinitionError], object] | None) -> None:
    """Hand over what is wrong with a definition instead of raising it, so that it costs one node and not its module.

    For hosts that load packs; None lets the decorator raise again, as it does for authors.
    """
    global _on_fault
    _on_fault = take


def _key(fn: Any) -> Any:
    """Return what a function is found by: itself, so that a bound method is found again, or its identity."""
    try:
        hash(fn)
    except TypeError:  # an object with __call__ and __eq__, such as a dataclass
        return id(fn)
    return fn


def node_of(fn: Callable[..., Any]) -> Node:
    """Return the definition that `@node` made of a function.

    Raises:
        KeyError: It is no node.
    """
    return _nodes[_key(fn)]


def all_nodes() -> list[Node]:
    """Return every node that this process has defined, in the order of definition."""
    return list(_nodes.values())


def forget(nodes: Iterable[Node], earlier: Iterable[Node] = ()) -> None:
    """Take nodes out again, as when their module failed; `earlier` nodes of the same functions come back."""
    before = {_key(node.fn): node for node in earlier}
    for node in nodes:
        key = _key(node.fn)
        if _nodes.get(key) is node:
            if key in before:
                _nodes[key] = before[key]
            else:
                del _nodes[key]
