"""Step one: what a callable says of itself. Its parameters, their hints with every string resolved, how it runs.

`inspect.signature` would do most of this and costs more start-up time than the rest of a call, so plain functions,
bound methods, partials and wrappers are read here from their code object; anything else is left to `inspect`.
"""

from __future__ import annotations

import sys
from types import FunctionType, MethodType

from .errors import DefinitionError, shorten
from .field import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = [
    "KEYWORD",
    "POSITIONAL",
    "POSITIONAL_ONLY",
    "VAR_KEYWORD",
    "VAR_POSITIONAL",
    "Parameter",
    "Scope",
    "Signature",
    "callable_name",
    "class_scopes",
    "closed",
    "hint_text",
    "own_annotations",
    "owner_scope",
    "peel",
    "read_signature",
    "substitutes",
]

POSITIONAL_ONLY, POSITIONAL, KEYWORD, VAR_POSITIONAL, VAR_KEYWORD = range(5)

_VARARGS, _VARKEYWORDS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200


class Scope:
    """Where the names of a string annotation are looked up: a module's globals under some locals."""

    __slots__ = ("globals", "locals", "substitutes")

    def __init__(
        self,
        globals_: dict[str, Any],
        locals_: Mapping[str, Any] | None = None,
        substitutes: dict[Any, tuple[Any, Scope]] | None = None,
    ) -> None:
        self.globals, self.locals = globals_, locals_ or {}
        #: What the type variables of a generic class stand for here: a hint, and the scope in which that was written.
        self.substitutes = substitutes or {}

    def resolve(self, hint: Any) -> Any:
        """Return `hint`, evaluated if it is a string or a forward reference.

        Raises:
            NameError: A name is not defined (yet).
            DefinitionError: The string is no expression, or it fails; without the node, which the caller knows.
        """
        while True:
            if type(hint) is type:
                return hint
            text, globals_ = hint, self.globals
            if type(hint).__name__ == "ForwardRef":
                text, module = hint.__forward_arg__, getattr(hint, "__forward_module__", None)
                module = sys.modules.get(module) if isinstance(module, str) else module
                globals_ = self.globals if module is None else vars(module)
            if not isinstance(text, str):
                return hint
            try:
                hint = eval(text, globals_, dict(self.locals))
            except NameError:
                raise
            except Exception as error:  # the author's expression may fail in any way, and each is a fault of it
                why = "is no expression" if isinstance(error, SyntaxError) else f"fails: {error}"
                problem = f"has the annotation {shorten(text)}, which {why}"
                raise DefinitionError(problem, way_out="correct the annotation") from error

    def inside(self, cls: type, substitutes: dict[Any, tuple[Any, Scope]] | None = None) -> Scope:
        """Return the scope of a class's own annotations: its module, its body, and its own name.

        A field may have the name of its type (`date: date`), so that the names of fields are left to the module.
        """
        module = sys.modules.get(cls.__module__)
        params = {p.__name__: p for p in getattr(cls, "__type_params__", ())}
        fields = getattr(cls, "__annotations__", {})
        body = {name: value for name, value in vars(cls).items() if name not in fields}
        known = {**self.locals, **params, **body, cls.__name__: cls}
        return Scope(vars(module) if module else self.globals, known, substitutes)

    def of_alias(self, alias: Any, args: tuple[Any, ...] = ()) -> Scope:
        """Return the scope of the value of a named alias: the module that defines it."""
        module = sys.modules.get(alias.__module__)
        globals_ = self.globals if module is None else vars(module)
        return Scope(globals_, self.locals, substitutes(alias.__type_params__, args, self))


class Parameter:
    """One parameter: name, hint (as it was written) with its scope, default, kind. What is not there is MISSING."""

    __slots__ = ("default", "hint", "kind", "lost_hint", "name", "scope")

    def __init__(self, name: str, hint: Any, default: Any, kind: int, scope: Scope, *, lost_hint: bool = False) -> None:
        self.name, self.hint, self.default, self.kind, self.scope = name, hint, default, kind, scope
        #: The parameter was added by a `functools.wraps` wrapper, which replaced the wrapper's annotations.
        self.lost_hint = lost_hint


