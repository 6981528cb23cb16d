"""Live events: what stays is there for whoever comes upon it, once, until it ends."""

from collections.abc import Iterator
from math import ceil

import pytest

from nearcast.broker.config.settings import Objects, Settings
from nearcast.wire.mqtt import MQTT_5, Properties, Publish, ReasonCode, TopicFilter
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import METRES_NORTH, VERSIONS, Talker, told, words
from tests.support.running_broker import RunningBroker

LAT, LON = 53.35, -6.26
NEAR = (LAT + 300 * METRES_NORTH, LON)
FAR = (LAT + 3_000 * METRES_NORTH, LON)
HERE = f"circle:{LAT},{LON},500"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["retained", "valid", "object"])
def test_whoever_comes_into_the_target_later_gets_it_once(
    broker: RunningBroker, version: int, kind: str
) -> None:
    publisher, walker = Talker(broker, version=version), Talker(broker, version=version)
    walker.wants(subject := fresh("alert"))
    walker.moves(*FAR)
    more = {"valid": {"valid": "60"}, "object": {"object": "o"}}.get(kind, {})
    publisher.says(subject, b"flood", retain=kind == "retained", more=more, to=HERE)
    assert walker.gets() == []

    walker.moves(*NEAR)
    first = walker.payloads()
    walker.moves(*FAR)
    walker.moves(LAT, LON)
    walker.is_now(task="again")

    assert first == [b"flood"]
    assert walker.gets() == []


@pytest.mark.parametrize("kind", ["retained", "valid", "object"])
def test_whoever_comes_near_its_position_gets_it_once(broker: RunningBroker, kind: str) -> None:
    publisher, walker = Talker(broker), Talker(broker)
    walker.wants(subject := fresh("alert"), from_="circle:me,500")
    walker.moves(*FAR)
    more = {"valid": {"valid": "60"}, "object": {"object": "o"}}.get(kind, {})
    where = f"{LAT},{LON}"
    publisher.says(subject, b"hole", retain=kind == "retained", more=more, at=where)

    walker.moves(*NEAR)
    walker.moves(LAT, LON)
    walker.moves(*FAR)
    walker.moves(*NEAR)

    assert walker.payloads() == [b"hole"]


def test_a_subscription_round_another_node_comes_upon_what_that_node_passes(
    broker: RunningBroker,
) -> None:
    publisher, bus, waiting = (Talker(broker) for _ in range(3))
    bus.moves(*FAR)
    waiting.wants(subject := fresh("alert"), from_=f"circle:{bus.node},500")
    publisher.says(subject, b"hole", at=f"{LAT},{LON}", valid="60")
    assert waiting.gets() == []

    bus.moves(*NEAR)
    bus.moves(LAT, LON)

    assert waiting.payloads() == [b"hole"]


def test_a_target_that_moves_with_its_publisher_overtakes_people(broker: RunningBroker) -> None:
    siren, walker = Talker(broker), Talker(broker)
    walker.subscribes(subject := fresh("siren"))
    walker.moves(LAT, LON)
    siren.moves(*FAR)
    siren.announces(subject, "circle:me,500")
    siren.says(subject, b"make way", valid="60")
    assert walker.gets() == []

    siren.moves(*NEAR)
    siren.moves(LAT, LON)

    assert walker.payloads() == [b"make way"]


def test_a_target_that_moves_with_another_node_overtakes_people(broker: RunningBroker) -> None:
    office, bus, walker = (Talker(broker) for _ in range(3))
    walker.subscribes(subject := fresh("bus"))
    walker.moves(LAT, LON)
    bus.moves(*FAR)
    office.says(subject, b"free seats", valid="60", to=f"circle:{bus.node},500")

    bus.moves(*NEAR)

    assert walker.payloads() == [b"free seats"]


def test_subscribing_gets_what_matches_where_one_is(broker: RunningBroker) -> None:
    publisher, walker = Talker(broker), Talker(broker)
    walker.moves(LAT, LON)
    subject = fresh("alert")
    publisher.says(f"{subject}/1", b"here", valid="60", to=HERE)
    publisher.says(f"{subject}/2", b"elsewhere", valid="60", to="circle:10,10,500")
    publisher.says(f"{subject}/3", b"everywhere", object="o")
    publisher.says(f"{subject}/4", b"kept", retain=True)
    publisher.says(f"{subject}/5", b"gone")

    walker.subscribes(f"{subject}/+")

    assert sorted(walker.payloads()) == [b"everywhere", b"here", b"kept"]


