"""`@node`: the function stays what it was, and its definition says all that a runner needs."""

import asyncio
import dataclasses
import doctest
import functools
import gc
import inspect
import json
import pickle
import subprocess
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest

from octonode_sdk import Context, DefinitionError, Field, Secret, node
from octonode_sdk.call import Plan
from octonode_sdk.errors import InputsError
from octonode_sdk.icons import ICONS
from octonode_sdk.lanes import LoopThread, run_call
from octonode_sdk.manifest import manifest
from octonode_sdk.nodes import Node, all_nodes, node_of
from tests import hinted, postponed
from tests.hinted import node_with

NewModule = Callable[[str, str], dict[str, Any]]


def call(fn: Any, inputs: dict[str, Any], context: Context | None = None) -> Any:
    """Call a node with inputs as a runner would, and return what the function returns."""
    places, arguments = Plan(node_of(fn)).bind(inputs, context or Context())
    return fn(*places, **arguments)


def names(ports: list[Any]) -> list[str]:
    return [port.name for port in ports]


@node
def double(x: int, times: int = 2) -> int:
    """Multiply.

    >>> double(4)
    8
    """
    return x * times


@node(id="text.join", label="Join")
def join(parts: list[str]) -> str:
    return "-".join(parts)


# The function stays a function


def test_a_decorated_function_is_the_function_itself() -> None:
    """C095: bare or with options."""

    def fn(x: int) -> int:
        """Give it back."""
        return x

    before = dict(vars(fn))
    assert node(fn) is fn
    assert node(label="Same")(fn) is fn
    assert vars(fn) == before
    assert (fn(3), fn.__doc__, fn.__name__) == (3, "Give it back.", "fn")


def test_a_decorated_function_is_called_awaited_and_used_by_another_node() -> None:
    """C095."""

    @node
    async def quadruple(x: int) -> int:
        return double(double(x))

    assert double(4, times=3) == 12
    assert asyncio.run(quadruple(2)) == 8
    assert asyncio.run(postponed.triple(2)) == 6
    assert inspect.iscoroutinefunction(quadruple)


def test_a_decorated_function_keeps_its_signature_and_its_examples() -> None:
    """C095."""
    assert str(inspect.signature(double)) == "(x: int, times: int = 2) -> int"
    (found,) = doctest.DocTestFinder(recurse=False).find(double, globs={"double": double})
    assert doctest.DocTestRunner().run(found) == (0, 1)


@pytest.mark.parametrize("fn", [double, join, postponed.choose, postponed.triple])
def test_a_decorated_function_is_pickled_by_its_name(fn: Any) -> None:
    """C095: process pools take it."""
    assert pickle.loads(pickle.dumps(fn)) is fn


def test_type_checkers_see_the_function_as_it_is_written(tmp_path: Path) -> None:
    """C095: with its own parameters, bare or with options; mypy is asked."""
    api = pytest.importorskip("mypy.api")
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "from octonode_sdk import Context, node\n"
        "@node\ndef bare(x: int, *, ctx: Context) -> str: return str(x)\n"
        "@node(label='L', retry_on=[OSError], secrets=['KEY'])\nasync def later(x: int = 1) -> list[str]: return []\n"
        "reveal_type(bare)\nreveal_type(later)\nbare('a', ctx=Context())\nnode(labels='x')\n",
        encoding="utf-8",
    )
    out, _, status = api.run(["--strict", "--no-error-summary", f"--cache-dir={tmp_path}", str(snippet)])
    told = [line.partition(": ")[2] for line in out.replace("octonode_sdk.context.", "").splitlines()]
    assert status == 1
    assert told[0].startswith('note: Revealed type is "def (x: int, *, ctx: Context)')
    assert "Coroutine[Any, Any, list[str]]" in told[1].replace("builtins.", "").replace("typing.", "")
    assert "[arg-type]" in told[2]
    assert any("labels" in line for line in told[3:])


