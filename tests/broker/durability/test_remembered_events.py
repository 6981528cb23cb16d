"""Recent events outlive the broker: read back from its log, whatever way it ended."""

from pathlib import Path
from random import Random

import pytest

from nearcast.broker.durability.remembered_events import remembered_events
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.forms.area_text import parse_area
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Forgot, Input, Moved, Published
from nearcast.core.model.record import Record
from nearcast.store import RowBuffer, Store, record_row
from nearcast.testing import World
from nearcast.testing.virtual_disk import DiskQuality

HERE = Position(53.35, -6.26)


def kept(data: Path, values: list[Input], roll_every: int) -> tuple[Store, list[float]]:
    """A store with inputs in segments and in none yet, a second apart."""
    store = Store(data, "b")
    times = [100.0 + number for number in range(len(values))]
    for seq, (value, now) in enumerate(zip(values, times, strict=True), 1):
        store.commit([], RowBuffer.of([record_row(Record(seq, now, value), "b")]), now=now)
        if seq % roll_every == 0:
            sealed = store.log.seal()
            assert sealed is not None
            store.log.settle(sealed.write())
    return store, times


def lived(seed: int) -> list[Input]:
    draw = Random(seed)
    values: list[Input] = []
    for number in range(60):
        who = draw.choice(("ann", "bob", "cy"))
        kind = draw.random()
        if kind < 0.3:
            values.append(Moved(who, HERE))
        elif kind < 0.35:
            values.append(Forgot(who))
        elif kind < 0.6:
            to = parse_area("circle:me,500")
            aimed = Event(f"{number}", "s", who, 1.0, {}, HERE, False, to, target_at=HERE)
            values.append(Published(aimed))
        else:
            values.append(Published(Event(f"{number}", "s", who, 1.0, {}, HERE, payload=b"x")))
    return values


@pytest.mark.parametrize("seed", range(6))
def test_they_are_what_was_published_lately_and_not_forgotten(tmp_path: Path, seed: int) -> None:
    values = lived(seed)
    store, times = kept(tmp_path, values, roll_every=7 + seed)
    for since, most in ((0.0, 1_000), (130.0, 1_000), (150.5, 1_000), (1e9, 10), (0.0, 5)):
        expected: list[tuple[float, str]] = []
        for value, at in zip(values, times, strict=True):
            if isinstance(value, Published) and at >= since:
                expected.append((at, value.event.id))
            elif isinstance(value, Forgot) and at >= since:
                names = {e.event.id: e.event.publisher for e in values if isinstance(e, Published)}
                expected = [each for each in expected if names[each[1]] != value.node]
        found = remembered_events(store.log, since, most)
        if most > 100:
            assert [(at, event.id) for at, event in found] == expected
        else:
            assert len(found) <= most
            assert [(at, event.id) for at, event in found] == expected[-len(found) :][:most]
    by_id = {value.event.id: value.event for value in values if isinstance(value, Published)}
    for _, event in remembered_events(store.log, 0.0, 1_000):
        assert (event.to, event.target_at, event.position) == (
            by_id[event.id].to, by_id[event.id].target_at, HERE,
        )  # fmt: skip
    store.close()


def test_a_damaged_segment_costs_no_more_than_its_own_events(tmp_path: Path) -> None:
    values: list[Input] = [Published(Event(f"{n}", "s", "ann", 1.0)) for n in range(20)]
    store, _ = kept(tmp_path, values, roll_every=5)
    segment = store.log.segments()[1]
    path = store.log.directory / segment.name
    path.write_bytes(b"\0" * segment.bytes)
    found = [event.id for _, event in remembered_events(store.log, 0.0, 1_000)]
    assert found == [str(n) for n in range(20) if not 5 <= n < 10]
    store.close()


@pytest.mark.parametrize("power_cut", [False, True])
def test_counts_go_on_after_a_crash(power_cut: bool) -> None:
    with World(1) as world:
        broker = world.broker(disk=DiskQuality())
        ann, bob = world.client("ann"), world.client("bob")
        wish = b'{"subject": "asked", "where": "count(\'news\', \'n > 1\') = 2"}'
        ann.publish("$me/subscriptions/two", wish, qos=1)
        world.settle()
        for number in range(4):
            bob.publish("news", b'{"n": %d}' % number, qos=1)
        bob.publish("asked", b"before", qos=1)
        world.settle()
        broker.crash(power_cut=power_cut)
        world.run(2.0)
        broker.start()
        world.settle()
        ann.publish("$me/subscriptions/two", wish, qos=1)
        world.settle()
        bob.publish("asked", b"after", qos=1)
        world.settle()
        assert ann.payloads("asked") == [b"before", b"after"]
