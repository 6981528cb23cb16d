"""The handshake: the CONNECT of a client, and what the CONNACK allows."""

from nearcast.client.api.options import ClientOptions
from nearcast.client.protocol.outbox import ServerLimits
from nearcast.wire.encoding.content_codings import ACCEPT, ALL, coding_names
from nearcast.wire.mqtt import MQTT_5, NO_PROPERTIES, Connect, Properties
from nearcast.wire.mqtt.packet_types import LARGEST_PACKET


def connect_packet(options: ClientOptions, client_id: str, clean_start: bool) -> Connect:
    """Return the CONNECT of a client."""
    properties = NO_PROPERTIES
    if options.version == MQTT_5:
        accepted = ((ACCEPT, coding_names(ALL)),) if options.accepts_encoded else ()
        properties = Properties(
            session_expiry_interval=options.session_expiry_s or None,
            receive_maximum=options.receive_maximum,
            maximum_packet_size=options.maximum_packet_size,
            topic_alias_maximum=options.topic_alias_maximum or None,
            user_properties=(*accepted, *options.user_properties),
        )
    return Connect(
        client_id,
        options.version,
        clean_start,
        options.keep_alive_s,
        options.will,
        options.username,
        options.password,
        properties,
    )


def limits_of(properties: Properties) -> ServerLimits:
    """Return the limits of the server from its CONNACK."""
    most = properties.maximum_qos
    return ServerLimits(
        receive_maximum=properties.receive_maximum or 0xFFFF,
        maximum_packet_size=properties.maximum_packet_size or LARGEST_PACKET,
        maximum_qos=2 if most is None else most,
        retain_available=properties.retain_available is not False,
    )
