"""The worker as a process: what it makes of the bytes on stdin, and what stands on stdout and stderr."""

import os
import select
import signal
import socket
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.data_cases import load_cases
from tests.ipc.support import PATIENCE, gate
from tests.nodetool.support import (
    CANCELLED,
    READY,
    Worker,
    cancel,
    command,
    discover,
    error_of,
    execute,
    framed,
    kinds_of,
    logs_of,
    memory_of,
    message,
    outputs_of,
    read_frame,
)

ADD = """
    @node
    def add(a: int, b: int = 1) -> int:
        return a + b
    """

#: A node that waits at the gate.
WAIT = """
    @node
    def wait(number: int = 0) -> int:
        print("started", flush=True)
        open("gate", "rb", buffering=0).read(1)
        return number

    @node
    def quick() -> str:
        return "quick"
    """


# Ready


def read_writes(end: socket.socket, until: bytes) -> list[bytes]:
    """Return what was written to a socket that keeps the borders of writes, one by one."""
    end.settimeout(PATIENCE)
    writes = [end.recv(1 << 20)]
    while until not in writes[-1]:
        writes.append(end.recv(1 << 20))
    return writes


@pytest.mark.parametrize("printed", ["", "print('imported')", "print('x' * 10_000, end='', flush=True)"])
def test_the_ready_line_stands_alone_and_is_written_at_once(tmp_path: Path, printed: str) -> None:
    """FRM-23, FRM-24, FRM-25, C044: also where a module has left its line unended; behind all that it prints."""
    host, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with host, Worker(tmp_path, f"    {printed}\n{ADD}", stderr=ours.fileno()) as worker:
        ours.close()
        writes = read_writes(host, READY.encode())
        text = b"".join(writes).decode()
        assert writes[-1].strip() == READY.encode()
        assert text.endswith(f"\n{READY}\n" if printed else f"{READY}\n")
        assert ("imported" in text, "xxx" in text) == ("imported" in printed, "'x'" in printed)
        assert outputs_of(worker.call("Add", a=1)) == {"output": 2}
        assert worker.finish().status == 0
        assert host.recv(100) == b"", "the line comes once"


def test_ready_is_told_after_a_while_though_nodes_are_still_being_imported(tmp_path: Path, interpreter: str) -> None:
    """FRM-25, FRM-26, FRM-27: a request that comes meanwhile is served once they are; the line is not told again."""
    source = f"    open('gate', 'rb', buffering=0).read(1)\n    print('imported')\n{ADD}"
    quick = "import nodetool_worker.stdio as s; s._READY_SECONDS = {}; raise SystemExit(s.main())"
    with gate(tmp_path) as waiting:
        line = [interpreter, "-c", quick.format(0.01), "--stdio"]
        with Worker(tmp_path, source, line=line) as worker:
            worker.wait_for(READY)
            assert "imported" not in worker.stderr
            worker.send(execute("Add", a=1), discover())
            waiting.let_pass()
            assert outputs_of(worker.until_end()) == {"output": 2}
            assert len(worker.frame("discover")["data"]["nodes"]) == 1
            assert worker.finish().stderr.count(READY) == 1


# What node code can do to the streams


