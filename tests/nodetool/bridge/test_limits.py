"""The limits of a client, the variables behind them, and the gates."""

import pytest

from nodetool_worker.bridge.gates import Gates
from nodetool_worker.bridge.limits import Limits, read_limits
from nodetool_worker.bridge.requests import execute_data
from nodetool_worker.errors import IncompatibleWorkerError, LocalProtocolError
from nodetool_worker.frames import Large
from nodetool_worker.responses import Discovery, WorkerStatus

_DEFAULTS = {
    "NODETOOL_BRIDGE_MAX_FRAME_SIZE": ("frame_bytes", 256 << 20),
    "NODETOOL_PYTHON_MAX_RESULT_BLOB_BYTES": ("blob_bytes", 2 << 30),
    "NODETOOL_PYTHON_EXECUTE_TIMEOUT_MS": ("execute_seconds", 720.0),
    "NODETOOL_PYTHON_STATUS_TIMEOUT_MS": ("status_seconds", 30.0),
    "NODETOOL_PYTHON_DOWNLOAD_IDLE_TIMEOUT_MS": ("download_seconds", 300.0),
}


def refuse(text: str) -> None:
    pytest.fail(f"warned: {text}")


def test_without_variables_the_limits_are_those_of_the_page() -> None:
    """BRG-6, BRG-7, BRG-12, FRM-3, BLB-5."""
    limits = read_limits({}, refuse)
    assert {name: getattr(limits, name) for name, _ in _DEFAULTS.values()} == dict(_DEFAULTS.values())
    assert limits.validate is False


def test_variables_change_the_limits() -> None:
    """BRG-6, BRG-7: times are milliseconds."""
    environment = dict.fromkeys(_DEFAULTS, " 5000 ") | {"NODETOOL_VALIDATE_BRIDGE_FRAMES": "1"}
    limits = read_limits(environment, refuse)
    assert (limits.frame_bytes, limits.blob_bytes) == (5000, 5000)
    assert (limits.execute_seconds, limits.status_seconds, limits.download_seconds) == (5.0, 5.0, 5.0)
    assert limits.validate is True


@pytest.mark.parametrize(
    "text", ["abc", "1e6", "-1", "1.5", "9" * 30, "٣", "0x10", "1_000"]
)  # a digit of another script
@pytest.mark.parametrize("variable", _DEFAULTS)
def test_a_value_that_makes_no_sense_gives_the_default_and_a_warning(variable: str, text: str) -> None:
    """BRG-9."""
    told: list[str] = []
    limits = read_limits({variable: text}, told.append)
    name, default = _DEFAULTS[variable]
    assert getattr(limits, name) == default
    (warning,) = told
    assert warning.startswith(f"{variable} is {text!r}; expected a whole number from ")


def test_zero_is_no_timeout_and_no_frame_but_a_limit_for_blobs() -> None:
    """BRG-9, BLB-5."""
    told: list[str] = []
    limits = read_limits(dict.fromkeys(_DEFAULTS, "0"), told.append)
    assert len(told) == 4
    assert limits.blob_bytes == 0


@pytest.mark.parametrize(("text", "expected", "warnings"), [("0", False, 0), ("true", True, 0), ("yes", False, 1)])
def test_the_switch_of_validation_is_one_or_zero(text: str, expected: bool, warnings: int) -> None:
    """BRG-9, BRG-12."""
    told: list[str] = []
    limits = read_limits({"NODETOOL_VALIDATE_BRIDGE_FRAMES": text}, told.append)
    assert (limits.validate, len(told)) == (expected, warnings)


# Gates


def known(version: object, **status: object) -> Gates:
    """Return the gates of a worker of this version."""
    gates = Gates()
    data = {"nodes": []} if version is None else {"nodes": [], "protocol_version": version}
    gates.learn_discovery(Discovery("discover", "r", data))
    if status:
        gates.learn_status(WorkerStatus(dict(status)))
    return gates


def opened(gates: Gates) -> set[str]:
    """Return the names of the gates that are open."""
    checks = {
        "models": gates.supports_models(),
        "comfy": gates.supports_comfy(),
        "jobs": gates.supports_job_lifecycle(),
        "prepare": gates.supports_model_preparation("wan"),
        "blender": gates.supports_blender(),
        "chunks": gates.supports_chunked_blobs(),
    }
    return {name for name, is_open in checks.items() if is_open}


_ALL = {"comfy": {"enabled": True}, "blender": {"enabled": True}, "model_prepare_backends": ["wan"]}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (None, {"blender"}),
        (1, {"blender"}),
        (2, {"blender", "models"}),
        (3, {"blender", "models", "comfy"}),
        (4, {"blender", "models", "comfy", "jobs"}),
        (5, {"blender", "models", "comfy", "jobs", "prepare", "chunks"}),
        (6, {"blender", "models", "comfy", "jobs", "prepare", "chunks"}),
        (7, {"blender", "models", "comfy", "jobs", "prepare", "chunks"}),
    ],
)
def test_each_family_is_open_from_its_version_on(version: object, expected: set[str]) -> None:
    """BRG-4, BRG-5: a worker without a version is version 1."""
    assert opened(known(version, **_ALL)) == expected


