"""`nearcast top` and `nearcast disconnect`, as programs beside a real broker."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.cli.broker.session_view import compact
from nearcast.wire.mqtt import Connect, Disconnect, Properties, ReasonCode
from tests.cli.programs import NEARCAST, WAIT_S, broker
from tests.support.clients.raw_client import RawClient
from tests.support.terminal import Terminal


class BrokerOfTest:
    """A broker process and clients of it."""

    def __init__(self, port: int, data: Path) -> None:
        self.data = data
        self._port = port
        self._clients: list[RawClient] = []

    def client(self, name: str, expiry_s: int = 0) -> RawClient:
        client = RawClient(self._port)
        self._clients.append(client)
        properties = Properties(session_expiry_interval=expiry_s)
        assert not client.connect(Connect(name, properties=properties)).reason_code.failed
        return client

    def run(self, verb: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [*NEARCAST, verb, "--data", str(self.data), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)

    def hang_up(self) -> None:
        for client in self._clients:
            client.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerOfTest]:
    directory = tmp_path_factory.mktemp("top")
    with broker(directory) as port:
        found = BrokerOfTest(port, directory / "data")
        yield found
        found.hang_up()


def test_where_there_is_no_terminal_it_is_one_table(running: BrokerOfTest) -> None:
    name = "car-with-a-long-name-that-is-not-cut-where-a-program-reads-it"
    running.client(name).subscribe("a", "b")
    done = running.run("top", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (0, "")
    header, *_ = done.stdout.splitlines()
    assert header.startswith("local: up 0:")
    (row,) = (line for line in done.stdout.splitlines() if name in line)
    assert row.split()[-2:] == ["connected", "127.0.0.1"]
    assert "Ticks " in done.stdout


def test_json_has_the_load_and_as_many_sessions_as_wanted(running: BrokerOfTest) -> None:
    for number in range(3):
        running.client(f"many-{number}")
    done = running.run("top", "--json", "--most", "2", "--sort", "bytes", "--interval", "0.1")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert len(found["sessions"]) == 2
    assert found["load"]["broker"] == "local"
    assert found["load"]["connections"] >= 3


def test_on_a_terminal_it_goes_on_until_ctrl_c(running: BrokerOfTest) -> None:
    running.client("shown")
    command = [*NEARCAST, "top", "--data", str(running.data), "--interval", "0.2"]
    with Terminal(command, width=100, height=20) as terminal:
        terminal.wait_for("local: up", "client", "shown")
        terminal.wait_for("local: up")
        terminal.press_ctrl_c()
        assert terminal.end() == 0
        assert b"Traceback" not in terminal.written


def test_names_cannot_control_the_terminal(running: BrokerOfTest) -> None:
    running.client("\x1b[2Jred")
    done = running.run("top", "--once", "--interval", "0.1")
    assert "?[2Jred" in done.stdout
    assert "\x1b[2J" not in done.stdout


def test_a_client_is_disconnected_with_a_reason(running: BrokerOfTest) -> None:
    client = running.client("loud")
    done = running.run("disconnect", "loud", "--reason", "too loud")
    assert (done.returncode, done.stdout) == (0, "Disconnected 1 client.\n")
    packet = client.end()[-1]
    assert isinstance(packet, Disconnect)
    assert packet.reason_code == ReasonCode.ADMINISTRATIVE_ACTION
    assert packet.properties.reason_string == "too loud"
    again = running.run("disconnect", "loud")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "no client loud is connected\n"


def test_a_session_is_ended_on_request(running: BrokerOfTest) -> None:
    running.client("kept", expiry_s=3_600).close()
    done = running.run("disconnect", "kept", "--end-session", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["ended"] == ["kept"]
    again = running.run("disconnect", "kept", "--end-session")
    assert again.returncode == 1
    assert again.stderr == "no client kept is connected, or has a session\n"


def test_nobody_of_a_user_is_exit_code_1(running: BrokerOfTest) -> None:
    done = running.run("disconnect", "--user", "nobody")
    assert done.returncode == 1
    assert done.stderr == "no client of user nobody is connected\n"


@pytest.mark.parametrize("whom", [(), ("ann", "--user", "ann")])
def test_a_client_or_a_user_is_named(running: BrokerOfTest, whom: tuple[str, ...]) -> None:
    done = running.run("disconnect", *whom)
    assert done.returncode == 2
    assert "name a client, or a user with --user" in done.stderr


@pytest.mark.parametrize("verb", [("top", "--once"), ("disconnect", "ann")])
def test_without_a_broker_it_says_so(tmp_path: Path, verb: tuple[str, ...]) -> None:
    done = BrokerOfTest(0, tmp_path).run(*verb)
    assert done.returncode == 1
    assert "no broker answers on" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (0.04, "0"), (0.26, "0.3"), (9.94, "9.9"), (9.96, "10"), (42.4, "42"),
        (999.4, "999"), (999.6, "1k"), (1_234.0, "1.2k"), (123_456.0, "123k"),
        (999_600.0, "1M"), (2.5e9, "2.5G"),
    ],
)  # fmt: skip
def test_numbers_are_short(value: float, text: str) -> None:
    assert compact(value) == text
