"""The quick JSON functions against the standard module, and the ways that stand in for them."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octonode_sdk import _quick

Three = tuple[Callable[[str], Any], Callable[[Any], str], Callable[[Any], str]]

TEXTS = st.text(st.characters(exclude_categories=[]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)
#: Nearly JSON: what a parser has to tell from the real thing.
_WORDS = (
    '{ } [ ] , : " "a" 1 - 0 01 .5 1. 1e 1e5 1e999 true nul null NaN Infinity -Infinity "\\u00e9" "\\ud800" "\\x" \' //'
)
_BLANKS = (" ", "\t", "\r", "\n", "\v", "\u00a0", "\ufeff", "\\", '"\t"', '"\\ud83d\\ude00"', "\u0661")
NEARLY = st.lists(st.sampled_from([*_WORDS.split(), *_BLANKS]), max_size=8).map("".join)


@pytest.fixture(params=[_quick._fast_pair, _quick._plain_pair], ids=["fast", "fallback"])
def functions(request: pytest.FixtureRequest) -> Three:
    """The functions of both ways that take any value."""
    made: Three = request.param()[:3]
    return made


def standard(text: str) -> Any:
    """What the standard module reads, without the constants and overflows that are no JSON."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    def finite(number: str) -> float:
        value = float(number)
        if value in (float("inf"), float("-inf")):
            raise ValueError(number)
        return value

    return json.loads(text, parse_constant=refuse, parse_float=finite)


def outcome(read: Callable[[str], Any], text: str) -> str:
    """Return what a reader says to a text, in a form that tells 1, 1.0 and True apart."""
    try:
        return repr(read(text))
    except ValueError:
        return "refused"


@given(text=NEARLY | VALUES.map(json.dumps) | st.text())
def test_reading_agrees_with_the_standard_module(text: str) -> None:
    """LINE-7, LINE-11: the same values, and the same texts are refused, on both ways."""
    expected = outcome(standard, text)
    assert outcome(_quick._fast_pair()[0], text) == expected
    assert outcome(_quick._plain_pair()[0], text) == expected


@given(value=VALUES)
def test_writing_agrees_with_the_standard_module(value: Any) -> None:
    """LINE-15: the same bytes on both ways, and they read back as the same value."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    ascii_text = json.dumps(value, separators=(",", ":"))
    for loads, to_json, to_ascii_json, quote_ascii in (_quick._fast_pair(), _quick._plain_pair()):
        assert to_json(value) == text
        assert to_ascii_json(value) == ascii_text
        assert not isinstance(value, str) or quote_ascii(value) == ascii_text
        assert repr(loads(to_json(value))) == repr(loads(to_ascii_json(value))) == repr(json.loads(text))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_what_is_not_finite_is_not_written(functions: Three, value: Any) -> None:
    """LINE-15: a NaN on the wire is no JSON."""
    for write in functions[1:]:
        with pytest.raises(ValueError, match="JSON compliant"):
            write(value)


@pytest.mark.parametrize("value", [b"a", {1, 2}, object(), {"a": 1j}])
def test_what_json_does_not_have_is_not_written(functions: Three, value: Any) -> None:
    """LINE-15."""
    for write in functions[1:]:
        with pytest.raises(TypeError, match="JSON"):
            write(value)


def test_a_value_that_contains_itself_is_not_written(functions: Three) -> None:
    """LINE-15: and the next value is, by the same functions."""
    loop: list[Any] = []
    loop.append(loop)
    for write in functions[1:]:
        with pytest.raises((ValueError, RecursionError)):
            write(loop)
        assert write([]) == "[]"


def test_a_value_that_occurs_twice_is_written_twice(functions: Three) -> None:
    """LINE-15: that is no cycle."""
    one = [1]
    assert functions[1]({"a": one, "b": [one, one]}) == '{"a":[1],"b":[[1],[1]]}'


def test_a_failed_reading_leaves_the_next_one_alone(functions: Three) -> None:
    """LINE-7: a broken line ends nothing."""
    loads = functions[0]
    for text in ("", '{"key":', "[" * 100_000, '{"a":1e999}'):
        with pytest.raises((ValueError, RecursionError)):
            loads(text)
    assert loads('{"a":{"a":1}}') == {"a": {"a": 1}}


def test_an_interpreter_without_the_c_parts_gets_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own choice: the C parts of json are no public interface."""

    def missing() -> Three:
        raise ImportError

    monkeypatch.setattr(_quick, "_fast_pair", missing)
    loads, to_json, to_ascii_json, _ = _quick._pair()
    assert loads('{"a":[1,"é"]}') == {"a": [1, "é"]}
    assert to_json({"a": [1, "é"]}) == '{"a":[1,"é"]}'
    assert to_ascii_json({"a": [1, "é"]}) == '{"a":[1,"\\u00e9"]}'


def test_the_quick_way_does_not_load_the_json_package(interpreter: str) -> None:
    """Our own choice: it costs half of the start of the interpreter."""
    code = "import sys\nfrom octonode_sdk import _quick\n_quick.loads('[1]')\nprint('json' in sys.modules)"
    run = subprocess.run([interpreter, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60)
    assert run.stdout.strip() == "False"


def test_a_broken_text_is_refused_before_the_json_package_was_ever_loaded(interpreter: str) -> None:
    """LINE-7: the C scanner raises an exception that lives there."""
    code = (
        "import sys\n"
        "from octonode_sdk import _quick\n"
        "assert 'json' not in sys.modules\n"
        "for text in sys.argv[1:]:\n"
        "    try:\n"
        "        _quick.loads(text)\n"
        "    except ValueError:\n"
        "        print('refused')\n"
    )
    texts = [
        '{"a":1',
        '{"a"',
        "{",
        "[1",
        '"a',
        '"\\x"',
        '"\t"',
        "[1,]",
        '{"a":}',
        "nul",
        "1e999",
        "NaN",
        "",
        "x",
        "9" * 5000,
    ]
    for text in texts:
        run = subprocess.run(
            [interpreter, "-c", code, text], capture_output=True, encoding="utf-8", timeout=60, check=False
        )
        assert (run.stdout, run.stderr) == ("refused\n", "")
