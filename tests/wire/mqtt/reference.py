"""A decoder for what clients send, as slow and plain as the specification reads.

One byte at a time, no shortcuts; any violation is an error. The fast decoder must
agree with it.
"""

from collections.abc import Callable, Iterable

from nearcast.wire.mqtt import (
    Auth,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Subscribe,
    TopicFilter,
    Unsubscribe,
    Will,
)

# Table 2-4 of MQTT 5, as far as clients go: identifier -> (name, type, where it may be).
# fmt: off
PROPERTIES = {
    1: ("payload_format_indicator", "bit", "PUBLISH WILL"),
    2: ("message_expiry_interval", "4", "PUBLISH WILL"),
    3: ("content_type", "text", "PUBLISH WILL"),
    8: ("response_topic", "topic", "PUBLISH WILL"),
    9: ("correlation_data", "binary", "PUBLISH WILL"),
    11: ("subscription_identifiers", "variable", "SUBSCRIBE"),
    17: ("session_expiry_interval", "4", "CONNECT DISCONNECT"),
    21: ("authentication_method", "text", "CONNECT AUTH"),
    22: ("authentication_data", "binary", "CONNECT AUTH"),
    23: ("request_problem_information", "bit", "CONNECT"),
    24: ("will_delay_interval", "4", "WILL"),
    25: ("request_response_information", "bit", "CONNECT"),
    28: ("server_reference", "text", "DISCONNECT"),
    31: ("reason_string", "text", "PUBACK PUBREC PUBREL PUBCOMP DISCONNECT AUTH"),
    33: ("receive_maximum", "2+", "CONNECT"),
    34: ("topic_alias_maximum", "2", "CONNECT"),
    35: ("topic_alias", "2+", "PUBLISH"),
    38: ("user_properties", "pair", "CONNECT WILL PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE "
         "UNSUBSCRIBE DISCONNECT AUTH"),
    39: ("maximum_packet_size", "4+", "CONNECT"),
}
NAMES = ("", "CONNECT", "", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "",
         "UNSUBSCRIBE", "", "PINGREQ", "", "DISCONNECT", "AUTH")
ACKNOWLEDGED = [0, 16, 128, 131, 135, 144, 145, 151, 153]
REASONS = {
    "PUBACK": ACKNOWLEDGED, "PUBREC": ACKNOWLEDGED, "PUBREL": [0, 146], "PUBCOMP": [0, 146],
    "DISCONNECT": [0, 4, 128, 129, 130, 131, 135, 137, 139, 141, 142, 143, 144, 147, 148, 149, 150,
                   151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 161, 162],
    "AUTH": [0, 24, 25],
}
# fmt: on
ACKNOWLEDGEMENTS: dict[str, Callable[..., Packet]] = {
    "PUBACK": PubAck,
    "PUBREC": PubRec,
    "PUBREL": PubRel,
    "PUBCOMP": PubComp,
}


class ViolationError(Exception):
    """A violation of the specification."""


def one_by_one(packets: Iterable[Packet]) -> list[Packet]:
    """Return packets as a plain decoder gives them: pings that came together are several."""
    found: list[Packet] = []
    for packet in packets:
        found += [PingReq()] * packet.count if isinstance(packet, PingReq) else [packet]
    return found


def need(condition: object) -> None:
    if not condition:
        raise ViolationError


class Reader:
    def __init__(self, data: bytes) -> None:
        self.left = list(data)

    def byte(self) -> int:
        need(self.left)
        return self.left.pop(0)

    def many(self, count: int) -> bytes:
        return bytes([self.byte() for _ in range(count)])

    def number(self, size: int) -> int:
        value = 0
        for _ in range(size):
            value = value * 256 + self.byte()
        return value

    def variable(self) -> int:
        value, multiplier, last = 0, 1, 1
        while True:
            last = self.byte()
            value += last % 128 * multiplier
            if last < 128:
                need(last or multiplier == 1)
                return value
            multiplier *= 128
            need(multiplier <= 128**3)

    def text(self) -> str:
        data = self.many(self.number(2))
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise ViolationError from None
        need(0 not in data)
        return text

    def topic(self) -> str:
        text = self.text()
        need(text and "+" not in text and "#" not in text)
        return text

    def identifier(self) -> int:
        value = self.number(2)
        need(value != 0)
        return value

    def properties(self, packet: str) -> Properties:
        inner = Reader(self.many(self.variable()))
        found: dict[str, object] = {}
        while inner.left:
            name, kind, where = PROPERTIES.get(inner.byte(), ("", "", ""))
            need(packet in where.split())
            if kind == "pair":
                pairs = found.get(name, ())
                assert isinstance(pairs, tuple)
                found[name] = (*pairs, (inner.text(), inner.text()))
                continue
            need(name not in found)
            if kind[0] in "24":
                found[name] = inner.number(int(kind[0]))
                need(found[name] or "+" not in kind)
            elif kind == "bit":
                found[name] = inner.byte()
                need(found[name] in (0, 1))
            elif kind == "variable":
                found[name] = (inner.variable(),)
                need(found[name] != (0,))
            elif kind == "binary":
                found[name] = inner.many(inner.number(2))
            else:
                found[name] = inner.topic() if kind == "topic" else inner.text()
        need("authentication_data" not in found or "authentication_method" in found)
        return Properties(**found)  # type: ignore[arg-type]


