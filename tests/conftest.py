"""What all tests share: the profiles of hypothesis, the check of what is under test, the interpreter."""

import sys
import sysconfig
from pathlib import Path

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
    """Add `--installed`."""
    parser.addoption("--installed", action="store_true", help="refuse to test the checkout")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test the source where the wheel was meant."""
    if session.config.getoption("--installed"):
        import octonode_sdk

        found = Path(str(octonode_sdk.__file__)).resolve()
        wanted = Path(sysconfig.get_path("purelib")).resolve()
        if not found.is_relative_to(wanted):
            raise pytest.UsageError(f"--installed: octonode_sdk is {found}, which is not under {wanted}")


@pytest.fixture(scope="session")
def interpreter() -> str:
    """The path of the Python that runs the tests, for those that start a process."""
    return sys.executable
