"""Topic filters: what they select and who shares it."""

import pytest

from nearcast.core.model import ModelError
from nearcast.wire.mqtt import (
    MQTT_5,
    CheckedFilter,
    Decoder,
    ProtocolError,
    Publish,
    encode,
    parse_filter,
)
from nearcast.wire.mqtt.decoder import LONGEST_KNOWN, MOST_KNOWN


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#", CheckedFilter("#")),
        ("a/+/b", CheckedFilter("a/+/b")),
        ("/", CheckedFilter("/")),
        ("$share/g/a/#", CheckedFilter("a/#", "g")),
        ("$share/g//a", CheckedFilter("/a", "g")),
        ("$share/g/$me/x", CheckedFilter("$me/x", "g")),
        ("$shared/g/a", CheckedFilter("$shared/g/a")),
        ("$SHARE/g/a", CheckedFilter("$SHARE/g/a")),
    ],
)
def test_filters(text: str, wanted: CheckedFilter) -> None:
    assert parse_filter(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a#", "whole last level", id="MQTT-4.7.1-1 # alone in its level"),
        pytest.param("#/a", "whole last level", id="MQTT-4.7.1-1 # at the end"),
        pytest.param("a+/b", "whole level", id="MQTT-4.7.1-2"),
        pytest.param("", "at least one character", id="MQTT-4.7.3-1"),
        pytest.param("a\0", "NUL", id="MQTT-4.7.3-2"),
        pytest.param("a" * 65_536, "65535 bytes", id="MQTT-4.7.3-3"),
        pytest.param("$share", "group", id="MQTT-4.8.2-1 no group"),
        pytest.param("$share//a", "group", id="MQTT-4.8.2-1 empty group"),
        pytest.param("$share/+/a", "group", id="MQTT-4.8.2-2 wildcard in the group"),
        pytest.param("$share/g#/a", "group", id="MQTT-4.8.2-2 another"),
        pytest.param("$share/g", "no pattern", id="MQTT-4.8.2-2 no slash"),
        pytest.param("$share/g/", "no pattern", id="MQTT-4.8.2-2 no filter"),
        pytest.param("$share/g/a#", "whole last level", id="MQTT-4.8.2-2 a bad filter"),
    ],
)
def test_bad_filters(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse_filter(text)


def read(topic: bytes) -> str:
    """The topic of a message, as somebody reads it who has read nothing before."""
    frame = encode(Publish("x" * len(topic)), MQTT_5).replace(b"x" * len(topic), topic)
    (packet,) = Decoder(version=MQTT_5).feed(frame)
    assert isinstance(packet, Publish)
    return packet.topic


def test_topics_are_read_as_they_are_however_often_they_come() -> None:
    topics = [f"a/{n}" for n in range(MOST_KNOWN + 10)]
    topics += ["é", "x" * LONGEST_KNOWN, "x" * (LONGEST_KNOWN + 1), "$me/position"]
    for _ in range(2):
        assert [read(topic.encode()) for topic in topics] == topics


@pytest.mark.parametrize("topic", [b"a/#", b"+", b"a\0", b"\xff", b"\xed\xa0\x80"])
def test_what_is_no_topic_is_refused_however_often_it_comes(topic: bytes) -> None:
    for _ in range(3):
        with pytest.raises(ProtocolError):
            read(topic)
