"""Who runs against whom, the request that all of them get, and what they must answer.

Pure: nothing here starts a process. Children run in the directory of this file, so that
`python -m bare` is the first thing on the module path and `octonode_sdk` is the installed one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Case:
    """A node, and the one call of it that is measured.

    Fields:
        target: The file that holds the node, beside this one.
        node: Its id, the name of the function.
        inputs: What it is called with.
        output: What it must give back on its port `output`.
    """

    target: str
    node: str
    inputs: Mapping[str, Any]
    output: Any


LIGHT: Final = Case(
    target="light.py",
    node="quote",
    inputs={
        "customer": "Ada Lovelace",
        "prices": {"gear": 12.5, "lever": 3.25, "drum": 199},
        "quantities": {"gear": 40, "lever": 12},
        "currency": "GBP",
        "discount": 0.05,
        "reference": 1843,
        "labels": ["engine", 7],
        "gift": True,
    },
    output={
        "title": "Ada Lovelace: 3 articles",
        "total": 701.1,
        "currency": "GBP",
        "reference": 1843,
        "tags": ["engine", "7", "gift"],
    },
)
GREET: Final = Case(target="greet.py", node="greet", inputs={"name": "Ada"}, output="Hello, Ada")


class ContenderError(Exception):
    """A contender did not do its work, so its time would mean nothing.

    Args:
        contender: Which one, as in the table.
        fault: What it did, with the value where there is one.
        stderr: What it wrote to stderr; the end of it becomes part of the text.
    """

    def __init__(self, contender: str, fault: str, stderr: str = "") -> None:
        self.contender = contender
        self.fault = fault
        self.stderr = stderr
        tail = "".join(f"\n  | {line}" for line in stderr.splitlines()[-15:])
        super().__init__(f"{contender}: {fault}{tail}")


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every child: the caller's, without switches that change a race.

    `PYTHONDONTWRITEBYTECODE` would make each start compile anew, others slow down or speed up
    the output; `OCTONODE_*` and `NODETOOL_*` choose nodes and limits. The module path stays, absolute, as
    children run elsewhere.
    """
    switches = ("PYTHON", "OCTONODE_", "NODETOOL_")
    kept = {name: value for name, value in environment.items() if not name.startswith(switches)}
    if path := environment.get("PYTHONPATH"):
        kept["PYTHONPATH"] = ":".join(str(Path(entry).resolve()) for entry in path.split(":"))
    return kept


def ours(python: str, case: Case) -> list[str]:
    """Return the command that serves the node of `case`, one-shot and looping."""
    return [python, "-m", "octonode_sdk", case.target]


def bare(python: str, target: str) -> list[str]:
    """Return the command of the bare runner for one of its two targets, both for `LIGHT`."""
    return [python, "-m", "bare", target]


def echo(python: str) -> list[str]:
    """Return the command of the line echo."""
    return [python, "echo.py"]


def worker(python: str, target: str) -> list[str]:
    """Return the command of our NodeTool worker with the nodes of one file."""
    return [python, "-m", "nodetool_worker", "--stdio", "--nodes", target]


def worker_echo(python: str) -> list[str]:
    """Return the command of the frame echo."""
    return [python, "worker_echo.py"]


def request_line(case: Case, invocation_id: str) -> bytes:
    """Return the `invoke` request of `case`, with its LF."""
    request = {
        "octonode": "1",
        "type": "invoke",
        "invocationId": invocation_id,
        "node": case.node,
        "inputs": case.inputs,
        "context": {"config": {}, "attempt": 1, "env": "prod"},
    }
    return json.dumps(request, separators=(",", ":")).encode() + b"\n"


def request_lines(case: Case, count: int, *, first: int = 0) -> list[bytes]:
    """Return `count` requests of `case` whose ids are the numbers from `first` on."""
    return [request_line(case, str(number)) for number in range(first, first + count)]


def check_answers(contender: str, case: Case, requests: Sequence[bytes], answers: bytes) -> None:
    """Refuse answers that are not one right result for each request, in any order.

    Args:
        contender: Whom to blame.
        case: What the requests ask for.
        requests: Lines as `request_lines` makes them.
        answers: All that came back, as it came.

    Raises:
        ContenderError: The count, an id or an output is wrong.
    """
    result = {"octonode": "1", "type": "result", "status": "ok", "outputs": {"output": case.output}}
    open_ids = {json.loads(line)["invocationId"] for line in requests}
    if not answers.endswith(b"\n"):
        raise ContenderError(contender, f"the last answer has no LF: {answers[-80:]!r}")
    lines = answers[:-1].split(b"\n")
    if len(lines) != len(requests):
        raise ContenderError(contender, f"{len(lines)} answers to {len(requests)} requests")
    for line in lines:
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise ContenderError(contender, f"an answer is not JSON: {line[:200]!r}") from error
        if not isinstance(answer, dict):
            raise ContenderError(contender, f"an answer is not an object: {line[:200]!r}")
        invocation_id = answer.pop("invocationId", None)
        if not isinstance(invocation_id, str) or invocation_id not in open_ids:
            raise ContenderError(contender, f"id {invocation_id!r} was answered twice or never asked")
        open_ids.discard(invocation_id)
        if answer != result:
            raise ContenderError(contender, f"wrong answer {line[:500]!r}")


def check_echo(contender: str, requests: Sequence[bytes], answers: bytes) -> None:
    """Refuse an echo that is not byte for byte what was sent.

    Raises:
        ContenderError: It is not.
    """
    if answers != b"".join(requests):
        raise ContenderError(contender, "the lines did not come back as they were sent")
