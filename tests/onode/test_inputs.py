"""Words and JSON -> inputs, by the schema: our own choice, as docs/onode.md has it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onode.errors import UsageError
from onode.inputs import check_inputs, read_object, read_pairs, read_words

CASES = json.loads((Path(__file__).parents[1] / "data" / "onode" / "inputs.json").read_text(encoding="utf-8"))


def read(word: str, port: Any, *, dynamic: bool = False) -> Any:
    """Return the value that one word gives to the input `p`."""
    schema = {"type": "object", "properties": {"p": port}, "$defs": {"T": {"type": "integer"}}}
    files = {"file": "[1, 2]\n"}
    return read_words([word], schema, node="n", dynamic=dynamic, read_file=files.__getitem__)


@pytest.mark.parametrize("case", [case for case in CASES if "value" in case], ids=lambda case: str(case["name"]))
def test_a_word_is_typed_by_the_schema(case: dict[str, Any]) -> None:
    """Our own choice: text as it stands, everything else as JSON."""
    value = read(case["word"], case["port"])["p"]
    assert (value, type(value)) == (case["value"], type(case["value"]))


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: str(case["name"]))
def test_a_word_that_does_not_fit_is_told_with_the_way_out(case: dict[str, Any]) -> None:
    """Our own choice: the input, what it is, what was expected."""
    with pytest.raises(UsageError, match=re.escape(case["error"])):
        read(case["word"], case["port"])


@given(st.text())
def test_any_text_reaches_a_text_input_as_it_is(text: str) -> None:
    """Our own choice; a leading @ names a file."""
    if not text.startswith("@"):
        assert read(f"p={text}", {"type": "string"}) == {"p": text}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_json_value_goes_in_with_the_colon(value: Any) -> None:
    """Our own choice: `:=` takes JSON, whatever the schema says."""
    assert read(f"p:={json.dumps(value)}", {"type": "string"}) == {"p": value}


def test_a_dynamic_node_takes_names_beside_its_ports() -> None:
    """Our own choice: their type is that of `additionalProperties`, if any."""
    assert read("more=3", {"type": "string"}, dynamic=True) == {"more": 3}


def test_what_is_missing_is_named_with_its_type() -> None:
    """Our own choice: all of it at once."""
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]}
    with pytest.raises(UsageError, match=r"node 'n' needs a \(integer\), b \(text\); give a=\.\.\. b=\.\.\."):
        check_inputs({}, schema, node="n", dynamic=False)
    check_inputs({"a": 1, "b": "x"}, schema, node="n", dynamic=False)


@pytest.mark.parametrize("text", ["[1]", "3", '"a"', "null", "{", "", '{"a": NaN}'])
def test_inputs_that_are_no_object_are_refused(text: str) -> None:
    """Our own choice: a node's inputs are an object."""
    with pytest.raises(UsageError, match=r"^--inputs "):
        read_object(text, "--inputs")


def test_pairs_are_json_where_they_read_as_such() -> None:
    """Our own choice: a config has no schema."""
    assert read_pairs(["a=1", "b=x", "c=[true]", "d="], "--config") == {"a": 1, "b": "x", "c": [True], "d": ""}
    with pytest.raises(UsageError, match="--config is 'a'; write --config key=value"):
        read_pairs(["a"], "--config")