class Signature:
    """What `read_signature` returns.

    Attributes:
        parameters: In the order of the call.
        returns: The return hint (as it was written), or MISSING.
        is_async, is_generator, is_async_generator: How the innermost function was written.
        doc: Its docstring, or "".
        name: Its name.
        scope: Where the strings of `returns` are looked up.
    """

    __slots__ = ("doc", "is_async", "is_async_generator", "is_generator", "name", "parameters", "returns", "scope")

    def __init__(self, fn: Callable[..., Any], scope: Scope) -> None:
        self.parameters: list[Parameter] = []
        self.returns: Any = MISSING
        self.is_async = self.is_generator = self.is_async_generator = False
        self.doc = ""
        self.name = callable_name(fn)
        self.scope = scope

    def close(self) -> None:
        """Let go of the scopes once all hints are read: they hold the values of enclosing functions."""
        self.scope = Scope({})
        for parameter in self.parameters:
            parameter.scope = self.scope


def callable_name(fn: Any) -> str:
    """Return the name that a person would give `fn`: a partial's is its function's, also inside a wrapper."""
    wrapped = getattr(fn, "__wrapped__", None)
    if wrapped is not None and not hasattr(wrapped, "__name__"):
        fn = wrapped
    while not hasattr(fn, "__name__") and hasattr(fn, "func"):
        fn = fn.func
    return getattr(fn, "__name__", None) or type(fn).__name__


def read_signature(fn: Callable[..., Any], locals_: Mapping[str, Any] | None = None) -> Signature:
    """Read the parameters, hints and kind of a callable.

    Understands functions, bound methods, `functools.partial` (arguments that it binds are no parameters any more),
    wrappers made with `functools.wraps` (a wrapper with `*args, **kwargs` has the wrapped function's parameters beside
    its own), and callable objects.

    Args:
        fn: The callable.
        locals_: Local names of the place where it was defined, for string annotations.

    Raises:
        NameError: The interpreter evaluates annotations late, and one uses a name that is not defined (yet).
        TypeError: It has no readable signature, as some built-in functions.
    """
    if getattr(fn, "__signature__", None) is not None:
        return _inspected(fn, locals_)
    if isinstance(fn, FunctionType):
        return _of_function(fn, locals_)
    if isinstance(fn, MethodType):
        signature = read_signature(fn.__func__, locals_)
        del signature.parameters[:1]
        return signature
    partial = getattr(sys.modules.get("functools"), "partial", None)
    if partial is not None and isinstance(fn, partial):
        signature = read_signature(fn.func, locals_)
        _bind(signature, len(fn.args), fn.keywords)
        return signature
    method = getattr(type(fn), "__call__", None)  # noqa: B004  # not whether, but which
    if isinstance(method, FunctionType) and not isinstance(fn, type):
        signature = read_signature(method, locals_)
        del signature.parameters[:1]
        signature.name = callable_name(fn)
        if not signature.doc and not (fn.__doc__ or "").startswith(f"{type(fn).__name__}("):  # what @dataclass writes
            signature.doc = fn.__doc__ or ""
        return signature
    return _inspected(fn, locals_)


def _of_function(fn: FunctionType, locals_: Mapping[str, Any] | None) -> Signature:
    wrapped = getattr(fn, "__wrapped__", None)
    params = {p.__name__: p for p in getattr(fn, "__type_params__", ())}
    scope_owner: Any = fn
    while getattr(scope_owner, "__wrapped__", None) is not None:  # wraps() copies the innermost annotations outwards
        scope_owner = scope_owner.__wrapped__
    globals_ = getattr(scope_owner, "__globals__", fn.__globals__)
    scope = Scope(globals_, {**(locals_ or {}), **_closure(fn), **params})
    signature = Signature(fn, scope)
    code = fn.__code__
    annotations = fn.__annotations__
    inherited = getattr(wrapped, "__annotations__", None) if wrapped is not None else None
    lost = wrapped is not None and annotations == inherited
    defaults, keyword_defaults = fn.__defaults__ or (), fn.__kwdefaults__ or {}
    count, names = code.co_argcount, code.co_varnames
    first_default = count - len(defaults)
    add = signature.parameters.append
    for index in range(count):
        name = names[index]
        kind = POSITIONAL_ONLY if index < code.co_posonlyargcount else POSITIONAL
        default = defaults[index - first_default] if index >= first_default else MISSING
        add(Parameter(name, annotations.get(name, MISSING), default, kind, scope))
    end = count + code.co_kwonlyargcount
    for name in names[count:end]:
        add(Parameter(name, annotations.get(name, MISSING), keyword_defaults.get(name, MISSING), KEYWORD, scope))
    if code.co_flags & _VARARGS:
        add(Parameter(names[end], annotations.get(names[end], MISSING), MISSING, VAR_POSITIONAL, scope))
        end += 1
    if code.co_flags & _VARKEYWORDS:
        add(Parameter(names[end], annotations.get(names[end], MISSING), MISSING, VAR_KEYWORD, scope))
    for parameter in signature.parameters:
        parameter.lost_hint = lost and parameter.hint is MISSING
    signature.returns = annotations.get("return", MISSING)
    signature.doc = fn.__doc__ or ""
    flags = code.co_flags
    signature.is_async = bool(flags & _COROUTINE)
    signature.is_generator = bool(flags & _GENERATOR)
    signature.is_async_generator = bool(flags & _ASYNC_GENERATOR)
    if wrapped is not None:
        inner_signature = read_signature(wrapped, locals_)
        if fn.__doc__ == getattr(type(wrapped), "__doc__", None):  # wraps() has copied what partial says of itself
            signature.doc = inner_signature.doc
        _merge_wrapped(signature, inner_signature)
    return signature


