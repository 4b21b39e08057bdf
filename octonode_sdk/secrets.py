"""Secrets: what a node may read, and how their values are kept out of everything that people see."""

from __future__ import annotations

import os
from _thread import allocate_lock

from .errors import text_filters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MASK", "Secret", "forget_secrets", "mask", "read_environment", "remember_secrets"]

MASK = "***"


class Secret:
    """A credential that a node declares: `@node(secrets=["API_KEY", Secret("PROXY", required=False)])`.

    Args:
        name: The environment variable (Octonode) or setting (NodeTool) that holds it.
        required: Whether a call without it fails before the node runs.
        label, description: For the person who fills it in.
    """

    __slots__ = ("description", "label", "name", "required")

    def __init__(
        self, name: str, *, required: bool = True, label: str | None = None, description: str | None = None
    ) -> None:
        self.name, self.required, self.label, self.description = name, required, label, description

    def __repr__(self) -> str:
        return f"Secret({self.name!r}, required={self.required})"


#: Every spelling of every secret value known to this process, the longest first.
_known: tuple[str, ...] = ()
_lock = allocate_lock()

#: Shortest value that is masked, and shortest line of one of several lines. Masking what is shorter would garble every
#: text that is shown from then on; a secret that short is none.
_SHORTEST = 4

#: Settings that hosts pass as secrets too, and words of every second sentence.
_NO_SECRETS = frozenset(("true", "false", "null", "none", "True", "False", "None"))


def remember_secrets(values: Iterable[str]) -> None:
    """Mask these values from now on, for as long as the process lives: a log line may come long after the call.

    Values of fewer than four characters are no secrets, and are not masked.
    """
    global _known
    fresh: set[str] = set()
    for value in values:
        if len(value.strip()) >= _SHORTEST and value.strip() not in _NO_SECRETS:
            for part in (value, value.strip(), *_lines_of(value)):
                for spelling in _spellings(part):
                    fresh |= _spellings(spelling)  # a text in a text, such as a repr within JSON, is escaped twice
    with _lock:
        if not fresh.issubset(_known):
            _known = tuple(sorted(fresh.union(_known), key=len, reverse=True))


def _lines_of(value: str) -> list[str]:
    """Return the lines of a secret of several, such as a key file: a log may show one, or put a prefix before each."""
    lines = [line.strip() for line in value.splitlines()]
    return [line for line in lines if len(line) >= _SHORTEST] if len(lines) > 1 else []


def _spellings(value: str) -> set[str]:
    """Return a value as it is and as texts hold it: in a repr, in JSON, in a URL."""
    found = {value}
    if value.isalnum() and value.isascii():
        return found  # written the same everywhere
    from ._quick import to_ascii_json, to_json

    # With a double quote in front a single one is escaped, as it is in the repr of a text that holds both.
    quoted, ascii_quoted = repr('"' + value)[2:-1], ascii('"' + value)[2:-1]
    bytes_quoted = repr(b'"' + value.encode("utf-8", "surrogateescape"))[3:-1]
    for text in (quoted, ascii_quoted, bytes_quoted, value.encode("unicode_escape").decode("ascii")):
        found |= {text, text.replace("\\'", "'")}
    found |= {to_json(value)[1:-1], to_ascii_json(value)[1:-1]}
    raw = value.encode("utf-8", "surrogateescape")
    escaped = "".join(chr(byte) if byte in _URL_SAFE else f"%{byte:02X}" for byte in raw)
    return found | {escaped, escaped.replace("%20", "+"), escaped.replace("%2F", "/")}


_URL_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def forget_secrets() -> None:
    """Forget all values; for tests."""
    global _known
    with _lock:
        _known = ()


def mask(text: str) -> str:
    """Return `text` with every known secret value replaced by `***` (ERR-21)."""
    for value in _known:
        if value in text:
            text = text.replace(value, MASK)
    return text


text_filters.append(mask)


def read_environment(names: list[str]) -> dict[str, str]:
    """Return the values of secrets from the environment; "" for those that are not set."""
    return {name: os.environ.get(name, "") for name in names}
