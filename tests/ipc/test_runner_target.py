"""The runner as a process: its command line, and the target that it loads."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.ipc.support import HEAD, command, describe, invoke, serve, serve_command, to_bytes, write_nodes

THREE = """
    @node
    def one() -> int:
        return 1

    @node
    def two() -> int:
        return 2

    @node
    def three() -> int:
        return 3
    """

GREET = """
    @node
    def greet(name: str = "you") -> str:
        return "Hello, " + name
    """


# The command line


def test_a_dotted_module_is_a_target(tmp_path: Path) -> None:
    """Our own choice: from the current folder, as `python -m` sees it."""
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    write_nodes(tmp_path / "pack", GREET)
    outcome = serve_command(command("pack.nodes"), to_bytes(invoke(name="Ada")), cwd=tmp_path)
    assert outcome.outputs == {"output": "Hello, Ada"}


def test_a_module_serves_itself_with_run(tmp_path: Path, interpreter: str) -> None:
    """LINE-13, LIFE-16: what it printed before goes to stderr, what it prints later as well."""
    source = """
        import sys
        from octonode_sdk import node, run

        print("early")
        old = sys.stdout

        @node
        def greet(name: str = "you") -> str:
            print("late")
            old.write("old\\n")
            return "Hello, " + name

        @node
        def other() -> int:
            return 1

        if __name__ == "__main__":
            run()
            print("never")
        """
    path = write_nodes(tmp_path, source, head="")
    outcome = serve_command(
        [interpreter, str(path)], to_bytes(invoke("greet", "a")) + to_bytes(invoke("other", "b")), cwd=tmp_path
    )
    answers = outcome.by_id()
    assert answers["a"]["outputs"] == {"output": "Hello, you"}
    assert answers["b"]["outputs"] == {"output": 1}
    assert outcome.status == 0
    assert sorted(outcome.stderr.split()) == ["early", "late", "old"]
    assert outcome.stderr.split()[0] == "early"
    outcome = serve_command([interpreter, str(path), "greet"], to_bytes(invoke(id_="a")), cwd=tmp_path)
    assert outcome.outputs == {"output": "Hello, you"}
    path = write_nodes(tmp_path, "from octonode_sdk import run\n\nrun()\n", name="empty.py")
    outcome = serve_command([interpreter, str(path), "--grace=soon"], b"", cwd=tmp_path)
    assert (outcome.status, outcome.stdout) == (2, b"")
    assert "--grace" in outcome.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("nodes.py", "--grace"), ("nodes.py", "--grace=soon"), ("nodes.py", "a", "b"), ("nodes.py", "--fast")],
)
def test_a_wrong_command_line_is_status_2_and_one_line_on_stderr(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """LIFE-22."""
    outcome = serve_command(command(*arguments), to_bytes(invoke()), cwd=tmp_path)
    assert (outcome.status, outcome.stdout) == (2, b"")
    assert outcome.stderr.count("\n") == 1


def test_a_wrong_variable_is_status_2_and_names_it(tmp_path: Path) -> None:
    """LIFE-22."""
    outcome = serve(tmp_path, GREET, invoke(), OCTONODE_CONCURRENCY="none")
    assert (outcome.status, outcome.stdout) == (2, b"")
    assert "OCTONODE_CONCURRENCY" in outcome.stderr


def test_help_and_version_are_for_people_and_go_to_stdout(tmp_path: Path) -> None:
    """Our own choice: nothing is served then."""
    for flag, text in (("--help", "usage:"), ("--version", "octonode-sdk ")):
        run = subprocess.run(command(flag), capture_output=True, encoding="utf-8", timeout=30, check=True, cwd=tmp_path)
        assert text in run.stdout
        assert run.stderr == ""


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import no_such_library", "no_such_library"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("x = 1", "defines no node"),
        ("@node\ndef f(x: set.union) -> int:\n    return 1", "'f'"),
    ],
)
def test_a_target_that_cannot_be_loaded_answers_each_request(tmp_path: Path, source: str, part: str) -> None:
    """LIFE-23, LIFE-20: under its id, with the target and the fault; stderr has the traceback."""
    outcome = serve(tmp_path, source, invoke("a", "a"), describe("b", "b"), b"bad\n")
    answers = outcome.by_id()
    assert {id_: answer["type"] for id_, answer in answers.items()} == {
        "a": "result",
        "b": "manifest",
        "unknown": "result",
    }
    for id_ in ("a", "b"):
        error = answers[id_]["error"]
        assert (error["code"], error["retryable"]) == ("RUNTIME_ERROR", False)
        assert "nodes.py" in error["message"]
        assert part in error["message"]
    assert answers["unknown"]["error"]["code"] == "VALIDATION_ERROR"
    assert part in outcome.stderr
    assert outcome.status == 1


@pytest.mark.parametrize("arguments", [("missing.py",), ("no_such_pack",), ("nodes.py", "missing")])
def test_a_target_or_node_that_is_not_there_answers_each_request(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """LIFE-23, REQ-9."""
    write_nodes(tmp_path, THREE)
    outcome = serve_command(command(*arguments), to_bytes(invoke()) + to_bytes(describe(id_="j")), cwd=tmp_path)
    for answer in outcome.by_id().values():
        assert answer["error"]["code"] == "RUNTIME_ERROR"
        assert arguments[-1] in answer["error"]["message"]
    assert outcome.status == 1


def test_a_traceback_of_a_broken_target_starts_in_its_file(tmp_path: Path) -> None:
    """LIFE-23, ERR-7."""
    outcome = serve(tmp_path, "def fail():\n    1 / 0\n\nfail()\n", invoke())
    stack = outcome.error["stack"]
    assert 'nodes.py", line' in stack.splitlines()[1]
    assert "octonode_sdk" not in stack
    assert stack in outcome.stderr


def test_a_target_whose_name_is_no_utf_8_is_answered(tmp_path: Path) -> None:
    """ERR-20, LIFE-23."""
    outcome = serve_command(
        [*command(), b"missing-\xff.py".decode("utf-8", "surrogateescape")], to_bytes(invoke()), cwd=tmp_path
    )
    assert outcome.error["code"] == "RUNTIME_ERROR"


def test_sources_in_utf_8_are_read_under_any_locale(tmp_path: Path) -> None:
    """C031: non-ASCII source, an emoji in the log and in the answer."""
    source = '''
        import logging
        from pathlib import Path

        @node
        def grüße(name: str) -> str:
            """Grüßt 世界."""
            print("print 😀")
            logging.warning("log 😀 \\udcff")
            sys.__stderr__.write("err 😀\\n")
            return "Grüße, " + name + Path(__file__).stem
        '''
    path = write_nodes(tmp_path, source)
    for environment in (
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {},
    ):
        data = to_bytes(invoke("grüße", name="世界")) + to_bytes(describe(id_="d"))
        outcome = serve_command(command(path), data, cwd=tmp_path, **environment)
        answers = outcome.by_id()
        assert answers["i"]["outputs"] == {"output": "Grüße, 世界nodes"}
        assert answers["d"]["manifest"]["description"] == "Grüßt 世界."
        for word in ("print 😀", "log 😀 \\udcff", "err 😀"):
            assert word in outcome.stderr


def test_an_invoke_of_a_light_node_loads_nothing_heavy(tmp_path: Path) -> None:
    """Our own choice: start-up is a feature; the whole list of modules is looked at."""
    source = """
        from typing import Annotated, Literal, Optional
        from octonode_sdk import Field

        @node
        def modules(
            text: str,
            count: Annotated[int, Field(ge=1)] = 1,
            mode: Literal["a", "b"] = "a",
            rest: Optional[list[dict[str, float]]] = None,
        ) -> list[str]:
            return sorted(sys.modules)
        """
    outcome = serve(tmp_path, source, invoke(text="x", count=2, mode="b", rest=[{"a": 1}]))
    loaded = {name.partition(".")[0] for name in outcome.outputs["output"]}
    heavy = {
        "asyncio",
        "pydantic",
        "pydantic_core",
        "numpy",
        "PIL",
        "msgpack",
        "inspect",
        "logging",
        "argparse",
        "dataclasses",
    }
    heavy |= {
        "json",
        "subprocess",
        "concurrent",
        "socket",
        "selectors",
        "ast",
        "dis",
        "tokenize",
        "traceback",
        "docstring_parser",
    }
    assert not loaded & heavy


def test_a_module_that_the_target_loads_is_first_imported_on_the_main_thread(tmp_path: Path) -> None:
    """LIFE-20, C029: a native library must not be loaded first on another thread."""
    (tmp_path / "helper_of_nodes.py").write_text(
        "import threading\nON_MAIN = threading.current_thread() is threading.main_thread()\n", encoding="utf-8"
    )
    source = """
        import helper_of_nodes
        here = threading.current_thread() is threading.main_thread()

        @node
        def where() -> list[bool]:
            return [here, helper_of_nodes.ON_MAIN]
        """
    assert serve(tmp_path, source, invoke()).outputs == {"output": [True, True]}


def test_head_of_a_node_file_is_light() -> None:
    """Our own choice: what the tests put before each node file must not hide what a runner loads."""
    assert json.dumps(HEAD).count("import") == 2