def _closure(fn: FunctionType) -> dict[str, Any]:
    """Return the enclosing function's names that `fn` uses, which a string annotation may use as well."""
    known = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
        try:
            known[name] = cell.cell_contents
        except ValueError:  # the name is assigned later in the enclosing function
            continue
    return known


def _merge_wrapped(signature: Signature, inner: Signature) -> None:
    """Let a wrapper's `*args, **kwargs` stand for the parameters of the function that it wraps."""
    own = signature.parameters
    passes_positional = any(p.kind == VAR_POSITIONAL for p in own)
    passes_keywords = any(p.kind == VAR_KEYWORD for p in own)
    named = {p.name for p in own if p.kind < VAR_POSITIONAL}
    keeps_places = passes_positional and not any(p.kind < KEYWORD for p in own)
    if passes_positional or passes_keywords:
        merged = [p for p in own if p.kind < VAR_POSITIONAL]
        for parameter in inner.parameters:
            if parameter.name in named:
                continue
            if parameter.kind in (POSITIONAL, KEYWORD) and not passes_keywords:
                parameter.kind = POSITIONAL_ONLY
            elif parameter.kind == POSITIONAL and not keeps_places:
                parameter.kind = KEYWORD  # a parameter of the wrapper has its place, or the wrapper takes keywords only
            merged.append(parameter)
        signature.parameters = sorted(merged, key=lambda p: p.kind)
    if signature.returns is MISSING:
        signature.returns, signature.scope = inner.returns, inner.scope
    signature.is_async |= inner.is_async
    signature.is_generator |= inner.is_generator
    signature.is_async_generator |= inner.is_async_generator
    signature.doc = signature.doc or inner.doc


def _bind(signature: Signature, count: int, keywords: Mapping[str, Any]) -> None:
    """Take the parameters away that a partial has bound."""
    left, kept = count, []
    after_keyword = False
    for parameter in signature.parameters:
        if parameter.kind in (POSITIONAL_ONLY, POSITIONAL) and left:
            left -= 1
            continue
        if parameter.name in keywords and parameter.kind in (POSITIONAL, KEYWORD):
            after_keyword = True
            continue
        if after_keyword and parameter.kind == POSITIONAL:
            parameter.kind = KEYWORD  # a place behind a bound keyword can't be reached by position
        kept.append(parameter)
    signature.parameters = kept


def _inspected(fn: Callable[..., Any], locals_: Mapping[str, Any] | None) -> Signature:
    """Read what is no plain function, or carries a `__signature__` of its own, through `inspect`."""
    import inspect

    try:
        found = inspect.signature(fn)
    except ValueError as error:
        raise TypeError(str(error)) from error
    inner: Any = inspect.unwrap(fn)
    while hasattr(inner, "func") and not hasattr(inner, "__code__"):
        inner = inner.func
    scope = Scope(getattr(inner, "__globals__", {}), locals_)
    signature = Signature(fn, scope)
    empty = inspect.Parameter.empty
    order = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    )
    for found_parameter in found.parameters.values():
        hint = MISSING if found_parameter.annotation is empty else found_parameter.annotation
        default = MISSING if found_parameter.default is empty else found_parameter.default
        kind = order.index(found_parameter.kind)
        signature.parameters.append(Parameter(found_parameter.name, hint, default, kind, scope))
    signature.parameters.sort(key=lambda p: p.kind)
    returns = found.return_annotation
    signature.returns = MISSING if returns is empty else returns
    signature.doc = inspect.getdoc(fn) or ""
    signature.is_async = inspect.iscoroutinefunction(inner)
    signature.is_generator = inspect.isgeneratorfunction(inner)
    signature.is_async_generator = inspect.isasyncgenfunction(inner)
    return signature


