"""Pure: what the bytes on stdout come to, fed whole, byte by byte, and with more behind."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octonode_sdk.ipc.engine.answers import FAULTS, INVOKE, Answer
from octonode_sdk.ipc.engine.core import Flight, SingleAnswer, Trouble
from octonode_sdk.process.outcomes import outcome_text
from tests.ipc.engine.support import envelope

LIMIT = 4096
GOOD = json.dumps(envelope()).encode()


def single(data: bytes, *, size: int = 1 << 20, limit: int = LIMIT, status: int | None = 0) -> Answer | Trouble:
    """Return the verdict on all of stdout, fed in pieces of a size."""
    output = SingleAnswer("i", INVOKE, limit)
    for start in range(0, len(data), size):
        output.feed(data[start : start + size])
        if output.is_over:
            break
    return output.verdict(status)


def fault_of(outcome: Answer | Trouble) -> str | None:
    return outcome.fault if isinstance(outcome, Trouble) else None


ONE_SHOT = [
    ("an answer", GOOD + b"\n", None),
    ("an answer without a line end", GOOD, None),
    ("a CR before the line end", GOOD + b"\r\n", None),
    ("blank lines around it", b"\n \n" + GOOD + b"\n\n  ", None),
    ("a mark before it", b"\xef\xbb\xbf" + GOOD + b"\n", None),
    ("nothing", b"", "no-output"),
    ("blank lines alone", b"\n\r\n  ", "no-output"),
    ("a log line before it", b"loading\n" + GOOD + b"\n", "extra-lines"),
    ("a log line behind it", GOOD + b"\nbye", "extra-lines"),
    ("the answer twice", (GOOD + b"\n") * 2, "extra-lines"),
    ("text", b"hello\n", "not-json"),
    ("half an answer with a line end", GOOD[:20] + b"\n", "not-json"),
    ("half an answer", GOOD[:20], "not-json"),
    ("no envelope", b"{}\n", "no-envelope"),
    ("another id", json.dumps(envelope(invocationId="j")).encode(), "wrong-id"),
    ("a manifest", json.dumps(envelope(type="manifest", manifest={})).encode(), "no-envelope"),
    ("a line without an end", b"x" * (LIMIT + 100), "too-long"),
    ("lines without an end", b"y\n" * LIMIT, "too-long"),
    ("blanks without an end", b"\n" * (LIMIT + 100), "too-long"),
    ("an answer and lines without an end", GOOD + b"\n" + b"y\n" * LIMIT, "too-long"),
]


@pytest.mark.parametrize("size", [1 << 20, 1, 7])
@pytest.mark.parametrize(("data", "fault"), [case[1:] for case in ONE_SHOT], ids=[case[0] for case in ONE_SHOT])
def test_stdout_in_one_shot_mode_is_one_answer_or_a_fault(data: bytes, fault: str | None, size: int) -> None:
    """ENG-5, ENG-7, ENG-8, ENG-9, ENG-17: whatever the pieces in which it comes."""
    assert fault_of(single(data, size=size)) == fault


def test_an_answer_of_exactly_the_limit_is_taken() -> None:
    """ENG-17: the limit is included, and the line end is not counted."""
    assert fault_of(single(GOOD + b"\r\n", limit=len(GOOD))) is None
    assert fault_of(single(GOOD + b"\r\n", limit=len(GOOD) - 1)) == "too-long"


def test_an_answer_that_a_signal_cut_off_is_told_from_one_that_is_wrong() -> None:
    """ENG-6: the process can't be blamed for the text, and another try may help."""
    outcome = single(GOOD[:20], status=-9)
    assert fault_of(outcome) == "cut-off"
    assert isinstance(outcome, Trouble)
    assert "was ended by signal 9 (SIGKILL) in the middle of its answer" in outcome.problem
    assert fault_of(single(GOOD[:20] + b"\n", status=-9)) == "not-json"


def test_a_wrong_id_shows_what_the_node_says() -> None:
    """RES-3: a runner that can't read a line answers under `unknown`, and its reason is worth more than the id."""
    error = {"code": "VALIDATION_ERROR", "message": "the line is no JSON"}
    outcome = single(json.dumps(envelope(invocationId="unknown", status="error", error=error)).encode())
    assert isinstance(outcome, Trouble)
    assert outcome.fault == "wrong-id"
    assert "the line is no JSON" in outcome.problem


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_come_to_a_verdict_and_pieces_do_not_change_it(data: bytes, size: int) -> None:
    """ENG-1: nothing raises."""
    whole, pieces = single(data, limit=100), single(data, limit=100, size=size)
    assert fault_of(whole) == fault_of(pieces)
    assert fault_of(whole) in FAULTS


@pytest.mark.parametrize(
    ("status", "text"),
    [(0, "ended with status 0"), (-9, "signal 9 (SIGKILL)"), (-99, "signal 99 (unknown)"), (None, "not known")],
)
def test_the_end_of_a_process_is_told_in_words(status: int | None, text: str) -> None:
    """Our own choice: a reader need not know the numbers."""
    assert text in outcome_text(status)


# A worker's stdout


def flight(*ids: str, limit: int = LIMIT) -> Flight:
    made = Flight(limit)
    for id_ in ids:
        made.add(id_, INVOKE, id_.upper())
    return made


def answer(id_: str, **keys: Any) -> bytes:
    return json.dumps(envelope(invocationId=id_, **keys)).encode() + b"\n"


