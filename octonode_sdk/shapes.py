"""What a value that a node returned can be taken for: numbers in numpy's clothes, lists of all kinds, the nearest type.

Loaded when a value is not of JSON's own types as it stands.
"""

from __future__ import annotations

import sys

from .field import MISSING
from .ports import Alias, Array, Base64, Choice, FixedArray, Flags, Mapping, Record, Rich, Scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .faults import Path
    from .ports import PortType

__all__ = [
    "FOREIGN",
    "as_scalar",
    "distance",
    "find_surrogate",
    "in_order",
    "is_exact_array",
    "is_iterator",
    "is_mapping",
    "items_of",
    "key_text",
    "number_of",
]


def as_scalar(kind: str, value: Any) -> Any:
    """Return a value as the exact Python type of a scalar, or MISSING where that would change it."""
    value = number_of(value)
    if kind == "string":
        return str.__str__(value) if isinstance(value, str) else MISSING
    if kind == "boolean":
        return value if isinstance(value, bool) else MISSING
    if isinstance(value, bool):
        return MISSING
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        number = float.__float__(value)
        if kind == "number":
            return number
        return int(number) if number.is_integer() else MISSING
    return MISSING


def number_of(value: Any) -> Any:
    """Return the number, truth value or text inside a numpy scalar or 0-d array; anything else as it is."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)) and is_exact_array(value):
        return value if value.ndim else value.item()
    return value


def is_exact_array(value: Any) -> bool:
    """Tell whether Python's own numbers and texts hold a numpy value without a change."""
    kind = value.dtype.kind
    return kind in "biuU" or (kind == "f" and value.dtype.itemsize <= 8)


def items_of(value: Any, is_set: bool) -> list[Any] | None:
    """Return the items of what a node may return for a list or a set, or None.

    A list may be any sequence but text, or an iterator, which is run to its end: `Iterable[int]` is carried as a list.
    """
    if is_set:
        return in_order(value) if isinstance(value, (set, frozenset)) else None
    if isinstance(value, (list, tuple, range)) or is_iterator(value):
        return list(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return list(value.tolist()) if value.ndim and is_exact_array(value) else None
    is_view = type(value).__name__ in _LIST_LIKE and type(value).__module__ in ("builtins", "collections")
    return list(value) if is_view else None


def is_iterator(value: Any) -> bool:
    """Tell whether a value gives its items once; an open file does too, but is no list of lines."""
    return hasattr(value, "__next__") and not hasattr(value, "read")


_INFINITY = float("inf")

_LIST_LIKE = {"deque", "dict_items", "dict_keys", "dict_values", "odict_items", "odict_keys", "odict_values"}


def in_order(values: Any) -> list[Any]:
    """Return a set's items in a stable order: sorted where they can be compared, else by their text."""
    if not any(isinstance(one, (set, frozenset)) for one in values):  # whose < means "is a part of": no order
        try:
            return sorted(values)
        except TypeError:
            pass
    return sorted(values, key=_order_key)


def _order_key(value: Any) -> tuple[str, str]:
    shown = in_order(value) if isinstance(value, (set, frozenset)) else value
    return type(value).__name__, repr(shown)


def is_mapping(value: Any) -> bool:
    """Tell whether a value is a dict or serves as one."""
    return isinstance(value, dict) or (hasattr(value, "items") and hasattr(value, "keys") and hasattr(value, "get"))


#: The distance of a value that a member of a union can't take.
FOREIGN = 3


def distance(member: PortType, value: Any) -> int:
    """Return how near a value is to a member of a union: 0 its very class, 1 its subclass, 2 its kind, 3 neither."""
    if isinstance(member, Alias):
        return distance(member.target, value)
    if isinstance(member, Record) and member.form == "typeddict":
        if not is_mapping(value):
            return FOREIGN
        return 0 if {field.name for field in member.fields}.issuperset(value) else 2
    if isinstance(member, (Record, Rich, Choice, Flags)) and member.cls not in (None, object):
        if isinstance(value, member.cls):
            return 0 if type(value) is member.cls else 1
        is_object = isinstance(member, Record) or (isinstance(member, Rich) and member.is_object)
        return 2 if is_object and is_mapping(value) else FOREIGN
    if isinstance(member, Base64):
        return 0 if isinstance(value, (bytes, bytearray, memoryview)) else FOREIGN
    if isinstance(member, Array):
        if isinstance(value, member.container):
            return 0
        return 2 if items_of(value, member.container in (set, frozenset)) is not None else FOREIGN
    if isinstance(member, FixedArray):
        return 0 if isinstance(value, tuple) else 2 if isinstance(value, list) else FOREIGN
    if isinstance(member, Mapping):
        return 1 if is_mapping(value) else FOREIGN
    if isinstance(member, Scalar):
        return 2 if as_scalar(member.kind, value) is not MISSING else FOREIGN
    return FOREIGN


def key_text(key: Any) -> str | None:
    """Return a key of a dict as the key of a JavaScript object; None where no text says what it is.

    >>> [key_text(key) for key in (1, 2.0, 1.5, 1e21, True, None, (1, "a"))]
    ['1', '2', '1.5', '1e+21', 'true', 'null', '1,a']
    """
    key = number_of(key)
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(int.__int__(key))
    if isinstance(key, float):
        return _number_text(float.__float__(key))
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, (tuple, frozenset)):
        texts = [key_text(one) for one in (key if isinstance(key, tuple) else in_order(key))]
        return None if None in texts else ",".join(str(text) for text in texts)
    value = getattr(key, "value", MISSING)  # a member of an Enum
    if value is not MISSING:
        return key_text(value)
    from .rich import text_form

    try:
        text = text_form(key)
    except ValueError:
        return None
    return str(text) if text is not MISSING and type(text) is not float else None


def _number_text(number: float) -> str:
    """Return a float as JavaScript writes it: the same digits as Python's, with its own border to exponents."""
    if number != number or number in (_INFINITY, -_INFINITY):
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"
    mantissa, _, power = repr(abs(number)).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) + int(power or 0) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if number < 0 else ""
    if not digits:
        return "0"
    if 0 < point <= 21:
        digits = digits.ljust(point, "0")
        return sign + digits[:point] + ("." + digits[point:] if digits[point:] else "")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = "." + digits[1:] if digits[1:] else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def find_surrogate(value: Any) -> Path | bool:
    """Return the path of the first text that is no Unicode text (a lone surrogate), or False. Does not recurse."""
    stack: list[tuple[Any, Path]] = [(value, None)]
    while stack:
        one, path = stack.pop()
        if isinstance(one, str):
            if _is_broken(one):
                return path
        elif isinstance(one, dict):
            for key in one:
                if _is_broken(key):
                    return (path, ascii(key)[1:-1])
            stack.extend((inner, (path, key)) for key, inner in reversed(one.items()))
        elif isinstance(one, list):
            stack.extend((inner, (path, index)) for index, inner in reversed([*enumerate(one)]))
    return False


def _is_broken(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