def own_annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of a class's own body (a class never shows those of its bases as its own)."""
    own: dict[str, Any] = getattr(cls, "__annotations__", {})
    return own


def substitutes(parameters: tuple[Any, ...], args: tuple[Any, ...], scope: Scope) -> dict[Any, tuple[Any, Scope]]:
    """Return what type variables stand for, each with the scope in which that was written."""
    return {
        parameter: scope.substitutes.get(arg, (arg, scope)) if type(arg).__name__ == "TypeVar" else (arg, scope)
        for parameter, arg in zip(parameters, args, strict=False)
    }


def closed(hint: Any, scope: Scope) -> Any:
    """Return a hint with its type variables replaced and, where it is a string, read: one key for each meaning."""
    hint = scope.resolve(hint)
    if not isinstance(hint, type) and hint in scope.substitutes:
        return closed(*scope.substitutes[hint])
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or not scope.substitutes or isinstance(hint, type):
        return hint
    return hint[tuple(closed(one, scope) for one in parameters)]


def class_scopes(cls: Any, scope: Scope, known: dict[Any, tuple[Any, Scope]]) -> list[tuple[Any, Scope]]:
    """Return a record class and its bases, the nearest first, each with the scope of its annotations."""
    found: list[tuple[Any, Scope]] = []
    waiting = [(cls, known)]
    while waiting:
        one, own = waiting.pop(0)
        inner = scope.inside(one, own)
        inner.locals = {**inner.locals, "__self_class__": cls}
        found.append((one, inner))
        for base in one.__dict__.get("__orig_bases__") or one.__bases__:
            origin = getattr(base, "__origin__", base)
            if isinstance(origin, type) and origin.__module__ not in ("builtins", "typing", "typing_extensions"):
                parameters = getattr(origin, "__parameters__", ())
                waiting.append((origin, substitutes(parameters, getattr(base, "__args__", ()), inner)))
    order = list(cls.__mro__)
    return sorted(found, key=lambda pair: order.index(pair[0]) if pair[0] in order else 0)


def owner_scope(name: str, hint: Any, scopes: list[tuple[Any, Scope]]) -> Scope:
    """Return the scope of the TypedDict that brought a key in: its heirs hold the same hint under their own name."""
    return [at for one, at in scopes if own_annotations(one).get(name) is hint][-1]


def peel(hint: Any, scope: Scope) -> tuple[Any, Scope, tuple[Any, ...]]:
    """Return what is inside the aliases and `Annotated` around a hint, its scope, and the metadata found on the way."""
    metadata: tuple[Any, ...] = ()
    while True:
        hint = scope.resolve(hint)
        if isinstance(hint, type):
            return hint, scope, metadata
        if type(hint).__name__ == "TypeAliasType":
            hint, scope = hint.__value__, scope.of_alias(hint)
        elif hasattr(hint, "__metadata__"):
            hint, metadata = hint.__origin__, (*hint.__metadata__, *metadata)
        else:
            return hint, scope, metadata


def hint_text(hint: Any) -> str:
    """Return a hint as its author would write it, without the names of modules."""
    text = _text(hint)
    return text if len(text) <= 120 else text[:117] + "..."


def _text(hint: Any) -> str:
    if hint is None or hint is type(None):
        return "None"
    if hint is Ellipsis:
        return "..."
    if isinstance(hint, list):  # the arguments of a Callable
        return f"[{', '.join(map(_text, hint))}]"
    if hasattr(hint, "__metadata__"):
        return _text(hint.__origin__)
    origin, args = getattr(hint, "__origin__", None), getattr(hint, "__args__", None)
    if isinstance(hint, type) and origin is None:
        return hint.__qualname__.rpartition("<locals>.")[2]
    name = getattr(hint, "__name__", None) or getattr(origin, "__qualname__", None)
    if args is None:
        known = name if isinstance(name, str) else None
        return known or repr(hint).removeprefix("typing.").removeprefix("typing_extensions.")
    if name in ("Optional", "Union") or type(hint).__name__ in ("UnionType", "Union"):
        return " | ".join(map(_text, args))
    inner = [repr(arg) for arg in args] if name == "Literal" else [_text(arg) for arg in args]
    if name == "Callable":
        inner = [inner[0] if inner[0] == "..." else f"[{', '.join(inner[:-1])}]", inner[-1]]
    return f"{name}[{', '.join(inner) or '()'}]"
