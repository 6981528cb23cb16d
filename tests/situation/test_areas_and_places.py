"""Watched areas tell who comes and goes; places have names, are drawn anew and are taken away."""

import json

import pytest

from nearcast.wire.mqtt import Publish, ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import LAT, LON, METRES_NORTH, VERSIONS, Talker, at, words
from tests.support.running_broker import RunningBroker

AREA = f"circle:{LAT},{LON},200"


def seen(watcher: Talker) -> list[tuple[str, str]]:
    found = [json.loads(message.payload) for message in watcher.gets()]
    assert all(each.keys() == {"state", "node", "time"} for each in found)
    return [(each["node"], each["state"]) for each in found]


def square(south: float, west: float, size: float = 0.02) -> dict[str, object]:
    north, east = south + size, west + size
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


@pytest.mark.parametrize("version", VERSIONS)
def test_coming_in_and_going_out_are_told_once_each_after_the_first_sighting(
    broker: RunningBroker, version: int
) -> None:
    owner, watcher, walker = (Talker(broker, version=version) for _ in range(3))
    inside = Talker(broker)
    inside.moves(*at(0))
    name = fresh("gate")
    watcher.subscribes(f"$area/{name}")
    owner.sends(f"$area/{name}", json.dumps({"area": AREA}).encode())
    newcomer = Talker(broker)
    newcomer.moves(*at(100))
    walker.moves(*at(1_000))
    assert seen(watcher) == [], "who is first seen inside was always there"

    for metres in (900, 100, 50, 120, 900, 1_000, 0):
        walker.moves(*at(metres))
    inside.moves(*at(500))

    assert seen(watcher) == [
        (walker.node, "in"), (walker.node, "out"), (walker.node, "in"), (inside.node, "out"),
    ]  # fmt: skip


def test_nobody_flaps_at_the_edge(broker: RunningBroker) -> None:
    owner, walker = Talker(broker), Talker(broker)
    name = fresh("gate")
    owner.sends(f"$area/{name}", json.dumps({"area": AREA}).encode())
    owner.subscribes(f"$area/{name}")
    walker.moves(*at(500))

    for _ in range(10):
        for metres in (198, 202):
            walker.moves(*at(metres))

    assert seen(owner) == [(walker.node, "in")]
    walker.moves(*at(230))
    assert seen(owner) == [(walker.node, "out")]


@pytest.mark.parametrize(
    "area",
    [
        f"circle:{LAT},{LON},3",
        f"bbox:{LAT - 2 * METRES_NORTH},{LON - 0.01},{LAT + 2 * METRES_NORTH},{LON + 0.01}",
    ],
    ids=["small", "thin"],
)
def test_nobody_flaps_at_the_edge_of_what_is_narrow(broker: RunningBroker, area: str) -> None:
    owner, walker = Talker(broker), Talker(broker)
    name = fresh("gate")
    owner.sends(f"$area/{name}", json.dumps({"area": area}).encode())
    owner.subscribes(f"$area/{name}")
    walker.moves(*at(500))

    for metres in (1, 3.1, 1, 4, 8, 11, 2):
        walker.moves(*at(metres))

    assert seen(owner) == [(walker.node, "in")]
    walker.moves(*at(14))
    assert seen(owner) == [(walker.node, "out")]


def test_who_is_out_of_sight_has_neither_come_nor_left(broker: RunningBroker) -> None:
    owner, inside, outside = (Talker(broker) for _ in range(3))
    name = fresh("gate")
    inside.moves(*at(0))
    outside.moves(*at(900))
    owner.sends(f"$area/{name}", json.dumps({"area": AREA}).encode())
    owner.subscribes(f"$area/{name}")
    for node in (inside, outside):
        node.sends("$me/position", b"")

    inside.moves(*at(900))
    outside.moves(*at(0))
    assert seen(owner) == [(inside.node, "out"), (outside.node, "in")]
    outside.sends("$me/position", b"")
    outside.moves(*at(10))
    assert seen(owner) == [], "it was in, and is"

    # An area that is watched only from then on knows nothing of where it was.
    outside.sends("$me/position", b"")
    later = fresh("gate")
    owner.sends(f"$area/{later}", json.dumps({"area": AREA}).encode())
    owner.subscribes(f"$area/{later}")
    outside.moves(*at(10))
    assert seen(owner) == []


