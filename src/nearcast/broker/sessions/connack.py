"""The CONNACK properties that state the limits of the server."""

from nearcast.broker.config.settings import Limits
from nearcast.broker.net.connection import Connection
from nearcast.wire.mqtt import MQTT_5, Connect, Properties


def connack_properties(
    packet: Connect, connection: Connection, limits: Limits, expiry: int, assigned: str | None
) -> Properties:
    """Return the CONNACK properties; a server keep-alive also applies to the connection."""
    keep_alive = None
    if limits.keep_alive_s and not 0 < packet.keep_alive <= limits.keep_alive_s:
        keep_alive = limits.keep_alive_s
        if packet.version == MQTT_5:
            connection.keep_alive_s = float(keep_alive)
    asked = packet.properties.session_expiry_interval or 0
    return Properties(
        session_expiry_interval=expiry if expiry != asked else None,
        receive_maximum=limits.receive_maximum if limits.receive_maximum < 65_535 else None,
        maximum_packet_size=limits.packet_bytes,
        assigned_client_identifier=assigned,
        topic_alias_maximum=limits.topic_aliases or None,
        server_keep_alive=keep_alive,
    )