def test_nothing_that_node_code_writes_gets_onto_stdout(tmp_path: Path) -> None:
    """FRM-20, FRM-22, C001, C002, C004, C005: at import, in a node, at exit, in a signal handler, by old references.

    The reader of stdout refuses every byte that is no frame.
    """
    source = """
        import atexit, logging, signal, subprocess
        print("1 import")
        old = sys.stdout
        older = sys.__stdout__
        handler = logging.StreamHandler(sys.stdout)
        log = logging.getLogger("pack")
        log.addHandler(handler)
        log.propagate = False
        atexit.register(lambda: print("9 exit hook"))
        atexit.register(os.write, 1, b"9 exit write\\n")
        signal.signal(signal.SIGTERM, lambda *_: (print("8 handler"), os.write(1, b"8 handler write\\n")))

        @node
        def noisy() -> str:
            print("2 print")
            old.write("2 old\\n")
            older.write("2 older\\n")
            sys.stdout.buffer.write(b"2 buffer\\n")
            sys.stdout.flush()
            os.write(1, b"2 write\\n")
            log.warning("2 logging")
            subprocess.run(["sh", "-c", "echo 2 child"], check=True)
            subprocess.run([sys.executable, "-c", "print('2 python child')"], check=True)
            os.system("echo 2 system")
            with os.fdopen(os.dup(1), "w") as copy:
                copy.write("2 copy\\n")
            return "quiet"
        """
    with Worker(tmp_path, source) as worker:
        assert outputs_of(worker.call("Noisy")) == {"output": "quiet"}
        assert outputs_of(worker.call("Noisy", "again")) == {"output": "quiet"}
        worker.process.terminate()
        outcome = worker.outcome()
    assert (outcome.status, outcome.answers) == (0, [])
    inside = ("print", "old", "older", "buffer", "write", "logging", "child", "python child", "system", "copy")
    after = ("8 handler", "8 handler write", "9 exit hook", "9 exit write")
    lines = outcome.stderr.splitlines()
    for text in ("1 import", *(f"2 {word}" for word in inside), *after):
        assert text in lines, text
    assert outcome.stderr.index("1 import") < outcome.stderr.index(READY) < outcome.stderr.index("2 print")


def test_the_descriptors_are_safe_before_a_node_is_imported(tmp_path: Path) -> None:
    """FRM-21, FRM-22: what a module sees of them is the null device, stderr, and nothing else."""
    source = """
        print("same", os.path.sameopenfile(1, 2), "null", os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev)
        there = [fd for fd in range(3, 100) if os.path.exists(f"/proc/self/fd/{fd}")]
        print("inherited", [fd for fd in there if os.get_inheritable(fd)])
        """
    with Worker(tmp_path, source) as worker:
        worker.wait_for(READY)
        assert "same True null True\ninherited []\n" in worker.stderr


def test_a_child_process_gets_none_of_the_protocol_s_descriptors(tmp_path: Path) -> None:
    """FRM-21: also one that is started without closing what is open."""
    source = """
        import subprocess

        @node
        def look() -> str:
            shell = ["sh", "-c", "ls -l /proc/self/fd"]
            return subprocess.run(shell, close_fds=False, stdout=subprocess.PIPE, text=True, check=True).stdout
        """
    with Worker(tmp_path, source) as worker:
        seen = outputs_of(worker.call("Look"))["output"]
        ends = [os.fstat(worker.stdin.fileno()), os.fstat(worker.stdout.fileno())]
        assert all(stat.S_ISFIFO(end.st_mode) for end in ends)
        assert "/dev/null" in seen
        for end in ends:
            assert f"pipe:[{end.st_ino}]" not in seen


@pytest.mark.parametrize(
    "reading",
    [
        "sys.stdin.read()",
        "os.read(0, 100).decode()",
        "subprocess.run(['cat'], stdout=subprocess.PIPE, text=True).stdout",
        "subprocess.run([sys.executable, '-c', 'import sys; print(repr(sys.stdin.read()))'],"
        " stdout=subprocess.PIPE, text=True).stdout.strip().strip(chr(39))",
    ],
    ids=["stdin", "descriptor", "child", "python child"],
)
def test_node_code_and_its_children_read_an_empty_stdin(tmp_path: Path, reading: str) -> None:
    """FRM-22, C028: at once, while the host is silent; and not a byte of the protocol is taken."""
    source = f"import subprocess\n\n@node\ndef read() -> str:\n    return {reading}\n" + ADD.replace("\n    ", "\n")
    with Worker(tmp_path, source) as worker:
        assert outputs_of(worker.call("Read")) == {"output": ""}
        worker.send(execute("Read", "a"), execute("Add", "b", a=1))
        assert outputs_of(worker.until_end("b")) == {"output": 2}
        assert outputs_of(worker.until_end("a")) == {"output": ""}


