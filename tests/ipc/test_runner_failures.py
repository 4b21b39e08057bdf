"""The runner as a process: what comes of a call that fails, and how secrets stay hidden."""

from pathlib import Path
from typing import Any

import pytest

from tests.ipc.support import invoke, serve

#: A secret that no text of ours contains.
SECRET = "tok-9f8e7d6c5b4a"


# Failures

FAILURES = """
    from typing import Any

    class Busy(Exception):
        pass

    class Wordless(Exception):
        pass

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    class Deadly(Exception):
        def __str__(self):
            sys.exit(3)

    def cause():
        try:
            1 / 0
        except ZeroDivisionError as error:
            raise ValueError("outer") from error

    FAULTS = {
        "value": lambda: int("x"),
        "exit": lambda: sys.exit(3),
        "interrupt": lambda: exec("raise KeyboardInterrupt"),
        "generator exit": lambda: exec("raise GeneratorExit"),
        "stop": lambda: next(iter([])),
        "timeout": lambda: exec("raise TimeoutError('late')"),
        "memory": lambda: exec("raise MemoryError"),
        "os": lambda: open("missing.txt"),
        "bare base": lambda: exec("raise BaseException('base')"),
        "recursion": lambda: (lambda f: f(f))(lambda f: f(f)),
        "wordless": lambda: exec("raise Wordless", globals()),
        "mute": lambda: exec("raise Mute", globals()),
        "deadly": lambda: exec("raise Deadly", globals()),
        "group": lambda: exec("raise ExceptionGroup('many', [ValueError('a'), KeyError('b')])"),
        "cause": cause,
        "surrogate": lambda: exec("raise ValueError(chr(0xD800))"),
        "no": lambda: exec("raise NodeError('no')", globals()),
        "again": lambda: exec("raise NodeError('again', retryable=True)", globals()),
        "silent": lambda: exec("raise NodeError()", globals()),
        "limited": lambda: exec(
            "raise NodeError('slow down', retryable=True, code='RATE_LIMITED', details={'after': 3})", globals()),
        "coded": lambda: exec("raise NodeError('x', code='TIMEOUT', details=[1])", globals()),
        "odd details": lambda: exec("raise NodeError('x', details={'a': object(), 'b': float('nan')})", globals()),
        "busy": lambda: exec("raise Busy('busy')", globals()),
    }

    @node(retry_on=(Busy, NodeError))
    def fail(name: str) -> None:
        FAULTS[name]()

    @node
    async def fail_async(name: str) -> None:
        FAULTS[name]()
    """


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The error of each failure, by node and name; and one good call behind them all."""
    names = [line.split('"')[1] for line in FAILURES.splitlines() if line.strip().startswith('"') and '": ' in line]
    calls = [invoke(node, f"{node} {name}", name=name) for name in names for node in ("fail", "fail_async")]
    outcome = serve(tmp_path_factory.mktemp("failures"), FAILURES, *calls)
    assert outcome.status == 0
    answers = outcome.by_id()
    assert len(answers) == len(calls) == 2 * 23
    return {id_: answer["error"] for id_, answer in answers.items()}


@pytest.mark.parametrize("node", ["fail", "fail_async"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("value", "ValueError: invalid literal"),
        ("exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("generator exit", "GeneratorExit"),
        ("stop", "StopIteration"),
        ("timeout", "TimeoutError: late"),
        ("memory", "MemoryError"),
        ("os", "FileNotFoundError: [Errno 2]"),
        ("bare base", "BaseException: base"),
        ("recursion", "RecursionError: maximum recursion depth"),
        ("wordless", "Wordless"),
        ("mute", "Mute: <its text can't be made: RuntimeError>"),
        ("deadly", "Deadly: <its text can't be made: SystemExit>"),
        ("group", "ExceptionGroup: many (2 sub-exceptions) [ValueError: a; KeyError: 'b']"),
        ("cause", "ValueError: outer"),
        ("surrogate", "ValueError: \\ud800"),
    ],
)
def test_whatever_a_node_raises_is_a_runtime_error(
    failures: dict[str, Any], node: str, name: str, message: str
) -> None:
    """ERR-1, ERR-2, ERR-4, ERR-6, ERR-14, ERR-20, ERR-22, RES-13: and ends neither the process nor its loop."""
    error = failures[f"{node} {name}"]
    assert (error["code"], error["retryable"]) == ("RUNTIME_ERROR", False)
    assert error["message"].startswith(message)
    assert isinstance(error["stack"], str)
    assert "details" not in error


def test_a_traceback_starts_with_the_author_s_frame_and_keeps_the_causes(failures: dict[str, Any]) -> None:
    """ERR-6, ERR-7."""
    for node in ("fail", "fail_async"):
        stack = failures[f"{node} cause"]["stack"]
        assert "ZeroDivisionError: division by zero" in stack
        assert "direct cause" in stack
        assert stack.rstrip().endswith("ValueError: outer")
        assert "octonode_sdk" not in stack
        assert "asyncio" not in stack
        last = stack.split("direct cause of the following exception:")[1].strip().splitlines()
        assert f", in {node}" in last[1]


def test_node_errors_say_whether_to_try_again(failures: dict[str, Any]) -> None:
    """ERR-2, ERR-12, ERR-13, ERR-15: a NodeError keeps its own flag, also where the class is in `retry_on`."""
    assert (failures["fail no"]["code"], failures["fail no"]["retryable"]) == ("NON_RETRYABLE", False)
    assert failures["fail no"]["message"] == "no"
    assert (failures["fail again"]["code"], failures["fail again"]["retryable"]) == ("RUNTIME_ERROR", True)
    assert failures["fail silent"]["message"]


def test_an_exception_that_the_node_lists_is_worth_a_retry(failures: dict[str, Any]) -> None:
    """ERR-15."""
    assert (failures["fail busy"]["code"], failures["fail busy"]["retryable"]) == ("RUNTIME_ERROR", True)
    assert failures["fail_async busy"]["retryable"] is False


def test_a_code_of_the_author_s_own_is_kept_in_the_details(failures: dict[str, Any]) -> None:
    """ERR-1, ERR-5, ERR-16, C014."""
    assert failures["fail limited"]["code"] == "RUNTIME_ERROR"
    assert failures["fail limited"]["retryable"] is True
    assert failures["fail limited"]["details"] == {"code": "RATE_LIMITED", "after": 3}
    assert failures["fail coded"]["code"] == "NON_RETRYABLE"
    assert failures["fail coded"]["details"] == {"code": "TIMEOUT", "details": [1]}


def test_details_that_cannot_be_sent_do_not_cost_the_answer(failures: dict[str, Any]) -> None:
    """ERR-20."""
    error = failures["fail odd details"]
    assert error["code"] == "NON_RETRYABLE"
    assert error["details"]["b"] == "NaN"
    assert error["details"]["a"].startswith("<object object")


# Secrets

SECRETS = """
    import logging
    from octonode_sdk import Secret

    @node(secrets=["API_KEY", Secret("OPTIONAL", required=False)])
    def use(name: str, *, ctx: Context) -> str:
        key = ctx.secret("API_KEY")
        if name == "print":
            print("print", key)
            os.write(2, b"raw line\\n")
            logging.warning("logging %s", key)
            sys.__stderr__.write(f"err {key!r}\\n")
            ctx.log(f"log {key}")
            ctx.progress(1, 2, f"progress {key}")
            ctx.preview({"header": key})
        if name == "error":
            raise ValueError(f"401 for {key}")
        if name == "node error":
            raise NodeError(f"no {key}", details={key: [f"Bearer {key}"]}, code=key)
        if name == "output":
            return {key: 1}
        if name == "undeclared":
            ctx.secret("HOME")
        return str([ctx.secret("OPTIONAL")])
    """


def test_a_secret_is_masked_in_everything_that_people_see(tmp_path: Path) -> None:
    """ERR-21, CTX-11, C103: error, details, traceback, log, print, progress, preview."""
    names = ("print", "error", "node error", "output", "undeclared", "nothing")
    outcome = serve(tmp_path, SECRETS, *(invoke(id_=name, name=name) for name in names), API_KEY=SECRET)
    assert SECRET not in outcome.stdout.decode()
    assert SECRET not in outcome.stderr
    for word in ("print ***", "logging ***", "err '***'", "log ***", "progress ***", "{'header': '***'}", "raw line"):
        assert word in outcome.stderr
    answers = outcome.by_id()
    assert answers["error"]["error"]["message"] == "ValueError: 401 for ***"
    assert "401 for ***" in answers["error"]["error"]["stack"]
    assert answers["node error"]["error"]["details"] == {"code": "***", "***": ["Bearer ***"]}
    assert "'HOME' is not declared" in answers["undeclared"]["error"]["message"]
    assert answers["nothing"]["outputs"] == {"output": "[None]"}


def test_a_secret_of_several_lines_is_masked_in_the_log(tmp_path: Path) -> None:
    """ERR-21: also where the log indents what follows a line break, and where a long text is shortened."""
    key = "-----BEGIN KEY-----\n" + "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"[n:] + "Q" * n for n in range(4))
    source = SECRETS.replace("Bearer", "x").replace('"header": key', '"header": [key]')
    outcome = serve(tmp_path, source, *(invoke(id_=name, name=name) for name in ("print", "error")), API_KEY=key)
    for part in (line for line in key.splitlines() if "BEGIN" not in line):
        assert part not in outcome.stderr
        assert part not in outcome.stdout.decode()


def test_a_missing_secret_is_told_before_the_node_runs(tmp_path: Path) -> None:
    """CTX-12: all that are missing, by the name of the variable; an empty one is missing too."""
    source = """
        @node(secrets=["FIRST_KEY", "SECOND_KEY", "THIRD_KEY"])
        def use(*, ctx: Context) -> None:
            print("ran")
        """
    outcome = serve(tmp_path, source, invoke(), SECOND_KEY="x", THIRD_KEY="")
    assert (outcome.error["code"], outcome.error["retryable"]) == ("NON_RETRYABLE", False)
    assert "FIRST_KEY, THIRD_KEY" in outcome.error["message"]
    assert "SECOND_KEY" not in outcome.error["message"]
    assert outcome.error["details"] == {"missing": ["FIRST_KEY", "THIRD_KEY"]}
    assert "stack" not in outcome.error
    assert outcome.stderr == ""
