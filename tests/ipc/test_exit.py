"""The runner as a process: the end of it, which is short where the interpreter's finalisation has nothing to do.

Whichever way it takes, nothing is lost and nothing runs twice.
"""

import shelve
import signal
import socket
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.ipc.support import (
    PATIENCE,
    Outcome,
    Process,
    command,
    gate,
    invoke,
    serve,
    serve_command,
    to_bytes,
    write_nodes,
)

#: Says so when the interpreter clears the module, which the short way leaves out.
WITNESS = """
    class Witness:
        def __del__(self, write=os.write):
            write(2, b"finalised\\n")

    witness = Witness()
    """

#: A node that does as the test says.
PLAIN = """
    @node
    def go() -> str:
        return "gone"
    """

#: The first process of a target writes its bytecode, and a process that writes a file goes the ordinary way.
NO_CACHE = {"PYTHONDONTWRITEBYTECODE": "1"}

#: What makes a process go each way.
WAYS = {"short": "", "ordinary": "import helper\n"}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The first lines of a node file whose process takes one of the ways."""
    (tmp_path / "helper.py").write_text("", encoding="utf-8")
    name: str = request.param
    return WAYS[name]


def run_once(folder: Path, source: str, *, way: str = "", arguments: tuple[object, ...] = ()) -> Outcome:
    """Serve one call."""
    return serve(folder, way + dedent(source), invoke("go"), arguments=arguments, **NO_CACHE)


# Which way


@pytest.mark.parametrize(
    ("source", "is_short"),
    [
        ("", True),
        ("import json, logging, re, dataclasses, asyncio", True),
        ("open(__file__, encoding='utf-8').read()", True),
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", True),
        ("import helper", False),
        ("import helping.inner", False),
        ("import jsonschema", False),
        ("open('made', 'w', encoding='utf-8').close()", False),
        ("open('made', 'ab', buffering=0)", False),
        ("os.close(os.open('made', os.O_CREAT | os.O_RDWR))", False),
        ("threading.Thread(target=threading.Event().wait).start()", None),
    ],
)
def test_the_short_way_is_for_processes_that_leave_nothing_to_do(
    tmp_path: Path, source: str, is_short: bool | None
) -> None:
    """Our own choice: standard modules and the node's own only, no file written, no thread to wait for.

    A thread that never ends shows neither: the process ends with the grace.
    """
    (tmp_path / "helper.py").write_text("", encoding="utf-8")
    (tmp_path / "helping").mkdir()
    (tmp_path / "helping" / "inner.py").write_text("", encoding="utf-8")
    outcome = run_once(tmp_path, source + "\n" + dedent(WITNESS) + dedent(PLAIN), arguments=("--grace", 0.5))
    assert outcome.status == 0
    assert outcome.outputs == {"output": "gone"}
    assert outcome.stderr == ("finalised\n" if is_short is False else "")


def test_the_modules_of_a_package_are_the_node_s_own(tmp_path: Path) -> None:
    """Our own choice: they count as the node file does."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "more.py").write_text("", encoding="utf-8")
    write_nodes(package, "from . import more\n" + dedent(WITNESS) + dedent(PLAIN), name="nodes.py")
    outcome = serve_command(command("mine.nodes"), to_bytes(invoke("go")), cwd=tmp_path, **NO_CACHE)
    assert (outcome.status, outcome.stderr) == (0, "")


def test_a_program_that_calls_run_takes_the_ordinary_way(tmp_path: Path) -> None:
    """Our own choice: nobody knows what it did before, so here a file is open that nobody saw."""
    source = """
        from octonode_sdk import run
        log = open("log", "w", encoding="utf-8")
        log.write("text")
        """
    end = '\nif __name__ == "__main__":\n    run()\n'
    path = write_nodes(tmp_path, dedent(source) + dedent(WITNESS) + dedent(PLAIN) + end)
    outcome = serve_command([sys.executable, str(path)], to_bytes(invoke("go")), cwd=tmp_path, **NO_CACHE)
    assert (outcome.status, outcome.stderr) == (0, "finalised\n")
    assert (tmp_path / "log").read_text(encoding="utf-8") == "text"


# Files


def read_sqlite(path: Path) -> bytes:
    """Return the texts of a database."""
    connection = sqlite3.connect(path)
    try:
        return b"".join(text.encode() for (text,) in connection.execute("select text from texts"))
    finally:
        connection.close()


