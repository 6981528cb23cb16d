"""The eight services: where decides at subscribe time or at publish time, said by metres or by a
place, fixed or relative to somebody, and each from MQTT 5 and from 3.1.1."""

import json

import pytest

from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import METRES_NORTH, VERSIONS, Talker
from tests.support.running_broker import RunningBroker

LAT, LON = 53.35, -6.26
SQUARE = {
    "type": "Polygon",
    "coordinates": [
        [[-6.27, 53.345], [-6.25, 53.345], [-6.25, 53.355], [-6.27, 53.355], [-6.27, 53.345]]
    ],
}
NEAR = (LAT + 300 * METRES_NORTH, LON)
FAR = (LAT + 3_000 * METRES_NORTH, LON)

# Each area is round (LAT, LON) or is the square there. `ANCHOR` is a node that stands in it.
AREAS = {
    "physical, absolute": f"circle:{LAT},{LON},500",
    "physical, relative to me": "circle:me,500",
    "physical, relative to another": "circle:ANCHOR,500",
    "logical, absolute": "place:district/PLACE",
    "logical, absolute, without its kind": "place:PLACE",
    "logical, relative": "place:here/KIND",
}


def area(text: str, anchor: Talker) -> str:
    """An area whose names nobody else uses."""
    name, kind = fresh("place"), fresh("kind")
    if "PLACE" in text or "KIND" in text:
        chosen = kind if "KIND" in text else "district"
        payload = json.dumps(SQUARE).encode()
        assert not anchor.sends(f"$place/{chosen}/{name}", payload).failed
    return text.replace("ANCHOR", anchor.node).replace("PLACE", name).replace("KIND", kind)


@pytest.fixture(params=VERSIONS, ids=("MQTT 5", "MQTT 3.1.1"))
def pair(request: pytest.FixtureRequest, broker: RunningBroker) -> tuple[Talker, Talker, Talker]:
    """A publisher, a receiver and somebody else who stands at the middle."""
    talkers = tuple(Talker(broker, fresh("node"), request.param) for _ in range(3))
    anchor = talkers[2]
    anchor.moves(LAT, LON)
    return talkers[0], talkers[1], anchor


@pytest.mark.parametrize("kind", AREAS)
def test_location_at_subscribe_time_is_where_the_publisher_is(
    pair: tuple[Talker, Talker, Talker], kind: str
) -> None:
    publisher, receiver, anchor = pair
    receiver.moves(LAT, LON)
    receiver.wants(subject := fresh("news"), from_=area(AREAS[kind], anchor))

    publisher.says(subject, b"from nowhere")
    publisher.moves(*FAR)
    publisher.says(subject, b"from afar")
    publisher.moves(*NEAR)
    publisher.says(subject, b"from near by")

    assert receiver.payloads() == [b"from near by"]


@pytest.mark.parametrize("kind", AREAS)
def test_location_at_publish_time_is_where_the_receiver_is(
    pair: tuple[Talker, Talker, Talker], kind: str
) -> None:
    publisher, receiver, anchor = pair
    publisher.moves(LAT, LON)
    receiver.wants(subject := fresh("news"))
    target = area(AREAS[kind], anchor)

    publisher.says(subject, b"to nowhere", to=target)
    receiver.moves(*FAR)
    publisher.says(subject, b"to afar", to=target)
    receiver.moves(*NEAR)
    publisher.says(subject, b"to near by", to=target)

    assert receiver.payloads() == [b"to near by"]


@pytest.mark.parametrize("kind", [kind for kind in AREAS if "relative" in kind])
def test_what_is_relative_to_somebody_goes_along(
    pair: tuple[Talker, Talker, Talker], kind: str
) -> None:
    publisher, receiver, anchor = pair
    receiver.moves(LAT, LON)
    publisher.moves(*NEAR)
    receiver.wants(subject := fresh("news"), from_=area(AREAS[kind], anchor))
    middle = anchor if "another" in kind else receiver

    publisher.says(subject, b"while it is here")
    middle.moves(*FAR)
    publisher.says(subject, b"while it is away")
    middle.moves(LAT, LON)
    publisher.says(subject, b"once it is back")

    assert receiver.payloads() == [b"while it is here", b"once it is back"]


def test_the_event_may_say_itself_where_it_is(pair: tuple[Talker, Talker, Talker]) -> None:
    publisher, receiver, _ = pair
    publisher.moves(*FAR)
    receiver.wants(subject := fresh("news"), from_=f"circle:{LAT},{LON},500")

    publisher.says(subject, b"seen from afar", at=f"{LAT},{LON}")
    publisher.says(subject, b"and the publisher did not move")

    assert receiver.payloads() == [b"seen from afar"]


def test_a_circle_round_a_node_that_nobody_knows_holds_nobody_until_it_has_a_position(
    pair: tuple[Talker, Talker, Talker], broker: RunningBroker
) -> None:
    publisher, receiver, _ = pair
    publisher.moves(*NEAR)
    name, subject = fresh("later"), fresh("news")
    assert not receiver.wants(subject, from_=f"circle:{name},500").failed

    publisher.says(subject, b"too early")
    Talker(broker, name).moves(LAT, LON)
    publisher.says(subject, b"now it is there")

    assert receiver.payloads() == [b"now it is there"]
