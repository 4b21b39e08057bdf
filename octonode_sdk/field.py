"""`Field`: the light marker for what a hint can't say (bounds, a description, a default factory).

pydantic's own `Field` and the objects of `annotated_types` are understood as well; this one exists so that
constraints do not load pydantic.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["MISSING", "Field"]


class _Missing:
    """The type of `MISSING`, which stands for "not given" where None is a value of its own."""

    _instance: _Missing | None = None

    def __new__(cls) -> _Missing:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"


MISSING = _Missing()


class _FieldInfo:
    """What `Field` returns: the arguments that were given. 0, "" and False are values."""

    __slots__ = ("given",)

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given

    def __repr__(self) -> str:
        return f"Field({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"


def Field(  # noqa: N802  # reads as a type in `Annotated[int, Field(ge=1)]`, and pydantic's has this name
    default: Any = MISSING,
    *,
    default_factory: Callable[[], Any] | _Missing = MISSING,
    title: str | _Missing = MISSING,
    description: str | _Missing = MISSING,
    examples: Sequence[Any] | _Missing = MISSING,
    ge: float | _Missing = MISSING,
    gt: float | _Missing = MISSING,
    le: float | _Missing = MISSING,
    lt: float | _Missing = MISSING,
    multiple_of: float | _Missing = MISSING,
    min_length: int | _Missing = MISSING,
    max_length: int | _Missing = MISSING,
    pattern: str | _Missing = MISSING,
    aliases: Sequence[str] | _Missing = MISSING,
) -> Any:
    """Describe and bound a port: `Annotated[int, Field(ge=1, le=8192, description="pixels")]`.

    Works in `Annotated` and as a default value (`width: int = Field(512, ge=1)`).

    Args:
        default: Value of an input that the host leaves out.
        default_factory: Called for each such call, for a fresh value.
        title: Label of the port.
        description: Text of the port; wins over the docstring's.
        examples: Example values, for people.
        ge: Least value, included.
        gt: Bound below, not included.
        le: Greatest value, included.
        lt: Bound above, not included.
        multiple_of: The value is a whole multiple of this.
        min_length: Least length of a text (characters), bytes (bytes) or list (items), included.
        max_length: Greatest length, included.
        pattern: Regular expression that a text contains a match of; anchor it for the whole text.
        aliases: Earlier names of the port, still accepted, so that saved workflows keep running.
    """
    return _FieldInfo({name: value for name, value in locals().items() if value is not MISSING})
