"""The runner as a process: what it makes of the lines on stdin, and what its own lines look like."""

from pathlib import Path

import pytest

from tests.ipc.support import (
    Process,
    describe,
    gate,
    invoke,
    request,
    serve,
    to_bytes,
)

GREET = """
    @node
    def greet(name: str = "you") -> str:
        return "Hello, " + name
    """

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

ECHO = """
    @node
    def size(text: str) -> int:
        return len(text)
    """


def test_one_request_gets_one_line(tmp_path: Path) -> None:
    """LIFE-1, LINE-1, LINE-13, RES-5: the one-shot exchange, byte for byte."""
    outcome = serve(tmp_path, GREET, invoke("greet", "f1e2", name="Ada"))
    expected = '{"octonode":"1","type":"result","invocationId":"f1e2","status":"ok","outputs":{"output":"Hello, Ada"}}'
    assert outcome.stdout.decode() == expected + "\n"
    assert (outcome.status, outcome.stderr) == (0, "")


def test_a_loop_is_served_by_the_same_process_without_a_flag(tmp_path: Path) -> None:
    """LIFE-1, LIFE-2: each line is answered before the next one is sent."""
    with Process(tmp_path, GREET) as runner:
        for number in range(5):
            runner.send(invoke("greet", f"i{number}", name=str(number)))
            assert runner.answer()["outputs"] == {"output": f"Hello, {number}"}
        outcome = runner.finish()
    assert (outcome.status, outcome.answers) == (0, [])


def test_the_last_line_may_lack_its_line_end(tmp_path: Path) -> None:
    """LINE-5, C020."""
    outcome = serve(tmp_path, GREET, invoke("greet", "a"), to_bytes(invoke("greet", "b")).rstrip(b"\n"))
    assert set(outcome.by_id()) == {"a", "b"}
    assert outcome.status == 0


def test_every_kind_of_bad_line_is_answered_and_the_good_ones_between_are_served(tmp_path: Path) -> None:
    """LINE-6, LINE-7, LINE-11, REQ-1 to REQ-5, RES-3, RES-4, RES-6, ERR-8, ERR-22."""
    bad = {
        "unknown": [b"hello\n", b"[]\n", b"null\n", b"\xff\xfe\n", b"{}\n", b'"x"\n', b"\x00\n", b'{"octonode":"1"\n'],
        "a": [b'{"octonode":"2","type":"invoke","invocationId":"a"}\n'],
        "b": [b'{"octonode":"1","type":"stop","invocationId":"b"}\n'],
        "c": [to_bytes(request("invoke", "c", inputs=[1]))],
        "d": [to_bytes(request("invoke", "d", inputs={}, context={"attempt": 0}))],
        "e": [b'{"octonode":"1","type":"invoke","invocationId":"e","inputs":{"name":NaN}}\n'],
        "f": [b'{"octonode":"1","type":"invoke","invocationId":"f","inputs":{"name":"\xff"}}\n'],
        "": [b'{"octonode":"1","type":"invoke","invocationId":"","inputs":3}\n'],
    }
    lines: list[bytes] = []
    for group in bad.values():
        for line in group:
            lines += [line, to_bytes(invoke("greet", f"good {len(lines)}"))]
    outcome = serve(tmp_path, GREET, *lines)
    ids = [answer["invocationId"] for answer in outcome.answers]
    assert sorted(ids) == sorted(
        [id_ for id_, group in bad.items() for _ in group] + [f"good {n}" for n in range(0, len(lines), 2)]
    )
    for answer in outcome.answers:
        assert answer["type"] == "result"
        if not answer["invocationId"].startswith("good"):
            assert answer["error"]["code"] == "VALIDATION_ERROR"
            assert answer["error"]["retryable"] is False
            assert "stack" not in answer["error"]
        else:
            assert answer["outputs"] == {"output": "Hello, you"}
    assert outcome.status == 0


def test_faults_of_an_envelope_are_listed_with_their_paths(tmp_path: Path) -> None:
    """CTX-7, ERR-17, ERR-18, ERR-19."""
    outcome = serve(tmp_path, GREET, request("invoke", "i", inputs=1, context={"runId": 2, "deadlineMs": "soon"}))
    errors = outcome.error["details"]["errors"]
    assert [one["path"] for one in errors] == ["$.inputs", "$.context.runId", "$.context.deadlineMs"]
    assert all(one["message"] for one in errors)


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    """LINE-2, LINE-3, LINE-14, C007, C008: and the answers have LF alone."""
    lines = [to_bytes(invoke("greet", id_)).replace(b"\n", b"\r\n") for id_ in ("a", "b")]
    outcome = serve(tmp_path, GREET, b"\xef\xbb\xbf" + b"".join(lines))
    assert {id_: answer["status"] for id_, answer in outcome.by_id().items()} == {"a": "ok", "b": "ok"}
    assert b"\r" not in outcome.stdout