def test_callables_of_every_kind_become_nodes() -> None:
    """C085: partials, methods bound to an object, objects with `__call__`, hashable or not."""

    @dataclasses.dataclass
    class Scale:
        by: int

        def run(self, x: int) -> int:
            return x * self.by

        def __call__(self, x: int) -> int:
            return self.run(x)

    scale = Scale(3)
    for fn, identifier in ((scale, "Scale"), (scale.run, "run"), (functools.partial(double, times=3), "double")):
        assert node(fn) is fn
        assert (node_of(fn).id, names(node_of(fn).inputs)) == (identifier, ["x"])
        assert call(fn, {"x": 2}) == 6
    assert node_of(scale.run).id == "run"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_partial_is_a_node_without_what_it_binds(is_async: bool) -> None:
    """C085: for sync and async functions."""

    async def later(a: int, b: int, *, ctx: Context) -> int:
        return a * b

    def now(a: int, b: int, *, ctx: Context) -> int:
        return a * b

    fn: Any = functools.partial(later if is_async else now, b=5)
    made = node_of(node(fn))
    assert (made.id, names(made.inputs), made.context_name) == (fn.func.__name__, ["a"], "ctx")
    assert made.signature.is_async is is_async
    value = call(fn, {"a": 2})
    assert (asyncio.run(value) if is_async else value) == 10


@pytest.mark.parametrize("is_async", [False, True])
def test_a_wrapper_that_adds_ctx_gets_the_context(is_async: bool) -> None:
    """C085: functools.wraps takes the annotation away, so that `ctx` is known by its name, in this place alone."""

    def inner(a: int, b: int = 3) -> object:
        return a, b

    seen: list[Context] = []

    @functools.wraps(inner)
    def wrapper(*args: Any, ctx: Context, **kwargs: Any) -> Any:
        seen.append(ctx)
        return inner(*args, **kwargs)

    @functools.wraps(inner)
    async def later(*args: Any, ctx: Context, **kwargs: Any) -> Any:
        return wrapper(*args, ctx=ctx, **kwargs)

    fn = later if is_async else wrapper
    made = node_of(node(fn))
    assert (made.id, made.context_name, names(made.inputs)) == ("inner", "ctx", ["a", "b"])
    context = Context()
    value = call(fn, {"a": 1}, context)
    assert (asyncio.run(value) if is_async else value) == (1, 3)
    assert seen == [context]


def test_a_method_of_a_class_is_refused_until_it_is_bound() -> None:
    """Our own choice: the text is in tests/data/hints/refused.json; class and static methods need no object."""

    class Tools:
        @classmethod
        def of_class(cls, x: int) -> int:
            return x

        @staticmethod
        @node
        def of_none(x: int) -> int:
            return x

    assert names(node_of(node(Tools.of_class)).inputs) == ["x"]
    assert names(node_of(Tools.of_none).inputs) == ["x"]


# Context


def test_the_context_is_found_by_its_type_and_never_by_its_name() -> None:
    """C088: names that mean something in schemas and envelopes are inputs like any other."""

    @node
    def fn(
        title: str, type: str, default: str, inputs: str, context: str, node: str, ctx: str, self: str, c: Context
    ) -> None: ...

    made = node_of(fn)
    assert names(made.inputs) == ["title", "type", "default", "inputs", "context", "node", "ctx", "self"]
    assert made.context_name == "c"
    assert manifest(made)["inputs"]["required"] == names(made.inputs)


#: Hints that all mean the context.
CONTEXTS: list[Any] = [
    Context,
    "Context",
    Context | None,
    Optional[Context],
    "Context | None",
    Optional["Context"],
    Annotated[Context, "the call"],
    Annotated[Optional[Context], "the call"],
    Optional[Annotated[Context, "the call"]],
    hinted.CallContext,
    "CallContext",
    type("OwnContext", (Context,), {}),
]


