"""What a callable says of itself: parameters, hints, kind, docstring and name, read without `inspect`."""

import functools
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, Optional

import pytest

from octonode_sdk import Context, DefinitionError
from octonode_sdk.field import MISSING
from octonode_sdk.hints import Scope, Signature, callable_name, hint_text, peel, read_signature
from tests import hinted, hinted_base

KINDS = [
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
]


def plain(a: int, b: str = "x") -> str:
    """Plain."""
    return b * a


def every_kind(a: int, b: int = 2, /, c: int = 3, *rest: int, d: int, e: int = 5, **more: int) -> int:
    return a + b + c + d + e + sum(rest) + sum(more.values())


def bare(a, b=None, *, c=0): ...  # type: ignore[no-untyped-def]  # what such a function says is the question


async def later(a: int, b: str = "x") -> str:
    return b * a


def counted(a: int) -> Iterator[int]:
    yield from range(a)


async def counted_later(a: int) -> AsyncIterator[int]:
    for one in range(a):
        yield one


@functools.cache
def cached(a: int) -> int:
    return a


def with_own_signature(*args: Any) -> None: ...


with_own_signature.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]  # what some decorators do


class Tool:
    """A tool."""

    def run(self, a: int, *, b: str = "x") -> str:
        return b * a

    async def run_later(self, a: int) -> int:
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        return a

    @staticmethod
    def of_none(a: int) -> int:
        return a

    def __call__(self, a: int) -> int:
        """Call it."""
        return a


CALLABLES: dict[str, Callable[..., Any]] = {
    "plain": plain,
    "every kind": every_kind,
    "bare": bare,
    "async": later,
    "generator": counted,
    "async generator": counted_later,
    "cached": cached,
    "own signature": with_own_signature,
    "bound method": Tool().run,
    "async bound method": Tool().run_later,
    "class method": Tool.of_class,
    "static method": Tool.of_none,
    "object": Tool(),
    "partial by place": functools.partial(plain, 3),
    "partial of a partial": functools.partial(functools.partial(every_kind, 1), 2),
    "partial of a method": functools.partial(Tool().run, 3),
    "lambda": lambda a, b=3: a + b,
    "built-in": print,
}


def names_of(signature: Signature) -> list[str]:
    return [parameter.name for parameter in signature.parameters]


@pytest.mark.parametrize("name", CALLABLES)
def test_parameters_are_those_that_inspect_finds(name: str) -> None:
    """Our own choice: names, kinds, defaults and hints, at a fraction of the start-up time."""
    found, expected = read_signature(CALLABLES[name]), inspect.signature(CALLABLES[name])
    in_order = sorted(expected.parameters.values(), key=lambda one: KINDS.index(one.kind))
    empty = inspect.Parameter.empty

    def known(value: Any) -> Any:
        return MISSING if value is empty else value

    assert [(p.name, KINDS[p.kind], p.default, p.hint) for p in found.parameters] == [
        (p.name, p.kind, known(p.default), known(p.annotation)) for p in in_order
    ]
    assert found.returns == known(expected.return_annotation)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("plain", (False, False, False)),
        ("async", (True, False, False)),
        ("generator", (False, True, False)),
        ("async generator", (False, False, True)),
        ("async bound method", (True, False, False)),
        ("partial by place", (False, False, False)),
        ("object", (False, False, False)),
    ],
)
def test_the_kind_of_a_function_is_that_of_the_innermost_one(name: str, kinds: tuple[bool, bool, bool]) -> None:
    """C085."""
    found = read_signature(CALLABLES[name])
    assert (found.is_async, found.is_generator, found.is_async_generator) == kinds
    through = read_signature(functools.partial(CALLABLES[name]))
    assert (through.is_async, through.is_generator, through.is_async_generator) == kinds


@pytest.mark.parametrize("function", [plain, later])
def test_what_a_partial_binds_is_no_parameter_any_more(function: Callable[..., Any]) -> None:
    """C085: bound by place or by name, for sync and async functions."""
    assert names_of(read_signature(functools.partial(function, 1))) == ["b"]
    assert names_of(read_signature(functools.partial(function, b="y"))) == ["a"]
    by_name = read_signature(functools.partial(function, a=1))
    assert [(p.name, KINDS[p.kind]) for p in by_name.parameters] == [("b", inspect.Parameter.KEYWORD_ONLY)]
    assert by_name.is_async is (function is later)


