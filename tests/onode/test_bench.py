"""`onode bench`: what it measures, and that a call that fails ends it."""

from pathlib import Path

import pytest

from .kit import NODES, onode, write

FEW = ("--calls", "30", "--starts", "2")


@pytest.mark.parametrize("host", ["octonode", "nodetool"])
def test_both_ways_are_measured(host: str, tmp_path: Path) -> None:
    """Our own choice: percentiles are in order, and of as many calls as were asked for."""
    write(tmp_path / "nodes.py", NODES)
    done = onode("bench", "nodes.py", "greet", "name=Ada", *FEW, "--host", host, "--json", cwd=tmp_path)
    assert done.status == 0, done.err
    for way, calls in (("one-shot", 2), ("worker", 30)):
        found = done.json[way]
        assert found["calls"] == calls
        assert 0 < found["p50_seconds"] <= found["p90_seconds"] <= found["p99_seconds"]
        assert found["calls_per_second"] > 0
    assert done.json["worker_start_seconds"] > 0


def test_people_get_a_table_with_a_histogram(tmp_path: Path) -> None:
    """Our own choice."""
    write(tmp_path / "nodes.py", NODES)
    done = onode("bench", "nodes.py", "greet", "name=Ada", *FEW, cwd=tmp_path)
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == ["calls", "one-shot", "worker", "a"]
    assert "█" in lines[2]


@pytest.mark.parametrize(("node", "status"), [("fail", 1), ("crash", 3)])
def test_a_call_that_fails_ends_the_measurement(node: str, status: int, tmp_path: Path) -> None:
    """Our own choice: as `onode call` tells it."""
    write(tmp_path / "nodes.py", NODES)
    done = onode("bench", "nodes.py", node, *FEW, cwd=tmp_path)
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith(f"onode: {node}: ")


def test_the_time_bounds_the_measurement(tmp_path: Path) -> None:
    """Our own choice: a slow node is not called two thousand times."""
    write(tmp_path / "nodes.py", NODES)
    words = ("--calls", "1000000", "--starts", "1", "--seconds", "0.1", "--json")
    done = onode("bench", "nodes.py", "greet", "name=Ada", *words, cwd=tmp_path)
    assert 0 < done.json["worker"]["calls"] < 1_000_000