@pytest.mark.parametrize("hint", CONTEXTS, ids=range(len(CONTEXTS)))
def test_every_spelling_of_the_context_is_injected(hint: Any) -> None:
    """C082, MAN-18: postponed, optional, annotated, behind an alias, or of a class of the author's own."""
    made = node_with(x=int, given=hint)
    assert (made.context_name, names(made.inputs)) == ("given", ["x"])


def test_a_context_with_a_default_is_injected_all_the_same() -> None:
    """Our own choice: the default serves direct calls."""

    @node
    def fn(x: int, ctx: Context | None = None) -> bool:
        return ctx is not None

    assert fn(1) is False
    assert call(fn, {"x": 1}) is True


# Where names are looked up, and when


def test_postponed_annotations_are_read_as_what_they_say() -> None:
    """C082: `Optional[Literal["a", "b"]] = None` and the context, as texts."""
    made = node_of(postponed.choose)
    inputs = manifest(made)["inputs"]
    assert inputs["properties"]["mode"] == {
        "anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}],
        "default": None,
    }
    assert "required" not in inputs
    assert made.context_name == "given"
    assert made.retry_on == ()


def test_a_name_that_is_defined_further_down_is_found_when_it_is_needed() -> None:
    """C086: a hint may name what its module defines below."""
    assert names(node_of(postponed.describe_later).outputs) == ["text"]
    assert node_of(postponed.describe_later).record is not None


def test_a_name_for_type_checkers_alone_is_a_fault_of_that_node_and_of_no_other() -> None:
    """Our own choice."""
    with pytest.raises(DefinitionError, match=r"'broken': parameter 'amount' .*OnlyForCheckers.*TYPE_CHECKING"):
        node_of(postponed.broken).complete()
    assert node_of(postponed.triple).outputs


def test_names_of_the_enclosing_function_are_known() -> None:
    """Our own choice: nodes are defined in functions, too."""

    @dataclasses.dataclass
    class Local:
        a: int

    @node
    def fn(x: "Local", y: "list[Local]") -> "Local":
        return x

    assert names(node_of(fn).outputs) == ["a"]


def test_a_definition_does_not_keep_the_values_of_the_enclosing_function() -> None:
    """Our own choice: what is local is released, however large."""

    class Large: ...

    def define() -> tuple[Node, "weakref.ref[Large]"]:
        large = Large()

        @node
        def fn(x: int) -> int:
            return x

        return node_of(fn), weakref.ref(large)

    made, reference = define()
    gc.collect()
    assert made.inputs
    assert reference() is None


def test_a_self_referencing_type_does_no_harm_to_other_nodes() -> None:
    """C086: both are described, and the shape of the result is as declared."""

    @node
    def grow(tree: hinted.Tree, parts: hinted.SelfPart) -> hinted.Tree:
        return tree

    made = manifest(node_of(grow))
    assert set(made["inputs"]["$defs"]) == {"Tree", "SelfPart"}
    assert list(made["outputs"]["properties"]) == ["value", "children"]
    assert manifest(node_of(double))["id"] == "double"


# Inputs of a call


def test_fixed_and_free_places_are_passed_as_the_function_wants_them() -> None:
    """Our own choice: positional-only parameters, `*args`, and a context among them."""

    @node(dynamic=True)
    def fn(a: int, ctx: Context, b: int = 2, /, c: int = 3, *rest: int, d: int = 4, **more: int) -> Any:
        return a, type(ctx), b, c, rest, d, more

    assert call(fn, {"a": 1}) == (1, Context, 2, 3, (), 4, {})
    given = {"a": 1, "c": 5, "rest": [6, 7], "d": 8, "z": 9}
    assert call(fn, given) == (1, Context, 2, 5, (6, 7), 8, {"z": 9})

    @node(dynamic=True)
    def by_name(a: int, ctx: Context, *rest: int, **more: int) -> Any:
        return a, type(ctx), rest, more

    assert call(by_name, {"a": 1, "rest": [2, 3], "z": 4}) == (1, Context, (2, 3), {"z": 4})