def read_shelf(path: Path) -> bytes:
    """Return the text of a shelf."""
    with shelve.open(path) as shelf:
        found: bytes = shelf["text"]
        return found


def read_zip(path: Path) -> bytes:
    """Return the text in a zip file."""
    with zipfile.ZipFile(path) as file:
        return file.read("text")


FILES: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "open": ("kept = open('made', 'w'); kept.write('text')", Path.read_bytes),
    "append": ("kept = open('made', 'ab'); kept.write(b'text')", Path.read_bytes),
    "update": ("open('made', 'x').close(); kept = open('made', 'r+'); kept.write('text')", Path.read_bytes),
    "by path": ("import pathlib; kept = pathlib.Path('made').open('w'); kept.write('text')", Path.read_bytes),
    "by descriptor": (
        "kept = open(os.open('made', os.O_CREAT | os.O_WRONLY), 'w'); kept.write('text')",
        Path.read_bytes,
    ),
    "by opener": ("kept = open('made', 'w', opener=os.open); kept.write('text')", Path.read_bytes),
    "codecs": ("import codecs; kept = codecs.open('made', 'w', 'utf-8'); kept.write('text')", Path.read_bytes),
    "in a cycle": ("kept = [open('made', 'w')]; kept[0].write('text'); kept.append(kept)", Path.read_bytes),
    "by a thread": (
        "kept = []\n"
        "def work():\n"
        "    kept.append(open('made', 'w')); kept[0].write('text')\n"
        "thread = threading.Thread(target=work, daemon=True); thread.start(); thread.join()",
        Path.read_bytes,
    ),
    "in a hook": (
        "import atexit\n"
        "def write():\n"
        "    global kept; kept = open('made', 'w'); kept.write('text')\n"
        "atexit.register(write)",
        Path.read_bytes,
    ),
    "zip": ("import zipfile; kept = zipfile.ZipFile('made', 'w'); kept.writestr('text', 'text')", read_zip),
    "shelve": (
        "import dbm.dumb, shelve; kept = shelve.Shelf(dbm.dumb.open('made')); kept['text'] = b'text'",
        read_shelf,
    ),
    "sqlite": (
        "import sqlite3; kept = sqlite3.connect('made'); kept.execute('create table texts (text)')\n"
        "kept.execute('insert into texts values (?)', ['text']); kept.commit()",
        read_sqlite,
    ),
    "sqlite, write-ahead": (
        "import sqlite3; kept = sqlite3.connect('made'); kept.execute('pragma journal_mode = wal')\n"
        "kept.execute('create table texts (text)')\n"
        "kept.execute('insert into texts values (?)', ['text']); kept.commit()",
        read_sqlite,
    ),
    "temporary": (
        "import tempfile; kept = tempfile.NamedTemporaryFile('w', dir='.', delete=False); kept.write('text')\n"
        "os.rename(kept.name, 'made')",
        Path.read_bytes,
    ),
    "log": (
        "import logging; logging.basicConfig(filename='made', format='%(message)s', level=20)\n"
        "logging.StreamHandler.terminator = ''; logging.info('text')",
        Path.read_bytes,
    ),
    "log in memory": (
        "import logging.handlers as h\n"
        "kept = h.MemoryHandler(100, target=h.logging.FileHandler('made', delay=True))\n"
        "h.logging.StreamHandler.terminator = ''\n"
        "h.logging.basicConfig(handlers=[kept], format='%(message)s', level=20)\n"
        "h.logging.info('text')",
        Path.read_bytes,
    ),
}


@pytest.mark.parametrize("when", ["import", "call"])
@pytest.mark.parametrize("kind", FILES)
def test_what_a_node_has_written_is_on_the_disk(tmp_path: Path, way: str, kind: str, when: str) -> None:
    """Our own choice: also where it neither flushed nor closed, as in any Python process."""
    code, read = FILES[kind]
    if when == "import":
        source = f"{code}\n" + dedent(PLAIN)
    else:
        source = f"CODE = {code!r}\n\n@node\ndef go() -> str:\n    exec(CODE, globals())\n    return 'gone'\n"
    outcome = run_once(tmp_path, source, way=way)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.outputs == {"output": "gone"}
    assert read(tmp_path / "made") == b"text"


