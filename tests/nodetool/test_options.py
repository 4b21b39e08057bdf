"""The command line and the variables."""

import os
from typing import Any

import pytest

from nodetool_worker.frames import DEFAULT_LIMIT_BYTES
from nodetool_worker.options import HELP, UsageError, read_options


def test_nothing_gives_the_defaults() -> None:
    """FRM-3, WOP-3, WOP-4, FND-6: 32 calls, 5 seconds, 256 MiB, no filter."""
    options = read_options([], {})
    defaults: dict[str, Any] = {
        "alone": False,
        "concurrency": 32,
        "grace": 5.0,
        "host": None,
        "isolate": False,
        "limit_bytes": DEFAULT_LIMIT_BYTES,
        "log_level": "INFO",
        "namespaces": [],
        "nodes": [],
        "port": None,
        "show": None,
        "stdio": False,
        "warnings": [],
    }
    assert {name: getattr(options, name) for name in defaults} == defaults


@pytest.mark.parametrize(
    ("arguments", "attribute", "value"),
    [
        (["--stdio"], "stdio", True),
        (["--isolate"], "isolate", True),
        (["--alone"], "alone", True),
        (["--nodes", "a.py"], "nodes", ["a.py"]),
        (["--nodes=a.py", "--stdio", "--nodes", "b=c.py"], "nodes", ["a.py", "b=c.py"]),
        (["--namespaces", "a, b ,,c"], "namespaces", ["a", "b", "c"]),
        (["--namespaces", " , "], "namespaces", []),
        (["--concurrency", "7"], "concurrency", 7),
        (["--concurrency=7", "--concurrency=8"], "concurrency", 8),
        (["--grace=0"], "grace", 0.0),
        (["--grace", "1.5"], "grace", 1.5),
        (["--stdio", "--host", "0.0.0.0", "--port", "7777"], "port", 7777),
        (["--host=::1"], "host", "::1"),
    ],
)
def test_a_flag_is_read_with_its_value_behind_it_or_behind_an_equals_sign(
    arguments: list[str], attribute: str, value: Any
) -> None:
    """WOP-1 to WOP-5, WOP-11, FND-6."""
    assert getattr(read_options(arguments, {}), attribute) == value


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--studio"], "unknown word '--studio'; there are --stdio, --isolate, --nodes, --concurrency"),
        (["nodes.py"], "unknown word 'nodes.py'"),
        (["--stdio=1"], "unknown word '--stdio=1'"),
        ([""], "unknown word ''"),
        (["a\nb"], r"unknown word 'a\\nb'"),
        (["--nodes"], "--nodes has no value; write --nodes=..."),
        (["--nodes="], "--nodes is empty; give a Python file or a module"),
        (["--concurrency"], "--concurrency has no value"),
        (["--concurrency="], "--concurrency is ''; expected a whole number from 1 to 10000"),
        (["--concurrency", "0"], "--concurrency is '0'; expected a whole number from 1 to 10000"),
        (["--concurrency", "1.5"], "--concurrency is '1.5'; expected a whole number"),
        (["--concurrency", "1e3"], "--concurrency is '1e3'"),
        (["--grace", "-1"], "--grace is '-1'; expected a number of seconds from 0 to 86400"),
        (["--grace", "nan"], "--grace is 'nan'; expected"),
        (["--grace", "inf"], "--grace is 'inf'; expected"),
        (["--port", "65536"], "--port is '65536'; expected a port number"),
    ],
)
def test_a_flag_that_makes_no_sense_is_named_with_its_value(arguments: list[str], text: str) -> None:
    """WOP-9: in one line."""
    with pytest.raises(UsageError, match=f"^{text}") as caught:
        read_options(["--stdio", *arguments], {})
    assert "\n" not in str(caught.value)
    assert "--alone" not in str(caught.value)  # not for people


