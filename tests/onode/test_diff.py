"""`onode diff`: what is compatible, what breaks, what is read, and the exit statuses."""

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onode.diff import BREAKING, COMPATIBLE, UNCLEAR, Change, compare, read_nodes, summary, verdict_of
from onode.diff_command import diff
from onode.errors import DONE, NOT_FINE, WRONG, UsageError
from onode.paper import Paper
from tests.data_cases import load_cases, parametrize_cases

OLD: dict[str, Any] = {
    "id": "greet",
    "language": "python",
    "inputs": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
NARROWED: dict[str, Any] = {
    **OLD,
    "inputs": {**OLD["inputs"], "properties": {"name": {"type": "string", "maxLength": 9}}},
}
UNSURE: dict[str, Any] = {
    **OLD,
    "inputs": {**OLD["inputs"], "properties": {"name": {"type": "string", "not": {"const": "Ada"}}}},
}


def changes_between(old: Any, new: Any) -> list[Change]:
    """Compare two values as they stand in files."""
    return compare(read_nodes(old, "old"), read_nodes(new, "new"))


def write(folder: Path, name: str, value: Any) -> str:
    """Write a value as JSON, bytes as they are; return the path."""
    path = folder / name
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return str(path)


# What is judged


@parametrize_cases("onode/diff")
def test_change_is_judged_with_its_place_and_reason(case: dict[str, Any]) -> None:
    """Our own choice: inputs may take more, outputs may give less, and a new name needs the old one as an alias."""
    found = changes_between(case["old"], case["new"])
    assert [[one.path, one.verdict, one.reason] for one in found] == case["changes"]


@parametrize_cases("onode/diff")
def test_nodes_compared_with_themselves_have_no_changes(case: dict[str, Any]) -> None:
    """Our own choice: no change, no line."""
    for side in ("old", "new"):
        assert changes_between(case[side], case[side]) == []


def test_added_and_removed_things_swap_when_the_sides_do() -> None:
    """Our own choice: what an old version lacks is added, what a new one lacks is removed; each is told once."""
    for case in load_cases("onode/diff"):
        there = changes_between(case["old"], case["new"])
        back = changes_between(case["new"], case["old"])
        assert bool(there) == bool(back), case["name"]


@pytest.mark.parametrize("folder", ["manifests", "nodetool/metadata"])
def test_what_our_own_nodes_say_of_themselves_can_be_compared(folder: str) -> None:
    """Our own choice: every manifest and entry of the golden files is read, and none differs from itself."""
    names = ["bare", "collect", "everything", "grow", "measure", "split_later", "split_words"]
    nodes = [load_cases(f"{folder}/{name}") for name in names]
    assert changes_between(nodes, json.loads(json.dumps(nodes))) == []
    assert len(read_nodes(nodes, "nodes").manifests) == len(names)


@pytest.mark.parametrize(
    ("verdicts", "allowed", "verdict"),
    [
        ([], False, COMPATIBLE),
        ([COMPATIBLE], False, COMPATIBLE),
        ([COMPATIBLE, BREAKING], True, BREAKING),
        ([COMPATIBLE, UNCLEAR], False, BREAKING),
        ([COMPATIBLE, UNCLEAR], True, COMPATIBLE),
    ],
    ids=["none", "compatible", "breaking", "unclear", "unclear-allowed"],
)
def test_verdict_is_that_of_the_worst_change(verdicts: list[str], allowed: bool, verdict: str) -> None:
    """Our own choice: what can't be decided counts as breaking unless the caller allows it."""
    changes = [Change("greet", "$", one, "why") for one in verdicts]
    assert verdict_of(changes, allow_unclear=allowed) == verdict


def test_summary_counts_the_changes_by_verdict() -> None:
    """Our own choice: the line under the changes."""
    changes = [Change("greet", "$", one, "why") for one in (COMPATIBLE, BREAKING, COMPATIBLE)]
    assert summary(changes) == "3 changes: 1 breaking, 2 compatible"
    assert summary([]) == "no changes"


# What is read


@pytest.mark.parametrize(
    "form",
    [
        OLD,
        [OLD],
        {"greet": OLD},
        {"nodes": [OLD], "failed": []},
        {"octonode": "1", "type": "manifest", "invocationId": "i", "status": "ok", "manifest": OLD},
        [{"octonode": "1", "type": "manifest", "invocationId": "i", "status": "ok", "manifest": OLD}],
    ],
    ids=["manifest", "list", "map", "nodes", "envelope", "envelopes"],
)
def test_nodes_are_found_in_each_form_in_which_they_are_printed(form: Any) -> None:
    """Our own choice: one manifest, a list or a map of them, or the answers of describe."""
    assert read_nodes(form, "file").manifests == {"greet": OLD}
    assert changes_between(OLD, form) == []


def test_entries_are_found_in_a_frame_of_discover() -> None:
    """Our own choice: what a NodeTool worker answers can be kept as it is."""
    frame = {"type": "discover", "data": {"protocol_version": 6, "nodes": [{"node_type": "a.B"}], "load_errors": []}}
    assert [*read_nodes(frame, "file").manifests] == ["a.B"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "old: 5 is no node; expected a manifest"),
        ([1], "old: 1 is no node"),
        ({}, "old: holds an object that is no node"),
        ({"greet": 1}, "old: holds an object that is no node"),
        ({"id": 7}, "old: the id of a node is 7; expected a text"),
        ([OLD, OLD], "old: the node 'greet' is there twice"),
        ([[[[[[OLD]]]]]], "old: list of 1 items is no node"),
        ({"id": "a", "inputs": 5}, "old: node 'a', inputs: $ is 5; expected a JSON Schema"),
        ({"id": "a", "outputs": {"type": 5}}, "old: node 'a', outputs: $.type is 5; expected a text or list of texts"),
        ({"id": "a", "defaults": []}, "old: node 'a': 'defaults' is []; expected an object"),
        ({"id": "a", "service": {"methods": [1]}}, "old: node 'a': the methods of the service are [1]; expected"),
        ({"id": "a", "secrets": [1]}, "old: node 'a': a secret is 1; expected the name of a variable"),
        ({"status": "error", "error": {"message": "no"}}, "old: holds an answer that failed: 'no'; describe the node"),
        ([OLD, {"node_type": "a.B"}], "old: holds manifests of Octonode and entries of NodeTool"),
        ({"node_type": "a.B", "properties": [{}]}, "is no entry of discover: KeyError('name')"),
        ({"node_type": "a.B", "properties": [{"name": "a", "type": 5}]}, "is no entry of discover: TypeError"),
        ({"node_type": "a.B", "properties": 5}, "is no entry of discover"),
    ],
    ids=lambda value: None if isinstance(value, str) else json.dumps(value)[:40],
)
def test_what_holds_no_nodes_is_refused_with_the_place(value: Any, message: str) -> None:
    """Our own choice: a comparison that makes no sense is status 2, never `compatible`."""
    with pytest.raises(UsageError) as caught:
        read_nodes(value, "old")
    assert message in caught.value.text
    assert caught.value.status == WRONG


