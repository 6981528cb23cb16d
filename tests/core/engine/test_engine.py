"""The engine: what a batch of inputs does, and in which order."""

import pytest

from nearcast.core.engine.engine import Engine, EngineSettings
from nearcast.core.language import parse
from nearcast.core.model import (
    Announcement,
    Area,
    Box,
    Event,
    Position,
    Subscription,
    circle,
    parse_area,
    place,
)
from nearcast.core.model.event import Relevance
from nearcast.core.model.inputs import (
    Announced,
    ContextPatched,
    Forgot,
    Left,
    Moved,
    PlaceDefined,
    Published,
    SightSet,
    Subscribed,
    Unsubscribed,
)
from tests.core.engine_steps import engine_with, got

HERE = Position(53.35, -6.26)
NEAR = Position(53.352, -6.26)
FAR = Position(53.45, -6.26)
TOWN = Box(53.34, -6.27, 53.36, -6.25)


def event(name: str = "e1", subject: str = "news", by: str = "pub", **details: object) -> Published:
    return Published(Event(name, subject, by, 0.0, **details))  # type: ignore[arg-type]


def wants(node: str = "sub", subject: str = "#", name: str = "s1", **details: object) -> Subscribed:
    return Subscribed(Subscription(name, node, subject, **details))  # type: ignore[arg-type]


TOWN_PLACE = PlaceDefined("town", "Town", TOWN)
# (area, from where it is seen as "me"): physical and logical, absolute and relative.
AREAS = {
    "physical absolute": parse_area("circle:53.35,-6.26,500"),
    "physical relative": parse_area("circle:me,500"),
    "logical absolute": place("Town"),
    "logical relative": parse_area("place:here/town"),
}


@pytest.mark.parametrize("area", AREAS.values(), ids=list(AREAS))
def test_location_at_subscribe_time_is_where_the_publisher_is(area: Area) -> None:
    engine = engine_with(TOWN_PLACE, Moved("sub", HERE), Moved("pub", NEAR), wants(from_=area))
    assert got(engine.step([event()], 1.0)) == [("e1", "sub")]
    engine.step([Moved("pub", FAR)], 2.0)
    assert got(engine.step([event("e2")], 3.0)) == []


@pytest.mark.parametrize("area", AREAS.values(), ids=list(AREAS))
def test_location_at_publish_time_is_where_the_receiver_is(area: Area) -> None:
    engine = engine_with(TOWN_PLACE, Moved("sub", NEAR), Moved("pub", HERE), wants())
    assert got(engine.step([event(to=area)], 1.0)) == [("e1", "sub")]
    engine.step([Moved("sub", FAR)], 2.0)
    assert got(engine.step([event("e2", to=area)], 3.0)) == []


def test_inputs_apply_in_their_order_within_one_step() -> None:
    engine = engine_with(wants(from_=circle("me", 500)), Moved("sub", HERE))
    outcome = engine.step(
        [Moved("pub", NEAR), event("e1"), Moved("pub", FAR), event("e2"), Unsubscribed("s1"),
         Moved("pub", NEAR), event("e3")],
        1.0,
    )  # fmt: skip
    assert got(outcome) == [("e1", "sub")]
    assert [record.seq for record in outcome.records] == list(range(3, 10))


def test_one_copy_per_node_with_the_best_priority_and_all_names() -> None:
    engine = engine_with(
        wants(name="late", where=parse("level > 1"), relevance=Relevance((1,))),
        wants(name="urgent", where=parse("level > 2"), relevance=Relevance((2,))),
    )
    engine.matcher.priorities.set_row([0, 1], (3, 2, 1))
    (delivery,) = engine.step([event(attributes={"level": 3})], 1.0).deliveries
    assert (sorted(delivery.subscriptions), delivery.priority) == (["late", "urgent"], 2)


def test_an_announcement_moves_with_its_publisher_and_the_events_own_target_wins() -> None:
    announced = Announced(Announcement("amb", "siren", circle("me", 500)))
    engine = engine_with(announced, Moved("amb", FAR), Moved("sub", HERE), wants())
    assert got(engine.step([event("e1", "siren", "amb")], 1.0)) == []
    engine.step([Moved("amb", NEAR)], 2.0)
    assert got(engine.step([event("e2", "siren", "amb")], 3.0)) == [("e2", "sub")]
    assert got(engine.step([event("e3", "siren", "amb", to=circle(FAR, 10))], 4.0)) == []


def test_a_repeat_is_ignored_and_a_future_time_replaced() -> None:
    engine = engine_with(wants())
    first = engine.step([event("e1"), Published(Event("e2", "news", "pub", 1e9))], 1.0)
    assert got(first) == [("e1", "sub"), ("e2", "sub")]
    assert first.deliveries[1].event.time == 1.0
    assert got(engine.step([event("e1")], 2.0)) == []


