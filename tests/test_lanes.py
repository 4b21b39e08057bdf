"""The pool of threads, in memory: who reads, who serves, what `look` sees, and that nothing is lost on the way."""

import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lanekit import MANY_LOOKS, PATIENCE, pool, threads


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads change as often as the interpreter can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


# Who reads and who serves


def test_a_quick_item_never_leaves_the_thread_that_has_read_it() -> None:
    """Our own choice: no hand-over; the lane also knows whether it has more to deliver."""
    with pool() as made:
        made.feed([b"a", b"b", b"c"], [], *([b"%d" % number] for number in range(50)), [b"y", b"z"])
        made.wait(made.has_delivered(55))
        (reader,) = set(made.readers)
        assert {thread for _, thread in made.started} == {reader}
        assert {thread for _, _, thread in made.delivered} == {reader}
        assert [more for _, more, _ in made.delivered] == [True, True, False, *[False] * 50, True, False]
        assert len(threads()) == 1


def test_a_leader_that_is_held_up_loses_the_reading_at_the_second_look_and_not_before() -> None:
    """RES-11: looks at a lane that reads do not count, else each item that a look meets would cost a hand-over."""
    with pool() as made:
        made.hold(b"slow")
        made.wait(lambda: made.reads == 1)
        for _ in range(5):
            assert made.lanes.look()
        made.feed([b"slow"])
        made.wait(made.has_started(b"slow"))
        assert made.lanes.look()
        assert len(threads()) == 1
        assert made.lanes.look()
        made.wait(lambda: made.reads == 2)
        assert len(threads()) == 2
        made.feed([b"quick"], [b"quicker"])
        made.wait(made.has_delivered(2))
        assert made.answers() == [b"quick", b"quicker"]
        made.release(b"slow")
        made.wait(made.has_delivered(3))


def test_an_item_in_between_two_looks_keeps_the_reading_with_its_lane() -> None:
    """Our own choice: the second look has to find the same item."""
    with pool() as made:
        items = [b"%d" % number for number in range(10)]
        made.hold(*items)
        made.feed(items)
        for item in items:
            made.wait(made.has_started(item))
            assert made.lanes.look()
            made.release(item)
        made.wait(made.has_delivered(10))
        assert len(threads()) == 1


def test_items_that_wait_behind_a_held_up_one_are_given_to_further_lanes() -> None:
    """RES-11: those of the same chunk."""
    with pool() as made:
        made.hold(b"slow", b"slower")
        made.feed([b"slow", b"slower", b"quick", b"quicker"])
        made.watch(made.has_delivered(2))
        assert made.answers() == [b"quick", b"quicker"]


def test_a_leader_that_cannot_deliver_loses_the_reading_as_well() -> None:
    """RES-11, LIFE-19: how much waits for a slow reader of answers is for `deliver` to bound."""
    with pool() as made:
        made.hold_answer(b"stuck")
        made.feed([b"stuck"])
        made.wait(made.has_started(b"stuck"))
        made.feed([b"quick"])
        made.watch(made.has_delivered(1))
        assert made.answers() == [b"quick"]
        made.release(b"stuck")
        made.wait(made.has_delivered(2))


def test_at_the_limit_one_more_lane_reads_and_does_not_serve() -> None:
    """LIFE-17, LIFE-18: so that a describe and the end of input are seen; a lane that becomes free serves."""
    with pool(limit=2) as made:
        made.hold(b"a", b"b")
        made.feed([b"a"])
        made.watch(made.has_started(b"a"))
        made.hold_up()
        made.feed([b"b"])
        made.watch(made.has_started(b"b"))
        made.hold_up()
        made.feed([b"c"], [b"d"])
        made.watch(lambda: made.reads == 5)
        made.sleep()
        assert len(threads()) == 3
        assert made.delivered == []
        assert made.lanes.outstanding == 4
        made.release(b"a")
        made.watch(made.has_delivered(3))
        assert made.answers() == [b"a", b"c", b"d"]
        assert made.most_served == 2
        assert made.lanes.outstanding == 1


# How far reading goes


def test_reading_stops_with_so_many_items_in_line_and_goes_on_behind_them() -> None:
    """LIFE-18: the rest stays where it is."""
    with pool(limit=1, read_ahead=2) as made:
        made.hold(b"a")
        made.feed([b"a"])
        made.wait(made.has_started(b"a"))
        made.hold_up()
        made.feed([b"b"], [b"c", b"d"], [b"e"])
        made.watch(lambda: len(made.lanes._parked) == 1)
        assert made.reads == 3
        assert made.lanes.outstanding == 4
        made.release(b"a")
        made.watch(made.has_delivered(5))


