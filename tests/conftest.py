"""How properties are checked: no deadlines, since a first call may compile a kernel.

Where CI is set, the same examples are tried every time, so that a change is judged by what it
changed; everywhere else they are new ones. What starts Spark is marked, to run beside the rest.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.support.running_broker import RunningBroker

settings.register_profile(
    "nearcast", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
)
# Every index is checked in this run, which is slow; the same properties run in full without.
settings.register_profile("checked", parent=settings.get_profile("nearcast"), max_examples=20)
settings.load_profile("nearcast")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the Spark session; what starts one of its own says so itself."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="module")
def shared_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["RunningBroker"]:
    """A broker for the tests of a module.

    A module that says `KEEPS = True` has one with a data directory and users, as users have it.
    """
    from tests.support.running_broker import RunningBroker

    keeps = getattr(request.module, "KEEPS", False)
    running = RunningBroker(data=tmp_path_factory.mktemp("data") if keeps else None)
    yield running
    running.validate()
    running.stop()


@pytest.fixture
def broker(shared_broker: "RunningBroker") -> Iterator["RunningBroker"]:
    """The broker of a module, without the clients of other tests."""
    yield shared_broker
    shared_broker.hang_up()


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Be a user who may write only what all may."""
    if os.getuid():
        yield
        return
    os.seteuid(65_534)
    yield
    os.seteuid(0)
