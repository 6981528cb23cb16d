"""Links of sessions with relevance on sockets: what waits is in the queue, over any transport.

Nothing here depends on how long anything takes: a client that does not read is as thin as can be.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest
import uvloop

from nearcast.broker.config.settings import ListenSection
from nearcast.broker.net.links import Link
from nearcast.wire.mqtt import Connect, Properties
from tests.support.certificates import Certificate, make_certificate
from tests.support.clients.raw_client import RawClient
from tests.support.clients.web_socket_client import WebSocketClient
from tests.support.running_broker import RunningBroker

MESSAGES, SIZE = 300, 4_000
MOST_SENT = 60
"""In buffers of both kernels and of the transport; unpaced, all messages would be there."""
RELEVANCE = Properties(
    user_properties=(("nc-where", "urgent = 1 OR urgent = 0"), ("nc-relevance", "levels:3,1"))
)
PLAIN = Properties(user_properties=(("nc-where", "urgent = 1 OR urgent = 0"),))
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Connector = Callable[[RunningBroker, Certificate], RawClient]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(params=sorted(LOOPS))
def broker(request: pytest.FixtureRequest, certificate: Certificate) -> Iterator[RunningBroker]:
    listen = ListenSection(
        mqtt_port=0, ws_port=0, mqtts_port=0, certificate=str(certificate.file),
        key=str(certificate.key),
    )  # fmt: skip
    broker = RunningBroker(listen=listen, new_loop=LOOPS[request.param])
    yield broker
    broker.stop()


def over_tcp(broker: RunningBroker, certificate: Certificate) -> RawClient:
    return RawClient(broker.port)


def over_websocket(broker: RunningBroker, certificate: Certificate) -> RawClient:
    return WebSocketClient(broker.ws_port)


def over_tls(broker: RunningBroker, certificate: Certificate) -> RawClient:
    client = RawClient(broker.server.ports["mqtts"])
    client.socket = certificate.trust().wrap_socket(client.socket, server_hostname="localhost")
    return client


def reader_of(broker: RunningBroker, client: RawClient, wanted: Properties) -> RawClient:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    assert not client.connect(Connect("reader")).reason_code.failed
    assert not client.subscribe("news", qos=1, properties=wanted)[0].failed
    return client


def link_of(broker: RunningBroker) -> Link:
    connection = broker.server.hub.sessions["reader"].connection
    assert connection is not None
    assert isinstance(connection.host, Link)
    return connection.host


@pytest.mark.parametrize("connect", [over_tcp, over_websocket, over_tls])
def test_what_waits_is_in_the_queue_and_all_of_it_arrives(
    broker: RunningBroker, certificate: Certificate, connect: Connector
) -> None:
    reader = reader_of(broker, connect(broker, certificate), RELEVANCE)
    writer = broker.client("writer")
    for number in range(MESSAGES):
        payload = b'{"urgent": 0, "n": %d, "filling": "%s"}' % (number, b"x" * SIZE)
        assert not writer.publish("news", payload, qos=1).failed
    session, link = broker.server.hub.sessions["reader"], link_of(broker)
    assert session.waiting >= MESSAGES - MOST_SENT
    assert link.unsent_bytes <= 40 * SIZE
    came = [reader.take().payload for _ in range(MESSAGES)]
    assert len(set(came)) == MESSAGES
    assert session.waiting == 0
    broker.validate()
    reader.close()


def test_a_session_without_relevance_is_written_to_as_before(
    broker: RunningBroker, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced: list[bytes] = []
    monkeypatch.setattr(Link, "write_paced", lambda link, data, pace: paced.append(data))
    reader = reader_of(broker, over_tcp(broker, certificate), PLAIN)
    writer = broker.client("writer")
    for number in range(20):
        assert not writer.publish("news", b'{"urgent": 0, "n": %d}' % number, qos=1).failed
    assert len([reader.take() for _ in range(20)]) == 20
    assert not paced
    assert link_of(broker).meter is None
    reader.close()


def test_the_kernel_tells_round_trips_and_what_was_acknowledged(
    broker: RunningBroker, certificate: Certificate
) -> None:
    reader = reader_of(broker, over_tcp(broker, certificate), RELEVANCE)
    writer = broker.client("writer")
    assert not writer.publish("news", b'{"urgent": 1}', qos=1).failed
    reader.take()
    link = link_of(broker)

    async def figures() -> tuple[float | None, float | None]:
        assert link.meter is not None
        found = link.meter.figures(broker.server.now(), link.unsent_bytes)
        return found.rtt_ms, found.throughput_kbps

    rtt_ms, throughput_kbps = broker.run(figures())
    assert rtt_ms is not None
    assert rtt_ms > 0.0
    # It was never the bottleneck.
    assert throughput_kbps is None
    reader.close()


def test_a_link_is_released_when_relevance_is_no_longer_wanted(
    broker: RunningBroker, certificate: Certificate
) -> None:
    reader = reader_of(broker, over_tcp(broker, certificate), RELEVANCE)
    writer = broker.client("writer")
    assert not writer.publish("news", b'{"urgent": 1}', qos=1).failed
    reader.take()
    link = link_of(broker)
    assert link.meter is not None
    reader.unsubscribe("news")

    async def released() -> None:
        while link.meter is not None:
            await asyncio.sleep(0.01)

    broker.run(released())
    assert broker.server.hub.sessions["reader"].pace is None
    reader.close()
