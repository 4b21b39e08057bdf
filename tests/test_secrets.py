"""Secrets: no spelling of a known value passes the mask."""

import json
import threading
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octonode_sdk.errors import shorten
from octonode_sdk.faults import path_text
from octonode_sdk.secrets import MASK, Secret, forget_secrets, mask, read_environment, remember_secrets


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    forget_secrets()
    yield
    forget_secrets()


def test_a_known_value_is_masked_wherever_it_stands() -> None:
    """ERR-21 (C103): each time, and nothing else."""
    remember_secrets(["dummy-1", "other"])
    assert mask("a dummy-1 b dummy-1, other; dummy-2") == "a *** b ***, ***; dummy-2"
    forget_secrets()
    assert mask("dummy-1") == "dummy-1"


_AWKWARD = [
    "plain123",
    "with space",
    'quote"double',
    "quote'single",
    "both\"and'",
    "back\\slash",
    "tab\tnew\nline",
    "é-ü-\U0001f600",
    "per%cent/slash+plus=",
    "-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n",
]


@pytest.mark.parametrize("value", _AWKWARD, ids=ascii)
@pytest.mark.parametrize(
    "spell",
    [
        str,
        repr,
        ascii,
        lambda value: repr([f"x'{value}"]),
        lambda value: repr({"a": f'x"{value}'}),
        lambda value: repr(f"x'\"{value}"),
        lambda value: repr(value.encode()),
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False),
        lambda value: quote(value, safe=""),
        quote,
        quote_plus,
        str.strip,
        lambda value: "\n".join(f"  | {line}" for line in value.splitlines()),
        lambda value: f"prefix{value}suffix",
        lambda value: shorten(f"Bearer {value}" + "x" * 500),
        lambda value: path_text((None, f"{value}" + "x" * 500)),
    ],
    ids=[
        "str",
        "repr",
        "ascii",
        "repr with a quote",
        "repr with a double quote",
        "repr with both",
        "bytes",
        "json",
        "json in unicode",
        "url",
        "url path",
        "form",
        "stripped",
        "indented",
        "inside",
        "cut",
        "path",
    ],
)
def test_every_spelling_of_a_value_is_masked(spell: object, value: str) -> None:
    """ERR-21: in a repr, in JSON, in a URL, line by line, and where a message cuts it."""
    assert callable(spell)
    remember_secrets([value])
    shown = mask(spell(value))
    assert MASK in shown
    for line in value.strip().splitlines():
        assert line not in shown
        assert line[:12] not in shown


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=4))
def test_any_value_is_masked_in_its_usual_spellings(value: str) -> None:
    """ERR-21: whatever characters it has; blanks around it do not make it one."""
    forget_secrets()
    remember_secrets([value])
    if len(value.strip()) >= 4 and value.strip() not in ("true", "false", "null", "none", "True", "False", "None"):
        for shown in (value, repr(value), ascii(value), json.dumps(value), quote(value, safe="")):
            masked = mask(f"<{shown}>")
            assert value not in masked or value in MASK
            assert MASK in masked


def test_a_value_that_holds_another_is_masked_whole() -> None:
    """ERR-21: the longest first, or its rest would stay."""
    remember_secrets(["abcd", "abcdef"])
    assert mask("abcdef abcd") == "*** ***"


def test_a_value_that_is_no_secret_is_left_in_the_text() -> None:
    """Our own choice: settings come the same way, and masking "1" or "true" would garble every text from then on."""
    remember_secrets(["1", "abc", "true", " none "])
    assert mask("1 abc true none") == "1 abc true none"


@pytest.mark.parametrize("value", ["", " ", "\n"], ids=repr)
def test_nothing_is_no_secret(value: str) -> None:
    """Our own choice: masking it would ruin every text."""
    remember_secrets([value])
    assert mask("a b\nc") == "a b\nc"


def test_a_value_stays_masked_when_others_come() -> None:
    """ERR-21: a log line may come long after the call; calls of several threads add values at once."""

    def remember(start: int) -> None:
        for number in range(50):
            remember_secrets([f"value-{start}-{number}"])

    threads = [threading.Thread(target=remember, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert mask(" ".join(f"value-{start}-{n}" for start in range(8) for n in range(50))) == " ".join(["***"] * 400)


def test_a_secret_shows_its_name_and_never_a_value() -> None:
    """Our own choice: it holds none."""
    assert repr(Secret("API_KEY", required=False)) == "Secret('API_KEY', required=False)"


def test_the_environment_is_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """CTX-11: a name that is not set gives an empty text."""
    monkeypatch.setenv("DUMMY_ONE", "value")
    monkeypatch.delenv("DUMMY_TWO", raising=False)
    assert read_environment(["DUMMY_ONE", "DUMMY_TWO"]) == {"DUMMY_ONE": "value", "DUMMY_TWO": ""}


def test_a_value_is_masked_in_a_text_within_a_text() -> None:
    """ERR-21: escaped twice, as a repr that JSON quotes."""
    secret = "p\"a'ss wörd"
    remember_secrets([secret])
    for text in (repr({"a": repr([secret])}), json.dumps(json.dumps([secret])), json.dumps({"a": repr(secret)})):
        assert "wörd" not in mask(text)
        assert MASK in mask(text)
