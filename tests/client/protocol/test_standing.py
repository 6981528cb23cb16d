"""What holds as long as the session is said again when the server forgets it, ahead of all else."""

from nearcast.client.api.options import ClientOptions
from nearcast.client.protocol.protocol_events import Acknowledged, Restated
from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    ConnAck,
    Disconnect,
    PubAck,
    Publish,
    ReasonCode,
    Subscribe,
    TopicFilter,
)
from tests.client.protocol.pair import Pair

REFUSED = ReasonCode.NOT_AUTHORIZED


def forgetful(pair: Pair) -> Pair:
    """Cut the connection, and let the server lose the session."""
    pair.link.cut()
    pair.server.forget()
    pair.server.seen.clear()
    return pair


def published(pair: Pair) -> list[tuple[str, bytes]]:
    return [(each.topic, each.payload) for each in pair.told() if isinstance(each, Publish)]


def test_it_is_said_again_before_subscriptions_and_before_what_waits() -> None:
    pair = Pair().connect()
    pair.client.state("$me/announcements/a", b"near", 0.0)
    pair.client.subscribe([TopicFilter("b")], NO_PROPERTIES, 0.0)
    pair.told()
    forgetful(pair)
    pair.publish(b"event")
    pair.link.connect()
    said = pair.told()[1:]
    assert isinstance(said[0], Publish)
    assert said[0].payload == b"near"
    assert isinstance(said[1], Subscribe)
    assert isinstance(said[2], Publish)
    assert said[2].payload == b"event"
    pair.client.validate_state()


def test_the_last_word_stands_and_nothing_ends_it() -> None:
    pair = Pair().connect()
    for payload in (b"near", b"far"):
        pair.client.state("x", payload, 0.0)
    pair.client.state("y", b"1", 0.0)
    pair.client.state("y", b"", 0.0)
    pair.told()
    forgetful(pair).link.connect()
    assert published(pair) == [("x", b"far")]


def test_a_server_that_remembers_is_not_told_again() -> None:
    pair = Pair().connect()
    pair.client.state("x", b"1", 0.0)
    pair.told()
    pair.link.cut()
    pair.link.connect()
    assert published(pair) == []


def test_what_the_server_refuses_does_not_stand() -> None:
    pair = Pair().connect()
    pair.server.answers = False
    token = pair.client.state("x", b"1", 0.0)
    packet = next(each for each in pair.told() if isinstance(each, Publish))
    assert pair.hear(PubAck(packet.packet_id, REFUSED)) == [Acknowledged(token, REFUSED)]
    pair.server.answers = True
    forgetful(pair).link.connect()
    assert published(pair) == []


def test_what_is_refused_when_said_again_no_longer_stands() -> None:
    pair = Pair().connect()
    pair.client.state("x", b"1", 0.0)
    pair.told()
    forgetful(pair)
    pair.server.answers = False
    pair.link.connect()
    pair.hear(ConnAck())
    packet = next(each for each in pair.told() if isinstance(each, Publish))
    assert pair.hear(PubAck(packet.packet_id, REFUSED)) == [Restated("x", REFUSED)]
    pair.server.answers = True
    forgetful(pair).link.connect()
    assert published(pair) == []
    pair.client.validate_state()


def test_a_session_that_is_lost_while_it_is_renewed_is_renewed_once_more() -> None:
    pair = Pair().connect()
    pair.client.state("x", b"1", 0.0)
    pair.told()
    for _ in range(3):
        forgetful(pair)
        pair.server.answers = False
        pair.link.connect()
        pair.hear(ConnAck())
        assert published(pair) == [("x", b"1")]
        pair.client.validate_state()


def test_a_goodbye_can_end_a_session_that_outlives_losses() -> None:
    for ends in (False, True):
        pair = Pair(ClientOptions(client_id="c", session_expiry_s=60, ends_session=ends)).connect()
        pair.client.disconnect(ReasonCode.NORMAL_DISCONNECTION, 0.0)
        goodbye = pair.told()[-1]
        assert isinstance(goodbye, Disconnect)
        assert goodbye.properties.session_expiry_interval == (0 if ends else None)