def test_manifests_are_not_compared_with_entries() -> None:
    """Our own choice: the two hosts have names of their own for nodes and types."""
    with pytest.raises(UsageError, match="the old nodes are octonode's and the new ones nodetool's"):
        changes_between(OLD, {"node_type": "a.B"})


# The command


@pytest.mark.parametrize(
    ("new", "allow_unclear", "status"),
    [
        (OLD, False, DONE),
        ({**OLD, "description": "Greets."}, False, DONE),
        (NARROWED, True, NOT_FINE),
        (UNSURE, False, NOT_FINE),
        (UNSURE, True, DONE),
    ],
    ids=["same", "compatible", "breaking", "unclear", "unclear-allowed"],
)
def test_status_tells_ci_whether_something_breaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], new: Any, allow_unclear: bool, status: int
) -> None:
    """Our own choice: 0 for the same or compatible, 1 for breaking."""
    paths = write(tmp_path, "old.json", OLD), write(tmp_path, "new.json", new)
    assert diff(Paper(), *paths, allow_unclear=allow_unclear) == status
    assert capsys.readouterr().err == ""


def test_changes_are_printed_as_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our own choice: verdict, node, path and change in columns, and the counts below."""
    assert diff(Paper(), write(tmp_path, "old.json", OLD), write(tmp_path, "new.json", NARROWED)) == NOT_FINE
    assert capsys.readouterr().out == (
        "breaking  greet  $.inputs.name  takes less: the old type has no maxLength, the new type 9\n"
        "1 change: 1 breaking\n"
    )


def test_changes_are_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our own choice: the same for programs."""
    paths = write(tmp_path, "old.json", OLD), write(tmp_path, "new.json", UNSURE)
    assert diff(Paper(as_json=True), *paths) == NOT_FINE
    change = {
        "node": "greet",
        "path": "$.inputs.name",
        "verdict": "unclear",
        "reason": 'may take less: the not {"const": "Ada"} of the new type can\'t be compared',
    }
    assert json.loads(capsys.readouterr().out) == {"verdict": "breaking", "changes": [change]}


def test_answers_are_read_line_by_line_and_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own choice: what a runner printed in worker mode is compared as it is."""
    lines = [{"type": "manifest", "status": "ok", "manifest": {**OLD, "id": id_}} for id_ in ("a", "b")]
    data = b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(line).encode() for line in lines) + b"\n\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert diff(Paper(), write(tmp_path, "old.json", data), "-") == DONE


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no JSON"),
        (b"{", "is no JSON"),
        (b"{}\n{\n", "is no JSON"),
        (b'{"id": NaN}', "is no JSON"),
        (b"\xff", "is no UTF-8 (byte 0)"),
        (b'{"id":"a","inputs":' + b'{"items":' * 5000 + b"{}" + b"}" * 5001, "is nested too deep"),
        (None, "can't be read: No such file or directory"),
    ],
    ids=["empty", "cut-off", "lines", "nan", "utf8", "deep", "missing"],
)
def test_file_that_cannot_be_read_is_named(tmp_path: Path, data: bytes | None, message: str) -> None:
    """Our own choice: status 2, one line, with the file."""
    path = str(tmp_path / "none.json") if data is None else write(tmp_path, "bad.json", data)
    with pytest.raises(UsageError) as caught:
        diff(Paper(), write(tmp_path, "old.json", OLD), path)
    assert caught.value.text.startswith(f"{path}: {message}")


def test_stdin_is_not_read_twice() -> None:
    """Our own choice: two dashes would compare something with nothing."""
    with pytest.raises(UsageError, match="stdin can be read once"):
        diff(Paper(), "-", "-")


def test_command_ends_with_the_status(tmp_path: Path, interpreter: str) -> None:
    """Our own choice: 0 compatible, 1 breaking, 2 unreadable, for a script to go by."""
    old, new = write(tmp_path, "old.json", OLD), write(tmp_path, "new.json", NARROWED)
    statuses = [
        subprocess.run([interpreter, "-m", "onode", "diff", *words], capture_output=True, timeout=60).returncode
        for words in ([old, old], [old, new], [old, str(tmp_path / "none.json")], [old])
    ]
    assert statuses == [DONE, NOT_FINE, WRONG, WRONG]
