"""What a docstring says of a node and of its ports."""

from typing import Annotated, Any

from octonode_sdk import Field, node
from octonode_sdk.docstrings import read_docstring
from octonode_sdk.manifest import manifest
from octonode_sdk.nodes import node_of
from tests.data_cases import parametrize_cases


@parametrize_cases("docstrings/read")
def test_a_docstring_gives_the_description_and_the_texts_of_the_parameters(case: dict[str, Any]) -> None:
    """MAN-4 and our own choice: Google, NumPy and reST style."""
    assert read_docstring(case["docstring"]) == (case["description"], case["texts"])


@parametrize_cases("docstrings/read")
def test_the_indentation_of_a_docstring_changes_nothing(case: dict[str, Any]) -> None:
    """MAN-4: it is dedented as Python's own tools do."""
    lines = case["docstring"].split("\n")
    if not lines[0].strip() or lines[0].rstrip(":") in ("Returns", "Parameters"):
        return  # the first line has no indentation that could be taken away together with that of the rest

    def function() -> None: ...

    function.__doc__ = "\n".join([lines[0], *(f"        {line}" if line else line for line in lines[1:]), "    "])
    assert read_docstring(node_of(node(function)).doc) == (case["description"], case["texts"])


def test_the_hint_speaks_before_the_docstring_and_the_docstring_before_silence() -> None:
    """MAN-4, our own choice: a text beside the type, even an empty one, is nearer to the port."""

    @node
    def scale(
        a: int, b: Annotated[int, "hinted"], c: int = Field(0, description="field"), d: int = Field(0, description="")
    ) -> None:
        """Scale.

        Args:
            a: documented
            b: documented
            c: documented
            d: documented
            gone: documented, and no parameter any more
        """

    properties = manifest(node_of(scale))["inputs"]["properties"]
    texts = {name: port.get("description") for name, port in properties.items()}
    assert texts == {"a": "documented", "b": "hinted", "c": "field", "d": ""}


def test_the_text_of_the_docstring_stays_out_of_the_definition() -> None:
    """Our own choice: describing a node does not change it."""

    @node
    def add(a: int) -> int:
        """Add.

        Args:
            a: one
        """
        return a

    assert manifest(node_of(add)) == manifest(node_of(add))
    assert node_of(add).inputs[0].description is None