def test_a_context_decides_who_is_told_of_at_once(broker: RunningBroker) -> None:
    owner, walker = Talker(broker), Talker(broker)
    name = fresh("gate")
    definition = {"area": AREA, "nodes": "kind = 'bus'"}
    owner.sends(f"$area/{name}", json.dumps(definition).encode())
    owner.subscribes(f"$area/{name}")
    walker.moves(*at(0))

    walker.is_now(kind="bus")
    walker.is_now(size=3)
    walker.is_now(kind="tram")
    walker.moves(*at(5))

    assert seen(owner) == [(walker.node, "in"), (walker.node, "out")]


def test_a_watched_place_that_is_drawn_anew_comes_over_people(broker: RunningBroker) -> None:
    owner, walker = Talker(broker), Talker(broker)
    name, far = fresh("park"), (-47.0, 12.0)
    walker.moves(*far)
    owner.sends(f"$place/park/{name}", json.dumps(square(0, 0)).encode())
    owner.sends(f"$area/{name}", json.dumps({"area": f"place:{name}"}).encode())
    owner.subscribes(f"$area/{name}")

    owner.sends(f"$place/park/{name}", json.dumps(square(far[0] - 0.01, far[1] - 0.01)).encode())
    owner.sends(f"$place/park/{name}", json.dumps(square(0, 0)).encode())

    assert seen(owner) == [(walker.node, "in"), (walker.node, "out")]


def test_only_nodes_that_the_filter_means_are_told_of(broker: RunningBroker) -> None:
    owner, bus, tram = (Talker(broker) for _ in range(3))
    name = fresh("gate")
    definition = {"area": AREA, "nodes": "kind = 'bus' AND size > 5"}
    owner.sends(f"$area/{name}", json.dumps(definition).encode())
    owner.subscribes(f"$area/{name}")
    for node, kind in ((bus, "bus"), (tram, "tram")):
        node.is_now(kind=kind, size=9)
        node.moves(*at(500))
        node.moves(*at(0))

    assert seen(owner) == [(bus.node, "in")]


def test_the_definition_is_not_delivered_and_ends_with_an_empty_payload(
    broker: RunningBroker,
) -> None:
    owner, walker = Talker(broker), Talker(broker)
    name = fresh("gate")
    owner.subscribes(f"$area/{name}")
    owner.sends(f"$area/{name}", json.dumps({"area": AREA}).encode())
    assert owner.gets() == []

    walker.moves(*at(500))
    assert owner.sends(f"$area/{name}", b"") == ReasonCode.SUCCESS
    walker.moves(*at(0))

    assert owner.gets() == []


def test_an_area_round_a_node_comes_over_people(broker: RunningBroker) -> None:
    owner, bus, walker = (Talker(broker) for _ in range(3))
    walker.moves(*at(0))
    bus.moves(*at(1_000))
    name = fresh("gate")
    owner.subscribes(f"$area/{name}")
    owner.sends(f"$area/{name}", json.dumps({"area": f"circle:{bus.node},200"}).encode())

    bus.moves(*at(100))

    assert (walker.node, "in") in seen(owner)


def test_readers_with_a_filter_get_what_they_ask_for_and_others_all(broker: RunningBroker) -> None:
    owner, plain, choosy, walker = (Talker(broker) for _ in range(4))
    name = fresh("gate")
    owner.sends(f"$area/{name}", json.dumps({"area": AREA}).encode())
    plain.subscribes(f"$area/{name}")
    choosy.subscribes(f"$area/{name}", properties=words(where="state = 'out'"))
    walker.moves(*at(500))

    walker.moves(*at(0))
    walker.moves(*at(500))

    assert seen(plain) == [(walker.node, "in"), (walker.node, "out")]
    assert seen(choosy) == [(walker.node, "out")]


# Places


def test_a_place_is_there_once_however_its_name_is_spelt(broker: RunningBroker) -> None:
    owner, reader = Talker(broker), Talker(broker)
    name = fresh("Phoenix Park")
    shape = json.dumps(square(LAT - 0.01, LON - 0.01)).encode()
    spelt = name.replace(" ", "%20")
    for topic in (name, spelt, name):
        assert not owner.sends(f"$place/park/{topic}", shape).failed

    def shown() -> list[str]:
        reader.subscribes("$place/#")
        topics = [m.topic for m in reader.gets() if m.retain and m.payload]
        return [topic for topic in topics if topic.endswith((name, spelt))]

    assert shown() == [f"$place/park/{name}"]
    owner.sends(f"$place/park/{spelt}", b"")
    assert shown() == []
    assert owner.wants("x", from_=f"place:{spelt}").failed


