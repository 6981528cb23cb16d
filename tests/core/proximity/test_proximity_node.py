"""The node's state machine, message by message."""

from itertools import count

import pytest
from msgspec.structs import replace

from nearcast.core.model import ModelError, circle
from nearcast.core.model.inputs import Announced, Moved, NodeExpired, Published, Unannounced
from nearcast.core.proximity.discovery.event_type import EventType, event_type
from nearcast.core.proximity.discovery.group_id import hashed
from nearcast.core.proximity.discovery.proximity import proximity
from nearcast.core.proximity.errors import AdmissionError, EventTypeError
from nearcast.core.proximity.messages import Beacon, EventMessage, Holdings, Message, Request
from nearcast.core.proximity.proximity_node import ProximityNode
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.core.proximity.step import ProximityStep
from tests.support.radio_field import CENTRE, at_m

SIREN = event_type("siren", {"lane": int}, validity=10)
AREA = circle("me", 500)


def producer(settings: ProximitySettings | None = None) -> tuple[ProximityNode, Beacon]:
    node = ProximityNode("p", settings)
    node.move(CENTRE, 0.0)
    return node, beacon_in(node.announce(SIREN, AREA, 0.0))


def consumer(east_m: float = 100.0, settings: ProximitySettings | None = None) -> ProximityNode:
    node = ProximityNode("c", settings)
    node.move(at_m(east_m), 0.0)
    node.subscribe("s", "siren", 0.0)
    return node


def messages(step: ProximityStep) -> list[Message]:
    return [send.message for send in step.sends]


def beacon_in(step: ProximityStep) -> Beacon:
    (found,) = (each for each in messages(step) if isinstance(each, Beacon))
    return found


def raised(node: ProximityNode, lane: int, now: float) -> EventMessage:
    _, step = node.raise_event("siren", {"lane": lane}, now)
    (found,) = (each for each in messages(step) if isinstance(each, EventMessage))
    return found


def published(step: ProximityStep) -> list[object]:
    return [each.event.attributes["lane"] for each in step.inputs if isinstance(each, Published)]


def test_a_beacon_is_a_move_and_an_announcement_and_the_group_is_joined() -> None:
    _, beacon = producer()
    node = consumer()
    step = node.receive(beacon, 0.1)
    assert step.joins == node.groups
    assert len(step.joins) == 1
    moved, announced = step.inputs
    assert moved == Moved("p", CENTRE)
    assert isinstance(announced, Announced)
    assert announced.announcement.to == circle("p", 500)


def test_who_did_not_subscribe_does_not_join_but_passes_the_beacon_on() -> None:
    _, beacon = producer()
    node = ProximityNode("c")
    node.move(at_m(100), 0.0)
    step = node.receive(beacon, 0.1)
    assert step.joins == []
    assert messages(step) == [beacon]
    assert node.subscribe("s", "#", 0.2).joins


def test_who_is_outside_neither_learns_nor_passes_on() -> None:
    _, beacon = producer()
    step = consumer(600).receive(beacon, 0.1)
    assert step == ProximityStep()


def test_an_event_is_delivered_and_passed_on_once() -> None:
    source, beacon = producer()
    node = consumer()
    node.receive(beacon, 0.1)
    message = raised(source, 2, 0.2)
    step = node.receive(message, 0.3)
    assert published(step) == [2]
    assert messages(step) == [message]
    assert node.receive(message, 0.4) == ProximityStep()
    assert source.receive(message, 0.4) == ProximityStep()


def test_in_a_proximity_within_range_nothing_is_passed_on() -> None:
    source, _ = producer()
    beacon = beacon_in(source.announce(SIREN, circle("me", 200), 0.0))
    node = consumer()
    node.receive(beacon, 0.1)
    message = raised(source, 2, 0.2)
    assert not message.hops
    assert messages(node.receive(message, 0.3)) == []


def test_a_stationary_proximity_is_left_by_moving_out() -> None:
    source = ProximityNode("p")
    source.move(CENTRE, 0.0)
    beacon = beacon_in(source.announce(SIREN, circle((CENTRE.lat, CENTRE.lon), 500), 0.0))
    node = consumer()
    joins = node.receive(beacon, 0.1).joins
    step = node.move(at_m(600), 1.0)
    assert step.leaves == joins
    assert Unannounced("p", "siren") in step.inputs
    assert node.groups == []