def adding_context(inner: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap as many libraries do: the wrapper takes one thing more and hands the rest through."""

    @functools.wraps(inner)
    def wrapper(*args: Any, ctx: Context, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    return wrapper


def handing_keywords(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    async def wrapper(first: Any, **kwargs: Any) -> Any:
        return inner(first, **kwargs)

    return wrapper


def replacing(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def wrapper(a: int) -> str:
        return str(inner(a))

    return wrapper


def test_a_wrapper_has_its_own_parameters_and_those_that_it_hands_through() -> None:
    """C085: functools.wraps; what is added loses its annotation, and says so."""
    found = read_signature(adding_context(plain))
    assert [(p.name, p.hint, p.lost_hint) for p in found.parameters] == [
        ("a", int, False),
        ("b", str, False),
        ("ctx", MISSING, True),
    ]
    assert (found.name, found.doc, found.returns) == ("plain", "Plain.", str)
    assert names_of(read_signature(adding_context(adding_context(plain)))) == ["a", "b", "ctx"]


def test_a_wrapper_that_hands_nothing_through_has_its_own_parameters_alone() -> None:
    """C085."""
    assert names_of(read_signature(replacing(plain))) == ["a"]


def test_a_parameter_behind_one_of_the_wrapper_goes_by_keyword() -> None:
    """C085: its place belongs to the wrapper's own; a wrapper that is async makes the whole async."""
    found = read_signature(handing_keywords(plain))
    assert [(p.name, KINDS[p.kind]) for p in found.parameters] == [
        ("first", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        ("a", inspect.Parameter.KEYWORD_ONLY),
        ("b", inspect.Parameter.KEYWORD_ONLY),
    ]
    assert found.is_async


def test_a_wrapper_around_a_partial_has_the_name_and_text_of_the_function() -> None:
    """C085: wraps() copies what partial says of itself, which nobody means."""
    found = read_signature(adding_context(functools.partial(plain, b="y")))
    assert (names_of(found), found.name, found.doc) == (["a", "ctx"], "plain", "Plain.")


def test_an_annotation_that_is_set_again_on_a_wrapper_counts() -> None:
    """The way out that the error for a lost annotation names."""
    wrapper = adding_context(plain)
    wrapper.__annotations__ |= {"ctx": Context}
    assert [(p.name, p.hint, p.lost_hint) for p in read_signature(wrapper).parameters][-1] == ("ctx", Context, False)


def test_an_object_is_described_by_its_call_and_named_by_its_class() -> None:
    """Our own choice."""
    found = read_signature(Tool())
    assert (found.name, found.doc) == ("Tool", "Call it.")

    class Silent:
        """A silent tool."""

        def __call__(self) -> None: ...

    assert read_signature(Silent()).doc == "A silent tool."


@pytest.mark.parametrize(
    ("fn", "name"),
    [(plain, "plain"), (functools.partial(functools.partial(plain)), "plain"), (Tool().run, "run"), (Tool(), "Tool")],
)
def test_a_callable_has_the_name_that_a_person_gives_it(fn: Any, name: str) -> None:
    """MAN-1."""
    assert callable_name(fn) == name


def test_strings_and_forward_references_are_read_where_they_were_written() -> None:
    """C082: globals of the module, names of enclosing functions, and another module's for its own references."""
    Local = int  # noqa: N806  # a type's name

    def inner(a: "Local", b: "Optional[Local]") -> object:  # type: ignore[valid-type]  # read at run time alone
        return Local  # so that the name is one of those that the function holds

    found = read_signature(inner)
    assert [p.scope.resolve(p.hint) for p in found.parameters] == [int, Optional[int]]
    scope = Scope({"here": str})
    assert scope.resolve("here") is str
    assert scope.resolve("'here'") is str
    assert scope.resolve(typing.ForwardRef("here")) is str
    assert scope.resolve(typing.ForwardRef("Local", module="tests.hinted_base")) is hinted_base.Local


def test_a_name_that_is_missing_is_told_apart_from_a_string_that_is_wrong() -> None:
    """Our own choice: the name may come later, the string stays wrong."""
    with pytest.raises(NameError):
        Scope({}).resolve("Nope")
    for text in ("int |", "int[str]", "1 / 0", "int.nope"):
        with pytest.raises(DefinitionError, match="has the annotation"):
            Scope({}).resolve(text)


def test_aliases_and_metadata_are_peeled_off_a_hint() -> None:
    """Our own choice: the inner metadata comes last, as if it stood in one Annotated."""
    scope = Scope(dict(hinted.NAMES))
    assert peel(Annotated[Annotated[int, "inner"], "outer"], scope)[0::2] == (int, ("inner", "outer"))
    assert peel("Annotated[CallContext, 1]", scope)[0::2] == (Context, (1,))
    assert peel(int, scope)[0::2] == (int, ())


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "int"),
        (None, "None"),
        (type(None), "None"),
        (list[int], "list[int]"),
        (typing.List[int], "List[int]"),
        (Optional[int], "int | None"),
        (int | str, "int | str"),
        (typing.Union[int, str], "int | str"),
        (Callable[[int, str], bool], "Callable[[int, str], bool]"),
        (typing.Callable[..., int], "Callable[..., int]"),
        (typing.Callable, "Callable"),
        (tuple[int, ...], "tuple[int, ...]"),
        (tuple[()], "tuple[()]"),
        (typing.Literal["a", 1], "Literal['a', 1]"),
        (Annotated[complex, "a note"], "complex"),
        (hinted.Box, "Box"),
        (hinted.Wrapped[hinted.Box], "Wrapped[Box]"),
        (hinted.T, "T"),
        (hinted.UserId, "UserId"),
        (hinted.Row, "Row"),
        (hinted.Many[int], "Many[int]"),
        (typing.Any, "Any"),
        (42, "42"),
    ],
)
def test_a_hint_is_shown_as_its_author_writes_it(hint: Any, text: str) -> None:
    """Our own choice: without modules, and without what differs from run to run."""
    assert hint_text(hint) == text


def test_a_long_hint_is_cut() -> None:
    """Our own choice: a message stays readable."""
    assert len(hint_text(typing.Literal[*(f"value {index}" for index in range(100))])) == 120
