"""`nearcast up --demo`: a city on a real broker, seen in a terminal or read in lines."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
import paho.mqtt.publish as publish
import pytest

from tests.support.terminal import Terminal

UP = [sys.executable, "-m", "nearcast", "up", "--demo"]
FREE_PORTS = ["--mqtt-port", "0", "--ws-port", "0", "--http-port", "0"]
CENTRE = "53.35,-6.26"


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where programs put what is temporary; sockets need a short name."""
    with tempfile.TemporaryDirectory(prefix="nc") as directory:
        yield Path(directory)


def variables(temporary: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(temporary)}


def test_a_visitor_is_seen_in_the_view_and_so_is_what_it_publishes(temporary: Path) -> None:
    command = [*UP, *FREE_PORTS, "--no-pipeline"]
    with Terminal(command, variables(temporary), width=120, height=40) as running:
        running.wait_for("a small living city", "in another terminal", "demo.log", "who got what")
        port = int(re.findall(rb"MQTT on 127\.0\.0\.1:(\d+)", running.written)[0])
        visitor = paho.Client(paho.CallbackAPIVersion.VERSION2, "you")
        visitor.connect("127.0.0.1", port)
        visitor.loop_start()
        visitor.publish("$me/position", CENTRE, qos=1).wait_for_publish(30)
        running.wait_for("visitors", "@")
        visitor.publish("greeting/all", '{"says": "hello"}', qos=1).wait_for_publish(30)
        running.wait_for("greeting/all", " you", "says=hello", "nobody")
        # Residents heard it too, and say so.
        visitor.publish("hazard/flood", "{}", qos=1).wait_for_publish(30)
        running.wait_for("hazard/flood")
        visitor.disconnect()
        visitor.loop_stop()
        running.press_ctrl_c()
        assert running.end() == 0
        written = running.written
    assert written.count(b"\x1b[?1049h") == written.count(b"\x1b[?1049l") == 1
    assert b"Traceback" not in written
    after = written.rpartition(b"\x1b[?1049l")[2].decode()
    assert "The city sent" in after
    assert after.rstrip().endswith("Stopped.")
    assert not any(temporary.iterdir())


@contextmanager
def in_lines(
    *options: str, temporary: Path, environment: dict[str, str] | None = None
) -> "Iterator[subprocess.Popen[str]]":
    with subprocess.Popen(
        [*UP, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables(temporary) | (environment or {}),
    ) as running:
        watchdog = threading.Timer(120.0, running.kill)
        watchdog.start()
        yield running
        watchdog.cancel()


def read_until(running: "subprocess.Popen[str]", text: str) -> str:
    assert running.stdout is not None
    notices = ""
    while text not in notices:
        line = running.stdout.readline()
        assert line, f"it ended: {notices}"
        notices += line
    return notices


def test_without_a_terminal_it_says_what_to_type_and_prints_lines(temporary: Path) -> None:
    with in_lines(*FREE_PORTS, "--no-pipeline", temporary=temporary) as running:
        notices = read_until(running, "Ctrl-C stops.")
        (port,) = re.findall(r"MQTT on 127\.0\.0\.1:(\d+)", notices)
        for part in ("Metrics and API on http://", "In another terminal:", f"--port {port}"):
            assert part in notices
        log = Path(re.findall(r"log in (\S+)\.", notices)[0])
        assert log.parent.parent == temporary
        assert log.stat().st_mode & 0o777 == 0o600
        read_until(running, "emergency/vehicle ambulance (lane=1) to ")
        publish.single("greeting", "{}", client_id="pub", hostname="127.0.0.1", port=int(port))
        read_until(running, "greeting pub to nobody")
        running.send_signal(signal.SIGINT)
        left, errors = running.communicate()
        assert running.returncode == 0
    assert left.endswith("Stopping.\nStopped.\n")
    assert errors == ""
    assert not any(temporary.iterdir())


def test_what_it_says_to_type_works_and_data_that_was_asked_for_is_kept(temporary: Path) -> None:
    data = temporary / "data"
    options = [*FREE_PORTS, "--no-pipeline", "--data", str(data)]
    with in_lines(*options, temporary=temporary) as running:
        notices = read_until(running, "Ctrl-C stops.")
        assert f"Data in {data}; log in {data}/demo.log." in notices
        commands = [line.strip() for line in notices.splitlines() if line.startswith("  ")]
        assert len(commands) == 3
        python = f"{sys.executable} -m nearcast"
        ran: dict[str, subprocess.CompletedProcess[str]] = {}
        for command in commands:
            program, verb, rest = re.split(r" (context|sub|pub) ", command)
            assert program.endswith("nearcast")
            more = " --count 1" if verb == "sub" else ""
            ran[verb] = subprocess.run(
                f"{python} {verb} {rest}{more}", shell=True, capture_output=True, text=True,
                timeout=100, check=False,
            )  # fmt: skip
        assert {verb: done.returncode for verb, done in ran.items()} == dict.fromkeys(ran, 0), ran
        assert ran["context"].stdout.startswith("you online 53.3")
        # The city was heard by who came to it, and it hears who publishes into it.
        assert ran["sub"].stdout
        read_until(running, "hazard/ice pub-")
        running.send_signal(signal.SIGINT)
        running.communicate()
        assert running.returncode == 0
    assert (data / "brokers" / "local" / "state.sqlite").exists()
    assert [path.name for path in temporary.iterdir()] == ["data"]


def test_a_port_that_was_asked_for_and_is_in_use_is_one_message(temporary: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*UP, "--no-pipeline", "--mqtt-port", str(port), "--ws-port", "0", "--http-port", "-1"],
            capture_output=True, text=True, timeout=100, check=False,
            env=variables(temporary),
        )  # fmt: skip
    assert done.returncode == 1
    assert str(port) in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(temporary.iterdir())


def test_without_java_the_city_lives_and_one_line_says_what_to_install(temporary: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    environment = variables(temporary) | {"JAVA_HOME": str(temporary / "nowhere")}
    with Terminal([*UP, *FREE_PORTS], environment, width=100, height=30) as running:
        running.wait_for("Without the data pipeline: JAVA_HOME is ", "no pipeline on Spark")
        # A terminal that is closed takes the city with it.
        running.process.send_signal(signal.SIGHUP)
        assert running.end() == 0
        before = running.written.partition(b"\x1b[?1049h")[0].decode()
    assert "install Java 17" in before
    assert before.count("pipeline") == 1
    assert not any(temporary.iterdir())


def test_a_reader_who_goes_away_ends_it_without_an_error(temporary: Path) -> None:
    with in_lines(*FREE_PORTS, "--no-pipeline", temporary=temporary) as running:
        read_until(running, "Ctrl-C stops.")
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait() == 0
    assert not any(temporary.iterdir())
