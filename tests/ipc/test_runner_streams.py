"""The runner as a process: who may write where. Stdout is the wire, stderr is for people."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ipc.support import (
    PATIENCE,
    Process,
    clean_environment,
    command,
    gate,
    invoke,
    read_answer,
    serve,
    to_bytes,
    write_nodes,
)

GREET = """
    @node
    def greet(name: str = "you") -> str:
        print("greeting")
        return "Hello, " + name
    """


def test_text_from_everywhere_lands_on_stderr_in_order(tmp_path: Path) -> None:
    """LINE-13, LIFE-15, LIFE-16, C001, C002, C005: import, call, child, descriptor, old handler."""
    source = """
        import logging
        import subprocess
        from concurrent.futures import ThreadPoolExecutor

        kept = sys.stdout
        handler = logging.StreamHandler(sys.__stdout__)
        logging.getLogger("pack").addHandler(handler)
        logging.getLogger("pack").setLevel("INFO")
        print("1 import")
        os.write(1, b"2 import by descriptor\\n")
        subprocess.run(["sh", "-c", "echo 3 import by child"], check=True)

        @node
        def talk() -> str:
            print("4 print", end="\\n", flush=True)
            kept.write("5 kept\\n")
            logging.getLogger("pack").info("6 logging")
            sys.__stdout__.write("7 dunder\\n")
            sys.stdout.buffer.write(b"8 buffer\\n")
            sys.stdout.flush()
            os.write(1, b"9 descriptor\\n")
            subprocess.run(["sh", "-c", "echo 10 child; echo 11 child >&2"], check=True)
            os.system("echo 12 system")
            with open("/dev/stdout", "w", encoding="utf-8") as file:
                file.write("13 device\\n")
            ThreadPoolExecutor(1).submit(print, "14 thread").result()
            print("15 stderr", file=sys.stderr)
            return "done"
        """
    outcome = serve(tmp_path, source, invoke())
    assert outcome.outputs == {"output": "done"}
    numbers = [int(line.split()[0]) for line in outcome.stderr.splitlines()]
    assert numbers == list(range(1, 16))


def test_a_child_that_outlives_the_call_writes_nothing_to_the_wire(tmp_path: Path) -> None:
    """LINE-13, LIFE-16, C002: a helper process of a library, without any redirection."""
    source = """
        import subprocess

        @node
        def start() -> None:
            subprocess.Popen(["sh", "-c", "read line < gate; echo late"])
        """
    with gate(tmp_path) as waiting, Process(tmp_path, source) as runner:
        runner.send(invoke(id_="a"))
        assert runner.answer()["outputs"] == {}
        waiting.let_pass(b"go\n")
        runner.wait_for("late")
        runner.send(invoke(id_="b"))
        assert runner.answer()["invocationId"] == "b"
        assert runner.finish().answers == []


def test_what_is_printed_at_the_end_is_not_on_the_wire(tmp_path: Path) -> None:
    """LINE-13, LIFE-16, C004: exit hooks, finalisers, and a handler of SIGTERM that the node has installed."""
    source = """
        import atexit
        import signal

        atexit.register(print, "goodbye")
        signal.signal(signal.SIGTERM, lambda *_: print("told to stop"))

        class Noisy:
            def __del__(self):
                os.write(1, b"collected\\n")

        noisy = Noisy()

        @node
        def greet() -> str:
            return "Hello"
        """
    with Process(tmp_path, source) as runner:
        runner.send(invoke())
        assert runner.answer()["outputs"] == {"output": "Hello"}
        runner.process.terminate()
        assert runner.wait() == 143
        assert runner.rest() == []
        runner.wait_for("told to stop")
        runner.wait_for("goodbye")
    outcome = serve(tmp_path, source, invoke())
    assert outcome.outputs == {"output": "Hello"}
    assert outcome.stderr.startswith("goodbye\n")


@pytest.mark.parametrize(
    "line",
    [
        "sys.stdout.close()",
        "sys.stdout = sys.stderr = None",
        "import io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8'); sys.stdout = sys.__stdout__",
        "import io; io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8').write('x')",
        "sys.stdout.reconfigure(encoding='latin-1', errors='strict', line_buffering=True)",
        "sys.stdout.buffer.close()",
        "os.close(1)",
        "os.close(0); os.close(1); os.close(2)",
        "os.dup2(os.open(os.devnull, os.O_RDWR), 1)",
        "import contextlib, io; contextlib.redirect_stdout(io.StringIO()).__enter__()",
        "sys.stdin.close()",
        "print('x' * 3_000_000)",
        "sys.stdout.write('\\ud800')",
        "os.chdir('/')",
        "sys.setrecursionlimit(100_000)",
        "sys.modules.clear()",
    ],
)
def test_what_a_node_does_to_its_streams_does_not_touch_the_wire(tmp_path: Path, line: str) -> None:
    """LINE-13, LINE-17, LIFE-15: a library that closes or replaces stdout is no exception."""
    source = f"""
        @node
        def meddle(again: bool) -> str:
            if not again:
                {line}
            return "done"
        """
    calls = (invoke(id_="a", again=False), invoke(id_="b", again=True, unknown=1))
    with Process(tmp_path, source) as runner:
        for call in calls:
            runner.send(call)
            assert runner.answer()["outputs"] == {"output": "done"}
        assert runner.finish().status == 0


def test_a_child_reads_nothing_of_the_host_s_requests(tmp_path: Path) -> None:
    """LIFE-16, C028: a captured Python child and `input()` return at once while the host is silent."""
    source = """
        import subprocess

        @node
        def ask() -> list[str]:
            code = "import sys; print(repr(sys.stdin.read()))"
            child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            found = [child.stdout.strip(), os.popen("cat").read(), sys.stdin.read()]
            try:
                input("your name? ")
            except EOFError:
                found.append("nothing")
            return found
        """
    with Process(tmp_path, source) as runner:
        runner.send(invoke())
        assert runner.answer()["outputs"] == {"output": ["''", "", "", "nothing"]}


def test_children_of_every_kind_hold_no_descriptor_of_the_wire(tmp_path: Path) -> None:
    """LIFE-15: a program, a forked and a spawned worker; by the pipes that are behind their descriptors."""
    source = """
        import subprocess
        import multiprocessing

        def pipes(_=None):
            found = set()
            for name in os.listdir("/proc/self/fd"):
                try:
                    found.add(os.readlink(f"/proc/self/fd/{name}"))
                except OSError:
                    continue
            return sorted(found)

        @node
        def look() -> dict[str, list[str]]:
            ls = 'for fd in /proc/self/fd/*; do readlink "$fd"; done'
            shell = subprocess.run(["sh", "-c", ls], capture_output=True, text=True, close_fds=False)
            kinds = {"shell": shell.stdout.split()}
            for kind in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(kind).Pool(1) as pool:
                    kinds[kind] = pool.map(pipes, [None])[0]
            kinds["runner"] = pipes()
            return kinds
        """
    with Process(tmp_path, source) as runner:
        runner.send(invoke())
        found = runner.answer()["outputs"]["output"]
        stdin, stdout = (os.readlink(f"/proc/self/fd/{stream.fileno()}") for stream in (runner.stdin, runner.stdout))
    assert {stdin, stdout} <= set(found.pop("runner"))
    assert set(found) == {"shell", "fork", "spawn", "forkserver"}
    for kind, pipes in found.items():
        assert pipes, kind
        assert not {stdin, stdout} & set(pipes), kind


def start(
    folder: Path, redirection: str, data: bytes = b"", source: str = GREET
) -> "subprocess.CompletedProcess[bytes]":
    """Start a runner from a shell, with a redirection that closes or replaces a stream."""
    path = write_nodes(folder, source)
    line = 'exec "$@" ' + redirection
    return subprocess.run(
        ["sh", "-c", line, "sh", *command(path)],
        input=data,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        cwd=folder,
        env=clean_environment(),
    )


def test_a_process_without_stdout_says_so_and_leaves(tmp_path: Path) -> None:
    """LIFE-22: there is nowhere to answer; status 2."""
    run = start(tmp_path, ">&-", to_bytes(invoke()))
    assert run.returncode == 2
    assert b"stdout" in run.stderr
    assert run.stderr.count(b"\n") == 1
    assert start(tmp_path, ">&- 2>&-", to_bytes(invoke())).returncode == 2


def test_a_process_without_stderr_serves(tmp_path: Path) -> None:
    """LINE-18: and what the node prints goes nowhere, least of all to the wire."""
    run = start(tmp_path, "2>&-", to_bytes(invoke(name="Ada", unknown=1)))
    assert read_answer(run.stdout)["outputs"] == {"output": "Hello, Ada"}
    assert (run.returncode, run.stderr) == (0, b"")
    run = start(tmp_path, "2>&-", b"\n")
    assert (run.returncode, run.stdout) == (1, b"")


def test_a_wrong_command_line_without_stderr_is_status_2(tmp_path: Path) -> None:
    """LIFE-22, LINE-18."""
    run = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command()],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        cwd=tmp_path,
    )
    assert (run.returncode, run.stdout) == (2, b"")


def test_a_child_of_a_process_without_stderr_has_descriptors_0_to_2(tmp_path: Path) -> None:
    """LIFE-16: without them the files that a child opens would be its stderr."""
    source = """
        @node
        def look() -> str:
            return os.popen("for n in 0 1 2; do readlink /proc/self/fd/$n || echo none; done | tr '\\\\n' ' '").read()
        """
    run = start(tmp_path, "2>&-", to_bytes(invoke()), source)
    assert "none" not in read_answer(run.stdout)["outputs"]["output"]


def test_a_process_without_stdin_has_nothing_to_do(tmp_path: Path) -> None:
    """LIFE-5."""
    run = start(tmp_path, "<&-")
    assert (run.returncode, run.stdout) == (0, b"")
    assert start(tmp_path, "<&- 2>&-").returncode == 0


def test_files_as_stdin_and_stdout_do_as_well_as_pipes(tmp_path: Path) -> None:
    """LIFE-1, LINE-13: `runner < requests > answers`."""
    (tmp_path / "requests").write_bytes(b"".join(to_bytes(invoke(id_=str(n), name=str(n))) for n in range(200)))
    run = start(tmp_path, "< requests > answers")
    assert run.returncode == 0
    answers = [read_answer(line) for line in (tmp_path / "answers").read_bytes().splitlines(keepends=True)]
    assert {answer["invocationId"] for answer in answers} == {str(n) for n in range(200)}
    assert run.stderr.count(b"greeting\n") == 200


def test_a_stdout_that_does_not_block_is_no_dead_one(tmp_path: Path) -> None:
    """LINE-16: some hosts hand over a pipe with O_NONBLOCK set; a full one is waited for."""
    source = "@node\ndef big(n: int) -> str:\n    return str(n) * 300_000\n"
    path = write_nodes(tmp_path, source)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    process = subprocess.Popen(
        command(path), stdin=subprocess.PIPE, stdout=write_end, cwd=tmp_path, env=clean_environment()
    )
    os.close(write_end)
    assert process.stdin is not None
    process.stdin.write(b"".join(to_bytes(invoke(id_=str(n), n=n)) for n in range(5)))
    process.stdin.close()
    with open(read_end, "rb") as stream:
        answers = [read_answer(line) for line in stream]
    assert process.wait(PATIENCE) == 0
    assert sorted(answer["outputs"]["output"][0] for answer in answers) == list("01234")


def test_a_stderr_that_nobody_reads_costs_no_answer(tmp_path: Path) -> None:
    """LINE-17, LINE-18, C023: a node logs 1 MB; later the number of bytes that were lost is told."""
    source = """
        import logging

        @node
        def log(lines: int) -> str:
            for number in range(lines):
                logging.getLogger("pack").warning("%06d %s", number, "x" * 1000)
            return "done"
        """
    with Process(tmp_path, source, reads=("stdout",)) as runner:
        runner.send(invoke(id_="big", lines=1000), invoke(id_="big as well", lines=1000))
        assert set(runner.answers(2)) == {"big", "big as well"}
        runner.read_stderr()
        for number in range(1000):  # until the pipe has room again when a line comes
            runner.send(invoke(id_=str(number), lines=1))
            assert runner.answer()["outputs"] == {"output": "done"}
            if "bytes of log lost" in runner.stderr:
                break
        runner.wait_for("bytes of log lost")
        assert runner.finish().status == 0


def test_a_stderr_whose_reader_has_gone_costs_no_answer(tmp_path: Path) -> None:
    """LINE-18."""
    with Process(tmp_path, GREET, reads=("stdout",)) as runner:
        assert runner.process.stderr is not None
        runner.process.stderr.close()
        for number in range(3):
            runner.send(invoke(id_=str(number), unknown=1))
            assert runner.answer()["outputs"] == {"output": "Hello, you"}
        runner.close()
        assert runner.wait() == 0


def test_big_answers_from_many_calls_are_whole_lines_for_a_slow_reader(tmp_path: Path) -> None:
    """LINE-16, RES-10, C019: 50 calls at once, 0.3 to 2 MB each, read in small pieces."""
    source = """
        @node
        def big(number: int) -> str:
            return chr(97 + number % 26) * (300_000 + number * 34_000)
        """
    with Process(tmp_path, source, "--concurrency", 50, reads=("stderr",)) as runner:
        runner.send(*(invoke(id_=str(number), number=number) for number in range(50)))
        runner.close()
        data = bytearray()
        while piece := os.read(runner.stdout.fileno(), 8192):
            data += piece
        assert runner.wait() == 0
    answers = [read_answer(line) for line in bytes(data).splitlines(keepends=True)]
    assert sorted(int(answer["invocationId"]) for answer in answers) == list(range(50))
    for answer in answers:
        number = int(answer["invocationId"])
        assert answer["outputs"]["output"] == chr(97 + number % 26) * (300_000 + number * 34_000)


def test_a_slow_reader_slows_the_calls_down(tmp_path: Path) -> None:
    """LIFE-19: with nobody reading, the calls stop after a few answers instead of filling the memory."""
    source = """
        @node
        def big() -> str:
            os.write(2, b"made\\n")
            return "x" * 1_000_000
        """
    with Process(tmp_path, source, "--concurrency", 2, reads=("stderr",)) as runner:
        runner.send(*(invoke(id_=str(number)) for number in range(100)))
        runner.close()
        runner.wait_for("made")
        first = os.read(runner.stdout.fileno(), 1)
        assert first == b"{"
        made = runner.stderr.count("made")
        assert made < 20, made
        data = first + runner.stdout.read()
        assert runner.wait() == 0
    assert len(data.splitlines()) == 100


def test_the_interpreter_under_test_runs_the_runners() -> None:
    """Our own choice: a runner of another version would prove nothing."""
    assert command()[0] == sys.executable