def test_blank_lines_are_skipped_while_the_loop_goes_on(tmp_path: Path) -> None:
    """LINE-4, C011: the real request is answered under its own id."""
    with Process(tmp_path, GREET) as runner:
        runner.send(b"\n", b"   \t \r\n", invoke("greet", "real"))
        assert runner.answer()["invocationId"] == "real"
        outcome = runner.finish()
    assert (outcome.status, outcome.answers) == (0, [])


@pytest.mark.parametrize("data", [b"\n", b"  \t\r\n\n", b" ", b"\xef\xbb\xbf"])
def test_input_without_a_request_is_status_1_with_a_message(tmp_path: Path, data: bytes) -> None:
    """LIFE-6, C011: no half envelope."""
    outcome = serve(tmp_path, GREET, data)
    assert (outcome.status, outcome.stdout) == (1, b"")
    assert "no request" in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_input_without_a_byte_is_a_host_that_changed_its_mind(tmp_path: Path) -> None:
    """LIFE-5."""
    outcome = serve(tmp_path, GREET)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, b"", "")


@pytest.mark.parametrize("cap", [200, 1000])
def test_a_line_over_the_cap_is_refused_and_the_next_one_served(tmp_path: Path, cap: int) -> None:
    """LINE-8, LINE-9: exactly the cap is fine; its id is taken from the head of the line."""

    def padded(size: int, id_: str) -> bytes:
        line = to_bytes(invoke("size", id_, text=""))[:-1]
        return line.replace(b'""', b'"' + b"x" * (size - len(line)) + b'"') + b"\n"

    lines = [padded(cap, "fits"), padded(cap + 1, "over"), padded(cap * 50, "far over"), padded(cap - 1, "next")]
    outcome = serve(tmp_path, ECHO, *lines, b"y" * (cap + 1), arguments=("--max-line-bytes", cap))
    answers = outcome.by_id()
    assert {id_ for id_, answer in answers.items() if answer["status"] == "ok"} == {"fits", "next"}
    assert set(answers) == {"fits", "over", "far over", "next", "unknown"}
    for id_ in ("over", "far over", "unknown"):
        assert answers[id_]["error"]["code"] == "VALIDATION_ERROR"
        assert str(cap) in answers[id_]["error"]["message"]
        assert "--max-line-bytes" in answers[id_]["error"]["message"]


def test_the_cap_can_be_set_by_a_variable(tmp_path: Path) -> None:
    """LINE-9."""
    outcome = serve(tmp_path, ECHO, invoke("size", text="x" * 500), OCTONODE_MAX_LINE_BYTES="300")
    assert "300" in outcome.error["message"]


def test_a_line_of_20_mb_is_served_and_so_is_the_next_one(tmp_path: Path) -> None:
    """LINE-10, C010: the peak of memory is a small multiple of the line."""
    source = """
        import resource

        @node
        def size(text: str) -> int:
            return len(text)

        @node
        def peak_kib() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        """
    with Process(tmp_path, source) as runner:
        runner.send(invoke("peak_kib", "before"))
        before = runner.answer()["outputs"]["output"]
        runner.send(invoke("size", "big", text="x" * 20_000_000), invoke("size", "small", text="x" * 1000))
        answers = runner.answers(2)
        assert answers["big"]["outputs"] == {"output": 20_000_000}
        assert answers["small"]["outputs"] == {"output": 1000}
        runner.send(invoke("peak_kib", "after"))
        after = runner.answer()["outputs"]["output"]
        assert runner.finish().status == 0
    assert (after - before) * 1024 < 6 * 20_000_000


def test_a_line_over_the_cap_costs_no_memory(tmp_path: Path) -> None:
    """LINE-8: it is read to its end without being stored."""
    source = """
        import resource

        @node
        def peak_kib() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        """
    with Process(tmp_path, source, "--max-line-bytes", 100_000) as runner:
        runner.send(invoke("peak_kib", "before"))
        before = runner.answer()["outputs"]["output"]
        for _ in range(60):
            runner.send(b"x" * 1_000_000)
        runner.send(b"\n")
        assert runner.answer()["error"]["message"].startswith("the line has 60000000 bytes")
        runner.send(invoke("peak_kib", "after"))
        after = runner.answer()["outputs"]["output"]
    assert (after - before) * 1024 < 20_000_000