def test_input_in_a_node_is_an_error_of_its_call(tmp_path: Path) -> None:
    """FRM-22: it does not wait for a person who is not there."""
    with Worker(tmp_path, "@node\ndef ask() -> str:\n    return input('name? ')\n") as worker:
        assert "EOFError" in error_of(worker.call("Ask"))
        assert error_of(worker.call("Ask", "again"))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_pool_works_and_starts_no_worker(tmp_path: Path, method: str) -> None:
    """FRM-29, C026: the children import the main module again, read no request and write no frame."""
    source = f"""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        def square(value: int) -> int:
            print("squaring", flush=True)
            return value * value

        @node
        def squares(values: list[int]) -> list[int]:
            context = multiprocessing.get_context("{method}")
            with ProcessPoolExecutor(2, mp_context=context) as pool:
                found = list(pool.map(square, values))
            with context.Pool(1) as pool:
                return found + pool.map(square, values)
        """
    with Worker(tmp_path, source) as worker:
        worker.send(execute("Squares", "a", values=[1, 2, 3]), execute("Squares", "b", values=[4]))
        assert outputs_of(worker.until_end("a")) == {"output": [1, 4, 9, 1, 4, 9]}
        assert outputs_of(worker.until_end("b")) == {"output": [16, 16]}
        outcome = worker.finish()
    assert (outcome.status, outcome.answers) == (0, [])
    assert outcome.stderr.count(READY) == 1
    assert outcome.stderr.count("squaring") == 8


# Bad frames


def test_every_kind_of_bad_frame_is_answered_and_the_good_ones_between_are_served(tmp_path: Path) -> None:
    """FRM-9 to FRM-17, RID-4, RID-5, C038, C040: each also told in one line on stderr."""
    cases = load_cases("nodetool/stdio/bad_frames")
    with Worker(tmp_path, ADD) as worker:
        worker.wait_for(READY)
        for number, case in enumerate(cases):
            worker.send(framed(bytes.fromhex(case["payload"])))
            found = worker.answer()
            assert (found["type"], found["request_id"]) == ("error", case["id"]), case["name"]
            assert found["data"]["error"].startswith(case["error"]), case["name"]
            assert set(found["data"]) == {"error"}, case["name"]
            worker.send(discover(f"d{number}"))
            assert worker.answer()["request_id"] == f"d{number}", case["name"]
        outcome = worker.finish()
    lines = outcome.stderr.splitlines()
    assert (outcome.status, outcome.answers) == (0, [])
    assert len([line for line in lines if line.startswith("stdio worker: ")]) == len(cases)
    assert len(lines) == len(cases) + 1, "beside these lines there is the ready line alone"


def test_frames_in_pieces_of_any_size_are_taken_with_their_last_byte(tmp_path: Path) -> None:
    """FRM-1, FRM-2: nothing is waited for behind it."""
    data = execute("Add", a=1)
    with Worker(tmp_path, ADD) as worker:
        for byte in data:
            worker.send(bytes([byte]))
        assert outputs_of(worker.until_end()) == {"output": 2}
        worker.send(execute("Add", "a", a=2) + data[:3])
        assert outputs_of(worker.until_end("a")) == {"output": 3}
        worker.send(data[3:] + execute("Add", "b", a=3) + execute("Add", "c", a=4))
        assert [outputs_of(worker.until_end(id_))["output"] for id_ in "ibc"] == [2, 4, 5]


@pytest.mark.parametrize("kept", [1, 3, 4, 20], ids="{} bytes".format)
def test_a_frame_that_the_end_of_stdin_cuts_short_gets_no_answer(tmp_path: Path, kept: int) -> None:
    """FRM-6: inside its length, right behind it, and inside its payload; what came before it is answered."""
    with Worker(tmp_path, ADD) as worker:
        worker.send(execute("Add", "whole", a=1) + execute("Add", "cut", a=2)[:kept])
        outcome = worker.finish()
    assert [frame["request_id"] for frame in outcome.answers] == ["whole"]
    assert outcome.status == 0


