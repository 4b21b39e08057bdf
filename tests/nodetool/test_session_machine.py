"""A session in memory, in any order: whatever is asked, cancelled and served, each request has one terminal frame."""

from typing import Any

import msgpack
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from tests.nodetool.sessionkit import TERMINAL, Host
from tests.nodetool.test_session import NODES


class Session(RuleBasedStateMachine):
    """Requests, cancels and served calls in any order, against a model of what each id may get."""

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        names: dict[str, Any] = {"__name__": "t_machine"}
        exec(compile(NODES, "t_machine", "exec"), names)
        for name in ("GATE", "LATER"):
            names[name].set()
        self.host = Host(names)
        self.waiting: list[Any] = []
        self.asked: dict[str, list[str]] = {}
        self.count = 0

    @rule(target=ids)
    def new_id(self) -> str:
        """An id that no request has had."""
        self.count += 1
        return f"id {self.count}"

    @rule(id_=ids, node=st.sampled_from(["Echo", "Fail", "Rows", "BusyLate", "Missing", "Wait"]), stream=st.booleans())
    def execute(self, id_: str, node: str, stream: bool) -> None:
        """Ask for a call."""
        call = self.host.ask(node, id_, stream=stream)
        self.asked.setdefault(id_, []).append("execute")
        if call is not None:
            self.waiting.append(call)

    @rule(id_=ids, type_=st.sampled_from(["discover", "worker.status", "provider.list", "foo", "job.start"]))
    def ask(self, id_: str, type_: str) -> None:
        """Ask for something that is answered without a call."""
        self.host.send(type_, id_)
        self.asked.setdefault(id_, []).append(type_)

    @rule(id_=ids)
    def cancel(self, id_: str) -> None:
        """Cancel whatever has the id."""
        before = len(self.terminal(id_))
        self.host.send("cancel", id_)
        assert len(self.terminal(id_)) <= before + 1

    @rule(id_=ids)
    def break_frame(self, id_: str) -> None:
        """Send a malformed frame with an id that was used."""
        if id_ in self.host.session._calls:
            self.host.session.take(b"\x82\xaarequest_id" + msgpack.packb(id_) + b"\xc1")

    @rule(data=st.data())
    def serve(self, data: st.DataObject) -> None:
        """Let a lane take one of the calls, in any order."""
        if self.waiting:
            self.host.serve(self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1))))

    @rule(room=st.none() | st.integers(0, 500))
    def read(self, room: int | None) -> None:
        """Let the host read more, or less."""
        self.host.pipe.room = room
        self.host.outbox.settle()

    def terminal(self, id_: str) -> list[Any]:
        """Return the terminal frames of an id so far."""
        return [frame for frame in self.host.frames(id_) if frame["type"] in TERMINAL]

    @invariant()
    def nobody_gets_more_than_was_asked_for(self) -> None:
        """RID-11: at any moment."""
        for id_, asked in self.asked.items():
            assert len(self.terminal(id_)) <= len(asked)

    def teardown(self) -> None:
        """RID-11, RID-12, RID-13: in the end each request has one terminal frame, and the last frame is one."""
        self.host.pipe.room = None
        while self.waiting:
            self.host.serve(self.waiting.pop(0))
        self.host.outbox.pump()
        for id_, asked in self.asked.items():
            assert len(self.terminal(id_)) == len(asked)
            assert self.host.frames(id_)[-1]["type"] in TERMINAL
            kinds = sorted(frame["type"] for frame in self.terminal(id_))
            assert kinds.count("discover") == asked.count("discover")
        session, outbox = self.host.session, self.host.outbox
        assert (session._calls, session._same_id, session._same_id_count, session._link.unsent) == ({}, {}, 0, {})
        assert (outbox._bytes, outbox._urgent_bytes, outbox.is_empty) == (0, 0, True)


Session.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestSession = Session.TestCase