def test_a_mobile_proximity_is_left_when_it_tells_that_it_has_gone() -> None:
    source, beacon = producer()
    node = consumer()
    joins = node.receive(beacon, 0.1).joins
    source.move(at_m(900), 2.0)
    later = beacon_in(source.elapse(2.0 + source.settings.beacon_most_s))
    step = node.receive(later, later.time)
    assert step.leaves == joins
    assert node.discovered == []


def test_a_mobile_proximity_that_falls_silent_expires() -> None:
    _, beacon = producer()
    node = consumer()
    joins = node.receive(beacon, 0.1).joins
    assert node.wake_at == 0.1 + 3 * beacon.period_s
    step = node.elapse(node.wake_at)
    assert step.leaves == joins
    assert node.counts.expired == 1


def test_the_group_stays_the_same_while_the_producer_moves() -> None:
    source, beacon = producer()
    node = consumer()
    (group,) = node.receive(beacon, 0.1).joins
    source.move(at_m(150), 3.0)
    later = beacon_in(source.elapse(5.0))
    step = node.receive(later, 5.1)
    assert (step.joins, step.leaves, node.groups) == ([], [], [group])
    assert step.inputs[0] == Moved("p", at_m(150))


def test_the_end_of_an_announcement_is_told() -> None:
    source, beacon = producer()
    node = consumer()
    joins = node.receive(beacon, 0.1).joins
    ended = beacon_in(source.unannounce("siren", 1.0))
    step = node.receive(ended, 1.1)
    assert step.leaves == joins
    # A copy of an earlier beacon that comes late does not bring it back.
    assert node.receive(beacon, 1.2) == ProximityStep()


def test_an_event_of_a_colliding_group_is_discarded() -> None:
    texts: dict[int, str] = {}
    area = proximity(AREA, CENTRE)
    for number in count():
        subject = f"subject/{number}"
        group = hashed(f"{EventType(subject).text};{area.text}")
        if group in texts:
            break
        texts[group] = subject
    one, other = texts[group], subject
    sources = [ProximityNode(name) for name in ("p", "q")]
    node = ProximityNode("c")
    node.move(at_m(100), 0.0)
    node.subscribe("s", one, 0.0)
    events = []
    for source, name in zip(sources, (one, other), strict=True):
        source.move(CENTRE, 0.0)
        node.receive(beacon_in(source.announce(EventType(name), AREA, 0.0)), 0.1)
        _, step = source.raise_event(name, {}, 0.2)
        events += [each for each in messages(step) if isinstance(each, EventMessage)]
    assert events[0].group == events[1].group == group
    assert node.groups == [group]
    # The subject that nobody here subscribed to is dropped by the engine's subscriptions; one of a
    # producer that is not known in this group, here already.
    forged = replace(events[1], producer="r", number=7)
    step = node.receive(forged, 0.3)
    assert step == ProximityStep()
    assert node.counts.collisions == 1
    mistyped = replace(events[0], subject=other, number=8)
    assert node.receive(mistyped, 0.3) == ProximityStep()
    assert node.counts.collisions == 2


def test_an_event_that_does_not_have_its_type_is_discarded() -> None:
    source, beacon = producer()
    node = consumer()
    node.receive(beacon, 0.1)
    message = replace(raised(source, 2, 0.2), payload=b'{"lane":"two"}')
    assert node.receive(message, 0.3) == ProximityStep()
    assert node.counts.mistyped == 1


def test_an_outdated_event_is_neither_delivered_nor_passed_on() -> None:
    source, beacon = producer()
    node = consumer()
    message = raised(source, 2, 0.2)
    node.receive(replace(beacon, time=10.0), 10.0)
    assert node.receive(message, 10.3) == ProximityStep()
    assert node.counts.outdated == 1


def test_an_event_past_its_deadline_is_dropped_although_it_is_valid() -> None:
    urgent = event_type("siren", {"lane": int}, validity=10, deadline=1)
    source = ProximityNode("p")
    source.move(CENTRE, 0.0)
    node = consumer()
    node.receive(beacon_in(source.announce(urgent, AREA, 0.0)), 0.1)
    assert published(node.receive(raised(source, 1, 0.2), 1.0)) == [1]
    assert node.receive(raised(source, 2, 0.2), 1.5) == ProximityStep()


