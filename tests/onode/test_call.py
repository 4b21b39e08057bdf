"""`onode call` and `onode describe`: through real processes of both hosts."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .kit import NODES, onode, write

HOSTS = ("octonode", "nodetool")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the nodes."""
    write(tmp_path / "nodes.py", NODES)
    return tmp_path


@pytest.mark.parametrize("host", HOSTS)
def test_a_call_prints_its_outputs_and_nothing_else(host: str, folder: Path) -> None:
    """Our own choice: the same under both hosts, and what NodeTool calls `nodes.Greet` is found by its id."""
    done = onode("call", "nodes.py", "greet", "name=Ada", "times=2", 'tags=["a"]', "--host", host, cwd=folder)
    assert (done.status, done.out, done.err) == (0, "output  warm Adawarm Ada\n", "")


@pytest.mark.parametrize("host", HOSTS)
def test_json_has_the_outputs_or_the_error(host: str, folder: Path) -> None:
    """Our own choice: one document, and the status says the same."""
    done = onode("call", "nodes.py", "greet", "name=Ada", "--host", host, "--json", cwd=folder)
    assert done.status == 0
    assert {**done.json, "seconds": 0} == {
        "host": host,
        "node": "greet" if host == "octonode" else "nodes.Greet",
        "status": "ok",
        "outputs": {"output": "warm Ada"},
        "attempts": 1,
        "seconds": 0,
    }
    failed = onode("call", "nodes.py", "fail", "--host", host, "--json", cwd=folder)
    assert failed.status == 1
    assert (failed.json["status"], failed.json["error"]["message"]) == ("error", "no luck today")


@pytest.mark.parametrize("host", HOSTS)
def test_progress_is_lines_where_there_is_no_terminal(host: str, folder: Path) -> None:
    """LINE-19: the words of a running node, on stderr."""
    done = onode("call", "nodes.py", "steps", "n=1", "--host", host, cwd=folder)
    assert (done.status, done.out) == (0, "output  1\n")
    name = "steps" if host == "octonode" else "nodes.Steps"
    assert done.err == f"[{name}] progress 1/1 (100%) step\n"


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("node", "status", "text"),
    [
        ("fail", 1, "no luck today"),
        ("broken", 1, "ZeroDivisionError: of course"),
        ("crash", 3, ""),
    ],
)
def test_the_status_tells_an_answer_from_a_process_that_failed(
    host: str, node: str, status: int, text: str, folder: Path
) -> None:
    """ENG-5: 1 is the node's own error, 3 that of its process."""
    done = onode("call", "nodes.py", node, "--host", host, cwd=folder)
    assert (done.status, done.out) == (status, "")
    assert text in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("host", HOSTS)
def test_a_deadline_ends_a_call(host: str, folder: Path) -> None:
    """ENG-3."""
    done = onode("call", "nodes.py", "forever", "--deadline", "0.5", "--host", host, cwd=folder)
    assert (done.status, done.out) == (3, "")
    assert "deadline" in done.err


@pytest.mark.parametrize("host", HOSTS)
def test_inputs_that_the_node_refuses_are_wrong_usage(host: str, tmp_path: Path) -> None:
    """ERR-8: the runner's own words, on one line."""
    write(
        tmp_path / "nodes.py",
        """
        from typing import Annotated
        from octonode_sdk import Field

        @node
        def half(n: Annotated[int, Field(multiple_of=2)]) -> int:
            return n // 2
        """,
    )
    done = onode("call", "nodes.py", "n=3", "--host", host, cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "invalid input: $.n: expected a multiple of 2" in done.err
    assert done.err.count("\n") == 1


def test_inputs_come_as_json_from_a_word_a_file_or_stdin(folder: Path) -> None:
    """Our own choice: words win over the object."""
    (folder / "inputs.json").write_text('{"name": "Ada", "times": 2}', encoding="utf-8")
    for inputs, given in (('{"name": "Ada", "times": 2}', ""), ("@inputs.json", ""), ("-", '{"name":"Ada","times":2}')):
        done = onode("call", "nodes.py", "greet", "tone=dry", "--inputs", inputs, cwd=folder, given=given)
        assert (done.status, done.out) == (0, "output  dry Adadry Ada\n")


@pytest.mark.parametrize("inputs", ["[1]", "@missing.json", '{"nam": 1}', "{"])
def test_inputs_that_can_not_be_read_are_one_line(inputs: str, folder: Path) -> None:
    """Our own choice."""
    done = onode("call", "nodes.py", "greet", "--inputs", inputs, cwd=folder)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)


def test_the_context_has_what_the_flags_say(folder: Path) -> None:
    """CTX-1: config and env travel in the request."""
    words = ("--config", "size=3", "--config", "name=x", "--env", "prod", "--json")
    done = onode("call", "nodes.py", "surroundings", *words, cwd=folder)
    assert done.json["outputs"]["output"] == {"config": {"size": 3, "name": "x"}, "env": "prod", "attempt": 1}


@pytest.mark.parametrize("flags", [("--config", "a=1"), ("--env", "prod"), ("--retry", "2")])
def test_what_nodetool_has_no_word_for_is_refused(flags: tuple[str, str], folder: Path) -> None:
    """Our own choice: not dropped in silence."""
    done = onode("call", "nodes.py", "surroundings", *flags, "--host", "nodetool", cwd=folder)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert f"{flags[0]} has no place in NodeTool's protocol" in done.err


