"""The words of a fault: paths, kinds of values, bounds. Inputs and outputs tell what is wrong in the same ones."""

from __future__ import annotations

from ._quick import to_json
from .errors import shorten, text_filters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from .errors import Fault
    from .ports import Constraints

    #: Where a value stands: None is the root, else (path of the parent, key or index).
    Path: TypeAlias = "tuple[Path, str | int] | None"

__all__ = ["Check", "Trial", "bounds_fault", "error_text", "json_kind", "path_text", "settle"]


#: Characters of a key that a path shows.
_LONGEST_KEY = 60


class Check:
    """A compiled port type.

    Attributes:
        accepts: value -> whether it may pass unchanged. False says only that `convert` has to look.
        convert: (value, path, faults) -> the value for the node; adds to `faults` where it does not fit.
    """

    __slots__ = ("accepts", "convert")

    def __init__(
        self, accepts: Callable[[Any], bool], convert: Callable[[Any, Path, list[Fault]], Any] | None = None
    ) -> None:
        self.accepts = accepts
        if convert is not None:
            self.convert = convert


class Trial(list["Fault"]):
    """The faults of one member of a union, and how many keys of the value it would lose."""

    __slots__ = ("lost",)

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0


def settle(trials: list[tuple[Any, Trial]], faults: list[Fault]) -> Any:
    """Return the value of the member of a union that lost the fewest keys, the first of those; note them further up."""
    made, best = min(trials, key=lambda trial: trial[1].lost)
    if isinstance(faults, Trial):
        faults.lost += best.lost
    return made


def path_text(path: Path, root: str = "$") -> str:
    """Return a path as people read it: `$.box[2]["a b"]` (ERR-19)."""
    keys: list[str | int] = []
    while path is not None:
        path, key = path
        keys.append(key)
    text = root
    for key in reversed(keys):
        if isinstance(key, int):
            text += f"[{key}]"
        elif key.isidentifier() and len(key) <= _LONGEST_KEY:
            text += f".{key}"
        else:
            text += f"[{_quoted(key)}]"
    return text


def _quoted(key: str) -> str:
    """Return a key in double quotes as JSON writes it, cut where it is long."""
    for change in text_filters:
        key = change(key)
    return to_json(key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "...")


def json_kind(value: object) -> str:
    """Return what a value is in the words of the messages, with the value where it is short."""
    if value is None:
        return "null"
    kinds = ((bool, "the truth value"), (str, "the text"), (int, "the integer"), (float, "the number"))
    for cls, kind in kinds:
        if isinstance(value, cls):
            return f"{kind} {shorten(value) if cls is not bool else str(value).lower()}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    return f"a {type(value).__qualname__}"


def bounds_fault(constraints: Constraints) -> Callable[[Any], str | None]:
    """Return a function: value -> what is wrong with it, or None."""
    tests: list[Callable[[Any], str | None]] = []
    for name, bound in constraints.given():
        tests.append(_bound_test(name, bound))
    for predicate in constraints.predicates:
        tests.append(_predicate_test(predicate))
    if len(tests) == 1:
        return tests[0]

    def check(value: Any) -> str | None:
        for test in tests:
            message = test(value)
            if message is not None:
                return message
        return None

    return check


def _bound_test(name: str, bound: Any) -> Callable[[Any], str | None]:
    if name == "ge":
        return lambda v: None if v >= bound else f"expected at least {bound}, got {shorten(v)}"
    if name == "gt":
        return lambda v: None if v > bound else f"expected more than {bound}, got {shorten(v)}"
    if name == "le":
        return lambda v: None if v <= bound else f"expected at most {bound}, got {shorten(v)}"
    if name == "lt":
        return lambda v: None if v < bound else f"expected less than {bound}, got {shorten(v)}"
    if name == "multiple_of":
        return lambda v: None if _is_multiple(v, bound) else f"expected a multiple of {bound}, got {shorten(v)}"
    if name == "min_length":
        return lambda v: None if len(v) >= bound else f"expected a length of at least {bound}, got {len(v)}"
    if name == "max_length":
        return lambda v: None if len(v) <= bound else f"expected a length of at most {bound}, got {len(v)}"
    import re

    # In JSON Schema a `$` at the end means the end, in Python also the place before a last line break.
    ends = bound.endswith("$") and not bound.endswith("\\$")
    search = re.compile(bound[:-1] + r"\Z" if ends else bound).search
    return lambda v: None if search(v) else f"expected a text that matches {bound!r}, got {shorten(v)}"


def _is_multiple(value: float, of: float) -> bool:
    try:
        rest = value % of
    except OverflowError:  # an integer beyond every float: in whole numbers, as exactly as the bound itself is
        numerator, denominator = of.as_integer_ratio()
        return value * denominator % numerator == 0
    if isinstance(value, int) and isinstance(of, int):
        return rest == 0
    slack = abs(value) / 1e9  # 0.3 is no exact multiple of 0.1 in binary; pydantic grants the same
    return abs(rest) <= slack or abs(abs(rest) - abs(of)) <= slack


def error_text(error: BaseException) -> str:
    """Return what an exception says, or its class where it says nothing or can't; never raises an `Exception`."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  # the author's own __str__
        return type(error).__name__


def _predicate_test(predicate: Callable[[Any], Any]) -> Callable[[Any], str | None]:
    name = getattr(predicate, "__qualname__", None) or repr(predicate)

    def test(value: Any) -> str | None:
        try:
            return None if predicate(value) else f"expected a value that satisfies {name}, got {shorten(value)}"
        except Exception as error:  # noqa: BLE001  # the author's own code: that it failed is its verdict
            return f"{name} failed on {shorten(value)}: {error_text(error)}"

    return test
