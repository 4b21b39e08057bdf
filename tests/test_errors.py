"""Every exception: its text, its place in the tree, its way through a pickle."""

import copy
import pickle
from typing import Any

import pytest

from octonode_sdk.errors import (
    CODES,
    CallCancelledError,
    CredentialError,
    DefinitionError,
    Fault,
    FaultsError,
    InputsError,
    LoadError,
    NodeError,
    OctonodeError,
    OutputsError,
    RemoteProtocolError,
    shorten,
)

_FAULT = Fault("$.a", "is required: a text")
_FAULTS = [Fault(f"$.a[{index}]", "expected a text, got null") for index in range(5)]

#: (exception, its text).
TEXTS: list[tuple[BaseException, str]] = [
    (OctonodeError("text"), "text"),
    (DefinitionError("has no annotation"), "has no annotation"),
    (DefinitionError("is on a class", node="crop"), "node 'crop': is on a class"),
    (
        DefinitionError(
            "is annotated set[list], which has no port type", node="crop", parameter="box", way_out="use list[int]"
        ),
        "node 'crop': parameter 'box' is annotated set[list], which has no port type; use list[int]",
    ),
    (
        DefinitionError("has no annotation", node="crop", parameter="the return", way_out="write `-> str`"),
        "node 'crop': the return has no annotation; write `-> str`",
    ),
    (LoadError("there is no node 'a'"), "there is no node 'a'"),
    (RemoteProtocolError("the line is no JSON", request_id="7", faults=[_FAULT]), "the line is no JSON"),
    (FaultsError([_FAULT]), "invalid value: $.a: is required: a text"),
    (InputsError([_FAULT], node="crop"), "node 'crop': invalid input: $.a: is required: a text"),
    (
        InputsError(_FAULTS[:2], node="crop"),
        "node 'crop': 2 faults in the inputs: $.a[0]: expected a text, got null; $.a[1]: expected a text, got null",
    ),
    (
        OutputsError(_FAULTS, node="crop"),
        "node 'crop': 5 faults in the outputs: $.a[0]: expected a text, got null; $.a[1]: expected a text, got null; "
        "$.a[2]: expected a text, got null (and 2 more)",
    ),
    (
        CredentialError(["API_KEY"], node="ask"),
        "node 'ask': the environment variable API_KEY is not set; set it where the host starts",
    ),
    (
        CredentialError(["API_KEY", "TOKEN"], node="ask"),
        "node 'ask': the environment variables API_KEY, TOKEN are not set; set them where the host starts",
    ),
    (NodeError("no such colour"), "no such colour"),
    (NodeError("busy", retryable=True, details={"wait": 5}, code="RATE_LIMITED"), "busy"),
    (NodeError(), ""),
    (CallCancelledError("the call was told to stop"), "the call was told to stop"),
]
_IDS = [f"{type(error).__name__} {index}" for index, (error, _) in enumerate(TEXTS)]


@pytest.mark.parametrize(("error", "text"), TEXTS, ids=_IDS)
def test_the_text_of_each_exception_is_pinned(error: BaseException, text: str) -> None:
    """Our own choice: people search for these words."""
    assert str(error) == text


def test_every_exception_of_the_tree_has_its_text_pinned() -> None:
    """Our own choice: a new class comes with its row."""

    def below(cls: type[BaseException]) -> set[type[BaseException]]:
        return {cls}.union(*(below(inner) for inner in cls.__subclasses__() if inner.__module__ == cls.__module__))

    assert {type(error) for error, _ in TEXTS} == below(OctonodeError) | {CallCancelledError}


@pytest.mark.parametrize("error", [error for error, _ in TEXTS], ids=_IDS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_exception_comes_whole_out_of_a_pickle(error: BaseException, protocol: int) -> None:
    """Our own choice: a node may raise it in a process pool of its own."""
    for back in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error), copy.deepcopy(error)):
        assert type(back) is type(error)
        assert (str(back), back.args, vars(back)) == (str(error), error.args, vars(error))


class QuotaError(NodeError):
    """An author's own, with an `__init__` of its own."""

    def __init__(self, limit: int, *, unit: str) -> None:
        super().__init__(f"over {limit} {unit}", retryable=True, details={"limit": limit})
        self.limit = limit


class BareError(NodeError):
    def __init__(self, limit: int) -> None:
        """Leave the base class out, as authors do."""
        self.limit = limit


def test_an_authors_own_error_comes_whole_out_of_a_pickle() -> None:
    """Our own choice: whatever the arguments of its `__init__`."""
    error = QuotaError(5, unit="calls")
    error.add_note("try tomorrow")
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.limit, back.retryable, back.details) == ("over 5 calls", 5, True, {"limit": 5})
    assert back.__notes__ == ["try tomorrow"]
    bare = pickle.loads(pickle.dumps(BareError(5)))
    assert (bare.limit, bare.message, bare.retryable, bare.details, bare.code) == (5, "", False, None, None)


def test_a_node_error_holds_its_fields() -> None:
    """ERR-12, ERR-13: the retry is off unless the author asks for it."""
    error = NodeError("busy", True, {"wait": 5})
    assert (error.message, error.retryable, error.details, error.code) == ("busy", True, {"wait": 5}, None)
    assert NodeError("x").retryable is False


def test_cancelling_passes_an_except_that_takes_every_exception() -> None:
    """Our own choice: it is no `Exception`, and no `OctonodeError`."""
    assert not issubclass(CallCancelledError, Exception)
    assert issubclass(InputsError, FaultsError)
    assert issubclass(FaultsError, OctonodeError)


def test_the_codes_are_the_four_of_the_wire() -> None:
    """ERR-1: in the spelling of the wire."""
    assert CODES == ("VALIDATION_ERROR", "RUNTIME_ERROR", "TIMEOUT", "NON_RETRYABLE")


def test_faults_are_compared_by_what_they_say() -> None:
    """ERR-17: and go out as path and message."""
    assert Fault("$.a", "x") == Fault("$.a", "x")
    assert Fault("$.a", "x") != Fault("$.b", "x")
    assert Fault("$.a", "x") != "x"
    assert repr(Fault("$.a", "x")) == "Fault('$.a', 'x')"
    assert Fault("$.a", "x").to_dict() == {"path": "$.a", "message": "x"}


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "'abc'"),
        ("a" * 60, repr("a" * 60)),
        ("a" * 200, "'" + "a" * 59 + "... (200 long)"),
        (b"\x00" * 100, None),
        ([1, "a", None], "[1, 'a', None]"),
        ([1] * 13, "list of 13 items"),
        ([["a"]], "list of 1 items"),
        (["a" * 100], "list of 1 items"),
        ({"a": 1}, "{'a': 1}"),
        ({"a": {}}, "dict of 1 items"),
        (10**5000, "<int>"),
        (Broken(), "<Broken>"),
        ([Broken()], "<list>"),
        (set(), "set()"),
    ],
    ids=[str(number) for number in range(14)],
)
def test_a_value_in_a_message_is_short(value: Any, text: str | None) -> None:
    """Our own choice: messages are read by people, and showing a value never fails."""
    shown = shorten(value)
    assert len(shown) <= 110
    assert text is None or shown == text


def test_showing_a_long_text_does_not_cost_its_length() -> None:
    """Our own choice: a fault in a text of 100 MB copies a few thousand characters of it."""

    class Counted(str):
        __slots__ = ()

        def __repr__(self) -> str:
            raise AssertionError("the whole of it was asked for")

    assert shorten(Counted("a" * 100_000)).endswith("... (100000 long)")
