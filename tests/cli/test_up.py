import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import paho.mqtt.publish as publish
import paho.mqtt.subscribe as subscribe
import pytest

UP = [sys.executable, "-m", "nearcast", "up", "--no-pipeline", "--mqtt-port", "0", "--ws-port", "0"]


def test_a_broker_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*UP, "--http-port", "0", "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        watchdog = threading.Timer(60.0, running.kill)
        watchdog.start()
        assert running.stdout is not None
        told = ""
        while "Ctrl-C" not in told:
            line = running.stdout.readline()
            assert line, "it ended"
            told += line
        port = int(re.findall(r"MQTT on 127\.0\.0\.1:(\d+)", told)[0])
        (api,) = re.findall(r"http://[\d.:]+", told)
        publish.single("a/b", "hello", qos=1, hostname="127.0.0.1", port=port)
        with urllib.request.urlopen(f"{api}/metrics", timeout=10.0) as answer:
            figures = answer.read()
        assert b"nearcast_hub_connects_total 1.0" in figures
        assert b"nearcast_pipeline_up 0.0" in figures
        running.send_signal(signal.SIGTERM)
        assert running.stdout.read() == "Stopped.\n"
        assert running.wait() == 0
        watchdog.cancel()
    assert (tmp_path / "brokers" / "local" / "log" / "00000001.parquet").exists()


def test_only_its_owner_may_read_what_it_keeps(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with subprocess.Popen(
        ["sh", "-c", 'umask 022; exec "$@"', "sh", *UP, "--http-port", "-1", "--data", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        watchdog = threading.Timer(60.0, running.kill)
        watchdog.start()
        assert running.stdout is not None
        told = ""
        while "Ctrl-C" not in told:
            line = running.stdout.readline()
            assert line, "it ended"
            told += line
        port = int(re.findall(r"MQTT on 127\.0\.0\.1:(\d+)", told)[0])
        publish.single("a/b", "hello", qos=1, hostname="127.0.0.1", port=port)
        found = [path for path in data.rglob("*") if path.stat().st_mode & 0o077]
        running.send_signal(signal.SIGTERM)
        running.wait()
        watchdog.cancel()
    found += [path for path in (data, *data.rglob("*")) if path.stat().st_mode & 0o077]
    assert found == []


def test_a_group_that_does_not_exist_is_one_message(tmp_path: Path) -> None:
    done = subprocess.run(
        [*UP, "--http-port", "-1", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "NEARCAST_DATA_GROUP": "nobody-here"},
    )
    assert done.returncode == 1
    assert "there is no group 'nobody-here'" in done.stderr


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("--host", "192.0.2.1", 1),
        ("--mqtt-port", "99999", 2),
        ("--config", "missing.toml", 2),
        ("--data", "/dev/null/x", 1),
    ],
)
def test_what_it_cannot_do_is_one_message(
    option: str, value: str, code: int, tmp_path: Path
) -> None:
    given = [] if option == "--data" else ["--data", str(tmp_path)]
    done = subprocess.run(
        [*UP, *given, "--http-port", "-1", option, value],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == code, done.stderr
    assert value in done.stderr or option in done.stderr
    assert "Traceback" not in done.stderr


def test_a_living_city_can_be_heard(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*UP, "--http-port", "-1", "--data", str(tmp_path), "--demo", "--no-pipeline"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        watchdog = threading.Timer(60.0, running.kill)
        watchdog.start()
        assert running.stdout is not None
        listening: list[str] = []
        while not listening:
            line = running.stdout.readline()
            assert line, "it ended"
            listening = re.findall(r"MQTT on 127\.0\.0\.1:(\d+)", line)
        port = int(listening[0])
        heard = subscribe.simple("#", hostname="127.0.0.1", port=port, msg_count=3)
        assert {message.topic.partition("/")[0] for message in heard}
        running.send_signal(signal.SIGTERM)
        assert "Stopped." in running.stdout.read()
        assert running.wait() == 0
        watchdog.cancel()


@pytest.mark.parametrize("option", [("--workers", "2"), ("--join", "mqtt://localhost")])
def test_what_is_not_there_yet_is_said(option: tuple[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*UP, "--data", str(tmp_path), *option],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert option[0] in done.stderr
