"""The nodes that the worker is measured with: the least that a node can do, many messages, and large ones."""

from collections.abc import Iterator

from octonode_sdk import Context, node


@node
def add(a: float = 0.0, b: float = 0.0) -> float:
    """Add two numbers.

    Args:
        a: one number
        b: the other number
    """
    return a + b


@node
def tick(times: int, *, ctx: Context) -> int:
    """Report progress many times, and return how often."""
    for done in range(times):
        ctx.progress(done + 1, times)
    return times


@node
def pieces(count: int, size: int) -> Iterator[bytes]:
    """Yield `count` pieces of `size` bytes, each made anew."""
    for number in range(count):
        yield number.to_bytes(8, "big") * (size // 8)