def test_a_dynamic_node_takes_further_inputs_of_one_type() -> None:
    """REQ-13."""

    @node(dynamic=True)
    def fn(a: int, **more: int) -> dict[str, int]:
        return more

    assert call(fn, {"a": 1, "b": 2}) == {"b": 2}
    with pytest.raises(InputsError, match=r"\$\.b: expected an integer"):
        call(fn, {"a": 1, "b": "2"})


def test_a_default_factory_makes_a_fresh_value_for_each_call() -> None:
    """C098: for an input, and for a field of a record."""

    @node
    def fn(box: hinted.Box, items: Annotated[list[int], Field(default_factory=list)], more: list[int] = []) -> Any:  # noqa: B006  # a mutable default is what is tested
        for one in (items, box.tags, more):
            one.append(1)  # type: ignore[arg-type]  # any item does
        return items, box.tags, more

    assert manifest(node_of(fn))["inputs"]["required"] == ["box"]
    for _ in range(2):
        assert call(fn, {"box": {"width": 1}}) == ([1], [1], [1])


def test_an_earlier_name_of_an_input_is_still_accepted() -> None:
    """C119: version 2 has an optional input in the middle and a renamed one; requests for version 1 run."""

    @node
    def fn(text: str, mode: str = "plain", limit: Annotated[int, Field(aliases=["max", "maximum"])] = 10) -> Any:
        return text, mode, limit

    assert call(fn, {"text": "a", "max": 3}) == ("a", "plain", 3)
    assert call(fn, {"text": "a", "maximum": 4}) == ("a", "plain", 4)
    assert call(fn, {"text": "a", "limit": 5, "max": 3}) == ("a", "plain", 5)
    assert names(node_of(fn).inputs) == ["text", "mode", "limit"]
    assert Plan(node_of(fn)).unknown_inputs({"text": "a", "max": 3}) == []


def test_an_optional_input_without_a_default_is_none_when_it_is_left_out() -> None:
    """C083."""

    @node
    def fn(a: Optional[str], b: list[Path] | None) -> Any:
        return a, b

    assert call(fn, {}) == (None, None)
    assert call(fn, {"b": ["x"]}) == (None, [Path("x")])


# Options


def test_what_is_not_given_is_none_and_what_is_empty_stays_empty() -> None:
    """C097, MAN-3, MAN-4."""

    @node(label="", description="", namespace="")
    def fn() -> None:
        """Say something else."""

    made = node_of(fn)
    assert (made.label, made.description, made.namespace) == ("", "", "")
    other = node_of(double)
    assert (other.label, other.description, other.namespace, other.icon, other.config) == (None,) * 5


def test_options_are_kept_as_they_were_given() -> None:
    """MAN-1, MAN-5, MAN-11, MAN-12, MAN-13."""
    config = {"size": 3, "names": ("a",)}

    @node(
        id="pack.thing",
        icon="wand",
        symbol="\N{GRINNING FACE}" * 8,
        secrets=["API_KEY", Secret("PROXY", required=False)],
        config=config,
        retry_on=(error for error in (ConnectionError, TimeoutError)),
        requires_vram_gb=0,
        workflow_id="w",
    )
    def fn() -> None: ...

    made = node_of(fn)
    config["size"] = 4
    assert (made.id, made.icon, made.requires_vram_gb, made.workflow_id) == ("pack.thing", "wand", 0, "w")
    assert made.config == {"size": 3, "names": ["a"]}
    assert made.retry_on == (ConnectionError, TimeoutError)
    assert [(secret.name, secret.required) for secret in made.secrets] == [("API_KEY", True), ("PROXY", False)]


