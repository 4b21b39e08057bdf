"""The C parts of a few standard modules, without the start-up time of their Python wrappers.

`import json` costs more than half of the time that a bare interpreter takes to start, nearly all of it for `re`, which
reading and writing plain JSON does not need. Where an interpreter lacks these parts, the wrappers serve.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeAlias

    _Functions: TypeAlias = tuple[
        Callable[[str], Any], Callable[[Any], str], Callable[[Any], str], Callable[[str], str]
    ]

__all__ = ["loads", "quote_ascii", "to_ascii_json", "to_json"]

_INFINITY = float("inf")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (_INFINITY, -_INFINITY):
        raise ValueError(f"the number {text[:40]} is beyond the range of a float")  # LINE-11
    return value


class _Settings:
    """What the C scanner reads from the decoder object that it is given."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = staticmethod(_finite)
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)
    memo: dict[str, str] = {}  # noqa: RUF012  # the scanner clears it after each value


def _unserialisable(value: object) -> NoReturn:
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _fast_pair() -> _Functions:
    from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner

    scan = make_scanner(_Settings)  # type: ignore[arg-type]  # the stub names the result; any object with these fields serves

    def loads(text: str) -> Any:
        try:
            value, end = scan(text, 0)
        except StopIteration as stop:
            if text[:1] in (" ", "\t", "\r", "\n"):  # the scanner skips blanks inside a value only
                return loads(text.lstrip(" \t\r\n"))
            raise ValueError(f"expected a value at character {stop.value}") from None
        except SystemError:
            # Before Python 3.12 the scanner finds its exception only once json.decoder is loaded (LINE-7).
            import json.decoder  # noqa: F401  # that it is loaded is the purpose

            value, end = scan(text, 0)
        if end != len(text) and text[end:].strip(" \t\r\n"):
            raise ValueError(f"there is more text after the value, at character {end}")
        return value

    # make_encoder(markers, default, encoder, indent, key_separator, item_separator, sort_keys, skipkeys, allow_nan)
    # Without markers a cycle ends in RecursionError; the markers of a failed value would be taken for a cycle later.
    encode = make_encoder(None, _unserialisable, encode_basestring, None, ":", ",", False, False, False)
    encode_ascii = make_encoder(None, _unserialisable, encode_basestring_ascii, None, ":", ",", False, False, False)

    def to_json(value: Any) -> str:
        return "".join(encode(value, 0))

    def to_ascii_json(value: Any) -> str:
        return "".join(encode_ascii(value, 0))

    return loads, to_json, to_ascii_json, encode_basestring_ascii


def _plain_pair() -> _Functions:
    import json

    def loads(text: str) -> Any:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)

    def to_json(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def to_ascii_json(value: Any) -> str:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))

    return loads, to_json, to_ascii_json, json.encoder.encode_basestring_ascii


def _pair() -> _Functions:
    try:
        return _fast_pair()
    except (ImportError, TypeError):  # another interpreter, or a release with other parts
        return _plain_pair()


#: `loads(text)`: text -> value; ValueError for what is not JSON. NaN and Infinity are not.
#: `to_json(value)`: value -> compact text, strict JSON (LINE-15). ValueError for NaN and infinity, RecursionError for
#: cycles (the fallback: ValueError), TypeError for what JSON lacks.
#: `to_ascii_json(value)`: the same with every other character escaped, so that a lone surrogate survives.
#: `quote_ascii(text)`: one text as JSON, every other character escaped.
loads, to_json, to_ascii_json, quote_ascii = _pair()
