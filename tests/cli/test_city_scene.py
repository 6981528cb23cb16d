"""What is seen of a city is what its clients sent and got, and what an observer hears."""

from nearcast.cli.demo.city_drawing import FADES_S, line
from nearcast.cli.demo.city_scene import TOGETHER_S, CityScene
from nearcast.cli.demo.city_view import happening_line
from nearcast.client.receive.received import Received
from nearcast.core.model import Position
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Circle
from nearcast.simulation.movement.city import CENTRE
from nearcast.simulation.movement.city_life import CityLife


class Clock:
    time_s = 0.0

    def __call__(self) -> float:
        return self.time_s


def scene(clock: Clock) -> CityScene:
    return CityScene(CityLife(30), ("spots/#",), "city-view", clock)


def received(
    subject: str, publisher: str | None, payload: bytes = b"{}", **more: object
) -> Received:
    return Received(subject=subject, publisher=publisher, payload=payload, **{"id": "1"} | more)  # type: ignore[arg-type]


def test_copies_of_one_event_are_one_happening_and_later_ones_another() -> None:
    clock = Clock()
    seen = scene(clock)
    event = received("hazard/ice", "city-works")
    seen.note_received("ann", event)
    clock.time_s = 1.0
    seen.note_received("ben", received("hazard/ice", "city-works", priority=2))
    clock.time_s = 10.0
    seen.note_received("cleo", event)
    clock.time_s = 11.0
    seen.note_received("dara", event)
    assert [line(each).plain for each in seen.happenings] == [
        "00:00 hazard/ice city-works to 2: ann (1), ben (2)",
        "00:10 hazard/ice city-works met by 2: cleo (1), dara (1)",
    ]
    assert seen.received == 4


def test_what_the_pipeline_decides_late_is_not_met_later() -> None:
    clock = Clock()
    seen = scene(clock)
    clock.time_s = 30.0
    seen.note_received("ann", received("spots/visit", "ben", b'{"stars": 3}'))
    clock.time_s = 30.0 + TOGETHER_S + 1
    seen.note_received("cleo", received("spots/visit", "ben", b'{"stars": 3}'))
    assert not seen.happenings
    assert [line(each).plain for each in seen.found] == [
        "00:30 spots/visit ben (stars=3) to ann (1)",
        "00:33 spots/visit ben (stars=3) to cleo (1)",
    ]


def test_what_the_pipeline_publishes_is_told_in_words() -> None:
    seen = scene(Clock())
    for subject, payload in (
        ("encounters/ann/ben", b'{"a": "ann", "b": "ben", "state": "near", "distance_m": 51.7}'),
        ("encounters/ann/ben", b'{"a": "ann", "b": "ben", "state": "apart"}'),
        ("spots", b'{"people": 3, "count": 4, "attributes": {"stars": {"mean": 3.3333}}}'),
        ("traffic/7", b'{"nodes": 4, "mean_mps": 8.25, "cell": "x"}'),
    ):
        seen.note_overheard(received(subject, "$pipeline", payload))
    assert [happening_line(each).plain for each in seen.found] == [
        "00:00 encounter: ann is near ben, 51.7 m",
        "00:00 encounter: ann and ben are apart again",
        "00:00 aggregate: spots, 4 events of 3 people, stars 3.33",
        "00:00 traffic/7 nodes=4 mean_mps=8.25",
    ]
    assert seen.counts == {"encounters": 2, "spots": 1, "traffic": 1}
    # A resident that gets it too says nothing new.
    seen.note_received("ann", received("spots", "$pipeline"))
    assert len(seen.found) == 4


def test_what_visitors_publish_is_news_even_if_nobody_gets_it() -> None:
    seen = scene(Clock())
    seen.note_overheard(received("greeting", "you", b"hello"))
    seen.note_overheard(received("greeting", None, b"hello", id="2"))
    seen.note_overheard(received("bus/position", "bus-7a", id="3"))
    seen.note_overheard(received("old", "you", id="4", retain=True))
    seen.note_received("ann", received("greeting", "you", b"hello"))
    assert [line(each).plain for each in seen.happenings] == [
        "00:00 greeting you to ann (1)",
        "00:00 greeting somebody to nobody",
    ]


def test_visitors_are_who_is_not_of_the_city() -> None:
    seen = scene(Clock())
    for subject, payload in (
        ("$node/ann/online", b"true"),
        ("$node/city-view/online", b"true"),
        ("$node/a%2Fb/online", b"true"),
        ("$node/you/position", b"53.35,-6.26"),
        ("$node/them/online", b"true"),
        ("$node/them/online", b"false"),
        ("$node/gone/position", b"53.35,-6.26"),
        ("$node/gone/position", b""),
        ("$node/odd/position", b"\xff"),
    ):
        seen.note_known(received(subject, None, payload))
    assert seen.visitors == ["a/b", "you"]
    (you,) = seen.picture().nodes
    assert (you.kind, you.label, you.position) == ("absent visitor", "you", Position(53.35, -6.26))
    seen.note_known(received("$node/you/online", None, b"true"))
    assert seen.picture().nodes[0].kind == "visitor"


def test_the_picture_has_hazards_while_they_last_and_marks_while_they_are_new() -> None:
    clock = Clock()
    seen = scene(clock)
    seen.note_sent(
        Event("1", "hazard/ice", "city-works", 0.0, to=Circle(CENTRE, 250.0), valid_s=60)
    )
    seen.note_known(received("$node/ambulance/position", None, b"53.35,-6.26"))
    seen.note_known(received("$node/ann/position", None, b"53.35,-6.26"))
    seen.note_received("ann", received("hazard/ice", "city-works", position=CENTRE))
    picture = seen.picture()
    assert [ring.radius_m for ring in picture.hazards] == [250.0]
    assert len(picture.sirens) == 1
    assert [node.received for node in picture.nodes] == ["", "hazard/ice"]
    assert picture.marks == [(CENTRE, 0.0)]
    clock.time_s = FADES_S + 1.0
    assert not seen.picture().marks
    assert seen.picture().nodes[1].received == ""
    clock.time_s = 61.0
    assert not seen.picture().hazards
