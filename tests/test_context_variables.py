"""Context variables reach the threads of a call and no other call. In a process of its own: threads are patched."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

CODE = """
import asyncio, contextvars, json, sys, threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from octonode_sdk import node
from octonode_sdk.call import Plan
from octonode_sdk.lanes import LoopThread, inherit_context, run_call
from octonode_sdk.nodes import node_of

inherit_context()
inherit_context()
who = contextvars.ContextVar("who", default="nobody")
pool = ThreadPoolExecutor(2)
loop = LoopThread()

def in_thread(fn):
    found = []
    thread = threading.Thread(target=lambda: found.append(fn()))
    thread.start()
    thread.join()
    return found[0]

@node
def plain(name: str) -> list[str]:
    seen = [who.get()]
    who.set(name)
    seen.append(in_thread(who.get))
    seen.append(in_thread(lambda: in_thread(who.get)))
    seen.append(pool.submit(who.get).result())
    seen.extend(pool.map(lambda _: who.get(), range(2)))
    with ThreadPoolExecutor(1) as own:
        seen.append(own.submit(who.get).result())
    in_thread(lambda: who.set("inner"))
    pool.submit(who.set, "worker").result()
    seen.append(who.get())
    return seen

@node
async def late(name: str) -> list[str]:
    seen = [who.get()]
    who.set(name)
    await asyncio.sleep(0)
    seen.append(await asyncio.to_thread(who.get))
    seen.append(await asyncio.get_running_loop().run_in_executor(None, who.get))
    seen.append(await asyncio.create_task(asyncio.sleep(0, who.get())))
    return seen

class Sub(threading.Thread):
    def run(self):
        self.seen = who.get()

def call(fn, name):
    return contextvars.copy_context().run(run_call, Plan(node_of(fn)), {"name": name}, None, loop)["output"]

results = {}
threads = [threading.Thread(target=lambda n=n, f=f: results.__setitem__(f"{f.__name__} {n}", call(f, n)))
           for n in ("a", "b", "c") for f in (plain, late)]
who.set("outside")
for thread in threads: thread.start()
for thread in threads: thread.join()
sub = Sub(); sub.start(); sub.join()
results["sub"] = sub.seen
results["again"] = call(plain, "d")
results["outside"] = who.get()
restarted = threading.Timer(0, lambda: results.__setitem__("timer", who.get()))
restarted.start(); restarted.join()
try:
    sub.start()
except RuntimeError as error:
    results["twice"] = str(error)
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(interpreter: str) -> dict[str, Any]:
    """What the nodes of CODE saw."""
    folder = Path(__file__).parent.parent
    run = subprocess.run(
        [interpreter, "-c", CODE], capture_output=True, encoding="utf-8", check=True, cwd=folder, timeout=60
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_each_thread_of_a_call_sees_the_variables_of_that_call(results: dict[str, Any], name: str) -> None:
    """Our own choice (C065): threads that it starts, workers of shared and of its own pools, in calls side by side."""
    assert results[f"plain {name}"] == ["outside", *[name] * 7]
    assert results[f"late {name}"] == ["outside", *[name] * 3]


def test_what_a_call_sets_is_not_seen_by_the_next(results: dict[str, Any]) -> None:
    """Our own choice: nor is what its threads set."""
    assert results["again"] == ["outside", *["d"] * 7]
    assert results["outside"] == "outside"


def test_threads_of_other_kinds_start_as_always(results: dict[str, Any]) -> None:
    """Our own choice: subclasses and timers see the variables too, and a thread still starts once only."""
    assert results["sub"] == "outside"
    assert results["timer"] == "outside"
    assert results["twice"] == "threads can only be started once"