def test_a_call_that_may_succeed_later_is_tried_again(folder: Path) -> None:
    """ENG-12 and ENG-16: as the error's flag says."""
    done = onode("call", "nodes.py", "fail", "retryable=true", "--retry", "2", "--json", cwd=folder)
    assert (done.status, done.json["attempts"]) == (1, 2)
    once = onode("call", "nodes.py", "fail", "--retry", "2", "--json", cwd=folder)
    assert (once.status, once.json["attempts"]) == (1, 1)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_secret_reaches_the_node_and_is_never_shown(host: str, how: tuple[str, ...], folder: Path) -> None:
    """CTX-12 and ERR-21: neither in logs nor in outputs, which the node gives it back in."""
    words = ("--secret", "PASSWORD", "--host", host, *how)
    done = onode("call", "nodes.py", "tell", *words, cwd=folder, env={"PASSWORD": "open sesame 7"})
    assert done.status == 0
    assert "it is ***" in done.out
    assert "it is ***" in done.err
    assert "sesame" not in done.out + done.err


def test_a_secret_that_the_node_does_not_declare_is_not_shown_either(tmp_path: Path) -> None:
    """Our own choice: only the command knows then that it is one."""
    write(
        tmp_path / "nodes.py",
        """
        import os, sys
        @node
        def leak(how: str) -> str:
            text = f"it is {os.environ['PASSWORD']}"
            print(text, file=sys.stderr)
            if how == "raise":
                raise NodeError(text)
            return text
        """,
    )
    for how, status in (("return", 0), ("raise", 1)):
        words = ("call", "nodes.py", f"how={how}", "--secret", "PASSWORD", "--debug")
        done = onode(*words, cwd=tmp_path, env={"PASSWORD": "open sesame 7"})
        assert done.status == status
        assert "it is ***" in done.err
        assert "sesame" not in done.out + done.err


def test_the_node_may_be_left_out_where_there_is_one(tmp_path: Path) -> None:
    """Our own choice."""
    write(tmp_path / "one.py", "@node\ndef twice(n: int) -> int:\n    return 2 * n\n")
    assert onode("call", "one.py", "n=4", cwd=tmp_path).out == "output  8\n"


@pytest.mark.parametrize("host", HOSTS)
def test_a_node_that_is_not_there_is_guessed(host: str, folder: Path) -> None:
    """Our own choice."""
    done = onode("call", "nodes.py", "gret", "name=Ada", "--host", host, cwd=folder)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert f"did you mean '{'greet' if host == 'octonode' else 'nodes.Greet'}'?" in done.err
    several = onode("call", "nodes.py", "name=Ada", "--host", host, cwd=folder)
    assert "say which" in several.err


def test_describe_prints_what_the_runner_answers(folder: Path) -> None:
    """MAN-1: the manifest of the wire, whether it is asked of the target or of a command."""
    target = onode("describe", "nodes.py", "greet", "--json", cwd=folder).json
    command = [sys.executable, "-m", "octonode_sdk", "nodes.py"]
    assert onode("describe", "greet", "--json", "--", *command, cwd=folder).json == target
    assert target["id"] == "greet"
    every = onode("describe", "nodes.py", "--json", cwd=folder).json
    assert [one["id"] for one in every][:2] == ["tell", "greet"]
    assert target in every


def test_describe_shows_the_ports_to_people(folder: Path) -> None:
    """Our own choice: plain text, without a terminal."""
    assert onode("describe", "nodes.py", "greet", cwd=folder).out == (
        "greet\n"
        "  Greet somebody.\n"
        "inputs\n"
        "  name   text                  required\n"
        '  tone   "warm" | "dry"        "warm"\n'
        "  times  integer               1\n"
        "  tags   list of text or null  null\n"
        "outputs\n"
        "  output  text\n"
    )


def test_describe_of_nodetool_has_the_entries_of_discover(folder: Path) -> None:
    """NMD-1: of the target alone, also by another command."""
    found = onode("describe", "nodes.py", "--host", "nodetool", "--json", cwd=folder).json
    assert "nodes.Greet" in [one["node_type"] for one in found]
    command = [sys.executable, "-m", "nodetool_worker", "--stdio", "--nodes", "nodes.py"]
    one = onode("describe", "nodes.Greet", "--host", "nodetool", "--json", "--", *command, cwd=folder).json
    assert json.dumps(one) in [json.dumps(other) for other in found]


@pytest.mark.parametrize("host", HOSTS)
def test_an_interrupt_ends_the_call_and_leaves_no_process(host: str, tmp_path: Path) -> None:
    """Our own choice: the status of a shell, no traceback, and the node's process is gone."""
    write(
        tmp_path / "nodes.py",
        """
        @node
        def forever(ctx: Context) -> int:
            import os, time
            ctx.log(f"pid {os.getpid()}")
            while True:
                time.sleep(0.01)
        """,
    )
    command = [sys.executable, "-m", "onode", "call", "nodes.py", "--host", host]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stderr is not None
        pid = int(process.stderr.readline().rpartition("pid ")[2])
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert (process.returncode, rest) == (130, "")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
