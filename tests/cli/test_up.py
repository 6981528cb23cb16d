import re
import signal
import subprocess
import sys
import threading

import paho.mqtt.publish as publish
import pytest


def test_a_broker_runs_until_it_is_told_to_stop() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "nearcast", "up", "--mqtt-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        watchdog = threading.Timer(60.0, running.kill)
        watchdog.start()
        assert running.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", running.stdout.readline())
        assert found is not None
        publish.single("a/b", "hello", qos=1, hostname="127.0.0.1", port=int(found[1]))
        running.send_signal(signal.SIGTERM)
        assert running.stdout.read() == "Stopped.\n"
        assert running.wait() == 0
        watchdog.cancel()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--host", "0.0.0.0"), ("--host", "192.0.2.1"), ("--host", "x"), ("--mqtt-port", "99999")],
)
def test_it_listens_on_loopback_and_a_real_port_only(option: str, value: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nearcast", "up", option, value],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert option in done.stderr
    assert "Traceback" not in done.stderr