def test_a_line_that_is_nested_too_deep_ends_nothing(tmp_path: Path) -> None:
    """LINE-12."""
    head = b'{"octonode":"1","type":"invoke","invocationId":"deep","inputs":{"a":'
    outcome = serve(
        tmp_path, GREET, head + b"[" * 200_000 + b"\n", head + b"9" * 10_000 + b"}}\n", invoke("greet", "next")
    )
    assert [answer["invocationId"] for answer in outcome.answers].count("deep") == 2
    (served,) = (answer for answer in outcome.answers if answer["invocationId"] == "next")
    assert served["status"] == "ok"


def test_a_silent_open_stdin_holds_nothing_up(tmp_path: Path) -> None:
    """LIFE-2, LIFE-9: the answer comes while the host sends nothing and closes nothing."""
    with Process(tmp_path, GREET) as runner:
        runner.send(to_bytes(invoke("greet", "a")) + b'{"octonode":"1",')
        assert runner.answer()["invocationId"] == "a"
        runner.send(b'"type":"invoke","invocationId":"b"}\n')
        assert runner.answer()["invocationId"] == "b"


def test_waiting_for_a_silent_host_costs_no_processor_time(tmp_path: Path) -> None:
    """LIFE-9: measured over the time that another process needs for its whole life."""
    source = """
        import time

        @node
        def used() -> float:
            return time.process_time()
        """
    with Process(tmp_path, source) as runner:
        runner.send(invoke("used", "warm"), invoke("used", "before"))
        before = runner.answers(2)["before"]["outputs"]["output"]
        for _ in range(3):
            serve(tmp_path, GREET)
        runner.send(invoke("used", "after"))
        after = runner.answer()["outputs"]["output"]
    assert after - before < 0.05


def test_ids_of_any_characters_come_back_unchanged(tmp_path: Path) -> None:
    """RES-2, LINE-14."""
    ids = ["", " ", "\u2028\u2029\x85", "é😀", "\ud800", 'a"b\\c', "\r\n", "x" * 100_000, "\0"]
    outcome = serve(
        tmp_path, GREET, *(invoke("greet", id_) for id_ in ids), *(describe("greet", "d" + id_) for id_ in ids)
    )
    assert set(outcome.by_id()) == {*ids, *("d" + id_ for id_ in ids)}
    assert all(answer["status"] == "ok" for answer in outcome.answers)


# Which node


def test_with_one_node_its_name_may_be_left_out(tmp_path: Path) -> None:
    """REQ-6."""
    outcome = serve(tmp_path, GREET, invoke(id_="a"), describe(id_="b"), invoke("greet", "c"), describe("greet", "d"))
    answers = outcome.by_id()
    assert all(answer["status"] == "ok" for answer in answers.values())
    assert answers["b"]["manifest"] == answers["d"]["manifest"]
    assert answers["b"]["manifest"]["id"] == "greet"


def test_with_several_nodes_a_request_says_which(tmp_path: Path) -> None:
    """REQ-7, REQ-8, RES-8, ERR-9, C016: a structured error that lists the known ids; never the wrong node."""
    outcome = serve(
        tmp_path,
        THREE,
        *(
            make(node, f"{kind} {node}")
            for kind, make in (("i", invoke), ("d", describe))
            for node in (None, "four", "Two", "", "two")
        ),
    )
    answers = outcome.by_id()
    for kind, type_ in (("i", "result"), ("d", "manifest")):
        for node in (None, "four", "Two", ""):
            answer = answers[f"{kind} {node}"]
            assert answer["type"] == type_
            assert answer["error"]["code"] == "VALIDATION_ERROR"
            assert answer["error"]["retryable"] is False
            assert "one, two, three" in answer["error"]["message"]
            assert node is None or repr(node) in answer["error"]["message"]
    assert answers["i two"]["outputs"] == {"output": 2}
    assert answers["d two"]["manifest"]["id"] == "two"


def test_an_unknown_name_is_refused_also_where_there_is_one_node(tmp_path: Path) -> None:
    """REQ-8."""
    outcome = serve(tmp_path, GREET, invoke("greeet"))
    assert "'greeet'" in outcome.error["message"]
    assert "greet" in outcome.error["message"]


def test_a_node_on_the_command_line_is_the_only_one(tmp_path: Path) -> None:
    """REQ-9."""
    outcome = serve(tmp_path, THREE, invoke(id_="a"), invoke("two", "b"), invoke("one", "c"), arguments=("two",))
    answers = outcome.by_id()
    assert answers["a"]["outputs"] == answers["b"]["outputs"] == {"output": 2}
    assert answers["c"]["error"]["code"] == "VALIDATION_ERROR"


