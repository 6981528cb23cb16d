"""A replay of retained messages goes on after a crash in the middle of it."""

from pathlib import Path

import pytest

from nearcast.wire.mqtt import Publish
from tests.broker.delivery.priority_house import House

RETAINED = 900
"""More than a slice."""


def publish_all(house: House) -> None:
    house.connect("writer")
    for number in range(RETAINED):
        kept = Publish(f"kept/{number}", b"%d" % number, qos=1, retain=True, packet_id=1)
        house.send("writer", kept)


def numbers(house: House) -> list[int]:
    return [int(each) for each in house.reads("reader")]


@pytest.mark.parametrize("where", [{}, {"where": "TRUE"}])
def test_what_is_left_of_it_comes_after_a_crash_and_nothing_twice(
    tmp_path: Path, where: dict[str, str]
) -> None:
    house = House(tmp_path, queued=2_000)
    publish_all(house)
    house.connect("reader")
    house.subscribe("reader", "kept/#", qos=0, **where)
    first = numbers(house)
    assert 0 < len(first) < RETAINED
    assert house.store is not None
    house.store.abandon()

    house = House(tmp_path, queued=2_000)
    house.connect("reader", clean=False)
    house.settle()
    assert first + numbers(house) == list(range(RETAINED))
    assert house.store is not None
    house.store.abandon()

    house = House(tmp_path, queued=2_000)
    house.connect("reader", clean=False)
    assert numbers(house) == []
    assert house.store is not None
    house.store.close()


def test_messages_retained_while_it_was_away_do_not_come(tmp_path: Path) -> None:
    house = House(tmp_path, queued=2_000)
    house.connect("reader")
    house.subscribe("reader", "kept/#", qos=0)
    house.leave("reader")
    publish_all(house)
    assert house.store is not None
    house.store.abandon()

    house = House(tmp_path, queued=2_000)
    house.connect("reader", clean=False)
    assert numbers(house) == []
    assert house.store is not None
    house.store.close()
