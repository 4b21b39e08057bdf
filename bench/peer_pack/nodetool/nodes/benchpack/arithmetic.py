"""The peer's twin of `bench/arithmetic.py`: the least that a node can do."""
# nodetool-core is in an environment of its own, where no type checker looks: its base class is unknown here.
# mypy: disable-error-code="import-not-found,import-untyped,misc"

from nodetool.workflows.base_node import BaseNode
from nodetool.workflows.processing_context import ProcessingContext
from pydantic import Field


class Add(BaseNode):
    """Add two numbers."""

    a: float = Field(default=0.0, description="one number")
    b: float = Field(default=0.0, description="the other number")

    async def process(self, context: ProcessingContext) -> float:
        return self.a + self.b
