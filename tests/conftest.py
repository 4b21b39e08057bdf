"""What all tests share: the profiles of hypothesis, the check of what is under test, the interpreter, golden files."""

import json
import sys
import sysconfig
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# No deadline: the machine may be shared and slow, and a test's time says nothing about its outcome.
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in each run: a red check is then due to the change, never to luck.
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.load_profile("dev")  # `--hypothesis-profile=ci` comes later and wins


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--installed` and `--rewrite-golden`."""
    parser.addoption("--installed", action="store_true", help="refuse to test the checkout")
    parser.addoption("--rewrite-golden", action="store_true", help="write what the golden files hold anew, for review")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test the source where the wheel was meant."""
    if session.config.getoption("--installed"):
        wanted = Path(sysconfig.get_path("purelib")).resolve()
        for name in ("octonode_sdk", "nodetool_worker", "nodetool.worker", "onode"):
            found = Path(str(import_module(name).__file__)).resolve()
            if not found.is_relative_to(wanted):
                raise pytest.UsageError(f"--installed: {name} is {found}, which is not under {wanted}")


@pytest.fixture(scope="session")
def interpreter() -> str:
    """The path of the Python that runs the tests, for those that start a process."""
    return sys.executable


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Compare a JSON value with a golden file, `golden("manifests/greet", value)`; `--rewrite-golden` writes it."""

    def compare(name: str, value: object) -> None:
        path = Path(__file__).parent / "data" / f"{name}.json"
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        assert value == json.loads(path.read_text(encoding="utf-8"))

    return compare


@pytest.fixture
def new_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], dict[str, Any]]:
    """Run a source as a module that others find by its name: `new_module("name", source)` returns its names."""

    def run(name: str, source: str) -> dict[str, Any]:
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(source, name, "exec"), vars(module))
        return vars(module)

    return run
