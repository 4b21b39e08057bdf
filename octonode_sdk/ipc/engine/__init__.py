"""The engine's side of Octonode IPC: runs any command that speaks the protocol, and turns each of its faults into an
envelope (ENG-1). docs/engine.md is the guide, docs/octonode-wire.md has the rules.

Every name is loaded on first use; nothing here is loaded by a runner.

::

    Engine(command, *, mode="one-shot", workers=1, deadline=None, retry=None, cwd=None, env=None, limits=None,
           on_stderr=None, idle_seconds=None, recycle_after=None)
        .invoke(inputs=None, *, node=None, config=None, env=None, run_id=None, deadline=..., invocation_id=None)
                                                -> Answer
        .submit(...as invoke...)                -> Handle: .result(timeout=None) -> Answer, .done(), .cancel() -> bool,
                                                   .invocation_id
        .describe(node=None, *, deadline=..., fresh=False)  -> Answer, with .manifest
        .close(grace=5.0)                       also by `with engine:`
        .pids                                   list of the ids of the processes that run now
    AsyncEngine(...the same...)                 invoke, describe and close are coroutines; submit returns at once an
                                                AsyncHandle, whose result() is a coroutine; `async with engine:`

    Answer      .ok, .outputs, .error, .manifest, .envelope, .attempts, .seconds, .fault
    Limits(*, max_answer_bytes=64 MiB, stderr_lines=20, stderr_line_bytes=4096, drain_seconds=0.25, exit_seconds=5.0)
    RetryPolicy(*, attempts=3, backoff=0.2, factor=2.0, jitter=0.1, longest=30.0)

`deadline` is in seconds, for the whole call with all its attempts; `...` means the engine's, None means none. What is
left of it goes to the node as `context.deadlineMs`. `env` of a call is the text of `context.env` ("prod"); `env` of an
engine are variables that are added to those of the process (None takes one away).

Nothing is raised but TypeError and ValueError for arguments that can't be (inputs that are not JSON included),
RuntimeError after `close`, and TimeoutError by `Handle.result(timeout)`.

An error that the engine makes has `details`: `fault` (a key of `answers.FAULTS`, also as `Answer.fault`), and where a
process has ended `status` (negative: minus the signal) and `stderr`, the list of its last lines:

=============  ================  =========================  ==========================================================
fault          code              retryable                  what happened
=============  ================  =========================  ==========================================================
spawn          RUNTIME_ERROR     true                       the process can't be started (ENG-2)
deadline       TIMEOUT           true                       the deadline has passed; the tree was killed (ENG-3, ENG-4)
no-output      RUNTIME_ERROR     true if a signal ended it  the process ended without an answer (ENG-5, ENG-6)
cut-off        RUNTIME_ERROR     true if a signal ended it  ... in the middle of one
not-json       RUNTIME_ERROR     false                      a line on stdout is no JSON (ENG-7)
no-envelope    RUNTIME_ERROR     false                      JSON, but no answer to this request (ENG-7)
extra-lines    RUNTIME_ERROR     false                      more than one line in one-shot mode (ENG-8)
wrong-id       RUNTIME_ERROR     false                      the answer has another id (ENG-9)
too-long       RUNTIME_ERROR     false                      more than Limits.max_answer_bytes (ENG-17)
beside         RUNTIME_ERROR     true                       the worker was ended for a fault that may be another call's
cancelled      RUNTIME_ERROR     false                      by Handle.cancel
closed         RUNTIME_ERROR     true                       the engine was closed before the answer
internal       RUNTIME_ERROR     false                      a defect of the engine itself
=============  ================  =========================  ==========================================================

In worker mode, a faulty answer under the id of a call fails that call alone, and the worker goes on. What can't be laid
to one call (a line without a readable id, an id that no call has, the death of the worker) ends the worker: it is the
fault of the call in flight where there is one alone, and where there are several, each fails as `beside`. A deadline
and an answer that is too long end it as well; the calls beside that one fail as `beside`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .aio import AsyncEngine, AsyncHandle
    from .answers import Answer
    from .client import Engine, Handle
    from .limits import Limits
    from .retry import RetryPolicy

__all__ = ["Answer", "AsyncEngine", "AsyncHandle", "Engine", "Handle", "Limits", "RetryPolicy"]

_HOMES = {
    "Answer": ".answers",
    "AsyncEngine": ".aio",
    "AsyncHandle": ".aio",
    "Engine": ".client",
    "Handle": ".client",
    "Limits": ".limits",
    "RetryPolicy": ".retry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
