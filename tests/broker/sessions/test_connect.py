"""What a CONNECT leaves behind when it is not answered."""

from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.wire.mqtt import MQTT_5, Connect, Properties


def test_a_client_that_takes_no_connack_gets_no_session_and_is_not_counted() -> None:
    hub, connection = Hub(), Connection()
    tiny = Properties(maximum_packet_size=2, session_expiry_interval=60)
    hub.receive(connection, [Connect("phone", MQTT_5, properties=tiny)], 1.0)
    (write,) = hub.tick(1.0).writes
    assert write.closes
    assert write.data == b""
    hub.lost(connection)
    hub.tick(1.0)

    assert not hub.sessions
    hub.validate_state()


def test_a_client_that_takes_no_connack_leaves_the_session_to_who_has_it() -> None:
    hub, owner, other = Hub(), Connection(), Connection()
    hub.receive(owner, [Connect("phone", MQTT_5)], 1.0)
    hub.tick(1.0)
    tiny = Properties(maximum_packet_size=2)
    hub.receive(other, [Connect("phone", MQTT_5, properties=tiny)], 1.0)
    hub.tick(1.0)

    assert other.closing
    assert hub.sessions["phone"].connection is owner
    hub.validate_state()
