"""Packets that MQTT can carry, for each version and each side."""

from hypothesis import strategies as st

from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PacketType,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Sender,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    Will,
    encode,
)
from nearcast.wire.mqtt import reason_codes as codes
from nearcast.wire.mqtt.properties import TABLE, Kind, PropertyDefinition

VERSIONS = (3, 4, 5)
versions = st.sampled_from(VERSIONS)

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
topics = st.text(st.characters(codec="utf-8", exclude_characters="\0+#"), min_size=1, max_size=12)
# Long ones too, so that lengths of two and three bytes occur.
payloads = st.binary(max_size=40) | st.sampled_from((b"x" * 127, b"y" * 300, b"z" * 17_000))
packet_ids = st.integers(1, 0xFFFF)
qualities = st.integers(0, 2)


def values(row: PropertyDefinition) -> st.SearchStrategy[object]:
    match row.kind:
        case Kind.BYTE:
            return st.integers(0, 1)
        case Kind.FLAG:
            return st.booleans()
        case Kind.UINT16:
            return st.integers(row.least, 0xFFFF)
        case Kind.UINT32:
            return st.integers(row.least, 0xFFFF_FFFF)
        case Kind.VARIABLE:
            return st.integers(row.least, 268_435_455)
        case Kind.TEXT:
            return topics if row.name == "response_topic" else texts
        case Kind.BINARY:
            return st.binary(max_size=12)
        case Kind.PAIR:
            return st.tuples(texts, texts)


@st.composite
def properties(draw: st.DrawFn, packet: PacketType, version: int = 5) -> Properties:
    if version != 5 or draw(st.booleans()):
        return NO_PROPERTIES
    rows = [row for row in TABLE if packet in row.packets]
    chosen = draw(st.lists(st.sampled_from(rows), max_size=4, unique_by=lambda row: row.name))
    drawn: dict[str, object] = {}
    for row in chosen:
        if row.name in ("subscription_identifiers", "user_properties"):
            most = 3 if packet in row.repeats else 1
            held = draw(st.lists(values(row), min_size=1, max_size=most))
            drawn[row.name] = tuple(held)
        else:
            drawn[row.name] = draw(values(row))
    if "authentication_data" in drawn:
        drawn.setdefault("authentication_method", "SCRAM")
    return Properties(**drawn)  # type: ignore[arg-type]


@st.composite
def wills(draw: st.DrawFn, version: int) -> Will:
    return Will(
        draw(topics),
        draw(st.binary(max_size=20)),
        draw(qualities),
        draw(st.booleans()),
        draw(properties(PacketType.WILL, version)),
    )


@st.composite
def connects(draw: st.DrawFn, version: int) -> Connect:
    clean_start = draw(st.booleans())
    may_be_empty = version == 5 or (version == 4 and clean_start)
    username = draw(st.none() | texts)
    password = draw(st.none() | st.binary(max_size=12))
    return Connect(
        draw(texts if may_be_empty else texts.filter(bool)),
        version,
        clean_start,
        draw(st.integers(0, 0xFFFF)),
        draw(st.none() | wills(version)),
        username,
        None if version == 4 and username is None else password,
        draw(properties(PacketType.CONNECT, version)),
    )


@st.composite
def publishes(draw: st.DrawFn, version: int, sender: Sender = Sender.CLIENT) -> Publish:
    qos = draw(qualities)
    publish = Publish(
        draw(topics),
        draw(payloads),
        qos,
        draw(st.booleans()),
        bool(qos) and draw(st.booleans()),
        draw(packet_ids) if qos else 0,
    )
    drawn = draw(properties(PacketType.PUBLISH, version))
    if sender is Sender.CLIENT and drawn.subscription_identifiers:
        drawn = NO_PROPERTIES
    return publish.with_(drawn)


@st.composite
def filters(draw: st.DrawFn, version: int) -> TopicFilter:
    text = draw(topics)
    if version != 5:
        return TopicFilter(text, draw(qualities))
    no_local = draw(st.booleans()) and not text.startswith("$share/")
    return TopicFilter(
        text, draw(qualities), no_local, draw(st.booleans()), draw(st.integers(0, 2))
    )


