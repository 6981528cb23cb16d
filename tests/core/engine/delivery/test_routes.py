"""Routes agree with the engine's own decisions, and shared groups give each event once."""

from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.engine.engine import Engine
from nearcast.core.language import parse
from nearcast.core.model import Event, Subscription
from nearcast.core.model.inputs import (
    Input,
    Left,
    Presence,
    Published,
    Subscribed,
    Unsubscribed,
)

levels = st.sampled_from(("a", "b", "c"))
subjects = st.lists(levels, min_size=1, max_size=3).map("/".join) | st.just("$x/a")
patterns = st.lists(levels | st.just("+"), min_size=1, max_size=3).map("/".join).flatmap(
    lambda pattern: st.sampled_from((pattern, f"{pattern}/#"))
) | st.just("#")
sessions = st.sampled_from(("ann", "ann~2", "bob"))
subscribed = st.builds(
    lambda session, name, pattern, where, no_local: Subscribed(
        Subscription(
            f"{session}:{name}", session.partition("~")[0], pattern,
            parse("kind = 'car'") if where else None, no_local=no_local, session=session,
        )
    ),
    sessions, st.sampled_from("xyz"), patterns, st.sampled_from((False, False, False, True)),
    st.booleans(),
)  # fmt: skip
changes: st.SearchStrategy[Input] = (
    subscribed
    | st.builds(lambda s, n: Unsubscribed(f"{s}:{n}"), sessions, st.sampled_from("xyz"))
    | st.builds(lambda s: Left(s.partition("~")[0], s), sessions)
)


@given(st.lists(st.lists(changes, max_size=3), max_size=8), st.lists(subjects, max_size=4))
def test_a_route_leads_to_those_who_match(steps: list[list[Input]], asked: list[str]) -> None:
    engine = Engine()
    count = 0
    for inputs in steps:
        engine.step(inputs, 0.0)
        for subject in asked:
            route = engine.route("ann", subject)
            if route is None:
                continue
            assert route.valid
            count += 1
            outcome = engine.step([Published(Event(str(count), subject, "ann", 0.0))], 0.0)
            expected = {each.owner: set(each.subscriptions) for each in outcome.deliveries}
            found = {
                each.owner: {one.id for one in each.subscriptions}
                for each in route.without("ann").recipients
            }
            assert found == expected


@given(st.lists(changes, max_size=8), subjects, st.lists(changes, min_size=1, max_size=3))
def test_a_route_that_may_have_changed_is_no_longer_valid(
    before: list[Input], subject: str, after: list[Input]
) -> None:
    engine = Engine()
    engine.step(before, 0.0)
    route = engine.route("ann", subject)
    engine.step(after, 0.0)
    now = engine.route("ann", subject)
    if route is not None and route.valid:
        assert now is not None
        assert sorted(each.owner for each in now.recipients) == sorted(
            each.owner for each in route.recipients
        )


def shared(session: str, group: str = "g") -> Subscribed:
    return Subscribed(Subscription(f"{session}:s", session, "job/#", group=group))


def owners(engine: Engine, count: int) -> list[str]:
    found = []
    for i in range(count):
        outcome = engine.step([Published(Event(f"{engine.seq}-{i}", "job/1", "boss", 0.0))], 0.0)
        found += [delivery.owner for delivery in outcome.deliveries]
    return found


def test_members_of_a_group_take_turns() -> None:
    engine = Engine()
    engine.step([shared("ann"), shared("bob"), shared("cat")], 0.0)
    assert sorted(owners(engine, 6)) == ["ann", "ann", "bob", "bob", "cat", "cat"]


def test_two_groups_get_a_copy_each_and_so_does_a_plain_subscription() -> None:
    engine = Engine()
    plain = Subscribed(Subscription("ann:p", "ann", "job/1"))
    engine.step([shared("ann"), shared("bob", "other"), plain], 0.0)
    assert sorted(owners(engine, 1)) == ["ann", "ann", "bob"]


def test_a_member_that_is_away_is_passed_over_while_another_is_there() -> None:
    engine = Engine()
    engine.step([shared("ann"), shared("bob"), Presence("bob", True)], 0.0)
    assert owners(engine, 4) == ["bob"] * 4
    engine.step([Presence("bob", False)], 0.0)
    assert set(owners(engine, 4)) == {"ann", "bob"}


def test_a_session_takes_only_its_own_subscriptions_along() -> None:
    engine = Engine()
    one = Subscribed(Subscription("1", "ann", "#", session="ann~1"))
    two = Subscribed(Subscription("2", "ann", "#", session="ann~2"))
    engine.step([one, two, Left("ann", "ann~1")], 0.0)
    assert list(engine.subscriptions) == ["2"]


def test_what_is_kept_out_of_the_log_has_no_seq() -> None:
    from nearcast.core.engine.engine import EngineSettings

    engine = Engine(EngineSettings(unrecorded=("secret/#",)))
    outcome = engine.step(
        [Published(Event(n, s, "p", 0.0)) for n, s in (("1", "secret/a"), ("2", "open"))], 0.0
    )
    assert [(each.seq, each.input.event.subject) for each in outcome.records] == [(1, "open")]  # type: ignore[union-attr]
