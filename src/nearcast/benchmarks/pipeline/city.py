"""The city as input of the pipeline: a broker's log of events, and a snapshot of the state before.

Subscriptions and positions come from a snapshot at the seq before the first event, as in a
pipeline that has been running.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from nearcast.benchmarks import city as cities
from nearcast.benchmarks.matching.agreement import MatchingCity
from nearcast.core.engine.engine import EngineInputs
from nearcast.core.model.context import NodeState
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.store import Row, RowBuffer, broker_directory, plain_row
from nearcast.store.log.manifest import Manifest, Whole
from nearcast.store.log.segments import write_segment

BROKER = "city"
STARTED = 1_000_000_000.0
EVENTS_A_SECOND = 1_000
SEGMENT_ROWS = 25_000
PUBLISHERS = 1_000


def standing_player(city: MatchingCity, step: Callable[[str], None]) -> Player:
    """A player that holds all positions and subscriptions of the city."""
    step("filing subscriptions")
    wanted = [
        replace(each, id=SubscriptionId(each.node, str(number)).text)
        for number, each in enumerate(
            cities.nearcast_subscriptions(city.subscriptions, 0, len(city))
        )
    ]
    places = zip(city.people.lat.tolist(), city.people.lon.tolist(), strict=True)
    nodes = [
        NodeState(f"p{number}", position=Position(lat, lon), position_at=STARTED)
        for number, (lat, lon) in enumerate(places)
    ]
    player = Player(BROKER)
    player.engine.resume(len(city), EngineInputs(subscriptions=wanted, nodes=nodes))
    player.seq = len(city)
    return player


def write_city(data: Path, city: MatchingCity, player: Player, slices: int) -> None:
    """Write a snapshot, and a log that repeats the city's events `slices` times."""
    Snapshots.of(str(data), BROKER).save(player)
    directory = broker_directory(data, BROKER) / "log"
    directory.mkdir(parents=True)
    first = player.seq + 1
    manifest = Manifest(directory, Whole(BROKER, low=1, low_seq=first))
    manifest.save()
    rows: list[Row] = []
    count = len(city.events.lat)
    columns = cities.nearcast_batch(city.events, 0, count)
    events = [columns.event(number) for number in range(count)]
    payloads = [msgspec.json.encode(event.attributes) for event in events]
    for number in range(slices * count):
        event = events[number % count]
        now = STARTED + number / EVENTS_A_SECOND / slices
        happened = replace(
            event, id=f"e{number}", publisher=f"q{number % PUBLISHERS}", time=now, attributes={},
            payload=payloads[number % count], at_given=False,
        )  # fmt: skip
        rows.append(plain_row(happened, BROKER, first + number, now))
        if len(rows) == SEGMENT_ROWS:
            manifest.append(write_segment(directory, manifest.next_number, RowBuffer.of(rows)))
            rows = []
    if rows:
        manifest.append(write_segment(directory, manifest.next_number, RowBuffer.of(rows)))
