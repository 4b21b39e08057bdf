"""Decoded maps -> requests, and the maps that answer them. The cases stand in tests/data/nodetool/messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodetool_worker import messages
from nodetool_worker.errors import BadRequestError, UnanswerableError
from nodetool_worker.messages import Cancel, Discover, Execute, ProviderList, Status, parse_request
from octonode_sdk.secrets import forget_secrets, remember_secrets
from tests.data_cases import parametrize_cases

#: What a decoded payload may hold.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
TYPES = ["execute", "execute.stream", "cancel", "discover", "worker.status", "provider.list", "provider.x", "job.start"]


@parametrize_cases("nodetool/messages/refusals")
def test_what_is_no_request_is_refused_in_these_words(case: dict[str, Any]) -> None:
    """RID-2, RID-3, RID-7 to RID-9, EXE-2, EXE-5, CAN-2, PRV-1: the rule stands in the case."""
    with pytest.raises((BadRequestError, UnanswerableError)) as caught:
        parse_request(case["message"])
    assert str(caught.value) == case["error"]
    assert type(caught.value).__name__ == case["kind"]
    assert getattr(caught.value, "request_id", None) == case["request_id"]


@parametrize_cases("nodetool/messages/requests")
def test_a_request_is_read(case: dict[str, Any]) -> None:
    """RID-1, RID-8, RID-10, EXE-4, EXE-6, EXE-30, EXE-32, DSC-1, CAN-1, PRV-2, BLB-1, BLB-2: as the case says."""
    request = parse_request(case["message"])
    assert type(request).__name__ == case["kind"]
    assert {name: getattr(request, name) for name in case["expected"]} == case["expected"]


def test_a_type_in_bytes_is_unknown() -> None:
    """RID-7: JSON can't hold this case."""
    with pytest.raises(BadRequestError, match=r"^Unknown message type: b'discover'$"):
        parse_request({"type": b"discover", "request_id": "q"})


def test_a_secret_is_never_shown_by_a_refusal() -> None:
    """EXE-29: a host that mixes up two keys."""
    remember_secrets(["open sesame"])
    for data in ({"node_type": "a.B", "secrets": "open sesame"}, {"node_type": ["open sesame"]}, "open sesame"):
        with pytest.raises(BadRequestError) as caught:
            parse_request({"type": "execute", "request_id": "q", "data": data})
        assert "sesame" not in str(caught.value)
    forget_secrets()


@given(
    message=st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES) | VALUES,
            "request_id": st.just("q") | VALUES,
            "data": st.fixed_dictionaries(
                {},
                optional={
                    "node_type": st.just("a.B") | VALUES,
                    "fields": st.dictionaries(st.text(max_size=5), VALUES, max_size=3) | VALUES,
                    "blobs": st.dictionaries(st.text(max_size=5), st.binary(), max_size=3) | VALUES,
                    "secrets": st.dictionaries(st.text(max_size=5), st.text(), max_size=3) | VALUES,
                    "node_id": VALUES,
                    "requires_vram_gb": VALUES,
                    "blob_transfer": VALUES,
                },
            )
            | VALUES,
        },
    )
)
def test_any_map_gives_a_request_or_a_protocol_error_with_its_id(message: dict[str, Any]) -> None:
    """RID-2, RID-11: what has an id can be answered under it."""
    id_ = message.get("request_id")
    request: object = None
    try:
        request = parse_request(message)
    except UnanswerableError:
        pass
    except BadRequestError as error:
        request = error
    if type(id_) is str and id_:
        assert isinstance(request, (Cancel, Discover, Execute, ProviderList, Status, BadRequestError))
        assert request.request_id == id_


def test_answers_have_the_maps_that_the_host_needs() -> None:
    """EXE-1, EXE-13, EXE-14, EXE-17, UPD-1, UPD-3, UPD-5, FRM-18, RID-1."""
    empty: dict[str, Any] = {"outputs": {}, "blobs": {}}
    assert messages.result("q", {"a": 1}) == {
        "type": "result",
        "request_id": "q",
        "data": {"outputs": {"a": 1}, "blobs": {}},
    }
    assert messages.result("q", {})["data"] == empty
    assert messages.chunk("q", {"a": None}) == {
        "type": "chunk",
        "request_id": "q",
        "data": {"outputs": {"a": None}, "blobs": {}},
    }
    assert messages.error(None, "x") == {"type": "error", "request_id": None, "data": {"error": "x"}}
    assert messages.error("q", "x", "trace")["data"] == {"error": "x", "traceback": "trace"}
    assert messages.progress("q", 1, None, None) == {
        "type": "progress",
        "request_id": "q",
        "data": {"progress": 1, "total": 0, "message": None},
    }
    assert messages.progress("q", 0.5, 2, "x")["data"] == {"progress": 0.5, "total": 2, "message": "x"}
    assert messages.update("q", {"type": "log_update"}) == {
        "type": "update",
        "request_id": "q",
        "data": {"type": "log_update"},
    }
