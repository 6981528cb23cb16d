"""One who begins a handshake and never goes on is not waited for."""

import socket

import pytest

from tests.support.broker_process import BrokerProcess

WAIT_S = 30.0
HELLO = bytes.fromhex("16 03 01 02 00 01 00 01 fc 03 03")


@pytest.mark.parametrize("listener", ["mqtts", "wss"])
@pytest.mark.parametrize("said", [b"", HELLO], ids=["silence", "half a hello"])
def test_a_tls_handshake_that_does_not_go_on_is_ended(
    broker: BrokerProcess, listener: str, said: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", broker.ports[listener]), WAIT_S) as slow:
        slow.sendall(said)
        try:
            while slow.recv(4_096):
                pass
        except ConnectionError:
            pass
