"""A page of another site cannot talk MQTT to a broker, though the browser is on its machine."""

import base64
import socket

import pytest

from tests.support.running_broker import RunningBroker


def upgraded(broker: RunningBroker, **headers: str) -> int:
    """The status that a browser gets which opens a WebSocket with these headers."""
    sent = {
        "Host": f"127.0.0.1:{broker.ws_port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "mqtt",
        **headers,
    }
    lines = ["GET /mqtt HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    with socket.create_connection(("127.0.0.1", broker.ws_port), timeout=10) as connection:
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "http://localhost"},
        {"Host": "localhost:8083", "Origin": "https://localhost:8443"},
    ],
)
def test_programs_and_pages_of_this_machine_come_in(
    broker: RunningBroker, headers: dict[str, str]
) -> None:
    assert upgraded(broker, **headers) == 101


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": "evil.example"},
    ],
)
def test_pages_of_other_sites_do_not(broker: RunningBroker, headers: dict[str, str]) -> None:
    assert upgraded(broker, **headers) == 403