def test_a_temporary_folder_is_gone(tmp_path: Path, way: str) -> None:
    """Our own choice: a finaliser that runs at exit removes it, in both ways."""
    source = """
        import tempfile
        kept = tempfile.TemporaryDirectory(dir=".", prefix="kept")

        @node
        def go() -> list[str]:
            return [name for name in os.listdir() if name.startswith("kept")]
        """
    outcome = run_once(tmp_path, source, way=way)
    (name,) = outcome.outputs["output"]
    assert not (tmp_path / name).exists()


def test_what_was_written_to_a_connection_arrives(tmp_path: Path, way: str) -> None:
    """Our own choice: a stream around a socket keeps text back as a file does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        source = f"""
            import socket
            kept = socket.create_connection(("127.0.0.1", {server.getsockname()[1]})).makefile("w")

            @node
            def go() -> int:
                return kept.write("text")
            """
        outcome = run_once(tmp_path, source, way=way)
        assert outcome.outputs == {"output": 4}
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE)
            assert connection.recv(100) == b"text"


def test_what_c_code_keeps_back_is_written(tmp_path: Path, way: str) -> None:
    """Our own choice: the C library flushes its streams where the process ends in the ordinary way."""
    source = """
        import ctypes

        @node
        def go() -> int:
            return ctypes.CDLL(None).printf(b"text")
        """
    outcome = run_once(tmp_path, source, way=way)
    assert outcome.outputs == {"output": 4}
    assert outcome.stderr == "text"


# Threads


def test_a_thread_that_ends_soon_behind_the_last_answer_is_waited_for(tmp_path: Path, way: str) -> None:
    """LIFE-7: it does not keep the process for longer than the grace, and gets it until then."""
    source = """
        def work():
            open("gate", "rb", buffering=0).read(1)
            print("worked")

        @node
        def go() -> str:
            threading.Thread(target=work).start()
            return "gone"
        """
    started = Process(tmp_path, way + dedent(source), "--grace", 1000, **NO_CACHE)  # type: ignore[arg-type]  # its keys are variables
    with gate(tmp_path) as waiting, started as runner:
        runner.send(invoke("go"))
        assert runner.answer()["outputs"] == {"output": "gone"}
        runner.close()
        waiting.let_pass()
        assert runner.wait() == 0
        assert runner.rest() == []
        runner.wait_for("worked\n")


def test_what_was_given_to_a_pool_is_done(tmp_path: Path, way: str) -> None:
    """LIFE-7: its threads are joined as well."""
    source = """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(1)

        @node
        def go() -> str:
            for number in range(100):
                pool.submit(print, number)
            return "gone"
        """
    outcome = run_once(tmp_path, source, way=way)
    assert outcome.stderr.split() == [str(number) for number in range(100)]
    assert outcome.status == 0


# Exit hooks


def test_exit_hooks_run_once_the_last_one_first(tmp_path: Path, way: str) -> None:
    """LIFE-7: those of the import and those of a call."""
    source = """
        import atexit
        atexit.register(print, "first")
        atexit.register(print, "second", flush=True)

        @node
        def go() -> str:
            atexit.register(print, "third", end="")
            atexit.register(atexit.register, print, "late")
            atexit.unregister(len)
            return "gone"
        """
    outcome = run_once(tmp_path, source, way=way)
    assert outcome.stderr.replace("late\n", "") == "thirdsecond\nfirst\n"
    assert outcome.stderr.count("late") <= 1
    assert outcome.status == 0


@pytest.mark.parametrize(
    "fail", ["raise ValueError('fault')", "sys.exit(3)", "raise KeyboardInterrupt('fault')", "sys.exit('fault')"]
)
def test_a_hook_that_fails_changes_neither_the_status_nor_the_other_hooks(tmp_path: Path, way: str, fail: str) -> None:
    """LIFE-4, LIFE-7: as in any Python process."""
    source = f"""
        import atexit

        def fail():
            {fail}

        atexit.register(print, "first")
        atexit.register(fail)
        atexit.register(print, "last")
        """
    outcome = run_once(tmp_path, dedent(source) + dedent(PLAIN), way=way)
    lines = outcome.stderr.splitlines()
    assert (lines[0], lines[-1]) == ("last", "first")
    assert outcome.stderr.count("Traceback") == 1
    assert outcome.status == 0


def test_a_hook_that_ends_the_process_ends_it(tmp_path: Path, way: str) -> None:
    """LIFE-7: with its own status, as in any Python process."""
    outcome = run_once(tmp_path, "import atexit\natexit.register(os._exit, 7)\n" + dedent(PLAIN), way=way)
    assert outcome.status == 7


def test_a_hook_that_never_ends_is_bounded_by_the_grace(tmp_path: Path, way: str) -> None:
    """LIFE-7: what came before it has run, and the status is that of the calls."""
    source = """
        import atexit
        atexit.register(print, "never")
        atexit.register(threading.Event().wait)
        atexit.register(print, "before")
        """
    outcome = run_once(tmp_path, dedent(source) + dedent(PLAIN), way=way, arguments=("--grace", 0.2))
    assert outcome.stderr == "before\n"
    assert outcome.status == 0


def test_a_hook_may_start_a_thread_and_wait_for_it(tmp_path: Path) -> None:
    """Our own choice: what works in a Python process where hooks may still start threads."""
    source = """
        import atexit

        def work():
            thread = threading.Thread(target=print, args=("worked",))
            try:
                thread.start()
            except RuntimeError:  # Python 3.12 and later
                print("refused")
            else:
                thread.join()

        atexit.register(work)
        """
    outcome = run_once(tmp_path, dedent(source) + dedent(PLAIN))
    assert outcome.stderr in ("worked\n", "refused\n")


# Text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('text', end='')", "text"),
        ("sys.stdout.write('one'); sys.stderr.write('two')", "onetwo"),
        ("print('x' * 200_000, end='')", "x" * 200_000),
        ("print('kept', end=''); sys.stderr = None", "kept"),
        ("print('kept', end=''); sys.stdout = sys.stderr = None", "kept"),
        ("print('kept', end=''); import io; sys.stdout = sys.stderr = io.StringIO(); print('lost')", "kept"),
        ("sys.stderr.close(); print('kept', end='')", "kept"),
        ("import io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8'); print('text', end='')", "text"),
        ("import io; sys.stderr = io.TextIOWrapper(sys.stderr.buffer); sys.stderr.write('text')", "text"),
        ("import io; kept = io.TextIOWrapper(sys.stdout.buffer); kept.write('text')", "text"),
        ("import io; kept = io.TextIOWrapper(sys.stderr.detach()); kept.write('text')", "text"),
        ("kept = open(2, 'w', closefd=False); kept.write('text')", "text"),
        ("class Broken:\n    def flush(self): raise OSError\nsys.stderr = sys.stdout = Broken()", ""),
        ("class Less: pass\nsys.stderr = sys.stdout = Less()", ""),
    ],
)
def test_what_was_printed_is_on_stderr(tmp_path: Path, way: str, code: str, text: str) -> None:
    """LINE-17, LIFE-4: without a line's end, through streams that a node puts in place of ours, and the status is 0."""
    source = f"CODE = {code!r}\n\n@node\ndef go() -> str:\n    exec(CODE, globals())\n    return 'gone'\n"
    outcome = run_once(tmp_path, source, way=way)
    assert outcome.outputs == {"output": "gone"}
    assert outcome.stderr == text
    assert outcome.status == 0


# The status


def test_the_status_is_the_same_in_both_ways(tmp_path: Path, way: str) -> None:
    """LIFE-4, LIFE-6, LIFE-13, LIFE-23."""

    def status(source: str, data: bytes) -> int:
        return serve(tmp_path, way + source, data, arguments=(), **NO_CACHE).status

    plain = dedent(PLAIN)
    assert status(plain, b"") == 0
    assert status(plain, to_bytes(invoke("go"))) == 0
    assert status(plain, b"bad\n") == 0
    assert status(plain, b"\n") == 1
    assert status(plain + "\nraise ValueError\n", to_bytes(invoke("go"))) == 1
    with Process(tmp_path, way + plain, **NO_CACHE) as runner:  # type: ignore[arg-type]  # its keys are variables
        runner.send(invoke("go"))
        assert runner.answer()["outputs"] == {"output": "gone"}
        runner.process.terminate()
        assert runner.wait() == 128 + signal.SIGTERM