def told(outcomes: list[tuple[Any, Answer | Trouble]]) -> list[tuple[str, str | None]]:
    return [(owner, fault_of(outcome)) for owner, outcome in outcomes]


@pytest.mark.parametrize("size", [1 << 20, 1, 7])
def test_answers_find_their_calls_in_any_order(size: int) -> None:
    """ENG-11: by their id, whatever the pieces."""
    one = flight("a", "b", "c")
    data = answer("c") + b"\n" + answer("a") + answer("b")[:9]
    outcomes = [entry for at in range(0, len(data), size) for entry in one.feed(data[at : at + size])]
    assert told(outcomes) == [("C", None), ("A", None)]
    assert list(one.open) == ["b"]
    assert one.broken is None
    assert one.finish() == []
    assert one.is_cut_off


def test_the_last_answer_of_a_worker_may_lack_its_line_end() -> None:
    """LINE-5: what is whole counts."""
    one = flight("a")
    assert one.feed(answer("a")[:-1]) == []
    assert told(one.finish()) == [("A", None)]
    assert (one.is_cut_off, one.broken) == (False, None)


def test_half_an_answer_of_a_worker_is_no_answer_of_a_call() -> None:
    """ENG-6: how the process has ended says more, even where the id can be read."""
    one = flight("a")
    assert one.feed(answer("a")[:60]) == []
    assert one.finish() == []
    assert (one.is_cut_off, one.broken, list(one.open)) == (True, None, ["a"])


def test_a_second_answer_is_dropped() -> None:
    """ENG-22: the first one counted."""
    one = flight("a", "b")
    assert told(one.feed(answer("a") + answer("a") + answer("b"))) == [("A", None), ("B", None)]
    assert one.broken is None


def test_the_answer_to_a_forgotten_call_is_dropped() -> None:
    """ENG-26: and the worker is free of it then."""
    one = flight("a", "b")
    one.forget("a")
    assert one.forgotten == {"a"}
    assert told(one.feed(answer("a") + answer("b"))) == [("B", None)]
    assert (one.forgotten, one.broken) == (set(), None)


def test_the_next_attempt_of_a_call_is_answered_anew() -> None:
    """ENG-16: it has the id of the first one."""
    one = flight("a")
    one.feed(answer("a"))
    one.add("a", INVOKE, "again")
    assert told(one.feed(answer("a"))) == [("again", None)]


def test_a_bad_line_with_the_id_of_a_call_fails_that_call_alone() -> None:
    """ENG-7: lines still end where they should, so the worker can be followed."""
    one = flight("a", "b", "c")
    bad = b'{"octonode":"1","invocationId":"b","outputs":NaN}\n'
    assert told(one.feed(answer("a", octonode=2) + bad + answer("c"))) == [
        ("A", "no-envelope"),
        ("B", "not-json"),
        ("C", None),
    ]
    assert one.broken is None


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"loading the model\n", "not-json"),
        (b"{}\n", "no-envelope"),
        (answer("never"), "wrong-id"),
        (b"x" * (LIMIT + 9), "too-long"),
        (b"x" * (LIMIT + 9) + b"\n", "too-long"),
    ],
)
def test_a_line_that_nobody_can_be_blamed_for_breaks_the_flight(line: bytes, fault: str) -> None:
    """ENG-7, ENG-9, ENG-17, ENG-20: the one call in flight has the fault; of several, each may be tried again."""
    alone, crowd = flight("a"), flight("a", "b")
    for one in (alone, crowd):
        assert one.feed(line + answer("a")) == []
        assert one.broken is not None
        assert one.broken.fault == fault
        assert one.feed(answer("a")) == []
    assert alone.broken is not None
    assert crowd.broken is not None
    assert told(alone.end(alone.broken)) == [("A", fault)]
    assert told(crowd.end(crowd.broken)) == [("A", "beside"), ("B", "beside")]


def test_an_answer_that_is_too_long_is_laid_to_its_call() -> None:
    """ENG-17, ENG-20: its id stands at its beginning; the worker is ended all the same."""
    one = flight("a", "b")
    assert told(one.feed(b'{"octonode":"1","invocationId":"b","outputs":"' + b"x" * LIMIT)) == [("B", "too-long")]
    assert one.broken is not None
    assert told(one.end(one.broken)) == [("A", "too-long")]


def test_a_call_beside_a_late_one_may_be_tried_again() -> None:
    """ENG-20: even if it is alone now."""
    one = flight("a")
    outcomes = one.end(Trouble("deadline", "late"), is_of_others=True)
    assert told(outcomes) == [("A", "beside")]
    assert one.end(Trouble("deadline", "late")) == []


@given(
    st.lists(st.sampled_from("abcde"), unique=True),
    st.lists(st.one_of(st.sampled_from("abcdef").map(answer), st.binary(max_size=40)), max_size=12),
    st.integers(1, 60),
)
def test_whatever_comes_each_call_ends_once(ids: list[str], pieces: list[bytes], size: int) -> None:
    """ENG-22: never lost and never twice answered."""
    one, data = flight(*ids), b"".join(pieces)
    outcomes = [entry for at in range(0, len(data), size) for entry in one.feed(data[at : at + size])]
    outcomes += one.end(one.broken or Trouble("no-output", "it ended"))
    assert sorted(owner for owner, _ in outcomes) == sorted(id_.upper() for id_ in ids)