def test_gossip_spares_far_members_and_never_near_ones() -> None:
    settings = ProximitySettings(gossip_share=0.8)
    source, beacon = producer(settings)
    forwarded = {100.0: 0, 400.0: 0}
    for east_m in forwarded:
        for number in range(200):
            node = ProximityNode(f"c{number}", settings)
            node.move(at_m(east_m), 0.0)
            node.subscribe("s", "siren", 0.0)
            node.receive(beacon, 0.1)
            source.settings = ProximitySettings(type_share=1.0)
            node.receive(EventMessage(
                node.groups[0], "p", 1, number + 1, number + 1, "siren", 0.2,
                (CENTRE.lat, CENTRE.lon), 1.0, True, b'{"lane":1}',
            ), 0.3)  # fmt: skip
            forwarded[east_m] += node.counts.events_forwarded
    assert forwarded[100.0] == 200
    assert 130 < forwarded[400.0] < 185


def test_types_of_one_subject_must_agree() -> None:
    _, beacon = producer()
    node = consumer()
    node.receive(beacon, 0.1)
    other = event_type("siren", {"lane": str})
    with pytest.raises(EventTypeError, match="one structure"):
        node.announce(other, AREA, 0.2)
    node.receive(replace(beacon, producer="q", type=other), 0.3)
    assert node.counts.conflicts == 1
    assert [each.beacon.producer for each in node.discovered] == ["p"]


def test_a_share_of_the_channel_is_not_exceeded() -> None:
    settings = ProximitySettings(channel_bytes_s=10_000)
    source, beacon = producer(settings)
    node = consumer(settings=settings)
    node.receive(beacon, 0.1)
    for _ in range(15):
        source.raise_event("siren", {"lane": 1}, 0.2)
    with pytest.raises(AdmissionError, match="raise it again in"):
        source.raise_event("siren", {"lane": 1}, 0.2)
    # Who keeps to no share is not heard beyond it.
    for number in range(1_000, 1_500):
        node.receive(replace(raised_by(beacon), number=number), 0.3)
    assert node.counts.delivered < 40
    assert node.counts.over_share > 400


def raised_by(beacon: Beacon) -> EventMessage:
    group = hashed(f"{SIREN.text};{proximity(AREA, CENTRE).text}")
    return EventMessage(
        group, beacon.producer, 1, 1, 1, "siren", 0.2, beacon.naval, 1.0, True, b'{"lane":1}'
    )


def test_the_most_urgent_of_what_waits_is_sent_first() -> None:
    settings = ProximitySettings(channel_bytes_s=4_000, node_share=1.0, type_share=1.0, burst_s=0.1)
    source = ProximityNode("p", settings)
    source.move(CENTRE, 0.0)
    for priority, subject in ((3, "low"), (1, "high")):
        source.announce(event_type(subject, priority=priority), circle("me", 100), 0.0)
    sent = []
    for subject in ("low", "high"):
        for _ in range(8):
            _, step = source.raise_event(subject, {"fill": "x" * 80}, 0.0)
            sent += messages(step)
    for tick in range(1, 200):
        sent += messages(source.elapse(tick * 0.05))
    subjects = [each.subject for each in sent if isinstance(each, EventMessage)]
    assert subjects.index("high") < 8
    first_high = subjects.index("high")
    assert subjects[first_high : first_high + 8] == ["high"] * 8


def test_a_proximity_that_a_consumer_seeks_reaches_producers_beyond_their_own() -> None:
    source = ProximityNode("p")
    source.move(CENTRE, 0.0)
    source.announce(SIREN, circle("me", 50), 0.0)
    node = consumer(150)
    seek = beacon_in(node.seek("siren", circle("me", 300), 0.0))
    source.receive(seek, 0.1)
    _, step = source.raise_event("siren", {"lane": 3}, 0.2)
    (wide,) = (
        each
        for each in messages(step)
        if isinstance(each, EventMessage) and each.group in node.groups
    )
    (event,) = (
        each.event for each in node.receive(wide, 0.3).inputs if isinstance(each, Published)
    )
    assert event.to == circle("c", 300)
    # Another consumer there did not ask for it: it passes on, and delivers nothing.
    other = ProximityNode("d")
    other.move(at_m(140), 0.0)
    other.subscribe("s", "siren", 0.0)
    other.receive(seek, 0.1)
    step = other.receive(wide, 0.3)
    assert published(step) == []


