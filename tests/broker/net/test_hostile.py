"""Nobody can harm the broker: during each attack another client goes on, and the broker says why.

The broker is a process of its own with tight limits, so that its memory can be seen and nothing
of the attack happens in it by accident. Attackers come from another address of this machine.
"""

import base64
import contextlib
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    ConnAck,
    Connect,
    Decoder,
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
    Sender,
    SubAck,
    Subscribe,
    TopicFilter,
    Unsubscribe,
    Will,
    encode,
)
from tests.broker.net.well_behaved import WellBehaved
from tests.support.broker_process import BrokerProcess
from tests.support.clients.raw_client import fresh
from tests.support.clients.stubborn_client import GoneError, RefusedError, StubbornClient
from tests.support.waiting import until

ATTACKER = "127.0.0.2"
WAIT_S = 30.0
MEBIBYTE = 1 << 20
SEED = random.SystemRandom().randrange(1 << 32)
TIGHT = {
    "limits.connect_within_s": 1.0,
    "limits.stalled_s": 2.0,
    "limits.retained": 100,
    "limits.queued_bytes": 4 * MEBIBYTE,
    "limits.connections": 300,
    "doors.anonymous": "everywhere",
    "doors.failures_per_minute": 3,
    "listen.http_port": 0,
    # Else the disk would be what bounds it.
    "record.exclude": "noise",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("hostile")
    users = directory / "users.toml"
    write_users(users, {"ann": Account("ann", hashed(b"a secret"))})
    settings = TIGHT | {"doors.users": str(users)}
    running = BrokerProcess(directory / "data", settings).wait_until_it_listens()
    yield running
    running.end()


@pytest.fixture
def good(broker: BrokerProcess) -> Iterator[WellBehaved]:
    """Goes on during the test; afterwards the broker is whole."""
    with WellBehaved(broker.port) as client:
        yield client
    assert client.exchanged > 1
    assert broker.runs
    assert "Traceback" not in broker.said


def attack(broker: BrokerProcess, port: str = "mqtt", address: str = ATTACKER) -> socket.socket:
    return socket.create_connection(
        ("127.0.0.1", broker.ports[port]), WAIT_S, source_address=(address, 0)
    )


def let_in(broker: BrokerProcess, version: int = MQTT_5, **options: object) -> socket.socket:
    """A connection whose CONNECT was taken."""
    found = attack(broker)
    connect = Connect(fresh("evil-"), version, **options)  # type: ignore[arg-type]
    found.sendall(encode(connect, version))
    (answer,) = read(found, 1, version)
    assert isinstance(answer, ConnAck)
    assert not answer.reason_code.failed, answer
    return found


def read(found: socket.socket, count: int, version: int = MQTT_5) -> list[Packet]:
    """So many packets, or all until the broker closes."""
    decoder = Decoder(sender=Sender.SERVER, version=version)
    packets: list[Packet] = []
    while len(packets) < count:
        data = found.recv(1 << 16)
        if not data:
            break
        packets += decoder.feed(data)
    return packets


def is_closed(found: socket.socket, within_s: float = WAIT_S) -> bool:
    """Whether the broker ends the connection in time."""
    found.settimeout(within_s)
    try:
        while found.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def pour(found: socket.socket, data: bytes, for_s: float) -> int:
    """Send the same again and again as fast as it is taken, and read nothing."""
    found.setblocking(False)
    view, at, sent = memoryview(data), 0, 0
    deadline = time.monotonic() + for_s
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < deadline:
            try:
                count = found.send(view[at:])
                at, sent = (at + count) % len(data), sent + count
            except BlockingIOError:
                time.sleep(0.001)
    return sent


# Bytes that are no MQTT


def test_random_bytes_end_their_connection(broker: BrokerProcess, good: WellBehaved) -> None:
    chance = random.Random(SEED)
    for _ in range(100):
        with attack(broker) as found, contextlib.suppress(ConnectionError):
            found.sendall(chance.randbytes(chance.randint(1, 3_000)))
    until(lambda: "broken packet" in broker.said, "the broker says why")


CLIENT_PACKETS: tuple[Packet, ...] = (
    Publish("a/b", b"x"),
    Publish("a/b", b"x", 1, packet_id=5).with_(
        Properties(topic_alias=3, user_properties=(("a", "b"),), message_expiry_interval=4)
    ),
    Publish("a/b", b"x", 2, True, packet_id=6),
    PubAck(5, ReasonCode.NO_MATCHING_SUBSCRIBERS, Properties(reason_string="why")),
    PubRec(5, ReasonCode.QUOTA_EXCEEDED),
    PubRel(6),
    PubComp(6, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND),
    Subscribe(7, (TopicFilter("a/+", 1), TopicFilter("$share/g/b/#", 2, False, True, 2))),
    Unsubscribe(8, ("a/+", "b")),
    PingReq(),
    Disconnect(ReasonCode.UNSPECIFIED_ERROR, Properties(session_expiry_interval=0)),
)


def changed(data: bytes, chance: random.Random) -> bytes:
    """The same with a few bytes changed, left out, put in or cut off."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(found)) if found else 0
        match chance.randrange(4):
            case 0 if found:
                found[at] = chance.randrange(256)
            case 1 if found:
                del found[at]
            case 2:
                found.insert(at, chance.randrange(256))
            case _:
                del found[at + 1 :]
    return bytes(found)


@pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
def test_broken_packets_of_every_type_hurt_nobody_else(
    broker: BrokerProcess, good: WellBehaved, version: int
) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")  # noqa: T201  # pytest shows it where a test fails
    for _ in range(150):
        with let_in(broker, version) as found, contextlib.suppress(ConnectionError):
            for _ in range(chance.randint(1, 5)):
                packet = encode(chance.choice(CLIENT_PACKETS), version)
                found.sendall(packet if chance.random() < 0.3 else changed(packet, chance))


def test_broken_connects_are_not_let_in(broker: BrokerProcess, good: WellBehaved) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")  # noqa: T201
    will = Will("gone", b"x", 1, True, Properties(will_delay_interval=3))
    for _ in range(150):
        connect = Connect(
            "fuzz", chance.choice((3, 4, 5)), chance.random() < 0.5, 10, will, "nobody", b"no"
        )
        with attack(broker) as found, contextlib.suppress(ConnectionError):
            found.sendall(changed(encode(connect, connect.version), chance))


# Slowly, or not at all


def test_one_who_never_says_who_it_is_is_not_waited_for(
    broker: BrokerProcess, good: WellBehaved
) -> None:
    with attack(broker) as silent, attack(broker, "ws") as no_request, attack(broker) as slow:
        for byte in encode(Connect("slow"), MQTT_5)[:4]:
            slow.sendall(bytes((byte,)))
            time.sleep(0.5)
        assert is_closed(silent)
        assert is_closed(no_request)
        assert is_closed(slow)
    assert "no CONNECT came" in broker.said


def test_half_a_packet_waits_for_the_rest_and_holds_up_nobody(
    broker: BrokerProcess, good: WellBehaved
) -> None:
    whole = encode(Publish("a/b", bytes(100_000), 1, packet_id=1), MQTT_5)
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(let_in(broker)) for _ in range(20)]
        for found in waiting:
            found.sendall(whole[: len(whole) // 2])
        before = good.exchanged
        until(lambda: good.exchanged > before + 5, "the other goes on")
        waiting[0].sendall(whole[len(whole) // 2 :])
        assert isinstance(read(waiting[0], 1)[0], PubAck)


def test_a_huge_length_is_refused_when_it_is_declared(
    broker: BrokerProcess, good: WellBehaved
) -> None:
    with let_in(broker) as found:
        found.sendall(b"\x30\xff\xff\xff\x7f")
        (answer,) = read(found, 1)
        assert isinstance(answer, Disconnect)
        assert answer.reason_code == ReasonCode.PACKET_TOO_LARGE
    with attack(broker) as found:
        found.sendall(b"\x10\xff\xff\xff\x7f")
        assert is_closed(found)
    assert "0x95 Packet too large" in broker.said


def test_a_client_that_reads_nothing_is_bounded_and_cut_off(
    broker: BrokerProcess, good: WellBehaved
) -> None:
    with let_in(broker) as deaf, let_in(broker) as loud:
        deaf.sendall(encode(Subscribe(1, (TopicFilter("noise"),)), MQTT_5))
        assert isinstance(read(deaf, 1)[0], SubAck)
        before = broker.memory_bytes
        frame = encode(Publish("noise", bytes(10_000)), MQTT_5)
        poured = pour(loud, frame * 50, 3.0)
        assert poured > 300 * MEBIBYTE
        assert broker.memory_bytes < before + 150 * MEBIBYTE
        assert broker.figure("nearcast_hub_dropped_total") > 1_000
        until(lambda: "client does not read" in broker.said, "the broker says why")
        assert is_closed(deaf)


@pytest.mark.parametrize(
    "question",
    [
        PingReq(),
        Subscribe(1, (TopicFilter("a/#/b"),)),
        Publish("$nothing", b"", 1, packet_id=1),
        PubRel(9),
        Unsubscribe(1, ("never",)),
    ],
    ids=lambda packet: type(packet).__name__,
)
def test_questions_of_one_who_reads_no_answers_are_heard_no_more(
    broker: BrokerProcess, good: WellBehaved, question: Packet
) -> None:
    with let_in(broker, MQTT_3_1_1) as found:
        before = broker.memory_bytes
        many = encode(question, MQTT_3_1_1) * 2_000
        pour(found, many, 2.0)
        assert broker.memory_bytes < before + 60 * MEBIBYTE


def test_pings_of_a_websocket_that_reads_nothing_take_no_memory(
    broker: BrokerProcess, good: WellBehaved
) -> None:
    with attack(broker, "ws") as found:
        key = base64.b64encode(bytes(16)).decode()
        found.sendall(
            "GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: mqtt\r\n\r\n".encode()
        )
        assert b" 101 " in found.recv(4_096)
        found.sendall(in_frame(2, encode(Connect("evil-pings"), MQTT_5)))
        assert found.recv(4_096)
        found.sendall(in_frame(9, b"ping"))
        assert found.recv(4_096) == b"\x8a\x04ping"
        before = broker.memory_bytes
        pour(found, in_frame(9, bytes(120)) * 1_000, 2.0)
        assert broker.memory_bytes < before + 60 * MEBIBYTE


def in_frame(kind: int, payload: bytes) -> bytes:
    """A masked WebSocket frame; a mask of zeros changes nothing."""
    assert len(payload) < 126
    return bytes((0x80 | kind, 0x80 | len(payload))) + bytes(4) + payload


# More than anyone needs


def test_a_million_filters_are_refused_beyond_the_quota(
    broker: BrokerProcess, good: WellBehaved
) -> None:
    before = broker.memory_bytes
    with let_in(broker) as found:
        granted = refused = 0
        for packet_number in range(1, 41):
            filters = tuple(TopicFilter(f"{packet_number}/{n}/+") for n in range(1_000))
            found.sendall(encode(Subscribe(packet_number, filters), MQTT_5))
            (answer,) = read(found, 1)
            assert isinstance(answer, SubAck)
            granted += answer.reason_codes.count(ReasonCode.SUCCESS)
            refused += answer.reason_codes.count(ReasonCode.QUOTA_EXCEEDED)
        assert (granted, refused) == (10_000, 30_000)
        sizes = []
        for packet_number in range(10):
            filters = tuple(TopicFilter(str(n)) for n in range(100_000))
            found.sendall(encode(Subscribe(50 + packet_number, filters), MQTT_5))
            (answer,) = read(found, 1)
            assert isinstance(answer, SubAck)
            assert set(answer.reason_codes) == {ReasonCode.QUOTA_EXCEEDED}
            sizes.append(broker.memory_bytes)
        # The first takes what a packet of a hundred thousand filters takes, the others no more.
        assert sizes[-1] < sizes[1] + 30 * MEBIBYTE
        assert sizes[-1] < before + 120 * MEBIBYTE


def test_too_many_user_properties_are_refused(broker: BrokerProcess, good: WellBehaved) -> None:
    many = Properties(user_properties=(("a", "b"),) * 100_000)
    filters = tuple(TopicFilter(str(n)) for n in range(1_000))
    with let_in(broker) as found:
        found.sendall(encode(Subscribe(1, filters, many), MQTT_5))
        found.sendall(encode(Publish("a", b"", 1, packet_id=2).with_(many), MQTT_5))
        subscribed, published = read(found, 2)
        assert isinstance(subscribed, SubAck)
        assert set(subscribed.reason_codes) == {ReasonCode.QUOTA_EXCEEDED}
        assert isinstance(published, PubAck)
        assert published.reason_code == ReasonCode.QUOTA_EXCEEDED
        assert "at most 256" in (published.properties.reason_string or "")


@pytest.mark.parametrize("topic", ["x" * 60_000, "/".join("x" * 30_000)], ids=["long", "deep"])
def test_giant_topics_are_refused(broker: BrokerProcess, good: WellBehaved, topic: str) -> None:
    with let_in(broker) as found:
        found.sendall(encode(Publish(topic, b"", 1, packet_id=1), MQTT_5))
        found.sendall(encode(Subscribe(2, (TopicFilter(topic),)), MQTT_5))
        published, subscribed = read(found, 2)
        assert isinstance(published, PubAck)
        assert published.reason_code == ReasonCode.TOPIC_NAME_INVALID
        assert isinstance(subscribed, SubAck)
        assert subscribed.reason_codes == (ReasonCode.TOPIC_FILTER_INVALID,)
    with attack(broker) as found:
        found.sendall(encode(Connect("evil-will", will=Will(topic)), MQTT_5))
        (answer,) = read(found, 1)
        assert isinstance(answer, ConnAck)
        assert answer.reason_code == ReasonCode.TOPIC_NAME_INVALID


def test_no_more_is_retained_than_is_allowed(broker: BrokerProcess, good: WellBehaved) -> None:
    with let_in(broker) as found:
        bomb = [Publish(f"bomb/{n}", b"x", 1, True, packet_id=n + 1) for n in range(500)]
        found.sendall(b"".join(encode(each, MQTT_5) for each in bomb))
        answers = read(found, len(bomb))
        reasons = [each.reason_code for each in answers if isinstance(each, PubAck)]
        kept = [reason for reason in reasons if not reason.failed]
        assert set(reasons[len(kept) :]) == {ReasonCode.QUOTA_EXCEEDED}
        assert 0 < len(kept) <= 100
        # What is there can still be replaced, and removed to make room.
        again = (Publish("bomb/0", b"y", 1, True), Publish("bomb/1", b"", 1, True))
        for number, each in enumerate((*again, Publish("bomb/499", b"z", 1, True)), 1):
            sent = Publish(each.topic, each.payload, 1, True, packet_id=number)
            found.sendall(encode(sent, MQTT_5))
            (answer,) = read(found, 1)
            assert isinstance(answer, PubAck)
            assert not answer.reason_code.failed
        for number in range(500):
            found.sendall(encode(Publish(f"bomb/{number}", b"", 0, True), MQTT_5))


# Doors


def test_wrong_passwords_shut_an_address_out(broker: BrokerProcess, good: WellBehaved) -> None:
    reasons = []
    for _ in range(6):
        with attack(broker, address="127.0.0.3") as found:
            found.sendall(encode(Connect("ann", username="ann", password=b"guess"), MQTT_5))
            (answer,) = read(found, 1)
            assert isinstance(answer, ConnAck)
            reasons.append(answer.reason_code)
    assert reasons[:3] == [ReasonCode.BAD_USER_NAME_OR_PASSWORD] * 3
    assert set(reasons[3:]) == {ReasonCode.CONNECTION_RATE_EXCEEDED}
    assert "client refused" in broker.said
    # Another address is not shut out: it may be wrong by itself.
    other = StubbornClient("ann", keep=False)
    with pytest.raises(RefusedError, match="BAD_USER_NAME_OR_PASSWORD"):
        other.connect(broker.port, b"guess")


def test_a_flood_of_connections_is_bounded_and_leaves_room_afterwards(
    broker: BrokerProcess, good: WellBehaved
) -> None:
    with contextlib.ExitStack() as stack:
        flood = []
        for _ in range(600):
            with contextlib.suppress(OSError):
                flood.append(stack.enter_context(attack(broker)))
        until(lambda: "too many connections" in broker.said, "the broker says why")
        before = good.exchanged
        until(lambda: good.exchanged > before + 5, "the other goes on")
        assert all(is_closed(found) for found in flood)

    def can_connect() -> bool:
        late = StubbornClient("late", keep=False)
        try:
            late.connect(broker.port)
        except GoneError:
            return False
        late.disconnect()
        return True

    until(can_connect, "others can connect again")


def test_connections_never_take_the_files_that_the_store_needs(tmp_path: Path) -> None:
    running = BrokerProcess(tmp_path / "data", TIGHT, open_files=150).wait_until_it_listens()
    try:
        with contextlib.ExitStack() as stack, WellBehaved(running.port) as client:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    stack.enter_context(attack(running))
            before = client.exchanged
            until(lambda: client.exchanged > before + 5, "the other goes on")
            logs = running.data / "brokers" / "local" / "log"
            until(lambda: any(logs.glob("*.parquet")), "there is a segment")
        assert running.stop() == 0
        assert "too many connections" in running.said
        assert "Too many open files" not in running.said
    finally:
        running.end()


def test_a_client_that_sends_too_fast_is_read_later(tmp_path: Path) -> None:
    settings = TIGHT | {"limits.messages_per_s": 10}
    running = BrokerProcess(tmp_path / "data", settings).wait_until_it_listens()
    try:
        with let_in(running) as fast, WellBehaved(running.port):
            many = [Publish("a", b"", 1, packet_id=number) for number in range(1, 41)]
            fast.sendall(b"".join(encode(packet, MQTT_5) for packet in many))
            assert len(read(fast, 40)) == 40
            fast.sendall(encode(Publish("a", b"", 1, packet_id=99), MQTT_5))
            fast.settimeout(0.5)
            with pytest.raises(TimeoutError):
                read(fast, 1)
            fast.settimeout(WAIT_S)
            assert isinstance(read(fast, 1)[0], PubAck)
    finally:
        running.end()