@pytest.mark.parametrize(
    ("variable", "text", "attribute", "value"),
    [
        ("OCTONODE_CONCURRENCY", "3", "concurrency", 3),
        ("OCTONODE_GRACE", "0.5", "grace", 0.5),
        ("NODETOOL_WORKER_NAMESPACES", "a,b", "namespaces", ["a", "b"]),
        ("NODETOOL_BRIDGE_MAX_FRAME_SIZE", "1000", "limit_bytes", 1000),
        ("NODETOOL_LOG_LEVEL", "warning", "log_level", "WARNING"),
        ("OCTONODE_NODES", os.pathsep.join(["", "a.py", " b ", ""]), "nodes", ["a.py", "b"]),
    ],
)
def test_a_variable_stands_in_for_its_flag(variable: str, text: str, attribute: str, value: Any) -> None:
    """WOP-3, WOP-4, WOP-6, FND-1, FND-3, FND-6: and an empty one is the same as none (WOP-8)."""
    options = read_options([], {variable: text})
    assert getattr(options, attribute) == value
    assert options.warnings == []
    default = getattr(read_options([], {}), attribute)
    options = read_options([], {variable: ""})
    assert (getattr(options, attribute), options.warnings) == (default, [])


@pytest.mark.parametrize(
    ("variable", "text", "attribute", "wanted"),
    [
        ("OCTONODE_CONCURRENCY", "many", "concurrency", "a whole number from 1 to 10000; using 32"),
        ("OCTONODE_CONCURRENCY", "0", "concurrency", "a whole number from 1 to 10000; using 32"),
        ("OCTONODE_GRACE", "soon", "grace", "a number of seconds from 0 to 86400; using 5.0"),
        ("OCTONODE_GRACE", "nan", "grace", "a number of seconds from 0 to 86400; using 5.0"),
        (
            "NODETOOL_BRIDGE_MAX_FRAME_SIZE",
            "256M",
            "limit_bytes",
            "a whole number of bytes, at least 1; using 268435456",
        ),
        ("NODETOOL_BRIDGE_MAX_FRAME_SIZE", "-1", "limit_bytes", "a whole number of bytes, at least 1; using 268435456"),
        ("NODETOOL_LOG_LEVEL", "loud", "log_level", "a level such as INFO; using INFO"),
    ],
)
def test_a_variable_that_makes_no_sense_gives_the_default_and_one_warning(
    variable: str, text: str, attribute: str, wanted: str
) -> None:
    """WOP-7."""
    options = read_options([], {variable: text})
    assert getattr(options, attribute) == getattr(read_options([], {}), attribute)
    assert options.warnings == [f"{variable} is {text!r}; expected {wanted}"]


def test_a_flag_wins_over_its_variable_even_where_that_makes_no_sense() -> None:
    """WOP-10."""
    environment = {
        "OCTONODE_CONCURRENCY": "many",
        "OCTONODE_GRACE": "9",
        "NODETOOL_WORKER_NAMESPACES": "z",
        "OCTONODE_NODES": "other.py",
    }
    options = read_options(["--concurrency=2", "--grace=1", "--namespaces=a", "--nodes=a.py"], environment)
    assert (options.concurrency, options.grace) == (2, 1.0)
    assert (options.namespaces, options.nodes) == (["a"], ["a.py"])
    assert options.warnings == []


def test_a_list_without_parts_is_no_filter_whatever_the_variable_says() -> None:
    """FND-6, WOP-10."""
    assert read_options(["--namespaces= , "], {"NODETOOL_WORKER_NAMESPACES": "a"}).namespaces == []


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--stdio", "--help", "--nonsense"]])
def test_help_is_shown_instead_of_serving(arguments: list[str]) -> None:
    """Our own choice: it names every flag and variable."""
    assert read_options(arguments, {}).show == HELP
    for word in ("--stdio", "--nodes", "--namespaces", "--concurrency", "--grace", "--isolate", "OCTONODE_NODES"):
        assert word in HELP


def test_the_version_is_shown_instead_of_serving() -> None:
    """Our own choice."""
    shown = read_options(["--version"], {}).show
    assert shown is not None
    assert shown.startswith("octonode-sdk ")
