"""The smallest useful node, the protocol page's own example: what a call costs in the loop."""

from octonode_sdk import node


@node
def greet(name: str) -> str:
    """Greet someone."""
    return f"Hello, {name}"
