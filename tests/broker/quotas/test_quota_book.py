"""Usage is counted per session, per user and in all, and released exactly."""

import random

import pytest

from nearcast.broker.config.settings import Limits
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.quotas.quota import QUOTAS, Resource
from nearcast.broker.quotas.quota_book import QuotaBook
from nearcast.broker.quotas.quota_usage import SessionUsage
from nearcast.store import SessionOwner
from nearcast.wire.mqtt import ReasonCode

ANN, BOB = SessionOwner("ann"), SessionOwner("bob")


def test_every_resource_has_its_quota_in_its_place() -> None:
    assert [quota.resource for quota in QUOTAS] == list(Resource)


def test_a_refusal_names_the_setting_and_the_figures() -> None:
    book = QuotaBook(Limits(subscriptions=2, all_subscriptions=5, user_share=0.6))
    first, second = book.open("a", ANN), book.open("b", ANN)
    first.add(Resource.SUBSCRIPTIONS, 2)
    more = {Resource.SUBSCRIPTIONS: 1}

    assert book.problem_with(first, more) == (
        "this session has 2 subscriptions; limits.subscriptions allows 2"
    )
    second.add(Resource.SUBSCRIPTIONS, 1)
    assert book.problem_with(second, more) == (
        "user ann has 3 subscriptions; limits.user_share allows one user 3 of the 5 of "
        "limits.all_subscriptions"
    )
    for name in ("c", "d"):
        book.open(name, BOB).add(Resource.SUBSCRIPTIONS, 1)
    assert book.problem_with(book.open("e", None), more) == (
        "there are 5 subscriptions in this broker; limits.all_subscriptions allows 5"
    )
    assert book.refusals == 3


def test_requests_of_one_tick_stay_within_the_bound_together() -> None:
    book = QuotaBook(Limits(retained=2))
    usage = book.open("a", ANN)
    book.claim(usage, "one", {Resource.RETAINED: 1})
    book.claim(usage, "one", {Resource.RETAINED: 1})
    book.claim(book.open("b", BOB), "two", {Resource.RETAINED: 1})

    with pytest.raises(RefusedError) as caught:
        book.claim(usage, "three", {Resource.RETAINED: 1})
    assert caught.value.reason is ReasonCode.QUOTA_EXCEEDED
    book.settle()
    assert book.in_all.used[Resource.RETAINED] == 0
    book.claim(usage, "three", {Resource.RETAINED: 1})


def test_what_a_client_leaves_counts_for_it_when_its_session_is_gone() -> None:
    book = QuotaBook(Limits())
    usage = book.open("a", ANN)
    usage.add(Resource.RETAINED, 3)
    usage.add(Resource.SUBSCRIPTIONS, 7)
    book.close(usage)
    book.validate_state()
    assert book.find("a") is usage
    assert usage.used[Resource.SUBSCRIPTIONS] == 0
    assert usage.user.used[Resource.RETAINED] == 3

    again = book.open("a", BOB)
    assert again is usage
    assert [(user.name, user.used[Resource.RETAINED]) for user in book.users()] == [("user bob", 3)]
    book.validate_state()


@pytest.mark.parametrize("seed", range(20))
def test_after_everything_is_withdrawn_nothing_is_in_use(seed: int) -> None:
    chance = random.Random(seed)
    book = QuotaBook(Limits())
    owners = [ANN, BOB, SessionOwner(address="10.0.0.1"), None]
    held: list[tuple[SessionUsage, Resource, int]] = []
    opened: dict[str, SessionUsage] = {}
    lasting = [Resource.RETAINED, Resource.RETAINED_BYTES, Resource.AREAS]
    for _ in range(300):
        name = f"client {chance.randrange(10)}"
        if name not in opened:
            opened[name] = book.open(name, chance.choice(owners))
        elif chance.random() < 0.1:
            book.close(opened.pop(name))
        elif held and chance.random() < 0.4:
            usage, resource, amount = held.pop(chance.randrange(len(held)))
            usage.add(resource, -amount)
            book.tidy(usage)
        else:
            amount, resource = chance.randrange(1, 9), chance.choice(lasting)
            opened[name].add(resource, amount)
            held.append((opened[name], resource, amount))
        book.settle()
        book.validate_state()
    for usage in opened.values():
        book.close(usage)
    for usage, resource, amount in held:
        usage.add(resource, -amount)
        book.tidy(usage)

    assert book.in_all.is_empty
    assert list(book.sessions()) == []
    assert list(book.users()) == []


def test_a_bound_that_is_near_is_logged_once_until_it_was_far(
    caplog: pytest.LogCaptureFixture,
) -> None:
    book = QuotaBook(Limits(retained=10, user_share=1.0))
    usage = book.open("a", ANN)
    for used, now in ((7, 0.0), (8, 1.0), (9, 100.0), (7, 200.0), (8, 201.0), (6, 300.0)):
        usage.add(Resource.RETAINED, used - usage.used[Resource.RETAINED])
        book.watch(now)
    assert len(caplog.records) == 1
    usage.add(Resource.RETAINED, 2)
    book.watch(310.0)
    assert [record.getMessage() for record in caplog.records] == [
        "a limit is near what='retained messages and live events' used=8 bound=10 "
        "setting='limits.retained'"
    ] * 2
