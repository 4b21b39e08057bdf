"""Step one: what a callable says of itself. Its parameters, their hints with every string resolved, how it runs.

`inspect.signature` would do most of this and costs more start-up time than the rest of a call, so plain functions,
bound methods, partials and wrappers are read here from their code object; anything else is left to `inspect`.
"""

from __future__ import annotations

import sys
from types import FunctionType, MethodType

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
    "hint_text",
    "read_signature",
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
        substitutes: dict[Any, Any] | None = None,
    ) -> None:
        self.globals, self.locals = globals_, locals_ or {}
        #: What the type variables of a generic class stand for here.
        self.substitutes = substitutes or {}

    def resolve(self, hint: Any) -> Any:
        """Return `hint`, evaluated if it is a string or a forward reference.

        Raises:
            NameError: A name is not defined (yet).
            SyntaxError: The string is no expression.
        """
        while True:
            if isinstance(hint, str):
                hint = eval(hint, self.globals, dict(self.locals))
            elif type(hint).__name__ == "ForwardRef":
                module = getattr(hint, "__forward_module__", None)
                module = sys.modules.get(module) if isinstance(module, str) else module
                globals_ = vars(module) if module is not None else self.globals
                hint = eval(hint.__forward_arg__, globals_, dict(self.locals))
            else:
                return hint

    def inside(self, cls: type, substitutes: dict[Any, Any] | None = None) -> Scope:
        """Return the scope of a class's own annotations: its module, its body, and its own name."""
        module = sys.modules.get(cls.__module__)
        params = {p.__name__: p for p in getattr(cls, "__type_params__", ())}
        known = {**self.locals, **params, **vars(cls), cls.__name__: cls}
        return Scope(vars(module) if module else self.globals, known, substitutes or self.substitutes)


class Parameter:
    """One parameter: its name, hint (resolved, or MISSING), default (or MISSING) and kind."""

    __slots__ = ("default", "hint", "kind", "lost_hint", "name")

    def __init__(self, name: str, hint: Any, default: Any, kind: int, *, lost_hint: bool = False) -> None:
        self.name, self.hint, self.default, self.kind = name, hint, default, kind
        #: The parameter was added by a `functools.wraps` wrapper, which replaced the wrapper's annotations.
        self.lost_hint = lost_hint


class Signature:
    """What `read_signature` returns.

    Attributes:
        parameters: In the order of the call.
        returns: The return hint (resolved), or MISSING.
        is_async, is_generator, is_async_generator: How the innermost function was written.
        doc: Its docstring, or "".
        name: Its name.
        scope: Where its strings were looked up.
    """

    __slots__ = ("doc", "is_async", "is_async_generator", "is_generator", "name", "parameters", "returns", "scope")

    def __init__(self, fn: Callable[..., Any], scope: Scope) -> None:
        self.parameters: list[Parameter] = []
        self.returns: Any = MISSING
        self.is_async = self.is_generator = self.is_async_generator = False
        self.doc = ""
        self.name = callable_name(fn)
        self.scope = scope


def callable_name(fn: Any) -> str:
    """Return the name that a person would give `fn`: a partial's is its function's."""
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
        NameError: A string annotation uses a name that is not defined (yet).
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
        signature.doc = "" if fn.__doc__ == partial.__doc__ and not signature.doc else signature.doc
        return signature
    method = getattr(type(fn), "__call__", None)  # noqa: B004  # not whether, but which
    if isinstance(method, FunctionType) and not isinstance(fn, type):
        signature = read_signature(method, locals_)
        del signature.parameters[:1]
        signature.name, signature.doc = callable_name(fn), fn.__doc__ or signature.doc
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
        add(Parameter(name, annotations.get(name, MISSING), default, kind))
    end = count + code.co_kwonlyargcount
    for name in names[count:end]:
        add(Parameter(name, annotations.get(name, MISSING), keyword_defaults.get(name, MISSING), KEYWORD))
    if code.co_flags & _VARARGS:
        add(Parameter(names[end], annotations.get(names[end], MISSING), MISSING, VAR_POSITIONAL))
        end += 1
    if code.co_flags & _VARKEYWORDS:
        add(Parameter(names[end], annotations.get(names[end], MISSING), MISSING, VAR_KEYWORD))
    for parameter in signature.parameters:
        parameter.hint = scope.resolve(parameter.hint)
        parameter.lost_hint = lost and parameter.hint is MISSING
    signature.returns = scope.resolve(annotations.get("return", MISSING))
    signature.doc = fn.__doc__ or ""
    flags = code.co_flags
    signature.is_async = bool(flags & _COROUTINE)
    signature.is_generator = bool(flags & _GENERATOR)
    signature.is_async_generator = bool(flags & _ASYNC_GENERATOR)
    if wrapped is not None:
        _merge_wrapped(signature, read_signature(wrapped, locals_))
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
    named = {p.name: p for p in own if p.kind < VAR_POSITIONAL}
    if passes_positional or passes_keywords:
        merged = [p for p in own if p.kind < VAR_POSITIONAL]
        for parameter in inner.parameters:
            if parameter.name in named:
                continue
            if parameter.kind in (POSITIONAL, KEYWORD) and not passes_keywords:
                parameter.kind = POSITIONAL_ONLY
            elif parameter.kind == POSITIONAL and named:
                parameter.kind = KEYWORD  # the wrapper's own parameters would take its place
            merged.append(parameter)
        signature.parameters = sorted(merged, key=lambda p: p.kind)
    if signature.returns is MISSING:
        signature.returns = inner.returns
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
        hint = MISSING if found_parameter.annotation is empty else scope.resolve(found_parameter.annotation)
        default = MISSING if found_parameter.default is empty else found_parameter.default
        kind = order.index(found_parameter.kind)
        signature.parameters.append(Parameter(found_parameter.name, hint, default, kind))
    signature.parameters.sort(key=lambda p: p.kind)
    returns = found.return_annotation
    signature.returns = MISSING if returns is empty else scope.resolve(returns)
    signature.doc = inspect.getdoc(fn) or ""
    signature.is_async = inspect.iscoroutinefunction(inner)
    signature.is_generator = inspect.isgeneratorfunction(inner)
    signature.is_async_generator = inspect.isasyncgenfunction(inner)
    return signature


def hint_text(hint: Any) -> str:
    """Return a hint as its author would write it."""
    if isinstance(hint, type) and not getattr(hint, "__args__", None):
        return hint.__qualname__
    text = repr(hint)
    for prefix in ("typing.", "typing_extensions.", "collections.abc.", "builtins."):
        text = text.replace(prefix, "")
    return text if len(text) <= 120 else text[:117] + "..."