@pytest.mark.parametrize("form", ["geometry", "feature"])
def test_a_place_is_retained_and_its_name_means_it(broker: RunningBroker, form: str) -> None:
    owner, publisher, near, far = (Talker(broker) for _ in range(4))
    name = fresh("park")
    shape: dict[str, object] = square(LAT - 0.01, LON - 0.01)
    if form == "feature":
        shape = {"type": "Feature", "properties": {"x": 1}, "geometry": shape}
    payload = json.dumps(shape).encode()
    near.moves(LAT, LON)
    far.moves(LAT + 1, LON)

    assert owner.sends(f"$place/park/{name}", payload) == ReasonCode.SUCCESS

    subject = fresh("news")
    for receiver in (near, far):
        receiver.subscribes(subject)
    for area in (f"place:{name}", f"place:park/{name}"):
        publisher.says(subject, area.encode(), to=area)
    assert near.payloads() == [f"place:{name}".encode(), f"place:park/{name}".encode()]
    assert far.gets() == []
    reader = Talker(broker)
    reader.subscribes(f"$place/park/{name}")
    (message,) = reader.gets()
    assert (message.payload, message.retain) == (payload, True)


def test_a_place_that_is_taken_away_is_unknown_and_no_longer_retained(
    broker: RunningBroker,
) -> None:
    owner, publisher, receiver = (Talker(broker) for _ in range(3))
    name, subject = fresh("park"), fresh("news")
    receiver.moves(LAT, LON)
    owner.sends(f"$place/park/{name}", json.dumps(square(LAT - 0.01, LON - 0.01)).encode())
    receiver.wants(subject, from_=f"place:{name}")

    assert owner.sends(f"$place/park/{name}", b"") == ReasonCode.SUCCESS

    publisher.says(subject, b"from nowhere", at=f"{LAT},{LON}")
    assert publisher.says(subject, b"x", to=f"place:{name}").failed
    assert receiver.gets() == []
    reader = Talker(broker)
    reader.subscribes(f"$place/park/{name}")
    assert reader.gets() == []
    owner.sends(f"$place/park/{name}", json.dumps(square(LAT - 0.01, LON - 0.01)).encode())
    publisher.says(subject, b"it is back", at=f"{LAT},{LON}")
    assert receiver.payloads() == [b"it is back"]


def test_a_refused_place_is_shown_to_nobody(broker: RunningBroker) -> None:
    owner, reader = Talker(broker), Talker(broker)
    reader.subscribes("$place/here/x")

    assert owner.sends("$place/here/x", json.dumps(square(0, 0)).encode()).failed

    assert reader.gets() == []


def test_names_of_places_are_percent_encoded(broker: RunningBroker) -> None:
    owner, publisher, receiver = (Talker(broker) for _ in range(3))
    name, subject = fresh("saint/john, 50% é"), fresh("news")
    encoded = name.replace("%", "%25").replace("/", "%2F").replace(",", "%2C").replace(" ", "%20")
    receiver.moves(LAT, LON)
    receiver.subscribes(subject)
    owner.sends(f"$place/a%2Fkind/{encoded}", json.dumps(square(LAT - 0.01, LON - 0.01)).encode())

    assert publisher.says(subject, b"1", to=f"place:a%2Fkind/{encoded}") == ReasonCode.SUCCESS

    assert receiver.payloads() == [b"1"]


def test_here_is_the_smallest_place_of_a_kind(broker: RunningBroker) -> None:
    owner, publisher, receiver = (Talker(broker) for _ in range(3))
    kind, subject = fresh("kind"), fresh("news")
    owner.sends(f"$place/{kind}/large", json.dumps(square(LAT - 0.05, LON - 0.05, 0.1)).encode())
    owner.sends(f"$place/{kind}/small", json.dumps(square(LAT - 0.01, LON - 0.01)).encode())
    receiver.moves(LAT, LON)
    receiver.wants(subject, from_=f"place:here/{kind}")

    publisher.says(subject, b"in the large one", at=f"{LAT + 0.03},{LON}")
    publisher.says(subject, b"in the small one", at=f"{LAT + 0.005},{LON}")
    receiver.moves(LAT + 0.04, LON)
    publisher.says(subject, b"in the large one now", at=f"{LAT + 0.03},{LON}")

    assert receiver.payloads() == [b"in the small one", b"in the large one now"]