def test_reading_stops_with_so_many_bytes_in_memory_and_goes_on_behind_them() -> None:
    """LIFE-18: those of the item that is being served count as well."""
    with pool(limit=2, read_ahead_bytes=10) as made:
        made.hold(b"a" * 6, b"b" * 5)
        made.feed([b"a" * 6])
        made.wait(made.has_started(b"a" * 6))
        made.hold_up()
        made.feed([b"b" * 5], [b"c"])
        made.watch(made.has_started(b"b" * 5))
        assert all(made.lanes.look() for _ in range(MANY_LOOKS))
        assert made.reads == 2
        made.release(b"a" * 6)
        made.watch(made.has_delivered(2))
        assert made.answers() == [b"a" * 6, b"c"]


def test_reading_goes_on_as_soon_as_there_is_room_also_where_all_lanes_are_busy_again() -> None:
    """LIFE-18: whoever makes room may be held up by the next item, so the looks do not end before somebody reads."""
    with pool(limit=1, read_ahead_bytes=10) as made:
        made.hold(b"a" * 11, b"b")
        made.feed([b"a" * 11, b"b"])
        made.wait(made.has_started(b"a" * 11))
        assert all(made.lanes.look() for _ in range(MANY_LOOKS))
        made.release(b"a" * 11)
        made.watch(made.has_started(b"b"))
        made.watch(lambda: made.reads == 2)


# When to look


def test_nothing_to_look_for_ends_the_looks_and_reading_wakes() -> None:
    """LIFE-9: an idle process does not use the processor."""
    with pool() as made:
        made.wait(lambda: made.reads == 1)
        for chunk in ([b"a"], [b"b", b"c"], []):
            made.sleep()
            reads = made.reads
            assert not made.woken
            made.feed(chunk)
            made.wait(lambda: made.woken)
            made.wait(lambda: made.reads > reads)  # noqa: B023  # ends before the next
        assert made.answers() == [b"a", b"b", b"c"]


def test_a_long_call_needs_no_looks_while_another_lane_reads() -> None:
    """LIFE-9: nothing that it could hold up waits."""
    with pool() as made:
        made.hold(b"long")
        made.feed([b"long"])
        made.watch(lambda: made.reads == 2)
        made.sleep()
        made.release(b"long")
        made.wait(made.has_delivered(1))


def test_looks_go_on_while_a_leader_serves() -> None:
    """RES-11: even when no look has come in time."""
    with pool() as made:
        made.hold(b"slow", b"slower")
        made.wait(lambda: made.reads == 1)
        made.sleep()
        made.feed([b"slow"])
        made.wait(made.has_started(b"slow"))
        made.feed([b"slower"], [b"quick"])
        made.watch(made.has_delivered(1))
        assert made.answers() == [b"quick"]


# The end


def test_the_end_is_told_when_it_is_read_and_with_each_answer_behind_it() -> None:
    """LIFE-3: whoever looks wakes up, and finds out that nothing is outstanding."""
    with pool() as made:
        made.hold(b"slow")
        made.feed([b"slow"])
        made.watch(lambda: made.reads == 2)
        made.sleep()
        made.feed(None)
        made.wait(lambda: made.woken)
        assert made.lanes.ended
        assert made.lanes.outstanding == 1
        made.sleep()
        made.release(b"slow")
        made.wait(lambda: made.woken)
        assert made.lanes.outstanding == 0
        assert made.reads == 2


def test_items_that_wait_at_the_end_are_all_served() -> None:
    """LIFE-3: with lanes that are held up."""
    with pool(limit=3) as made:
        made.hold(b"a", b"b")
        made.feed([b"a", b"b", *(b"%d" % number for number in range(20))], None)
        made.watch(made.has_delivered(20))
        made.release(b"a", b"b")
        made.watch(lambda: made.lanes.ended and made.lanes.outstanding == 0)
        assert len(made.delivered) == 22


def test_a_closed_pool_takes_nothing_more_and_tells_of_each_answer() -> None:
    """LIFE-10, LIFE-11: the end of the last call is noticed, and not only the end of the grace."""
    with pool() as made:
        made.hold(b"slow")
        made.feed([b"slow"])
        made.watch(lambda: made.reads == 2)
        made.sleep()
        made.lanes.closed = True
        assert not made.lanes.look()
        made.release(b"slow")
        made.wait(lambda: made.woken)
        assert made.lanes.outstanding == 0
        made.feed([b"late"])
        made.wait(lambda: made.lanes.ended)
        assert made.lanes.outstanding == 0
        assert made.answers() == [b"slow"]


