"""The command-line clients of mosquitto: every version and QoS, TLS, users, wills, sessions."""

import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.clients.raw_client import fresh

pytestmark = pytest.mark.skipif(
    not (shutil.which("mosquitto_pub") and shutil.which("mosquitto_sub")),
    reason="mosquitto_pub and mosquitto_sub are not installed",
)

WAIT_S = 30
VERSIONS = ("mqttv31", "mqttv311", "mqttv5")


class Subscriber:
    """A mosquitto_sub that has been told that it is subscribed."""

    def __init__(self, port: int, *arguments: str) -> None:
        unbuffered = ["stdbuf", "-oL"] if shutil.which("stdbuf") else []
        self.process = subprocess.Popen(
            [
                *unbuffered, "mosquitto_sub", "-h", "127.0.0.1", "-p", str(port), "-d",
                "-F", "GOT %t %q %r %p", *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        self._watchdog = threading.Timer(WAIT_S, self.process.kill)
        self._watchdog.start()
        self._read_until("Subscribed")

    def next(self) -> tuple[str, int, bool, str]:
        """Topic, QoS, whether it was retained, and text of the next message."""
        topic, qos, retained, text = self._read_until("GOT ").split(" ", 4)[1:]
        return topic, int(qos), retained == "1", text

    def _read_until(self, start: str) -> str:
        assert self.process.stdout is not None
        seen = ""
        for line in self.process.stdout:
            if line.startswith(start):
                return line.rstrip("\n")
            seen += line
        raise AssertionError(f"no {start!r}, but:\n{seen}")

    def stop(self) -> None:
        self._watchdog.cancel()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def subscribed(port: int, *arguments: str) -> Iterator[Subscriber]:
    subscriber = Subscriber(port, *arguments)
    try:
        yield subscriber
    finally:
        subscriber.stop()


def publish(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), *arguments],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_arrive(broker: BrokerProcess, version: str, qos: int) -> None:
    where, level = fresh("mosquitto/"), str(qos)
    with subscribed(broker.port, "-V", version, "-t", where, "-q", level) as subscriber:
        for text in ("one", "two"):
            done = publish(broker.port, "-V", version, "-t", where, "-q", level, "-m", text)
            assert done.returncode == 0, done.stderr
        assert [subscriber.next() for _ in range(2)] == [
            (where, qos, False, "one"),
            (where, qos, False, "two"),
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retained_message_comes_first(broker: BrokerProcess, version: str) -> None:
    where = fresh("mosquitto/")
    publish(broker.port, "-V", version, "-t", where, "-q", "1", "-r", "-m", "kept")
    with subscribed(broker.port, "-V", version, "-t", where, "-q", "1") as subscriber:
        assert subscriber.next() == (where, 1, True, "kept")
    publish(broker.port, "-V", version, "-t", where, "-q", "1", "-r", "-n")
    with subscribed(broker.port, "-V", version, "-t", where, "-q", "1") as subscriber:
        publish(broker.port, "-t", where, "-q", "1", "-m", "new")
        assert subscriber.next() == (where, 1, False, "new")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_comes_when_a_client_is_killed(broker: BrokerProcess, version: str) -> None:
    where = fresh("mosquitto/")
    with subscribed(broker.port, "-t", where, "-q", "1") as watcher:
        will = ("--will-topic", where, "--will-payload", "gone", "--will-qos", "1")
        with subscribed(broker.port, "-V", version, "-t", "none", *will) as dying:
            # What sets its buffering has replaced itself by it.
            dying.process.kill()
        assert watcher.next() == (where, 1, False, "gone")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_is_taken_up_again(broker: BrokerProcess, version: str) -> None:
    where, client = fresh("mosquitto/"), fresh("session-")
    keep = ["-V", version, "-i", client, "-c", "-t", where, "-q", "2"]
    if version == "mqttv5":
        keep += ["-x", "60"]
    with subscribed(broker.port, *keep):
        pass
    for number in range(3):
        publish(broker.port, "-t", where, "-q", "2", "-m", str(number))
    with subscribed(broker.port, *keep) as subscriber:
        assert [subscriber.next()[3] for _ in range(3)] == ["0", "1", "2"]


def test_properties_of_version_5_are_passed_on(broker: BrokerProcess) -> None:
    where = fresh("mosquitto/")
    with subscribed(
        broker.port, "-V", "mqttv5", "-t", where, "-F", "GOT %t 0 0 %P|%C|%R|%p"
    ) as subscriber:
        publish(
            broker.port, "-V", "mqttv5", "-t", where, "-m", "text",
            "-D", "publish", "user-property", "a", "1", "-D", "publish", "user-property", "b", "2",
            "-D", "publish", "content-type", "plain", "-D", "publish", "response-topic", "r/t",
        )  # fmt: skip
        assert subscriber.next()[3] == "a:1 b:2|plain|r/t|text"


def test_tls_is_spoken_to_those_who_trust_the_certificate(
    broker: BrokerProcess, certificate: Path, tmp_path: Path
) -> None:
    where, port = fresh("mosquitto/"), broker.ports["mqtts"]
    trust = ("--cafile", str(certificate))
    with subscribed(port, *trust, "-t", where, "-q", "1") as subscriber:
        assert publish(port, *trust, "-t", where, "-q", "1", "-m", "safe").returncode == 0
        assert subscriber.next() == (where, 1, False, "safe")
    assert publish(port, "-t", where, "-m", "plain").returncode != 0


def test_a_user_comes_in_with_the_password_only(broker: BrokerProcess) -> None:
    where = fresh("mosquitto/")
    ann = ("-i", "ann", "-u", "ann", "-t", where, "-m", "x", "-q", "1")
    assert publish(broker.port, *ann, "-P", "secret").returncode == 0
    refused = publish(broker.port, *ann, "-P", "wrong", "-V", "mqttv5")
    assert refused.returncode != 0
    assert re.search("not authori[sz]ed|bad user ?name", refused.stderr, re.IGNORECASE)


def test_a_long_message_arrives_whole(broker: BrokerProcess, tmp_path: Path) -> None:
    where, path = fresh("mosquitto/"), tmp_path / "long"
    path.write_text("x" * 900_000)
    with subscribed(broker.port, "-t", where, "-q", "2") as subscriber:
        assert publish(broker.port, "-t", where, "-q", "2", "-f", str(path)).returncode == 0
        assert subscriber.next()[3] == "x" * 900_000
