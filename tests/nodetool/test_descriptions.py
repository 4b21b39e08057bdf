"""The description of a node in `discover`: what NodeTool's editor reads out of a docstring, and nothing by mistake."""

from typing import Any

import pytest

from nodetool_worker.metadata import entry_of
from octonode_sdk.nodes import node, node_of

CASES = {
    "one line": ("Blur an image.", "Blur an image."),
    "a paragraph of two lines": (
        "Blur an image with a kernel of the given size,\nslowly, or not at all.",
        "Blur an image with a kernel of the given size, slowly, or not at all.",
    ),
    "tags": ("Blur an image.\nimage, blur, filter", "Blur an image.\nimage, blur, filter"),
    "tags and use cases": (
        "Blur an image.\nimage, blur,filter\n\nUse cases:\n- hide a face\n- soften\n\nArgs:\n    size: of it",
        "Blur an image.\nimage, blur, filter\n\nUse cases:\n- hide a face\n- soften",
    ),
    "use cases without tags": (
        "Blur an image\nslowly.\n\nUse cases:\n- hide a face\n",
        "Blur an image slowly.\n\nUse cases:\n- hide a face",
    ),
    "a second line that is a sentence with commas": (
        "Blur an image,\nor two, or three.",
        "Blur an image, or two, or three.",
    ),
    "a second line that goes on": ("Blur one\nred, green\nor blue image.", "Blur one red, green or blue image."),
    "none": ("", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_description_keeps_the_lines_that_the_editor_reads(name: str) -> None:
    """NMD-4: the second line is tags only where it looks like a list of them."""
    doc, wanted = CASES[name]

    def blur(size: int) -> int:
        return size

    blur.__doc__ = doc
    made: Any = node(blur)
    assert entry_of(node_of(made), "x")["description"] == wanted


def test_the_author_s_own_description_wins() -> None:
    """NMD-4: it is sent as it is."""

    @node(description="Mine.")
    def blur(size: int) -> int:
        """Blur.
        image, blur
        """
        return size

    assert entry_of(node_of(blur), "x")["description"] == "Mine."
