"""How a client comes in, stays in and leaves."""

import pytest
from msgspec.structs import replace

from nearcast.client.api.options import ClientOptions
from nearcast.client.errors import OptionsError
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import (
    Connected,
    ConnectRefused,
    Disconnected,
    ProtocolBroken,
)
from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    Properties,
    ReasonCode,
    Will,
    encode,
)
from tests.client.protocol.pair import KEPT, Pair


def test_it_introduces_itself_with_all_its_options() -> None:
    will = Will("gone", b"c", 1, True)
    pair = Pair(
        ClientOptions(
            client_id="c",
            clean_start=False,
            session_expiry_s=60,
            keep_alive_s=30,
            username="u",
            password=b"p",
            will=will,
            receive_maximum=7,
            maximum_packet_size=1000,
            topic_alias_maximum=3,
            user_properties=(("k", "1"), ("k", "2")),
        )
    )
    pair.link.connect()
    assert pair.told() == [
        Connect(
            "c",
            5,
            False,
            30,
            will,
            "u",
            b"p",
            Properties(
                session_expiry_interval=60,
                receive_maximum=7,
                maximum_packet_size=1000,
                topic_alias_maximum=3,
                user_properties=(("k", "1"), ("k", "2")),
            ),
        )
    ]


@pytest.mark.parametrize(
    ("version", "clean", "again"), [(5, True, False), (4, True, True), (4, False, False)]
)
def test_a_clean_start_is_asked_for_once_and_with_mqtt_3_every_time(
    version: int, clean: bool, again: bool
) -> None:
    pair = Pair(ClientOptions(client_id="c", version=version, clean_start=clean))
    pair.connect()
    pair.link.cut()
    pair.link.connect()
    connect = pair.told()[0]
    assert isinstance(connect, Connect)
    assert connect.clean_start is again


def test_an_identifier_that_the_server_chose_is_kept() -> None:
    pair = Pair(ClientOptions(session_expiry_s=60))
    pair.server.connack = Properties(assigned_client_identifier="chosen")
    pair.connect()
    assert pair.client.client_id == "chosen"
    pair.link.cut()
    pair.link.connect()
    connect = pair.told()[0]
    assert isinstance(connect, Connect)
    assert connect.client_id == "chosen"


def test_a_refusal_is_told_and_closes_the_transport() -> None:
    pair = Pair()
    pair.server.refuses = ReasonCode.NOT_AUTHORIZED
    pair.link.connect()
    pair.link.settle()
    assert pair.link.happened == [ConnectRefused(ReasonCode.NOT_AUTHORIZED)]
    assert not pair.link.up


def test_a_session_that_cannot_be_there_is_a_breach() -> None:
    client = ClientProtocol(KEPT)
    client.connected_transport(0.0)
    (broken,) = client.receive(encode(ConnAck(True)), 0.0)
    assert isinstance(broken, ProtocolBroken)


def test_a_server_that_says_goodbye_gives_its_reasons() -> None:
    pair = Pair().connect()
    properties = Properties(reason_string="bye", server_reference="other:1883")
    assert pair.hear(Disconnect(ReasonCode.SERVER_MOVED, properties)) == [
        Disconnected(ReasonCode.SERVER_MOVED, "bye", "other:1883")
    ]
    assert not pair.link.up


@pytest.mark.parametrize(("version", "said"), [(5, 4), (4, None)])
def test_only_mqtt_5_can_say_goodbye_and_have_the_will_published(
    version: int, said: int | None
) -> None:
    pair = Pair(ClientOptions(client_id="c", version=version)).connect()
    pair.client.disconnect(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE, 0.0)
    pair.link.settle()
    codes = [p.reason_code for p in pair.server.seen if isinstance(p, Disconnect)]
    assert codes == ([] if said is None else [said])
    assert not pair.link.up


def test_it_pings_a_silent_server_and_leaves_one_that_stays_silent() -> None:
    pair = Pair(replace(KEPT, keep_alive_s=10, answer_within_s=5.0)).connect()
    assert pair.client.next_timer() == 8.0
    assert pair.client.tick(7.9) == []
    assert pair.told() == []
    pair.client.tick(8.0)
    assert pair.told() == [PingReq()]
    pair.server.answers = False
    due = pair.client.next_timer()
    assert due is not None
    pair.client.tick(due)
    assert pair.told() == [PingReq()]
    silent_until = pair.client.next_timer()
    assert silent_until == due + 5.0
    (broken,) = pair.client.tick(silent_until)
    assert isinstance(broken, ProtocolBroken)
    assert pair.client.should_close
    assert pair.client.next_timer() is None


def test_a_client_that_talks_all_the_time_still_notices_a_dead_server() -> None:
    pair = Pair(replace(KEPT, keep_alive_s=10)).connect()
    pair.client.publish("a", b"", 0, False, NO_PROPERTIES, 7.0)
    pair.client.tick(8.0)
    assert pair.told()[-1] == PingReq()


def test_a_client_that_did_not_listen_pings_but_does_not_blame_the_server() -> None:
    pair = Pair(replace(KEPT, keep_alive_s=10, answer_within_s=5.0)).connect()
    for now in (8.0, 16.0, 24.0):
        pair.client.not_listening(now)
        assert pair.client.tick(now) == []
        assert pair.client.take() == encode(PingReq())


def test_the_server_may_set_the_keep_alive() -> None:
    pair = Pair(replace(KEPT, keep_alive_s=10))
    pair.server.connack = Properties(server_keep_alive=100)
    pair.connect()
    assert pair.client.next_timer() == 80.0


def test_a_server_that_does_not_answer_a_connect_is_left() -> None:
    client = ClientProtocol(replace(KEPT, answer_within_s=3.0))
    client.connected_transport(1.0)
    assert client.next_timer() == 4.0
    (broken,) = client.tick(4.0)
    assert isinstance(broken, ProtocolBroken)
    assert "CONNECT" in broken.text


@pytest.mark.parametrize(
    "options",
    [{"version": 6}, {"keep_alive_s": 65_536}, {"receive_maximum": 0}, {"first_packet_id": 0}],
)
def test_options_that_cannot_be_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(OptionsError):
        ClientOptions(**options)  # type: ignore[arg-type]


def test_it_says_when_it_is_connected() -> None:
    pair = Pair().connect()
    assert pair.link.happened == [Connected(False, Properties(receive_maximum=65_535))]
    pair.reconnect()
    assert pair.link.happened[1:] == [Connected(True, Properties(receive_maximum=65_535))]