def test_filters_of_one_packet_get_one_copy_that_names_them_all(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    subject = fresh("alert")
    publisher.says(f"{subject}/2", b"first", valid="60")
    publisher.says(f"{subject}/1", b"second", valid="60")
    publisher.says(f"{subject}/2", b"retained", retain=True)
    filters = (f"{subject}/#", f"{subject}/2", f"{subject}/+", f"{subject}/2")

    reader.subscribes(*filters, properties=words(meta="1"))

    came = [(m.payload, m.retain, sorted(told(m)["nc-subscription"])) for m in reader.gets()]
    both, all_three = sorted({filters[0], filters[2]}), sorted(set(filters))
    assert came[:2] == [(b"first", False, all_three), (b"second", False, both)]
    assert sorted(came[2:]) == [(b"retained", True, [each]) for each in all_three]


def test_what_was_published_before_anyone_filtered_is_filtered_all_the_same(
    broker: RunningBroker,
) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    subject = fresh("alert")
    for speed in (10, 90):
        payload = f'{{"speed": {speed}}}'.encode()
        publisher.says(f"{subject}/retained/{speed}", payload, retain=True)
        publisher.says(f"{subject}/valid/{speed}", payload, valid="60")

    reader.wants(f"{subject}/#", where="speed > 50")

    assert reader.payloads() == [b'{"speed": 90}', b'{"speed": 90}']


def test_a_context_change_brings_what_now_matches(broker: RunningBroker) -> None:
    publisher, medic = Talker(broker), Talker(broker)
    medic.wants(subject := fresh("call"), where="me.role = wanted")
    publisher.says(subject, b'{"wanted": "medic"}', valid="60")
    assert medic.gets() == []

    medic.is_now(role="medic")
    medic.is_now(role="medic", shift=2)

    assert medic.payloads() == [b'{"wanted": "medic"}']


def test_a_new_version_comes_to_those_who_had_the_old_one(broker: RunningBroker) -> None:
    publisher, walker, late = (Talker(broker) for _ in range(3))
    for each in (walker, late):
        each.moves(*NEAR)
    walker.subscribes(subject := fresh("bus"))
    publisher.says(subject, b"first", object="bus-7", to=HERE)
    publisher.says(subject, b"second", object="bus-7", to=HERE)

    late.subscribes(subject)

    assert walker.payloads() == [b"first", b"second"]
    assert late.payloads() == [b"second"]


@pytest.mark.parametrize(
    "key", [{"object": "o"}, {"id": "the-id"}, {}], ids=["object", "id", "retained"]
)
def test_nothing_comes_after_it_was_withdrawn(broker: RunningBroker, key: dict[str, str]) -> None:
    publisher, walker = Talker(broker, fresh("node")), Talker(broker)
    subject = fresh("alert")
    publisher.says(subject, b"flood", retain=not key, more=key, valid="60", to=HERE)

    code = publisher.says(subject, b"", retain=not key, more=key, valid="0")
    assert code == ReasonCode.SUCCESS

    walker.moves(LAT, LON)
    walker.subscribes(subject)
    assert walker.gets() == []


def test_a_withdrawal_is_an_event_for_those_it_concerns(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.subscribes(subject := fresh("alert"))
    publisher.says(subject, b"flood", valid="60", id="x")
    publisher.says(subject, b"over", valid="0", id="x")
    publisher.says(subject, b"over again", valid="0", id="x")

    assert reader.payloads() == [b"flood", b"over"]


def test_what_is_said_and_withdrawn_in_one_go_is_both(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.subscribes(subject := fresh("alert"))
    client = publisher.client
    client.send(
        Publish(subject, b"flood").with_(words(valid="60", id="x")),
        Publish(subject, b"over").with_(words(valid="0", id="x")),
    )
    publisher.gets()

    assert reader.payloads() == [b"flood", b"over"]


def test_an_empty_retained_message_ends_one_however_long_it_was_to_be_valid(
    broker: RunningBroker,
) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    subject = fresh("state")
    publisher.says(subject, b"on", retain=True, valid="60")
    publisher.says(subject, b"", retain=True, valid="60")

    reader.subscribes(subject)

    assert reader.gets() == []


def test_nothing_comes_after_it_expired_and_the_rest_of_its_time_is_told(
    broker: RunningBroker,
) -> None:
    publisher, early, walker = (Talker(broker) for _ in range(3))
    early.subscribes(subject := fresh("alert"))
    publisher.says(subject, b"flood", valid="60", to=HERE)
    early.moves(LAT, LON)
    (message,) = early.gets()
    assert message.properties.message_expiry_interval is not None
    assert 0 < message.properties.message_expiry_interval <= 60

    broker.later(61)

    walker.moves(LAT, LON)
    walker.subscribes(subject)
    walker.moves(*NEAR)
    assert walker.gets() == []


def test_retained_messages_go_by_the_options_of_mqtt(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    subject = fresh("state")
    publisher.says(subject, b"1", retain=True)
    properties = words(where="event.subject LIKE '%'")

    def came(handling: int) -> list[tuple[bytes, bool]]:
        wanted = TopicFilter(subject, 1, retain_handling=handling)
        reader.subscribes(wanted, properties=properties)
        return [(message.payload, message.retain) for message in reader.gets()]

    assert came(2) == []
    assert came(0) == [(b"1", True)]
    assert came(0) == [(b"1", True)], "subscribing again brings it again"
    assert came(1) == []


def test_who_comes_back_gets_what_could_not_wait(broker: RunningBroker) -> None:
    subject, name = fresh("alert"), fresh("walker")
    publisher, walker = Talker(broker), Talker(broker, name, expiry=60)
    walker.wants(subject, qos=0, where="event.subject LIKE '%'")
    walker.moves(*NEAR)
    publisher.says(subject, b"had", valid="60")
    assert walker.payloads() == [b"had"]
    broker.lose(walker.client)

    publisher.says(subject, b"valid", valid="60", to=HERE)
    publisher.says(subject, b"retained", retain=True)
    publisher.says(subject, b"gone")
    publisher.says(subject, b"withdrawn", valid="60", id="w")
    publisher.says(subject, b"", valid="0", id="w")

    back = Talker(broker, name, clean=False, expiry=60)
    assert back.payloads() == [b"valid", b"retained"]
    again = Talker(broker, name, clean=False, expiry=60)
    assert again.gets() == []


def test_what_waited_for_somebody_comes_once(broker: RunningBroker) -> None:
    subject, name = fresh("alert"), fresh("walker")
    publisher, walker = Talker(broker), Talker(broker, name, expiry=60)
    walker.subscribes(subject, qos=1)
    broker.lose(walker.client)
    publisher.says(subject, b"valid", qos=1, valid="60")

    back = Talker(broker, name, clean=False, expiry=60)

    assert back.payloads() == [b"valid"]


def test_a_plain_subscription_gets_no_retained_message_by_coming_back(
    broker: RunningBroker,
) -> None:
    subject, name = fresh("state"), fresh("reader")
    publisher, reader = Talker(broker), Talker(broker, name, expiry=60)
    reader.subscribes(subject, qos=0)
    broker.lose(reader.client)
    publisher.says(subject, b"1", qos=1, retain=True)

    back = Talker(broker, name, clean=False, expiry=60)
    back.moves(*NEAR)

    assert back.gets() == []


def test_another_part_moves_the_node_while_one_is_away(broker: RunningBroker) -> None:
    node, subject = fresh("node"), fresh("alert")
    publisher = Talker(broker)
    screen = Talker(broker, f"{node}~screen", expiry=60)
    screen.wants(subject, qos=0)
    gps = Talker(broker, f"{node}~gps")
    gps.moves(*FAR)
    publisher.says(subject, b"flood", valid="60", to=HERE)
    broker.lose(screen.client)
    gps.moves(*NEAR)

    back = Talker(broker, f"{node}~screen", clean=False, expiry=60)

    assert back.payloads() == [b"flood"]
    assert gps.gets() == []


def test_shared_subscriptions_are_replayed_nothing(broker: RunningBroker) -> None:
    publisher, one, two = (Talker(broker) for _ in range(3))
    subject = fresh("work")
    publisher.says(subject, b"before", valid="60", to=HERE)
    for member in (one, two):
        member.moves(*NEAR)
        member.subscribes(f"$share/team/{subject}")
    publisher.says(subject, b"now", valid="60", to=HERE)
    for member in (one, two):
        member.moves(*FAR)
        member.moves(LAT, LON)
        member.is_now(task=1)

    assert sorted(one.payloads() + two.payloads()) == [b"now"]


def test_of_a_shared_group_one_that_it_fits_gets_it(broker: RunningBroker) -> None:
    publisher, near, far = (Talker(broker) for _ in range(3))
    subject = fresh("work")
    near.moves(*NEAR)
    far.moves(*FAR)
    publisher.moves(LAT, LON)
    for member in (near, far):
        member.wants(f"$share/team/{subject}", from_="circle:me,500")

    for number in range(6):
        publisher.says(subject, str(number).encode())

    assert near.payloads() == [str(number).encode() for number in range(6)]
    assert far.gets() == []


def test_a_place_that_is_drawn_anew_brings_what_is_there(broker: RunningBroker) -> None:
    publisher, walker = Talker(broker), Talker(broker)
    name, subject = fresh("place"), fresh("alert")
    walker.moves(LAT, LON)
    walker.subscribes(subject)
    square = '{"type": "Polygon", "coordinates": [[[%s]]]}'
    away = square % "0, 0], [1, 0], [1, 1], [0, 1], [0, 0"
    here = square % "-7, 53], [-6, 53], [-6, 54], [-7, 54], [-7, 53"
    publisher.sends(f"$place/kind/{name}", away.encode())
    publisher.says(subject, b"market", valid="60", to=f"place:{name}")
    assert walker.gets() == []

    publisher.sends(f"$place/kind/{name}", here.encode())

    assert walker.payloads() == [b"market"]


def test_no_local_holds_for_what_stays_too(broker: RunningBroker) -> None:
    node, subject = fresh("node"), fresh("alert")
    talker, part = Talker(broker, node), Talker(broker, f"{node}~part")
    wanted = TopicFilter(subject, 1, no_local=True)
    for each in (talker, part):
        each.subscribes(wanted)

    talker.says(subject, b"mine", valid="60")
    talker.moves(LAT, LON)
    talker.subscribes(wanted)

    assert talker.gets() == []
    assert part.payloads() == [b"mine"], "No Local is about the session that published"


def test_message_expiry_and_validity_are_the_shorter_of_both(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker, version=MQTT_5), Talker(broker)
    reader.subscribes(subject := fresh("alert"))
    properties = Properties(message_expiry_interval=10, user_properties=(("nc-valid", "60"),))

    publisher.sends(subject, b"x", 1, False, properties)

    (message,) = reader.gets()
    assert message.properties.message_expiry_interval in (9, 10)


@pytest.mark.parametrize("valid", ["1e14", "5000000000", "0.5"])
def test_any_validity_can_be_told(broker: RunningBroker, valid: str) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.subscribes(subject := fresh("alert"))

    publisher.says(subject, b"x", valid=valid)

    (message,) = reader.gets()
    left_s = message.properties.message_expiry_interval
    assert left_s is not None
    assert left_s <= ceil(float(valid))


def test_objects_are_those_of_their_publishers(broker: RunningBroker) -> None:
    first, second, reader = Talker(broker), Talker(broker), Talker(broker)
    subject = fresh("bus")
    first.says(subject, b"mine", object="7")
    second.says(subject, b"yours", object="7")
    second.says(subject, b"", object="7", valid="0")

    reader.subscribes(subject)

    assert reader.payloads() == [b"mine"]


@pytest.fixture
def sharing() -> Iterator[RunningBroker]:
    objects = Objects(shared=("bus/+/at", "tram/#"))
    running = RunningBroker(Settings(objects=objects))
    yield running
    running.validate()
    running.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_shared_objects_are_one_whoever_publishes(sharing: RunningBroker, version: int) -> None:
    first, second, reader, late = (Talker(sharing, version=version) for _ in range(4))
    reader.wants("#")
    for talker in (first, second):
        talker.says("bus/7/at", b"bus by " + talker.name.encode(), object="7")
        talker.says("tram/7", b"tram by " + talker.name.encode(), object="7")
        talker.says("train/7", b"train by " + talker.name.encode(), object="7")
    assert len(reader.gets()) == 6

    late.wants("#")
    assert late.payloads() == [
        b"train by " + first.name.encode(),
        b"bus by " + second.name.encode(),
        b"tram by " + second.name.encode(),
        b"train by " + second.name.encode(),
    ]
    first.says("bus/7/at", b"", object="7", valid="0")
    second.says("bus/8/at", b"next", object="8")
    again = Talker(sharing)
    again.wants("bus/#")
    assert again.payloads() == [b"next"]