def test_positions_grow_old() -> None:
    engine = Engine(EngineSettings(position_ttl_s=600.0))
    outcome = engine.step([Moved("sub", HERE), wants(from_=circle("me", 500))], 0.0)
    assert outcome.timer == 600.0
    near = event("e1", position=NEAR, at_given=True)
    assert got(engine.step([near], 599.0)) == [("e1", "sub")]
    late = engine.step([event("e2", position=NEAR, at_given=True)], 601.0)
    assert (got(late), late.node_changes[0].node) == ([], "sub")


def test_who_comes_in_later_gets_what_is_live_once() -> None:
    engine = engine_with(wants(), Moved("sub", FAR), Moved("pub", HERE))
    assert got(engine.step([event("ice", valid_s=100.0, to=circle("me", 500))], 1.0)) == []
    assert got(engine.step([Moved("sub", NEAR)], 2.0)) == [("ice", "sub")]
    assert got(engine.step([Moved("sub", FAR), Moved("sub", NEAR)], 3.0)) == []
    assert got(engine.step([wants("new", name="s2"), Moved("new", NEAR)], 4.0)) == [("ice", "new")]
    assert engine.step([], 5.0).timer == 101.0
    assert got(engine.step([wants("last", name="s3"), Moved("last", NEAR)], 102.0)) == []


def test_whoever_is_overtaken_by_a_moving_target_has_come_in() -> None:
    engine = engine_with(wants(), Moved("sub", HERE), Moved("pub", FAR))
    engine.step([event("jam", valid_s=100.0, to=circle("me", 500))], 1.0)
    assert got(engine.step([Moved("pub", NEAR)], 2.0)) == [("jam", "sub")]
    assert got(engine.step([Moved("pub", HERE)], 3.0)) == []


def test_an_object_is_replaced_by_its_next_version_and_withdrawn() -> None:
    engine = engine_with(wants(), Moved("sub", HERE))

    def bus(name: str, valid_s: float | None = None) -> Published:
        return event(name, position=HERE, at_given=True, object="bus-7", valid_s=valid_s)

    assert got(engine.step([bus("v1")], 1.0)) == [("v1", "sub")]
    assert got(engine.step([bus("v2")], 2.0)) == [("v2", "sub")]
    assert got(engine.step([wants("new", name="s2")], 3.0)) == [("v2", "new")]
    engine.step([bus("v3", valid_s=0.0)], 4.0)
    assert got(engine.step([wants("last", name="s3")], 5.0)) == []


def test_a_context_change_brings_live_events_that_now_match() -> None:
    engine = engine_with(wants(where=parse("me.role = 'medic'")))
    engine.step([event("help", retain=True)], 1.0)
    assert got(engine.step([ContextPatched("sub", {"role": "medic"})], 2.0)) == [("help", "sub")]
    assert got(engine.step([ContextPatched("sub", {"role": "medic", "x": 1})], 3.0)) == []


def test_count_looks_at_the_last_minutes_round_me_before_this_event() -> None:
    where = parse("count('alarm', 'level > 1', 1000) >= 2")
    engine = engine_with(Moved("sub", HERE), wants(subject="alarm", where=where))

    def alarm(name: str, at: Position, level: int) -> Published:
        return event(name, "alarm", position=at, at_given=True, attributes={"level": level})

    step = [alarm("a", NEAR, 2), alarm("b", FAR, 2), alarm("c", NEAR, 1), alarm("d", NEAR, 3)]
    assert got(engine.step(step, 10.0)) == []
    assert got(engine.step([alarm("e", FAR, 0)], 20.0)) == [("e", "sub")]
    assert got(engine.step([alarm("f", NEAR, 0)], 311.0)) == []


def test_what_is_hidden_is_unknown_until_it_may_be_seen() -> None:
    engine = engine_with(
        Moved("sub", HERE), Moved("pub", NEAR), ContextPatched("pub", {"role": "spy"}),
        wants(from_=circle("me", 500)), wants(name="s2", where=parse("publisher.role = 'spy'")),
        SightSet("sub", "pub", 0),
    )  # fmt: skip
    assert got(engine.step([event("e1")], 1.0)) == []
    engine.step([SightSet("sub", "pub", None)], 2.0)
    assert got(engine.step([event("e2")], 3.0)) == [("e2", "sub")]


def test_bad_input_is_refused_with_a_reason_and_changes_nothing() -> None:
    engine = engine_with(wants())
    outcome = engine.step(
        [
            event("e1", "a/#"),
            Moved("sub", Position(91.0, 0.0)),
            wants(name="s2", subject="a#"),
            wants(name="s3", from_=place("Atlantis")),
            ContextPatched("sub", {"position": [1.0]}),
            event("e2"),
        ],
        1.0,
    )
    assert [refusal.index for refusal in outcome.refusals] == [0, 1, 2, 3, 4]
    assert "latitude" in outcome.refusals[1].reason
    assert "Atlantis" in outcome.refusals[3].reason
    assert got(outcome) == [("e2", "sub")]
    assert len(outcome.records) == 1
    assert "sub" not in engine.nodes