def test_fast_movers_and_small_proximities_need_more_beacons() -> None:
    def period_s(radius_m: float, speed_mps: float) -> float:
        node = ProximityNode("p")
        node.move(CENTRE, 0.0, speed_mps)
        return beacon_in(node.announce(SIREN, circle("me", radius_m), 0.0)).period_s

    assert period_s(40, 10) < period_s(80, 10) < period_s(80, 0)
    assert period_s(1, 50) == ProximitySettings().beacon_least_s
    assert period_s(50_000, 0) == ProximitySettings().beacon_most_s


def test_without_a_position_nothing_can_be_announced_or_raised() -> None:
    node = ProximityNode("p")
    with pytest.raises(ModelError, match="no position yet"):
        node.announce(SIREN, AREA, 0.0)
    node.move(CENTRE, 0.0)
    with pytest.raises(ModelError, match="is not announced"):
        node.raise_event("siren", {"lane": 1}, 0.0)


def test_what_is_kept_is_bounded() -> None:
    settings = ProximitySettings(proximities_most=20, announcements_most=5, seen_most=50)
    node = consumer(settings=settings)
    _, beacon = producer()
    for number in range(200):
        another = event_type(f"siren/{number}")
        node.receive(replace(beacon, number=number + 1, type=another), 0.1)
        node.receive(replace(beacon, producer=f"p{number}", type=another), 0.1)
    assert len(node.discovered) <= 20
    assert sum(each.beacon.producer == "p" for each in node.discovered) <= 5


def test_what_is_announced_again_is_heard_at_once_and_goes_on_counting() -> None:
    ordered = event_type("siren", {"lane": int}, order="producer")
    source, node = ProximityNode("p"), consumer()
    source.move(CENTRE, 0.0)
    for number in range(1, 4):
        now = float(number)
        node.receive(beacon_in(source.announce(ordered, AREA, now)), now)
        assert published(node.receive(raised(source, number, now), now)) == [number]
        node.receive(beacon_in(source.unannounce("siren", now)), now)
        assert node.discovered == []


def test_who_overheard_a_beacon_outside_knows_the_proximity_on_entering() -> None:
    _, beacon = producer()
    node = consumer(600)
    node.receive(beacon, 0.1)
    step = node.move(at_m(400), 0.2)
    assert step.joins == node.groups
    assert len(node.discovered) == 1
    # It expires as if it had been heard inside.
    node.elapse(node.wake_at)
    assert node.discovered == []
    assert node.wake_at > 0.1 + 3 * beacon.period_s


def test_an_overheard_beacon_counts_for_a_while_only() -> None:
    _, beacon = producer()
    late, plain = consumer(600), consumer(600, ProximitySettings(overhears=False))
    for node in (late, plain):
        node.receive(beacon, 0.1)
    assert late.move(at_m(400), 1.0 + 3 * beacon.period_s).joins == []
    assert plain.move(at_m(400), 0.2).joins == []


def test_an_event_from_the_future_moves_nothing() -> None:
    source, beacon = producer()
    node = consumer()
    node.receive(beacon, 0.1)
    far = at_m(5_000)
    message = replace(raised(source, 1, 0.2), time=100.0, naval=(far.lat, far.lon))
    assert node.receive(message, 0.3) == ProximityStep()
    assert published(node.receive(raised(source, 2, 0.4), 0.5)) == [2]


def test_a_node_that_spreads_over_many_types_is_bounded_all_the_same() -> None:
    generous = ProximitySettings(channel_bytes_s=1e9, node_share=1.0, type_share=1.0)
    strict = ProximitySettings(channel_bytes_s=20_000, node_share=0.25, type_share=0.2)
    source, node = ProximityNode("p", generous), ProximityNode("c", strict)
    source.move(CENTRE, 0.0)
    node.move(at_m(10), 0.0)
    node.subscribe("s", "#", 0.0)
    for number in range(20):
        kind = event_type(f"kind/{number}")
        node.receive(beacon_in(source.announce(kind, circle("me", 100), 0.0)), 0.1)
        for _ in range(20):
            _, step = source.raise_event(kind.subject, {}, 0.2)
            for each in messages(step):
                node.receive(each, 0.2)
    # Twice the node's share of a second: 10,000 bytes.
    assert node.counts.delivered <= 10_000 / 120
    assert node.counts.over_share >= 300


def test_what_is_true_for_long_takes_bounded_memory() -> None:
    settings = ProximitySettings(live_bytes=10_000, channel_bytes_s=1e9)
    source, beacon = producer(settings)
    node = consumer(settings=settings)
    node.receive(beacon, 0.1)
    live = 0
    for number in range(20):
        step = node.receive(raised(source, number, 0.2), 0.3)
        events = [each.event for each in step.inputs if isinstance(each, Published)]
        live += sum(event.valid_s is not None for event in events)
        assert len(events) == 1
    assert live == 4