def test_a_length_over_the_limit_ends_the_reading_and_no_call_in_flight(tmp_path: Path) -> None:
    """FRM-7, FRM-8, C041: one error, nothing read any more though stdin stays open, and the status is 0."""
    limit = 1000
    with gate(tmp_path) as waiting, Worker(tmp_path, WAIT, NODETOOL_BRIDGE_MAX_FRAME_SIZE=str(limit)) as worker:
        worker.send(execute("Wait", number=5))
        worker.wait_for("started")
        worker.send((limit + 1).to_bytes(4, "big"))
        fault = worker.frame(None)
        assert fault["type"] == "error"
        assert set(fault["data"]) == {"error"}
        assert f"({limit + 1} > {limit})" in fault["data"]["error"]
        worker.wait_for("stdio worker: ")
        waiting.let_pass()
        assert outputs_of(worker.until_end()) == {"output": 5}
        outcome = worker.outcome()
    assert (outcome.status, outcome.answers) == (0, [])


def test_a_payload_of_the_limit_passes(tmp_path: Path) -> None:
    """FRM-3: its length is not counted."""
    data = execute("Size", text="")
    limit = 2000
    text = "x" * (limit - (len(data) - 4) - 2)  # a text of this length has a header of two bytes more
    source = "@node\ndef size(text: str) -> int:\n    return len(text)\n"
    with Worker(tmp_path, source, NODETOOL_BRIDGE_MAX_FRAME_SIZE=str(limit)) as worker:
        whole = execute("Size", text=text)
        assert len(whole) == limit + 4
        worker.send(whole)
        assert outputs_of(worker.until_end()) == {"output": len(text)}
        worker.send(execute("Size", text=text + "x"))
        assert worker.frame(None)["type"] == "error"
        assert worker.wait() == 0


def test_a_length_alone_takes_no_memory(tmp_path: Path) -> None:
    """FRM-4, C041: the greatest length that four bytes can say, and the greatest that is allowed."""
    with gate(tmp_path) as waiting, Worker(tmp_path, WAIT) as worker:
        worker.send(execute("Wait"))
        worker.wait_for("started")
        before = memory_of(worker.pid, "VmHWM")
        worker.send(execute("Quick", "q") + (256 << 20).to_bytes(4, "big") + b"\x83")
        assert outputs_of(worker.until_end("q")) == {"output": "quick"}
        assert memory_of(worker.pid, "VmHWM") - before < 16 << 20
        waiting.let_pass()
        assert worker.until_end()
        assert worker.finish().status == 0
    with Worker(tmp_path, ADD) as worker:
        worker.wait_for(READY)
        worker.send(b"\xff\xff\xff\xff")
        assert "(4294967295 > 268435456)" in worker.frame(None)["data"]["error"]
        assert worker.wait() == 0


def test_a_result_over_the_limit_is_an_error_of_its_call(tmp_path: Path) -> None:
    """FRM-5, C056: with the size and the limit, which follows the variable; the worker goes on."""
    source = "@node\ndef make(size: int) -> bytes:\n    return bytes(size)\n"
    with Worker(tmp_path, source, NODETOOL_BRIDGE_MAX_FRAME_SIZE="300000") as worker:
        text = error_of(worker.call("Make", size=300_000))
        assert "> 300000" in text
        assert len(outputs_of(worker.call("Make", "a", size=299_000))["output"]) == 299_000
    with Worker(tmp_path, source) as worker:
        text = error_of(worker.call("Make", size=300_000_000))
        assert "> 268435456" in text
        assert len(outputs_of(worker.call("Make", "a", size=10))["output"]) == 10


def test_what_is_missing_or_unknown_in_a_request_is_named(tmp_path: Path) -> None:
    """EXE-2, EXE-3, RID-2, RID-3, RID-7, RID-8, C046: and the worker lives."""
    with Worker(tmp_path, ADD) as worker:
        bad = {
            "no data": (framed(b"\x82\xa4type\xa7execute\xaarequest_id\xa7no data"), "node_type"),
            "nil": (framed(b"\x83\xa4type\xa7execute\xaarequest_id\xa3nil\xa4data\xc0"), "node_type"),
            "no type": (message("execute", "no type", {"fields": {}}), "node_type"),
            "unknown node": (execute("Nope", "unknown node"), "Unknown node type: nodes.Nope"),
            "unknown": (message("foo", "unknown"), "Unknown message type: foo"),
            "no field": (execute("Add", "no field"), "a"),
        }
        for id_, (data, words) in bad.items():
            worker.send(data)
            (found,) = worker.until_end(id_)
            assert words in error_of([found])
            assert set(found["data"]) == {"error"}
        for no_id in ("", None, 7):
            worker.send(message("discover", no_id))
        worker.wait_for("stdio worker: ignored a message of type 'discover'", 3)
        worker.send(discover())
        assert worker.answer()["request_id"] == "discover"