def test_a_later_version_does_not_end_with_an_earlier_one() -> None:
    engine = Engine()
    for at, valid_s in ((0.0, 400.0), (1.0, 10_000.0), (312.0, 10_000.0)):
        here = event(f"v{at}", position=HERE, at_given=True, object="k", valid_s=valid_s)
        engine.step([here], at)
    outcome = engine.step([wants()], 401.0)
    assert got(outcome) == [("v312.0", "sub")]
    assert outcome.timer == 10_312.0


def test_a_place_that_moves_takes_its_events_along() -> None:
    elsewhere = Box(53.44, -6.27, 53.46, -6.25)
    engine = engine_with(TOWN_PLACE, wants(), Moved("sub", FAR), wants("late", name="s2"))
    assert got(engine.step([event("fair", valid_s=100.0, to=place("Town"))], 1.0)) == []
    outcome = engine.step([PlaceDefined("town", "Town", elsewhere)], 2.0)
    assert got(outcome) == [("fair", "sub")]
    assert got(engine.step([Moved("late", FAR)], 3.0)) == [("fair", "late")]


def test_a_place_that_appears_brings_what_was_published_there() -> None:
    engine = engine_with(TOWN_PLACE, wants(from_=place("Town")))
    engine.step([PlaceDefined("town", "Town", None)], 1.0)
    assert got(engine.step([event("x", position=HERE, at_given=True, retain=True)], 2.0)) == []
    assert got(engine.step([TOWN_PLACE], 3.0)) == [("x", "sub")]


def test_who_comes_back_gets_what_is_live_again() -> None:
    engine = engine_with(wants())
    assert got(engine.step([event("x", retain=True)], 1.0)) == [("x", "sub")]
    engine.step([Left("sub")], 2.0)
    assert got(engine.step([wants()], 3.0)) == [("x", "sub")]


def test_what_comes_into_sight_is_delivered() -> None:
    engine = engine_with(
        Moved("pub", HERE), SightSet("sub", "pub", 0), wants(from_=circle(HERE, 9))
    )
    assert got(engine.step([event("x", retain=True)], 1.0)) == []
    assert got(engine.step([SightSet("sub", "pub", None)], 2.0)) == [("x", "sub")]


def test_explain_completes_an_event_as_ingest_would() -> None:
    engine = engine_with(
        Moved("pub", NEAR), Moved("sub", HERE), wants(from_=circle("me", 500)),
        Announced(Announcement("pub", "news", circle(FAR, 10))),
    )  # fmt: skip
    (verdict,) = engine.explain(Event("e", "news", "pub", 0.0), "sub")
    assert [step.step for step in verdict.steps] == ["subject", "from", "to"]
    assert not verdict.passed


@pytest.mark.parametrize(
    "bad",
    [
        {"valid_s": float("nan")},
        {"valid_s": -1.0},
        {"position": Position(999.0, 0.0), "at_given": True},
        {"attributes": {"x": float("nan")}},
    ],
)
def test_numbers_that_mean_nothing_are_refused(bad: dict[str, object]) -> None:
    engine = engine_with(wants())
    details: dict[str, object] = {"at_given": False, **bad}
    outcome = engine.step([Published(Event("e", "news", "pub", 0.0, **details))], 1.0)  # type: ignore[arg-type]
    assert (len(outcome.refusals), got(outcome)) == (1, [])


def test_a_session_that_ends_leaves_what_is_known_of_its_node() -> None:
    engine = engine_with(
        Moved("sub", HERE), wants(), Announced(Announcement("sub", "news", circle(FAR, 10)))
    )
    engine.step([Left("sub")], 1.0)
    assert got(engine.step([event()], 2.0)) == []
    assert engine.position("sub") == HERE
    assert engine.announcements == {}


def test_forgetting_ends_everything_of_a_node() -> None:
    engine = engine_with(Moved("sub", HERE), ContextPatched("sub", {"a": 1}), wants())
    engine.step([event("x", by="sub", retain=True), Left("sub"), Forgot("sub")], 1.0)
    assert engine.nodes == {}
    assert got(engine.step([wants("late")], 2.0)) == []
    engine.step([Left("late")], 2.0)
    assert got(engine.step([event()], 2.0)) == []
    statistics = engine.matcher.statistics()
    assert (statistics["subscriptions"], statistics["nodes"]) == (0, 0)


def test_explain_names_the_step_that_failed() -> None:
    engine = engine_with(
        Moved("sub", HERE), wants(where=parse("speed > 5"), from_=circle("me", 500))
    )
    far = Event("e", "news", "pub", 0.0, {"speed": 9}, FAR, True)
    (verdict,) = engine.explain(far, "sub")
    assert (verdict.passed, verdict.steps[-1].step) == (False, "from")
    slow = Event("e", "news", "pub", 0.0, {}, NEAR, True)
    (verdict,) = engine.explain(slow, "sub")
    assert verdict.steps[-1].why == "the filter is unknown: speed is unknown, wants > 5"