def test_where_a_node_is_that_is_not_heard_any_more_is_unknown() -> None:
    _, beacon = producer()
    node = consumer()
    node.receive(beacon, 0.1)
    step = node.elapse(node.wake_at)
    assert step.inputs == [Unannounced("p", "siren"), Moved("p", None), NodeExpired("p")]


def test_a_flood_of_beacons_is_bounded_and_counted_and_events_go_on() -> None:
    node, honest = consumer(), ProximityNode("h")
    _, beacon = producer()
    passed = 0
    for number in range(1, 2_001):
        again = replace(beacon, number=number, time=0.001 * number, hops=True)
        step = node.receive(again, 0.001 * number)
        passed += len(messages(step))
    # A quarter of the channel, twice at once: 62,500 bytes and 31,250 a second.
    assert passed <= (62_500 + 2 * 31_250) / 240
    assert node.counts.over_share >= 1_400
    honest.move(at_m(10), 2.0)
    node.receive(beacon_in(honest.announce(SIREN, AREA, 2.0)), 2.0)
    assert published(node.receive(raised(honest, 1, 2.0), 2.0)) == [1]
    assert len(node.discovered) == 2


def test_what_was_told_or_asked_counts_once_and_for_a_moment() -> None:
    settings = ProximitySettings(recovers=True)
    source, beacon = producer(settings)
    node = consumer(settings=settings)
    node.receive(beacon, 0.0)
    raised(source, 1, 0.0)
    told = next(each for each in messages(source.elapse(5.0)) if isinstance(each, Holdings))
    (request,) = messages(node.receive(told, 5.0))
    assert isinstance(request, Request)
    assert any(isinstance(each, EventMessage) for each in messages(source.receive(request, 5.0)))
    # Recorded and sent again: at once, and when the answer could be sent again.
    for now in (5.0, 5.1, 6.0, 60.0):
        assert source.receive(request, now).sends == []
        assert node.receive(told, now).sends == []
    assert source.counts.replayed == node.counts.replayed == 4
    late = replace(request, number=9, time=0.0)
    assert source.receive(late, 5.2).sends == []


def test_under_another_name_announcements_go_on_and_nothing_of_its_own_comes_back() -> None:
    source = ProximityNode("p", node_of=lambda name: {"anon-1": "p"}.get(name, name))
    source.move(CENTRE, 0.0)
    beacon = beacon_in(source.announce(SIREN, AREA, 0.0))
    node = consumer()
    node.receive(beacon, 0.0)
    before = raised(source, 1, 0.1)
    assert published(node.receive(before, 0.1)) == [1]
    for each in messages(source.vanish(1.0)):
        node.receive(each, 1.0)
    assert node.discovered == []
    renamed = beacon_in(source.rename("anon-1", 1.0))
    assert renamed.producer == "anon-1"
    step = node.receive(renamed, 1.0)
    (announced,) = (each for each in step.inputs if isinstance(each, Announced))
    assert announced.announcement.node == "anon-1"
    after = raised(source, 2, 1.1)
    assert (after.producer, after.sequence) == ("anon-1", 1)
    assert published(node.receive(after, 1.1)) == [2]
    for each in (before, after, beacon, renamed):
        assert source.receive(each, 1.2).inputs == []
    # In its own engine it is who it was.
    _, step = source.raise_event("siren", {"lane": 3}, 1.3)
    (own,) = (each for each in step.inputs if isinstance(each, Published))
    assert own.event.publisher == "p"


def test_of_producers_that_are_known_by_an_event_alone_the_oldest_are_forgotten() -> None:
    settings = ProximitySettings(recovers=True, proximities_most=10)
    source, beacon = producer(settings)
    node, event, known = consumer(settings=settings), raised(source, 1, 0.0), set()
    for number in range(100):
        name, now = f"x{number}", 0.01 * number
        held = replace(beacon, producer=name, time=now)
        step = node.receive(replace(event, producer=name, time=now, beacon=held, hops=False), now)
        assert published(step) == [1]
        known |= {each.node for each in step.inputs if isinstance(each, Moved)}
        known -= {each.node for each in step.inputs if isinstance(each, NodeExpired)}
    assert len(known) <= 10