def test_what_the_host_leaves_unset_brings_back_the_default(tmp_path: Path) -> None:
    """VAL-1, VAL-3, VAL-8, C037, C047: ext 0 at the top and inside, nil, an empty list."""
    source = """
        @node
        def show(ctx: Context, count: int = 3, names: list[str] = ["a"], text: str | None = "x", any: dict = {}) -> str:
            return repr((count, names, text, any))
        """
    undefined = b"\xd4\x00\x00"
    head = b"\x83\xa4type\xa7execute\xaarequest_id\xa1i\xa4data\x82\xa9node_type\xaanodes.Show\xa6fields"
    absent = b"\x83\xa5count" + undefined + b"\xa4text" + undefined
    fields = {
        absent + b"\xa3any\x82\xa1k" + undefined + b"\xa1l\x91" + undefined: "(3, ['a'], 'x', {'l': [None]})",
        b"\x84\xa5count\xc0\xa5names\x90\xa4text\xc0\xa3any\x80": "(3, [], None, {})",
    }
    with Worker(tmp_path, source) as worker:
        for wire, shown in fields.items():
            worker.send(framed(head + wire))
            assert outputs_of(worker.until_end()) == {"output": shown}


# Slow and odd hosts


def test_a_frame_that_is_read_in_small_pieces_while_signals_come_is_whole(tmp_path: Path) -> None:
    """FRM-19, C043: 8 MB, a kilobyte at a time; others are served meanwhile, and none stands inside another."""
    source = """
        import signal

        # The one goes to the main thread, which passes it on to the thread that is in its write: that is cut short.
        signal.signal(signal.SIGUSR1, lambda *_: signal.pthread_kill(writer, signal.SIGUSR2))
        signal.signal(signal.SIGUSR2, lambda *_: None)
        writer = threading.get_ident()

        @node
        def big() -> bytes:
            global writer
            writer = threading.get_ident()
            return bytes(range(256)) * 31_250

        @node
        def small() -> bytes:
            return bytes(range(256)) * 10
        """
    with Worker(tmp_path, source, reads=("stderr",)) as worker:
        worker.wait_for(READY)
        worker.send(execute("Big", "big"), *(execute("Small", str(n)) for n in range(50)))
        frames = [read_slowly(worker) for _ in range(51)]
    sizes = {frame["request_id"]: len(outputs_of([frame])["output"]) for frame in frames}
    assert sizes == {"big": 8_000_000, **{str(n): 2560 for n in range(50)}}
    assert all(outputs_of([frame])["output"][:256] == bytes(range(256)) for frame in frames)


def read_slowly(worker: Worker) -> dict[str, object]:
    """Read one frame in small pieces, with a signal for the worker now and then."""
    fd = worker.stdout.fileno()

    class Slow:
        count = 0

        def read(self, size: int) -> bytes:
            got = bytearray()
            while len(got) < size:
                piece = os.read(fd, min(1024, size - len(got)))
                assert piece
                got += piece
                self.count += 1
                if self.count % 50 == 0:
                    worker.process.send_signal(signal.SIGUSR1)
            return bytes(got)

    slow: BinaryIO = Slow()  # type: ignore[assignment]  # `read` is all that is used of it
    frame = read_frame(slow)
    assert frame is not None
    return frame