def test_abandoned_items_are_those_not_delivered_and_their_answers_are_dropped() -> None:
    """LIFE-12, RES-10: one answer each, either the call's or the one that its end is given."""
    with pool(limit=2) as made:
        made.hold(b"a", b"b")
        made.feed([b"quick"], [b"a", b"b", b"c", b"d"])
        made.watch(made.has_started(b"a", b"b"))
        assert sorted(made.lanes.abandon()) == [b"a", b"b", b"c", b"d"]
        assert made.lanes.closed
        made.release(b"a", b"b")
        made.feed([b"e"])
        made.wait(lambda: made.lanes.ended)
        made.poll(made.is_idle)
        assert made.answers() == [b"quick"]
        assert made.lanes.abandon() == []


# Whatever comes in between


@given(
    kinds=st.lists(st.tuples(st.sampled_from(["quick", "slow"]), st.integers(0, 20)), max_size=40),
    sizes=st.lists(st.integers(0, 8), min_size=1, max_size=10),
    limit=st.integers(1, 4),
    read_ahead=st.integers(1, 10),
    read_ahead_bytes=st.integers(1, 200),
)
@pytest.mark.usefixtures("switching")
def test_each_item_is_answered_once_whatever_comes_together(
    kinds: list[tuple[str, int]], sizes: list[int], limit: int, read_ahead: int, read_ahead_bytes: int
) -> None:
    """RES-10, LIFE-17, LIFE-18: with slow items that end while others are read, served and delivered."""
    items = [b"%d %s %s" % (place, kind.encode(), b"x" * size) for place, (kind, size) in enumerate(kinds)]
    slow = [item for item in items if b"slow" in item]
    with pool(limit=limit, read_ahead=read_ahead, read_ahead_bytes=read_ahead_bytes) as made:
        made.hold(*slow)

        def release_each_behind_its_start() -> None:
            for place in range(len(slow)):
                made.wait(lambda: len(running()) > place)  # noqa: B023  # ends before the next
                made.release(running()[place])

        def running() -> list[bytes]:
            return [item for item, _ in made.started if b"slow" in item]

        releaser = threading.Thread(target=release_each_behind_its_start, daemon=True)
        releaser.start()
        made.feed(*chunks(items, sizes), None)
        made.watch(lambda: made.lanes.ended and made.lanes.outstanding == 0)
        releaser.join(PATIENCE)
        assert made.answers() == sorted(items)
        assert made.most_served <= limit
        assert len(threads()) <= limit + 1


@given(
    sizes=st.lists(st.integers(0, 8), min_size=1, max_size=10),
    slow=st.sets(st.integers(0, 29), max_size=4),
    spare=st.integers(1, 3),
)
@pytest.mark.usefixtures("switching")
def test_no_quick_item_waits_for_a_slow_one_while_there_is_a_lane_to_spare(
    sizes: list[int], slow: set[int], spare: int
) -> None:
    """RES-11: wherever the slow ones stand."""
    items = [b"%d" % place for place in range(30)]
    held = [items[place] for place in slow]
    with pool(limit=len(held) + spare) as made:
        made.hold(*held)
        made.feed(*chunks(items, sizes), None)
        made.watch(made.has_delivered(30 - len(held)))
        assert made.answers() == sorted(set(items) - set(held))
        made.release(*held)
        made.watch(lambda: made.lanes.ended and made.lanes.outstanding == 0)
        assert made.answers() == sorted(items)


def chunks(items: list[bytes], sizes: list[int]) -> list[list[bytes]]:
    """Cut items into chunks of these sizes, the last one for what is left."""
    cut, start = [], 0
    for size in sizes:
        cut.append(items[start : start + size])
        start += size
    return [*cut, items[start:]]


def test_a_system_without_more_threads_is_served_by_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """LIFE-17: less at once, and nothing lost."""
    with pool() as made:
        made.hold(b"slow")
        made.feed([b"slow", b"one", b"two"])
        made.wait(made.has_started(b"slow"))

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        for _ in range(5):
            assert made.lanes.look()
        assert made.answers() == []
        made.release(b"slow")
        made.wait(made.has_delivered(3))
        assert sorted(made.answers()) == [b"one", b"slow", b"two"]
