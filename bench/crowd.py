"""The source of a file with any number of nodes, to measure what a large pack costs. Pure: text only."""

from typing import Final

_HEAD: Final = '''"""Nodes made for a measurement."""

from typing import Annotated, Literal

from octonode_sdk import Field, node
'''

# Four ports of the commonest kinds, with bounds, choices and descriptions: what a node of a real pack has.
_NODE: Final = '''

@node
def {name}(
    text: str,
    count: Annotated[int, Field(ge=0, le={number}, description="how many")] = 0,
    mode: Literal["first", "last", "all"] = "first",
    limits: list[float] | None = None,
) -> str:
    """Do the work of node {number}.

    The second paragraph says more about it.

    Args:
        text: what to work on
        mode: which of them
        limits: where to stop
    """
    return f"{{text}} {{count}} {{mode}} {{limits}}"
'''


def source(count: int) -> str:
    """Return the source of a module with `count` nodes, all different.

    Example:
        >>> source(3).count("@node")
        3
    """
    return _HEAD + "".join(_NODE.format(name=f"work_{number}", number=number) for number in range(1, count + 1))