def test_without_a_status_what_it_says_is_closed() -> None:
    """BRG-3, BRG-5."""
    assert opened(known(6)) == {"models", "jobs", "chunks"}
    assert opened(Gates()) == set()
    assert Gates().protocol_version is None


@pytest.mark.parametrize("flag", [1, "true", None, False])
def test_a_flag_opens_a_family_only_when_it_is_true(flag: object) -> None:
    """BRG-5: the host compares with true itself."""
    gates = known(6, comfy={"enabled": flag}, blender={"enabled": flag}, model_prepare_backends=["other"])
    assert opened(gates) == {"models", "jobs", "chunks"}


def test_a_worker_below_the_floor_is_refused_with_a_way_out() -> None:
    """BRG-4."""
    with pytest.raises(IncompatibleWorkerError, match=r"protocol 0, and 1 is the oldest.*install the worker's Python"):
        known(0)


def test_a_newer_worker_is_used_with_a_warning() -> None:
    """BRG-4."""
    warning = Gates().learn_discovery(Discovery("discover", "r", {"nodes": [], "protocol_version": 9}))
    assert warning is not None
    assert "protocol 9, this client 6" in warning


# The data of a call


def test_only_what_is_known_is_sent() -> None:
    """BRG-19: never nil; the four maps and the type are always there."""
    data = execute_data(Gates(), "a.B", None, chunked=True, node_id=None, job_id="")
    assert data == {"node_type": "a.B", "fields": {}, "secrets": {}, "blobs": {}}
    ids = {"node_id": "n", "job_id": "j", "workflow_id": "w", "user_id": "u"}
    data = execute_data(Gates(), "a.B", {"x": 1}, chunked=True, secrets={"K": "v"}, requires_vram_gb=2, **ids)  # type: ignore[arg-type]  # ids are texts
    assert data == {
        "node_type": "a.B",
        "fields": {"x": 1},
        "secrets": {"K": "v"},
        "blobs": {},
        "requires_vram_gb": 2,
        **ids,
    }


def test_chunks_are_asked_for_where_the_worker_has_them() -> None:
    """BLB-5."""
    assert "blob_transfer" not in execute_data(known(4), "a.B", None, chunked=True)
    assert execute_data(known(5), "a.B", None, chunked=True)["blob_transfer"] == "chunked-v1"
    assert "blob_transfer" not in execute_data(known(5), "a.B", None, chunked=False)


def test_a_worker_gets_back_its_own_hint_of_memory() -> None:
    """BRG-19: the page's `requires_vram_gb`."""
    gates = Gates()
    nodes = [{"node_type": "a.B", "requires_vram_gb": 4.5}, {"node_type": "a.C"}]
    gates.learn_discovery(Discovery("discover", "r", {"nodes": nodes}))
    assert execute_data(gates, "a.B", None, chunked=False)["requires_vram_gb"] == 4.5
    assert "requires_vram_gb" not in execute_data(gates, "a.C", None, chunked=False)
    assert execute_data(gates, "a.B", None, chunked=False, requires_vram_gb=1)["requires_vram_gb"] == 1


def test_large_bytes_go_into_the_frame_from_where_they_are() -> None:
    """VAL-14, BRG-17."""
    large = bytearray(100_000)
    image = {"type": "image", "data": large}
    data = execute_data(
        Gates(),
        "a.B",
        {"image": image, "images": [image], "n": 1},
        chunked=False,
        blobs={
            "one": large,
            "many": [b"small", memoryview(large)[:70_000]],
            "view": memoryview(bytes(80_000)).cast("d"),
        },
    )
    found = [
        data["fields"]["image"]["data"],
        data["fields"]["images"][0]["data"],
        data["blobs"]["one"],
        data["blobs"]["many"][1],
        data["blobs"]["view"],
    ]
    assert [type(one) for one in found] == [Large] * 5
    large[5] = 7
    assert [one.view[5] for one in found] == [7, 7, 7, 7, 0]
    assert {one.view.format for one in found} == {"B"}
    assert data["blobs"]["many"][0] == b"small"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"node_type": ""}, "node_type is ''; expected a text"),
        ({"node_type": 5}, "node_type is 5; expected a text"),
        ({"fields": [1]}, r"fields is \[1\]; expected a mapping"),
        ({"fields": {1: 2}}, "fields has the name 1; names are texts"),
        ({"blobs": {"a": "text"}}, "the blob 'a' is 'text'; expected bytes"),
        ({"blobs": {"a": [b"", 5]}}, "the blob 'a' is 5; expected bytes"),
        ({"secrets": 5}, "secrets is 5; expected a mapping"),
    ],
)
def test_what_does_not_belong_there_is_refused(arguments: dict[str, object], problem: str) -> None:
    """BRG-14."""
    given: dict[str, object] = {"node_type": "a.B", "fields": None, "chunked": False, **arguments}
    with pytest.raises(LocalProtocolError, match=problem):
        execute_data(Gates(), **given)  # type: ignore[arg-type]  # wrong on purpose


def test_limits_may_be_made_by_hand() -> None:
    """Our own choice: a program need not set variables."""
    assert Limits(execute_seconds=1).execute_seconds == 1