def test_a_stderr_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    """FRM-28, C023: a megabyte through `logging`; every frame comes, and the updates as well."""
    source = """
        import logging

        @node
        def talk() -> str:
            for _ in range(1000):
                logging.getLogger("pack").info("x" * 1000)
            return "done"
        """
    with Worker(tmp_path, source, reads=("stdout",)) as worker:
        frames = worker.call("Talk")
        assert outputs_of(frames) == {"output": "done"}
        assert len(logs_of(frames)) == 1000
        worker.send(discover())
        assert worker.frame("discover")
        worker.read_stderr()
        assert outputs_of(worker.call("Talk", "again")) == {"output": "done"}
        worker.wait_for("bytes of log lost")
        assert worker.finish().status == 0


@pytest.mark.parametrize("how", ["closed by the host", "missing", "closed by the node"])
def test_a_stderr_that_is_gone_fails_nothing(tmp_path: Path, how: str) -> None:
    """FRM-28: node code prints, logs and goes on."""
    source = """
        import logging

        @node
        def talk(close: bool) -> str:
            if close:
                os.close(2)
                os.close(1)
            print("x" * 100)
            logging.getLogger("pack").warning("careful")
            os.system("echo child 2>&1")
            return "done"
        """
    line = ["sh", "-c", 'exec "$0" "$@" 2>&-', *command()] if how == "missing" else None
    with Worker(tmp_path, source, line=line, reads=("stdout",)) as worker:
        if how == "closed by the host":
            assert worker.process.stderr is not None
            assert worker.process.stderr.readline() == READY.encode() + b"\n"
            worker.process.stderr.close()
        frames = worker.call("Talk", close=how.endswith("node"))
        assert outputs_of(frames) == {"output": "done"}
        assert len(logs_of(frames)) == 2
        assert outputs_of(worker.call("Talk", "b", close=False)) == {"output": "done"}
        assert worker.finish().status == 0


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.iso88591"])
def test_the_locale_changes_nothing(tmp_path: Path, locale: str) -> None:
    """FRM-28, UPD-15, C031: sources, frames and log are UTF-8."""
    source = """
        import logging

        @node
        def grüße(name: str) -> str:
            print("😀 printed")
            logging.getLogger("pack").warning("😀 logged")
            return "Grüße, " + name + " €"
        """
    strict = {"LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with Worker(tmp_path, source, **strict) as worker:  # type: ignore[arg-type]  # its keys are variables
        frames = worker.call("Grüße", name="Zoë 😀")
        assert outputs_of(frames) == {"output": "Grüße, Zoë 😀 €"}
        assert logs_of(frames) == ["😀 printed", "😀 logged"]
        assert "😀 printed\n" in worker.finish().stderr


def test_a_temporary_folder_that_the_node_has_emptied_or_removed_is_no_fault(tmp_path: Path) -> None:
    """EXE-38, C034: after a result, an error and a cancel; it is gone before the terminal frame."""
    source = """
        import shutil

        @node
        def use(how: str, *, ctx: Context) -> str:
            place = ctx.temp_dir
            (place / "input").write_bytes(b"x")
            ctx.log(str(place))
            if how != "kept":
                shutil.rmtree(place)
            if how == "error":
                raise ValueError("no")
            while how == "cancel":
                ctx.check_cancelled()
            return how
        """
    with Worker(tmp_path, source) as worker:
        for how in ("kept", "removed", "error", "cancel"):
            worker.send(execute("Use", how, how=how))
            folder = Path(worker.frame(how)["data"]["content"])
            if how == "cancel":
                worker.send(cancel(how))
            (last,) = worker.until_end(how)
            assert not folder.exists()
            assert last["data"].get("error") == {"error": "ValueError: no", "cancel": CANCELLED}.get(how)
        assert "rror" not in worker.finish().stderr


def test_a_worker_without_nodes_answers(tmp_path: Path) -> None:
    """FND-16, DSC-3: with an empty list."""
    with Worker(tmp_path, "") as worker:
        worker.send(discover())
        found = worker.frame("discover")
        assert found["data"]["nodes"] == []
        assert kinds_of([found]) == ["discover"]
        assert not select.select([worker.stdout], [], [], 0)[0]
        assert worker.finish().status == 0
