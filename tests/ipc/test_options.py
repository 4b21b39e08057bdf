"""The runner's command line and its variables."""

from importlib.metadata import version
from typing import Any

import pytest

from octonode_sdk.ipc.options import Options, UsageError, read_options

VARIABLES = {"OCTONODE_CONCURRENCY": "7", "OCTONODE_GRACE": "2.5", "OCTONODE_MAX_LINE_BYTES": "1000"}


def read(*words: str, environment: dict[str, str] | None = None, target: str | None = None) -> Options:
    return read_options(list(words), environment or {}, target=target)


def refuse(*words: str, environment: dict[str, str] | None = None, target: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        read(*words, environment=environment, target=target)
    return str(caught.value)


def values(options: Options) -> tuple[Any, ...]:
    return options.concurrency, options.grace, options.max_line_bytes


def test_defaults_are_the_published_ones() -> None:
    """LIFE-10, LIFE-17, LINE-9: 32 calls, 5 seconds, 64 MiB."""
    options = read("nodes.py")
    assert (options.target, options.node, options.show) == ("nodes.py", None, None)
    assert values(options) == (32, 5.0, 67_108_864)


def test_a_second_word_picks_a_node() -> None:
    """REQ-9."""
    options = read("pack.nodes", "greet")
    assert (options.target, options.node) == ("pack.nodes", "greet")


def test_a_caller_that_is_the_target_leaves_the_first_word_to_the_node() -> None:
    """REQ-9: `run()` serves the module that calls it."""
    options = read("greet", "--grace", "1", target="nodes.py")
    assert (options.target, options.node, options.grace) == ("nodes.py", "greet", 1.0)
    assert read(target="nodes.py").node is None


@pytest.mark.parametrize(
    "words",
    [
        ("--concurrency", "7", "--grace", "2.5", "--max-line-bytes", "1000", "nodes.py", "greet"),
        ("nodes.py", "greet", "--concurrency=7", "--grace=2.5", "--max-line-bytes=1000"),
        ("nodes.py", "--concurrency=7", "--grace", "2.5", "greet", "--max-line-bytes=1000"),
    ],
)
def test_flags_stand_anywhere_with_their_value_behind_a_space_or_an_equals_sign(words: tuple[str, ...]) -> None:
    """LINE-9, LIFE-10, LIFE-17."""
    options = read(*words)
    assert (options.target, options.node) == ("nodes.py", "greet")
    assert values(options) == (7, 2.5, 1000)


def test_a_variable_stands_in_for_a_flag_and_the_flag_wins() -> None:
    """LINE-9, LIFE-10, LIFE-17."""
    assert values(read("nodes.py", environment=VARIABLES)) == (7, 2.5, 1000)
    assert values(read("nodes.py", "--concurrency=1", environment=VARIABLES)) == (1, 2.5, 1000)
    assert values(read("nodes.py", environment=dict.fromkeys(VARIABLES, ""))) == (32, 5.0, 67_108_864)


def test_a_broken_variable_does_not_matter_where_the_flag_is_given() -> None:
    """Our own choice: the flag is how to get round it."""
    assert read("nodes.py", "--grace=0", environment={"OCTONODE_GRACE": "soon"}).grace == 0


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--concurrency", "1"),
        ("--concurrency", "100000"),
        ("--grace", "0"),
        ("--grace", "0.25"),
        ("--grace", "1e3"),
        ("--max-line-bytes", "1"),
        ("--max-line-bytes", "10000000000"),
    ],
)
def test_a_value_in_its_range_is_taken(flag: str, text: str) -> None:
    """LIFE-22: the bounds are included."""
    attribute = flag[2:].replace("-", "_")
    assert getattr(read("nodes.py", flag, text), attribute) == float(text)


@pytest.mark.parametrize(
    ("flag", "variable", "text"),
    [
        (flag, variable, text)
        for flag, variable, texts in [
            ("--concurrency", "OCTONODE_CONCURRENCY", ("0", "-1", "1.5", "many", "9" * 5000, "inf")),
            ("--grace", "OCTONODE_GRACE", ("-1", "soon", "nan", "inf", "-0.1", "1s")),
            ("--max-line-bytes", "OCTONODE_MAX_LINE_BYTES", ("0", "64M", "1e6", "-5")),
        ]
        for text in texts
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_place(flag: str, variable: str, text: str) -> None:
    """LIFE-22: the message names the flag or the variable, and the value."""
    message = refuse("nodes.py", f"{flag}={text}")
    assert flag in message
    assert repr(text) in message
    assert "expected" in message
    message = refuse("nodes.py", environment={variable: text})
    assert variable in message
    assert repr(text) in message


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ((), ["no TARGET", "--help"]),
        (("--grace=1",), ["no TARGET"]),
        (("nodes.py", "greet", "more"), ["'more'"]),
        (("nodes.py", "--concurency=3"), ["'--concurency'", "--concurrency", "--grace", "--max-line-bytes"]),
        (("nodes.py", "-x"), ["'-x'"]),
        (("nodes.py", "--grace"), ["--grace", "no value"]),
        (("nodes.py", "--grace="), ["--grace", "''"]),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_is_wrong(words: tuple[str, ...], parts: list[str]) -> None:
    """LIFE-22: in one line."""
    message = refuse(*words)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_a_word_too_many_is_refused_where_the_caller_is_the_target() -> None:
    """LIFE-22."""
    assert "'more'" in refuse("greet", "more", target="nodes.py")


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_tells_of_every_flag_and_its_variable(word: str) -> None:
    """Our own choice: it is shown also beside faults, which it may cure."""
    text = read(word, environment={"OCTONODE_GRACE": "soon"}).show
    assert text is not None
    for part in ("TARGET", "NODE", *VARIABLES, "--concurrency", "--grace", "--max-line-bytes", "67108864"):
        assert part in text


def test_version_is_that_of_the_distribution() -> None:
    """Our own choice."""
    assert read("--version").show == f"octonode-sdk {version('octonode-sdk')}\n"


def test_an_empty_target_is_no_target() -> None:
    """LIFE-22."""
    with pytest.raises(UsageError, match="no TARGET"):
        read_options([""], {})