def test_every_icon_of_the_engine_is_accepted_and_the_docs_list_the_same() -> None:
    """ICO-1."""
    for icon in sorted(ICONS):

        @node(icon=icon)
        def fn() -> None: ...

        assert node_of(fn).icon == icon
    page = (Path(__file__).parents[1] / "docs" / "octonode-wire.md").read_text(encoding="utf-8")
    listed = page.partition("The names, by what they show:")[2].partition("\n## ")[0]
    assert {word.strip("`") for word in listed.split() if word.startswith("`")} == ICONS
    assert len(ICONS) == 53


def test_generators_of_both_kinds_stream() -> None:
    """RES-15."""

    @node
    def now() -> Iterator[int]:
        yield 1

    @node
    async def later() -> AsyncIterator[int]:
        yield 1

    @node
    def handed() -> Iterator[int]:
        return iter([1])

    @node
    def whole() -> Awaitable[int]:
        return postponed.triple(1)

    assert [node_of(fn).streams for fn in (now, later, handed, whole, double)] == [True, True, True, False, False]


def test_nodes_are_found_by_their_function_and_listed_in_their_order() -> None:
    """Our own choice."""
    assert node_of(double).fn is double
    assert node_of(join).id == "text.join"
    assert repr(node_of(join)) == f"<Node 'text.join' of {__name__}>"
    places = [all_nodes().index(node_of(fn)) for fn in (double, join)]
    assert places == sorted(places)
    with pytest.raises(KeyError):
        node_of(names)


# Start-up

LIGHT = """
import sys
from typing import Annotated, Literal, Optional, TypedDict
from octonode_sdk import Context, Field, NodeError, node
from octonode_sdk.nodes import node_of

class Out(TypedDict):
    text: str
    count: int

@node(icon="wand", secrets=["KEY"], config={"a": 1}, retry_on=[OSError])
def light(
    text: Annotated[str, Field(min_length=1, description="what")],
    mode: Literal["a", "b"] = "a",
    tags: Optional[list[str]] = None,
    sizes: dict[str, int | float] = {},
    *,
    ctx: Context,
) -> Out:
    '''Do little.

    Args:
        mode: how
    '''
    return {"text": text, "count": 1}

made = node_of(light)
made.complete()
print([port.name for port in made.inputs], [port.name for port in made.outputs])
heavy = "asyncio pydantic pydantic_core numpy PIL msgpack inspect dataclasses json docstring_parser typing_extensions"
print([name for name in heavy.split() if name in sys.modules])
"""


def test_defining_and_reading_a_light_node_loads_nothing_heavy(interpreter: str) -> None:
    """C121: a node process may live for one call."""
    command = [interpreter, "-c", LIGHT]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=60)
    assert run.stdout.splitlines() == ["['text', 'mode', 'tags', 'sizes'] ['text', 'count']", "[]"]


def test_the_manifest_of_a_light_node_needs_no_pydantic(interpreter: str) -> None:
    """C121: describe reads the docstring, and no schema validator for it."""
    code = LIGHT + (
        "from octonode_sdk.manifest import manifest\nimport json\nprint(json.dumps(manifest(made)))\n"
        "print([name for name in ('asyncio', 'pydantic', 'numpy', 'PIL', 'msgpack') if name in sys.modules])"
    )
    run = subprocess.run([interpreter, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60)
    *_, described, loaded = run.stdout.splitlines()
    assert json.loads(described)["inputs"]["required"] == ["text"]
    assert loaded == "[]"


def test_a_single_dispatch_function_is_called_by_place() -> None:
    """Our own choice: functools.singledispatch looks at its first argument, which it takes by place only."""

    @node
    @functools.singledispatch
    def shown(value: int | str, width: int = 1) -> str:
        return f"{value:>{width}}"

    @shown.register
    def _(value: int, width: int = 1) -> str:
        return f"{value:0{width}}"

    assert run_call(Plan(node_of(shown)), {"value": 7, "width": 3}, None, LoopThread()) == {"output": "007"}
    assert run_call(Plan(node_of(shown)), {"value": "a"}, None, LoopThread()) == {"output": "a"}
