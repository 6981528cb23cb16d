"""mqtt.js, the client of browsers, in node: TCP and WebSocket, with and without TLS."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "mqttjs"
SCENARIO = Path(__file__).with_name("mqttjs_scenario.cjs")
WAIT_S = 60


@pytest.fixture(scope="module")
def modules() -> Path:
    """Where mqtt.js is; it is fetched once, where there are node and npm and a network."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed")
    if not (CACHE / "node_modules" / "mqtt" / "package.json").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        keep_nothing = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund")
        done = subprocess.run(
            ["npm", "install", *keep_nothing, "--prefix", str(CACHE), "mqtt@5"],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"mqtt.js cannot be fetched: {done.stderr.strip()[-200:]}")
    return CACHE


@pytest.mark.parametrize("transport", ["mqtt", "mqtts", "ws", "wss"])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_mqttjs_goes_a_whole_round(
    broker: BrokerProcess, certificate: Path, modules: Path, transport: str, version: int
) -> None:
    path = "/mqtt" if transport.startswith("ws") else ""
    address = f"{transport}://localhost:{broker.ports[transport]}{path}"
    done = subprocess.run(
        ["node", str(SCENARIO), str(modules), address, str(version)],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
        env=dict(os.environ) | {"NODE_EXTRA_CA_CERTS": str(certificate)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "retained": [["base/kept", "kept", 1, True]],
        "messages": [["base/q", f"message {qos}", qos, False] for qos in range(3)],
        "session": True,
        "missed": [["base/missed", str(number), 2, False] for number in range(3)],
        "will": [["base/will", "gone", 1, False]],
    }