def decode(data: bytes, largest: int) -> tuple[list[Packet], bool]:
    """Return the packets before the first error or the end, and whether there was an error."""
    packets: list[Packet] = []
    left, version = data, 0
    while True:
        try:
            length, used = remaining_length(left, version)
            if used and 1 + used + length > largest:
                raise ViolationError
            if not used or len(left) < 1 + used + length:
                return packets, False
            body = Reader(left[1 + used : 1 + used + length])
            packet = read(left[0], body, version)
            need(not body.left)
            if isinstance(packet, Connect):
                version = packet.version
                remaining_length(left, version)
            packets.append(packet)
            left = left[1 + used + length :]
        except ViolationError:
            return packets, True


def remaining_length(data: bytes, version: int) -> tuple[int, int]:
    """Return the value and how many bytes it took: 0 if it is not complete."""
    value = 0
    for index in range(4):
        if len(data) < index + 2:
            return 0, 0
        byte = data[index + 1]
        value += byte % 128 * 128**index
        if byte < 128:
            need(version != 5 or byte or not index)
            return value, index + 1
    raise ViolationError


def read(first: int, body: Reader, version: int) -> Packet:
    name, flags = NAMES[first // 16], first % 16
    need(name)
    need((version == 0) == (name == "CONNECT"))
    if name == "PUBLISH":
        return publish(flags, body, version)
    if name in ("PUBREL", "SUBSCRIBE", "UNSUBSCRIBE"):
        need(flags == 2 or (version == 3 and flags == 10))
    else:
        need(flags == 0)
    if name == "CONNECT":
        return connect(body)
    if name == "PINGREQ":
        return PingReq()
    if name in ACKNOWLEDGEMENTS:
        packet_id = body.identifier()
        return ACKNOWLEDGEMENTS[name](packet_id, *reason(name, body, version))
    if name == "DISCONNECT":
        return Disconnect(*reason(name, body, version))
    if name == "AUTH":
        need(version == 5)
        need(len(body.left) != 1)
        code, properties = reason(name, body, version)
        need(code == 0 or properties.authentication_method is not None)
        need(properties.authentication_method is not None or properties == Properties())
        return Auth(code, properties)
    packet_id = body.identifier()
    properties = body.properties(name) if version == 5 else Properties()
    need(body.left)
    if name == "UNSUBSCRIBE":
        names: list[str] = []
        while body.left:
            names.append(body.text())
            need(names[-1])
        return Unsubscribe(packet_id, tuple(names), properties)
    filters: list[TopicFilter] = []
    while body.left:
        filters.append(topic_filter(body, version))
    return Subscribe(packet_id, tuple(filters), properties)


def reason(name: str, body: Reader, version: int) -> tuple[ReasonCode, Properties]:
    if version != 5 or not body.left:
        return ReasonCode.SUCCESS, Properties()
    code = body.byte()
    need(code in REASONS[name])
    had_properties = bool(body.left)
    properties = body.properties(name) if had_properties else Properties()
    if name == "AUTH":
        need(properties.authentication_method is not None)
    return ReasonCode(code), properties


def topic_filter(body: Reader, version: int) -> TopicFilter:
    text, options = body.text(), body.byte()
    need(text)
    if version == 3:
        options %= 4
    need(options % 4 != 3)
    need(options < (64 if version == 5 else 4))
    need(options // 16 != 3)
    need(not (options & 4 and text.startswith("$share/")))
    return TopicFilter(text, options % 4, bool(options & 4), bool(options & 8), options // 16)


def connect(body: Reader) -> Connect:
    name, version, flags = body.text(), body.byte(), body.byte()
    need((name, version) in (("MQIsdp", 3), ("MQTT", 4), ("MQTT", 5)))
    keep_alive = body.number(2)
    has_will, will_qos, will_retain = bool(flags & 4), flags // 8 % 4, bool(flags & 32)
    if version != 3:
        need(flags % 2 == 0)
        need(has_will or not (will_qos or will_retain))
    need(not has_will or will_qos != 3)
    need(version != 4 or flags & 128 or not flags & 64)
    properties = body.properties("CONNECT") if version == 5 else Properties()
    client_id = body.text()
    need(client_id or version == 5 or (version == 4 and flags & 2))
    will = username = password = None
    if has_will:
        own = body.properties("WILL") if version == 5 else Properties()
        topic = body.topic()
        will = Will(topic, body.many(body.number(2)), will_qos, will_retain, own)
    if flags & 128 and (body.left or version != 3):
        username = body.text()
    if flags & 64 and (body.left or version != 3):
        password = body.many(body.number(2))
    return Connect(
        client_id, version, bool(flags & 2), keep_alive, will, username, password, properties
    )


def publish(flags: int, body: Reader, version: int) -> Publish:
    dup, qos, retain = bool(flags & 8), flags // 2 % 4, bool(flags & 1)
    need(qos != 3)
    need(qos or not dup)
    topic = body.text()
    need("+" not in topic and "#" not in topic)
    packet_id = body.identifier() if qos else 0
    raw = b""
    alias = None
    if version == 5:
        before = list(body.left)
        alias = body.properties("PUBLISH").topic_alias
        size = Reader(bytes(before)).variable()
        raw = bytes(before[len(before) - len(body.left) - size : len(before) - len(body.left)])
    need(topic or alias is not None)
    return Publish(topic, body.many(len(body.left)), qos, retain, dup, packet_id, raw)