def test_a_describe_runs_no_code_of_the_node(tmp_path: Path) -> None:
    """REQ-15, RES-7: and takes inputs and context of any type."""
    source = """
        @node
        def fail(name: str) -> str:
            raise AssertionError("ran")
        """
    outcome = serve(tmp_path, source, request("describe", "i", inputs=[1], context="x"), request("describe", "j"))
    for answer in outcome.by_id().values():
        assert answer["manifest"]["id"] == "fail"
        assert answer["manifest"]["language"] == "python"
        assert answer["manifest"]["inputs"]["properties"] == {"name": {"type": "string"}}
    assert "ran" not in outcome.stderr


def test_a_describe_in_escapes_is_a_describe(tmp_path: Path) -> None:
    """REQ-15: JSON has many spellings of a text."""
    line = b'{"octonode":"1","type":"d\\u0065scribe","invocationId":"i"}\n'
    outcome = serve(tmp_path, "@node\ndef fail() -> None:\n    print('ran')\n", line, invoke(id_='"describe"'))
    answers = outcome.by_id()
    assert answers["i"]["manifest"]["id"] == "fail"
    assert answers['"describe"']["outputs"] == {}
    assert outcome.stderr == "ran\n"


def test_a_type_that_fails_to_be_described_costs_its_own_answer_alone(tmp_path: Path) -> None:
    """RES-8, ERR-22: an error of the author's code, and the next request is served."""
    source = """
        from pydantic import BaseModel

        class Broken(BaseModel):
            value: int

            @classmethod
            def __get_pydantic_json_schema__(cls, schema, handler):
                raise SystemExit("no schema")

        @node
        def take(thing: Broken) -> int:
            return thing.value
        """
    outcome = serve(tmp_path, source, describe(id_="d"), invoke(id_="i", thing={"value": 3}))
    answers = outcome.by_id()
    assert answers["d"]["type"] == "manifest"
    assert answers["d"]["error"]["code"] == "RUNTIME_ERROR"
    assert answers["i"]["outputs"] == {"output": 3}
    assert outcome.status == 0


def test_a_bare_manifest_has_no_key_for_what_is_not_there(tmp_path: Path) -> None:
    """C013, MAN-17, RES-9: no label, description, icon, symbol, setup; null is nowhere."""
    outcome = serve(tmp_path, "@node\ndef bare() -> None:\n    pass\n", describe())
    assert set(outcome.answer["manifest"]) <= {"id", "language", "kind", "inputs", "outputs"}
    assert b"null" not in outcome.stdout


def test_the_manifest_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    """MAN-18: and in another process."""
    outcomes = [serve(tmp_path, GREET, describe(), describe()) for _ in range(2)]
    lines = {line for outcome in outcomes for line in outcome.stdout.splitlines()}
    assert len(lines) == 1


def test_unknown_inputs_are_told_once_and_do_no_harm(tmp_path: Path) -> None:
    """REQ-12, REQ-14: hosts send keys of their own."""
    lines = [invoke("greet", f"i{n}", name="Ada", _trace="x", extra=None) for n in range(20)]
    outcome = serve(tmp_path, GREET, *lines)
    assert all(answer["outputs"] == {"output": "Hello, Ada"} for answer in outcome.by_id().values())
    assert outcome.stderr.count("'_trace'") == outcome.stderr.count("'extra'") == 1
    assert "name" in outcome.stderr


def test_a_dynamic_node_gets_every_key(tmp_path: Path) -> None:
    """REQ-13."""
    source = """
        from typing import Any

        @node(dynamic=True)
        def gather(first: int, **rest: Any) -> dict[str, Any]:
            return {"first": first, **rest}
        """
    outcome = serve(tmp_path, source, invoke(first=1, a=[1], b=None))
    assert outcome.outputs == {"output": {"first": 1, "a": [1], "b": None}}
    assert outcome.stderr == ""


def test_a_describe_is_answered_while_every_lane_is_busy(tmp_path: Path) -> None:
    """LIFE-2, RES-11: what runs no node does not wait for one."""
    source = (
        GREET
        + """
    @node
    def wait() -> int:
        return len(open("gate", "rb", buffering=0).read(1))
    """
    )
    with gate(tmp_path) as waiting, Process(tmp_path, source, "--concurrency", 1) as runner:
        runner.send(invoke("wait", "slow"), b"bad\n", describe("greet", "d"))
        assert runner.answer()["invocationId"] == "d"
        waiting.let_pass()
        assert set(runner.answers(2)) == {"slow", "unknown"}
        assert runner.finish().status == 0
