"""Step two: a hint -> the port type that carries it.

All spellings of a hint (`Optional[X]`, `X | None`, `Annotated`, strings, aliases) end in one port type. A hint that no
port can carry is a `DefinitionError` that names the node, the parameter, the hint and the way out.
"""

from __future__ import annotations

import sys
from types import NoneType, UnionType

from .errors import DefinitionError
from .field import MISSING
from .hints import Scope, class_scopes, closed, hint_text, own_annotations, owner_scope, peel, substitutes
from .metadata import Info, describe, is_field, is_pydantic_magic, merge_bounds, possible_bounds
from .ports import (
    ANY,
    NULL,
    Alias,
    Anything,
    Array,
    Base64,
    Choice,
    FixedArray,
    Flags,
    Mapping,
    Null,
    Port,
    Record,
    Rich,
    Scalar,
    Union,
    is_nullable,
    type_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .ports import PortType

__all__ = ["Carrier", "record_form"]

_PLAIN: dict[Any, PortType] = {
    str: Scalar("string"),
    int: Scalar("integer"),
    float: Scalar("number"),
    bool: Scalar("boolean"),
    bytes: Base64(),
    bytearray: Base64(mutable=True),
    None: NULL,
    NoneType: NULL,
    object: ANY,
    list: Array(ANY),
    tuple: Array(ANY, tuple),
    set: Array(ANY, set),
    frozenset: Array(ANY, frozenset),
    dict: Mapping(Scalar("string"), ANY),
}

#: Names of generic containers, by what they are carried as. `collections.abc` is not imported to compare with them.
_ARRAYS = {
    "list": list,
    "Sequence": list,
    "MutableSequence": list,
    "Collection": list,
    "Iterable": list,
    "set": set,
    "Set": set,
    "MutableSet": set,
    "frozenset": frozenset,
}
_MAPPINGS = {"dict", "Mapping", "MutableMapping"}
_CONTAINER_MODULES = {"builtins", "collections.abc", "typing"}

#: Standard types whose text forms pydantic reads, by module and name.
_RICH = {
    ("datetime", "datetime"),
    ("datetime", "date"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("decimal", "Decimal"),
    ("uuid", "UUID"),
}

_WAYS_OUT = {
    "Callable": "pass data instead, or inject an object through the closure",
    "type": "use Literal or an Enum of names",
    "complex": "use two floats, or a tuple[float, float]",
    "range": "use start, stop and step, or list[int]",
    "deque": "use list",
    "defaultdict": "use dict",
    "OrderedDict": "use dict, which keeps its order",
    "Counter": "use dict[str, int]",
    "ndarray": "use list[float], and make the array of it",
    "Iterator": "use list; a node streams what it returns, not what it takes",
    "Generator": "use list; a node streams what it returns, not what it takes",
    "AsyncIterator": "use list; a node streams what it returns, not what it takes",
}
_WAY_OUT = "use a JSON type (str, int, float, bool, list, dict), a TypedDict, a dataclass or a pydantic model"


def _typing_names(name: str) -> tuple[Any, ...]:
    """Return the objects called `name` in typing and typing_extensions, as far as these are loaded.

    A hint made with one of them can't exist before its module is loaded.
    """
    modules = (sys.modules.get("typing"), sys.modules.get("typing_extensions"))
    return tuple(getattr(module, name) for module in modules if hasattr(module, name))


class Carrier:
    """Turns hints into port types for one node; remembers the records in the making, so that a type may hold itself.

    One that has raised is not used again: it may remember half a record.

    Args:
        node: Id of the node, for messages.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.parameter: str | None = None
        self._records: dict[Any, Record] = {}
        self._aliases: dict[Any, Alias] = {}
        self._used_aliases: set[int] = set()

    def port(self, name: str, hint: Any, scope: Scope, *, default: Any = MISSING, place: str | None = None) -> Port:
        """Return the input port of a parameter.

        Raises:
            DefinitionError: The hint can't be carried, or the default does not belong to it.
            NameError: A string inside the hint uses a name that is not defined (yet).
        """
        self.parameter = place or name
        info = Info()
        if hint is MISSING:
            kind = "Context" if name in ("ctx", "context") else "str"
            self._refuse(
                "has no annotation", f"write one, such as `{name}: {kind}`, or `{name}: Any` for any JSON value"
            )
        port_type = self.carry(hint, scope, info)
        extra_type = self._read_default(default, info, port_type)
        return self._make_port(name, extra_type, info)

    def _read_default(self, default: Any, info: Info, port_type: PortType) -> PortType:
        """Take a default apart that is itself a Field; return the port type with the Field's bounds applied."""
        if default is not MISSING:
            described = describe(default, info) if is_field(default) else None
            if described is None:
                info.default, info.default_factory = default, None
            elif described:
                port_type = self._bound(port_type, described)
        return port_type

    def _make_port(self, name: str, port_type: PortType, info: Info) -> Port:
        if info.default is None and not is_nullable(port_type):
            self._refuse("has the default None, which its type does not allow", "add `| None` to the annotation")
        if info.default is not MISSING and info.default_factory is not None:
            self._refuse("has a default and a default_factory", "keep one of them")
        return Port(
            name,
            port_type,
            default=info.default,
            default_factory=info.default_factory,
            required=info.default is MISSING and info.default_factory is None and not is_nullable(port_type),
            title=info.title,
            description=info.description,
            examples=info.examples,
            aliases=info.aliases,
        )

    def carry(self, hint: Any, scope: Scope, info: Info | None = None) -> PortType:
        """Return the port type of `hint`; `info` takes what its metadata says of the port."""
        hint = scope.resolve(hint)
        try:
            plain = _PLAIN.get(hint)
        except TypeError:  # an unhashable hint, such as Literal[[1]]
            plain = None
        if plain is not None:
            return plain
        if isinstance(hint, UnionType):
            return self._union(hint.__args__, scope, info)
        if isinstance(hint, type) and not hasattr(hint, "__args__"):  # list[int] claims to be a type
            return self._class(hint, scope)
        metadata = getattr(hint, "__metadata__", None)
        if metadata is not None:
            return self._annotated(hint, metadata, scope, info)
        origin = getattr(hint, "__origin__", None)
        if origin is None:
            return self._special(hint, scope, info)
        args = getattr(hint, "__args__", None)
        if args is None and isinstance(origin, type):  # typing.List, without what it holds
            return self._class(origin, scope)
        return self._generic(hint, origin, args or (), scope, info)

    def _special(self, hint: Any, scope: Scope, info: Info | None) -> PortType:
        """Carry what is neither a class nor subscripted: Any, NewType, type variables, named aliases."""
        if hint in _typing_names("Any"):
            return ANY
        if hint in scope.substitutes:
            return self.carry(*scope.substitutes[hint], info)
        if hint in _typing_names("LiteralString") or hint in _typing_names("Text"):
            return _PLAIN[str]
        supertype = getattr(hint, "__supertype__", None)
        if supertype is not None:
            return self.carry(supertype, scope, info)
        if type(hint).__name__ == "TypeAliasType":
            return self._alias(hint, (), scope, info)
        if type(hint).__name__ == "TypeVar":
            if hasattr(hint, "has_default") and hint.has_default():
                return self.carry(hint.__default__, scope, info)
            if hint.__bound__ is not None:
                return self.carry(hint.__bound__, scope, info)
            if hint.__constraints__:
                return self._union(hint.__constraints__, scope, info)
            self._refuse_hint(hint, "write the type that the variable stands for, or give it a bound")
        if hint in _typing_names("Self") and isinstance(scope.locals.get("__self_class__"), type):
            return self._class(scope.locals["__self_class__"], scope)
        return self._refuse_hint(hint)

    def _generic(self, hint: Any, origin: Any, args: tuple[Any, ...], scope: Scope, info: Info | None) -> PortType:
        """Carry a subscripted hint."""
        name = getattr(origin, "__name__", "")
        if isinstance(origin, type):  # asked first: the special forms of typing are no classes
            if origin is tuple:
                return self._tuple(args, scope)
            if origin.__module__ in _CONTAINER_MODULES:
                if name in _ARRAYS:
                    container = _ARRAYS[name]
                    item = self.carry(args[0], scope)
                    if container is not list:
                        self._check_hashable(item, hint)
                    return Array(item, container)
                if name in _MAPPINGS:
                    return Mapping(self._key(args[0], scope, hint), self.carry(args[1], scope))
        if origin in _typing_names("Union"):
            return self._union(args, scope, info)
        if origin in _typing_names("Literal"):
            return self._literal(hint, _flat_literal(args))
        for transparent in ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar"):
            if origin in _typing_names(transparent):
                return self.carry(args[0], scope, info)
        if type(origin).__name__ == "TypeAliasType":
            return self._alias(origin, args, scope, info)
        if isinstance(origin, type) and name not in _WAYS_OUT:
            return self._class(origin, scope, args, hint)
        return self._refuse_hint(hint)

    def _alias(self, alias: Any, args: tuple[Any, ...], scope: Scope, info: Info | None) -> PortType:
        """Carry `type X = ...`, which may refer to itself."""
        key = (alias, *(closed(arg, scope) for arg in args))
        if key in self._aliases:
            made = self._aliases[key]
            self._used_aliases.add(id(made))
            return made
        if alias.__name__ == "JsonValue" and str(alias.__module__).startswith("pydantic"):
            return ANY
        made = self._aliases[key] = Alias(alias.__name__)
        made.target = self.carry(alias.__value__, scope.of_alias(alias, args), info)
        if id(made) in self._used_aliases:
            return made
        del self._aliases[key]  # it holds no reference to itself: the name is only a spelling of its target
        return made.target

    def _tuple(self, args: tuple[Any, ...], scope: Scope) -> PortType:
        if len(args) == 2 and args[1] is Ellipsis:
            return Array(self.carry(args[0], scope), tuple)
        return FixedArray([self.carry(arg, scope) for arg in args if arg != ()])

    def _key(self, key: Any, scope: Scope, hint: Any) -> PortType:
        key_type = self.carry(key, scope)
        if isinstance(key_type, Anything):
            return Scalar("string")
        if isinstance(key_type, Scalar) and key_type.kind in ("string", "integer"):
            return key_type
        if isinstance(key_type, Choice) and all(type(wire) in (str, int) for wire, _ in key_type.members):
            if len({str(wire) for wire, _ in key_type.members}) < len(key_type.members):
                self._refuse_hint(hint, "two of its keys are the same text, as 1 and '1' are; keep one")
            return key_type
        return self._refuse_hint(hint, "a JSON object's keys are texts: use dict[str, ...] or dict[int, ...]")

    def _check_hashable(self, item: PortType, hint: Any) -> None:
        if isinstance(item, (Mapping, Record)) or (isinstance(item, Array) and item.container in (list, set)):
            frozen = isinstance(item, Record) and item.form != "typeddict"
            if not frozen:
                self._refuse_hint(hint, "the items of a set must be hashable: use list")

    def _union(self, args: tuple[Any, ...], scope: Scope, info: Info | None) -> PortType:
        members: list[PortType] = []
        for arg in args:
            carried = self.carry(arg, scope, info)
            members.extend(carried.members if isinstance(carried, Union) else [carried])
        return _join(members)

    def _literal(self, hint: Any, values: tuple[Any, ...]) -> PortType:
        pairs: list[tuple[Any, Any]] = []
        for value in values:
            wire = value.value if _is_enum(type(value)) else value
            if wire is not None and type(wire) not in (str, int, bool):
                self._refuse_hint(hint, "a Literal holds texts, integers, truth values and None")
            if not any(type(wire) is type(w) and wire == w for w, _ in pairs):
                pairs.append((wire, value))
        members: list[PortType] = [NULL] if any(wire is None for wire, _ in pairs) else []
        chosen = [pair for pair in pairs if pair[0] is not None]
        return _join([Choice(chosen), *members] if chosen else members)

    def _annotated(self, hint: Any, metadata: tuple[Any, ...], scope: Scope, info: Info | None) -> PortType:
        if any(is_pydantic_magic(item) for item in metadata):
            for item in metadata:
                describe(item, info or Info())
            nullable = _allows_none(hint.__origin__, scope)
            return Rich(hint, object, hint_text(hint.__origin__), nullable=nullable)
        port_type = self.carry(hint.__origin__, scope, info)
        for item in metadata:
            bounds = describe(item, info or Info())
            if bounds:
                port_type = self._bound(port_type, bounds)
        return port_type

    def _bound(self, port_type: PortType, bounds: dict[str, Any]) -> PortType:
        """Return `port_type` with more bounds; those that it can't have are refused."""
        if isinstance(port_type, Union):
            members, left = [], set(bounds)
            for member in port_type.members:
                fitting = {name: value for name, value in bounds.items() if name in possible_bounds(member)}
                left -= set(fitting)
                members.append(self._bound(member, fitting) if fitting else member)
            if left:
                self._refuse_bounds(port_type, left)
            return Union(members)
        wrong = set(bounds) - possible_bounds(port_type)
        if wrong:
            self._refuse_bounds(port_type, wrong)
        if isinstance(port_type, Scalar):
            return Scalar(port_type.kind, merge_bounds(port_type.constraints, bounds))
        if isinstance(port_type, Base64):
            return Base64(merge_bounds(port_type.constraints, bounds), port_type.mutable)
        if isinstance(port_type, Array):
            return Array(port_type.item, port_type.container, merge_bounds(port_type.constraints, bounds))
        if isinstance(port_type, Mapping):
            return Mapping(port_type.key, port_type.value, merge_bounds(port_type.constraints, bounds))
        assert isinstance(port_type, Rich)  # possible_bounds gives the other types no bound
        merged = merge_bounds(port_type.constraints, bounds, rich=True)
        return Rich(port_type.hint, port_type.cls, port_type.name, merged, nullable=port_type.nullable)

    def _class(self, cls: Any, scope: Scope, args: tuple[Any, ...] = (), hint: Any = None) -> PortType:
        """Carry a class, or a generic class with its arguments."""
        if cls in _PLAIN:
            return _PLAIN[cls]
        if cls in _typing_names("Any"):
            return ANY
        if _is_enum(cls):
            return self._enum(cls)
        if (cls.__module__, cls.__qualname__) in _RICH or cls.__module__.partition(".")[0] == "pathlib":
            return Rich(cls, cls, cls.__name__)
        if cls.__module__ == "collections.abc" and cls.__name__ in _ARRAYS:
            return Array(ANY, _ARRAYS[cls.__name__])
        if cls.__module__ == "collections.abc" and cls.__name__ in _MAPPINGS:
            return Mapping(Scalar("string"), ANY)
        if _is_pydantic_class(cls):
            return Rich(cls if hint is None else closed(hint, scope), cls, cls.__name__)
        key = (cls, *(closed(arg, scope) for arg in args))
        if key in self._records:
            return self._records[key]
        form = record_form(cls)
        if form is None:
            if issubclass(cls, str) and cls.__module__ != "builtins":
                self._refuse_hint(cls, "use str, or NewType for a name of its own")
            if hasattr(cls, "__dataclass_fields__"):
                self._refuse_hint(cls, "put @dataclass on it as well: only its base class has one")
            return self._refuse_hint(cls if hint is None else hint)
        doc = cls.__doc__ if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(") else None
        record = self._records[key] = Record(cls.__name__, cls, form, doc)
        outer = self.parameter
        parameters: tuple[Any, ...] = getattr(cls, "__parameters__", ())
        record.fields = self._fields(record, cls, scope, substitutes(parameters, args, scope))
        self.parameter = outer
        return record

    def _fields(self, record: Record, cls: Any, scope: Scope, substitutes: dict[Any, tuple[Any, Scope]]) -> list[Port]:
        scopes = class_scopes(cls, scope, substitutes)
        place = f"{self.parameter}.{{}}" if self.parameter else "{}"
        fields: list[Port] = []
        if record.form == "typeddict":
            for name, hint in cls.__annotations__.items():
                at = owner_scope(name, hint, scopes)
                self.parameter = place.format(name)
                resolved = at.resolve(hint)
                required = _is_required(resolved, name in cls.__required_keys__, at)
                port = self.port(name, resolved, at, place=place.format(name))
                port.required = required and not port.has_default
                fields.append(port)
        elif record.form == "namedtuple":
            for name in cls._fields:
                owner = next((one for one, _ in scopes if name in own_annotations(one)), cls)
                hint = own_annotations(owner).get(name, object)
                default = cls._field_defaults.get(name, MISSING)
                at = next(at for one, at in scopes if one is owner)
                fields.append(self.port(name, hint, at, default=default, place=place.format(name)))
        else:
            missing = sys.modules["dataclasses"].MISSING
            for field in cls.__dataclass_fields__.values():
                if field._field_type.name == "_FIELD_CLASSVAR":
                    continue
                if field._field_type.name == "_FIELD_INITVAR":
                    self.parameter = place.format(field.name)
                    self._refuse("is an InitVar, which an output could not give back", "make it a field")
                at = next((at for one, at in scopes if field.name in own_annotations(one)), scopes[0][1])
                default = MISSING if field.default is missing else field.default
                port = self.port(field.name, field.type, at, default=default, place=place.format(field.name))
                if field.default_factory is not missing:
                    port.default_factory, port.required = field.default_factory, False
                doc = field.metadata.get("description")
                port.description = port.description if doc is None else doc
                fields.append(port)
            record.computed = frozenset(f.name for f in cls.__dataclass_fields__.values() if not f.init)
        for port in fields:
            # A field is left out or given; unlike an input, a nullable field without a default has to be given.
            if record.form != "typeddict":
                port.required = not port.has_default
        return fields

    def model(self, port_type: PortType, scope: Scope) -> Record | None:
        """Return a pydantic model or dataclass as a record, for a node with an output port a field; else None."""
        cls: Any = port_type.cls if isinstance(port_type, Rich) else None
        known = getattr(cls, "__pydantic_fields__", None)
        if not isinstance(known, dict) or getattr(cls, "__pydantic_root_model__", False):
            return None
        record = Record(cls.__name__, cls, "model", cls.__doc__)
        ((_, inner), *_) = class_scopes(cls, scope, {})
        fields = [
            (name, field, field.rebuild_annotation(), field.serialization_alias)
            for name, field in known.items()
            if not field.exclude
        ]
        decorators = cls.__pydantic_decorators__.computed_fields
        fields += [(name, one.info, one.info.return_type, one.info.alias) for name, one in decorators.items()]
        for name, field, hint, alias in fields:
            port = self.port(alias or name, hint, inner, place=f"the return.{name}")
            port.title, port.description, port.required = field.title, field.description, True
            record.fields.append(port)
            record.attributes[port.name] = name
        return record

    def _enum(self, cls: Any) -> PortType:
        enum = sys.modules["enum"]
        if issubclass(cls, enum.Flag):
            return Flags(cls)
        pairs = [(member.value, member) for member in cls]
        if not pairs:
            self._refuse_hint(cls, "give the Enum members")
        for wire, member in pairs:
            if type(wire) not in (str, int, float, bool):
                base = str if isinstance(wire, str) else int if isinstance(wire, int) else None
                if base is None:
                    self._refuse_hint(
                        cls, f"its member {member.name} has the value {wire!r}: give every member a text or a number"
                    )
        return Choice([(_exact(wire), member) for wire, member in pairs], cls)

    def _refuse_bounds(self, port_type: PortType, bounds: set[str]) -> NoReturn:
        names = ", ".join(sorted(bounds))
        possible = sorted(possible_bounds(port_type) - {"predicates"})
        way_out = f"it can have {', '.join(possible)}" if possible else "take the bound away"
        self._refuse(f"is {type_text(port_type)}, which can't have the bound {names}", way_out)

    def _refuse_hint(self, hint: Any, way_out: str | None = None) -> NoReturn:
        name = getattr(getattr(hint, "__origin__", hint), "__name__", "")
        self._refuse(
            f"is annotated {hint_text(hint)}, which has no port type", way_out or _WAYS_OUT.get(name, _WAY_OUT)
        )

    def _refuse(self, problem: str, way_out: str) -> NoReturn:
        raise DefinitionError(problem, node=self.node, parameter=self.parameter, way_out=way_out)


def _allows_none(hint: Any, scope: Scope) -> bool:
    """Tell whether None is a value of a hint that only pydantic reads."""
    hint, scope, _ = peel(hint, scope)
    if isinstance(hint, UnionType) or getattr(hint, "__origin__", None) in _typing_names("Union"):
        return any(_allows_none(one, scope) for one in hint.__args__)
    return hint in (None, NoneType, object, *_typing_names("Any"))


def record_form(cls: Any) -> str | None:
    """Return which form of record a class is: "typeddict", "namedtuple", "dataclass", or None."""
    if type(cls).__name__ == "_TypedDictMeta":
        return "typeddict"
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "namedtuple"
    return "dataclass" if "__dataclass_fields__" in getattr(cls, "__dict__", {}) else None


def _exact(wire: Any) -> Any:
    """Return a member's value as the plain type that JSON has; a member of a text Enum is a text in a subclass."""
    if isinstance(wire, str):
        return str.__str__(wire)
    return int.__int__(wire) if isinstance(wire, int) and type(wire) is not bool else wire


def _join(members: list[PortType]) -> PortType:
    """Return the union of flat members in its one canonical form: no doubles, Literals joined, null last."""
    joined: list[PortType] = []
    literal: Choice | None = None
    for member in members:
        if isinstance(member, Anything):
            return ANY
        if isinstance(member, Choice) and member.cls is None:
            if literal is None:
                literal = Choice(list(member.members))
                joined.append(literal)
            else:
                known = [(type(wire), wire) for wire, _ in literal.members]
                literal.members += [pair for pair in member.members if (type(pair[0]), pair[0]) not in known]
        elif not isinstance(member, Null) and not any(member is one or member == one for one in joined):
            joined.append(member)
    if any(isinstance(member, Null) for member in members):
        joined.append(NULL)
    return joined[0] if len(joined) == 1 else Union(joined)


def _flat_literal(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a Literal, those of Literals inside it included."""
    flat: list[Any] = []
    for arg in args:
        flat.extend(
            _flat_literal(arg.__args__) if getattr(arg, "__origin__", None) in _typing_names("Literal") else [arg]
        )
    return tuple(flat)


def _is_required(hint: Any, required: bool, scope: Scope) -> bool:
    """Tell whether a TypedDict's key is required; under postponed annotations only the resolved hint says it."""
    hint = scope.resolve(hint)
    origin = getattr(hint, "__origin__", None)
    if getattr(hint, "__metadata__", None) is not None:
        return _is_required(origin, required, scope)
    if origin in _typing_names("ReadOnly"):
        return _is_required(hint.__args__[0], required, scope)
    if origin in _typing_names("NotRequired"):
        return False
    return True if origin in _typing_names("Required") else required


def _is_enum(cls: Any) -> bool:
    enum = sys.modules.get("enum")
    return enum is not None and isinstance(cls, enum.EnumMeta)


def _is_pydantic_class(cls: Any) -> bool:
    if "pydantic" not in sys.modules:
        return False
    return (
        hasattr(cls, "__pydantic_validator__")
        or hasattr(cls, "__get_pydantic_core_schema__")
        or (getattr(cls, "__module__", "").startswith("pydantic") and not hasattr(cls, "__dataclass_fields__"))
    )
