"""The wheel in an empty environment: a client and a command line, without what a broker needs."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).parents[2]
HEAVY = ("numba", "numpy", "pyarrow", "pyspark", "shapely")
ROUND_TRIP = """
import asyncio, sys
import nearcast as nc

async def main() -> None:
    broker = sys.argv[1]
    async with nc.connect(broker, node="ann") as ann, nc.connect(broker, node="bus") as bus:
        await ann.move(53.35, -6.26)
        await bus.move(53.36, -6.26)
        async with ann.subscribe("bus/#", where="delay > 2", from_=nc.circle(ann, 5000)) as events:
            await bus.publish("bus/7", {"delay": 4})
            event = await anext(events)
            print(event.publisher, event.attributes, event.position == nc.Position(53.36, -6.26))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as `make wheel` does."""
    target = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(target), str(ROOT))
    (found,) = target.glob("nearcast-*.whl")
    return found


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel and what it requires, no extra."""
    home = tmp_path_factory.mktemp("plain")
    venv.create(home, with_pip=True)
    _run(home / "bin" / "python", "-m", "pip", "install", "-q", str(wheel))
    return home / "bin"


def _run(*command: str | Path) -> str:
    """Run a command away from the checkout, with pinned versions; return what it printed."""
    pins = str(ROOT / "constraints.txt")
    done = _try(*command, PIP_CONSTRAINT=pins, PIP_BUILD_CONSTRAINT=pins)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _try(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(command[0]).parent,
        env=kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | environment,
    )


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"nearcast"}
    assert "nearcast/py.typed" in names


def test_a_plain_install_has_no_heavy_packages_and_talks_to_a_broker(
    plain: Path, tmp_path: Path
) -> None:
    for name in HEAVY:
        assert _try(plain / "python", "-c", f"import {name}").returncode == 1, name
    assert "nearcast 0." in _run(plain / "nearcast", "--version")
    broker = BrokerProcess(tmp_path / "data").wait_until_it_listens()
    try:
        address = f"mqtt://127.0.0.1:{broker.port}"
        answer = _run(plain / "python", "-c", ROUND_TRIP, address)
        assert answer == "bus {'delay': 4} True\n"
        position = ("--at", "53.35,-6.26", "--retain")
        _run(plain / "nearcast", "pub", "news", "hello", "--url", address, *position)
        where = ("--where", "event.subject = 'news'", "--count", "1", "--url", address)
        assert "hello" in _run(plain / "nearcast", "sub", "news", *where)
        _run(plain / "nearcast", "place", "list", "--url", address)
    finally:
        broker.end()


@pytest.mark.parametrize(
    ("command", "extra"), [("up", "broker"), ("demo", "broker"), ("pipeline", "broker")]
)
def test_what_a_plain_install_cannot_do_names_the_extra(
    plain: Path, command: str, extra: str
) -> None:
    done = _try(plain / "nearcast", command)
    assert done.returncode == 1
    assert f"extra '{extra}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_needs_an_extra_says_so(plain: Path) -> None:
    done = _try(plain / "python", "-c", "import nearcast; nearcast.Engine")
    assert "nearcast.Engine needs numpy: install Nearcast with its extra 'broker'" in done.stderr


def test_the_doctor_of_a_plain_install_is_content(plain: Path) -> None:
    told = _run(plain / "nearcast", "doctor", "--json")
    assert '"numba"' in told
    assert '"missing"' not in told