# Announcements


def test_an_announcement_is_the_target_until_it_ends_and_the_events_own_wins(
    broker: RunningBroker,
) -> None:
    publisher, near, far = (Talker(broker) for _ in range(3))
    subject = fresh("siren")
    publisher.moves(*at(0))
    near.moves(*at(100))
    far.moves(*at(5_000))
    for receiver in (near, far):
        receiver.subscribes(f"{subject}/#", subject)
    publisher.announces(subject, "circle:me,500")

    publisher.says(subject, b"announced")
    publisher.says(f"{subject}/x", b"another subject")
    publisher.says(subject, b"own", to=f"circle:{far.node},500")
    publisher.moves(*at(5_000))
    publisher.says(subject, b"moved")
    publisher.sends(f"$me/announcements/{subject}", b"")
    publisher.says(subject, b"everyone")

    assert near.payloads() == [b"announced", b"another subject", b"everyone"]
    assert far.payloads() == [b"another subject", b"own", b"moved", b"everyone"]


def test_an_announcement_ends_with_the_session_that_made_it(broker: RunningBroker) -> None:
    node, subject = fresh("node"), fresh("siren")
    first, second = Talker(broker, f"{node}~a"), Talker(broker, f"{node}~b")
    reader = Talker(broker)
    reader.subscribes(subject)
    first.announces(subject, "circle:0,0,5")
    second.says(subject, b"limited: they are one node")
    broker.lose(second.client)
    third = Talker(broker, f"{node}~c")
    third.says(subject, b"still limited")

    broker.lose(first.client)
    third.says(subject, b"free")

    assert reader.payloads() == [b"free"]


def test_an_announcement_outlives_a_connection_that_is_lost(broker: RunningBroker) -> None:
    name, subject = fresh("node"), fresh("siren")
    publisher, reader = Talker(broker, name, expiry=60), Talker(broker)
    reader.subscribes(subject)
    publisher.announces(subject, "circle:0,0,5")
    broker.lose(publisher.client)

    back = Talker(broker, name, clean=False, expiry=60)
    back.says(subject, b"limited")
    broker.lose(back.client)
    fresh_one = Talker(broker, name, clean=True)
    fresh_one.says(subject, b"free")

    assert reader.payloads() == [b"free"]


def test_announcements_in_one_piece_apply_in_order(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    subject = fresh("siren")
    reader.subscribes(subject)
    topic = f"$me/announcements/{subject}"
    publisher.client.send(
        Publish(subject, b"1"),
        Publish(topic, b'{"to": "circle:0,0,5"}'),
        Publish(subject, b"2"),
        Publish(topic, b""),
        Publish(subject, b"3"),
    )
    publisher.gets()

    assert reader.payloads() == [b"1", b"3"]


def test_a_second_place_of_a_name_silences_nobody(broker: RunningBroker) -> None:
    owner, other, walker, reader, late = (Talker(broker) for _ in range(5))
    name, subject = fresh("market"), fresh("news")
    owner.sends(f"$place/square/{name}", json.dumps(square(LAT - 0.01, LON - 0.01)).encode())
    walker.moves(LAT, LON)
    reader.wants(subject, from_=f"place:{name}")
    walker.subscribes(f"{subject}/aimed")
    owner.announces(f"{subject}/said", f"place:{name}")
    walker.subscribes(f"{subject}/said")
    owner.sends(f"$area/{name}", json.dumps({"area": f"place:{name}"}).encode())
    reader.subscribes(f"$area/{name}")

    # Of a kind that comes before the other in every order but that of time.
    elsewhere = json.dumps(square(10.0, 10.0)).encode()
    assert other.sends(f"$place/bar/{name}", elsewhere) == ReasonCode.SUCCESS

    walker.says(subject, b"from")
    assert owner.says(f"{subject}/aimed", b"to", to=f"place:{name}") == ReasonCode.SUCCESS
    owner.says(f"{subject}/said", b"announced")
    assert not late.wants(subject, from_=f"place:{name}").failed
    walker.says(subject, b"from again")
    walker.moves(20.0, 20.0)
    assert reader.payloads()[:2] == [b"from", b"from again"]
    assert walker.payloads() == [b"to", b"announced"]
    assert late.payloads() == [b"from again"]
    assert not late.wants(subject, from_=f"place:bar/{name}").failed