def reasons(table: dict[int, ReasonCode]) -> st.SearchStrategy[ReasonCode]:
    return st.sampled_from(sorted(table.values()))


def acknowledgements(version: int) -> st.SearchStrategy[Packet]:
    if version != 5:
        return st.one_of(
            *(st.builds(kind, packet_ids) for kind in (PubAck, PubRec, PubRel, PubComp))
        )
    kinds = (
        (PubAck, PacketType.PUBACK, codes.PUBACK_CODES),
        (PubRec, PacketType.PUBREC, codes.PUBREC_CODES),
        (PubRel, PacketType.PUBREL, codes.PUBREL_CODES),
        (PubComp, PacketType.PUBCOMP, codes.PUBCOMP_CODES),
    )
    return st.one_of(
        *(
            st.builds(kind, packet_ids, reasons(table), properties(packet))
            for kind, packet, table in kinds
        )
    )


def auths() -> st.SearchStrategy[Auth]:
    method = properties(PacketType.AUTH).filter(lambda drawn: drawn.authentication_method)
    return st.builds(Auth, reasons(codes.AUTH_CODES), method) | st.just(Auth())


def disconnects(version: int, sender: Sender) -> st.SearchStrategy[Disconnect]:
    if version != 5:
        return st.just(Disconnect())
    drawn = properties(PacketType.DISCONNECT)
    if sender is Sender.SERVER:
        drawn = drawn.filter(lambda held: held.session_expiry_interval is None)
    return st.builds(Disconnect, reasons(codes.DISCONNECT_CODES), drawn)


def from_client(version: int) -> st.SearchStrategy[Packet]:
    """What a client sends after its CONNECT."""
    common: tuple[st.SearchStrategy[Packet], ...] = (
        publishes(version),
        acknowledgements(version),
        st.builds(
            Subscribe,
            packet_ids,
            st.lists(filters(version), min_size=1, max_size=3).map(tuple),
            properties(PacketType.SUBSCRIBE, version),
        ),
        st.builds(
            Unsubscribe,
            packet_ids,
            st.lists(topics, min_size=1, max_size=3).map(tuple),
            properties(PacketType.UNSUBSCRIBE, version),
        ),
        st.just(PingReq()),
        disconnects(version, Sender.CLIENT),
    )
    return st.one_of(*common, auths()) if version == 5 else st.one_of(*common)


def from_server(version: int) -> st.SearchStrategy[Packet]:
    five = version == 5
    connack = reasons(codes.CONNACK_CODES if five else codes.RETURN_CODES)
    suback = reasons(codes.SUBACK_CODES if five else codes.SUBACK_RETURN_CODES)
    unsuback = st.lists(reasons(codes.UNSUBACK_CODES), min_size=1, max_size=3).map(tuple)
    common: tuple[st.SearchStrategy[Packet], ...] = (
        st.builds(ConnAck, st.just(False), connack, properties(PacketType.CONNACK, version)),
        st.builds(
            ConnAck,
            st.just(version != 3),
            st.just(ReasonCode.SUCCESS),
            properties(PacketType.CONNACK, version),
        ),
        publishes(version, Sender.SERVER),
        acknowledgements(version),
        st.builds(
            SubAck,
            packet_ids,
            st.lists(suback, min_size=1, max_size=3).map(tuple),
            properties(PacketType.SUBACK, version),
        ),
        st.builds(
            UnsubAck,
            packet_ids,
            unsuback if five else st.just(()),
            properties(PacketType.UNSUBACK, version),
        ),
        st.just(PingResp()),
    )
    if five:
        return st.one_of(*common, auths(), disconnects(version, Sender.SERVER))
    return st.one_of(*common)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Packet], bytes]:
    """What a client says from its CONNECT on, as packets and as bytes."""
    version = draw(versions)
    packets: list[Packet] = [draw(connects(version))]
    packets += draw(st.lists(from_client(version), max_size=4))
    return packets, b"".join(encode(packet, version) for packet in packets)
