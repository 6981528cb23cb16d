"""Stores what a release writes, so that later ones can be seen to open it.

`python -m tests.pipeline.release_making` lets two brokers, people and a pipeline live together
for a minute, stops them while nine people of ten are at a spot and two have met, and packs all
that they leave into `tests/pipeline/releases/VERSION`, with what is in it as JSON. It is done
once for each release, with its version in `pyproject.toml`; what is there is never made again.
Nothing in it tells of the machine: secrets and addresses are left out, paths are looked for, and
it runs in a name space of its own, because RocksDB writes the name of the host into its files.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from nearcast.core.gathering import cell_of
from nearcast.core.model.geometry.position import Position
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import Snapshots
from tests.pipeline.stored_releases import (
    ARCHIVE,
    BROKERS,
    CONTENT,
    HOST,
    QUERIES,
    RELEASES,
    SETTINGS_FILE,
    all_reached,
    content_of,
    machine_paths,
    neutralise,
    pack,
    prune,
)
from tests.support.broker_process import BrokerProcess
from tests.support.clients.person import METRE, Person
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.logs.broker_log import read_log
from tests.support.pipeline_process import PipelineProcess, variables
from tests.support.waiting import until

SETTINGS = """\
[record]
deliveries = true

[doors]
rules = "data/rules.toml"

[decide]
"news/#" = "spark"

[aggregates]
"spots/#" = "people 10 per cell 500"

[pipeline]
master = "local[2]"
memory = "1g"
shuffle_partitions = 2
encounters_m = 100
encounters_fresh_s = 3600

[spark]
"spark.sql.streaming.stateStore.minDeltasForSnapshot" = "2"
"spark.sql.streaming.stateStore.maintenanceInterval" = "1s"
"""
RULES = """\
[[sight]]
other = "node:hermit-*"
see = []

[grants."p0"]
rank = 3
"""
SPOT = cell_of(51.4416, 5.4697, 500.0)
EAST = METRE * 1.6
"""A metre in degrees of longitude there, or a bit more."""
PLACES = [
    Position(
        SPOT.centre.lat + (row - 1) * 130 * METRE, SPOT.centre.lon + (column - 1.5) * 130 * EAST
    )
    for row in range(3)
    for column in range(4)
][:10]
"""In one cell of 500 m, none within 100 m of another."""
BESIDE_P1 = Position(PLACES[1].lat, PLACES[1].lon - 20 * EAST)


def main() -> None:
    """Make what belongs to the version of `pyproject.toml`, unless it is there."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    version = tomllib.loads(project.read_text())["project"]["version"]
    release = RELEASES / version
    if (release / ARCHIVE).exists():
        sys.exit(f"{release} is there: what a release wrote stays as it is")
    if socket.gethostname() != HOST:
        again = f'hostname {HOST} && exec "$0" -m {__spec__.name}'
        os.execvp("unshare", ["unshare", "--uts", "sh", "-c", again, sys.executable])
    with (
        tempfile.TemporaryDirectory(prefix="release-") as directory,
        contextlib.chdir(directory),
    ):
        # A relative path, so that no other is written anywhere.
        data = Path("data")
        Path(SETTINGS_FILE).write_text(SETTINGS)
        live(data)
        for broker in BROKERS:
            save_player(data, broker)
        content = content_of(data)
        prune(data)
        neutralise(data)
        for path, found in machine_paths(data):
            sys.exit(f"{path} holds {found!r}, which only this machine has")
        release.mkdir(parents=True)
        pack(data, release / ARCHIVE)
        (release / CONTENT).write_text(json.dumps(content, indent=1) + "\n")
        shutil.copy(SETTINGS_FILE, release)


# Life


def live(data: Path) -> None:
    """Let everything run until there is something of all kinds, and stop it."""
    data.mkdir()
    (data / "rules.toml").write_text(RULES)
    brokers = [BrokerProcess(data, {"broker.name": name}) for name in BROKERS]
    pipeline = PipelineProcess(data)
    people: list[Person] = []
    watcher = StubbornClient("watcher")
    try:
        ports = [broker.wait_until_it_listens().port for broker in brokers]
        watcher.connect(ports[0])
        watcher.subscribe("spots", "encounters/#", "news/#")
        pipeline.wait_until_it_follows()
        _happen(data, ports, people)

        def heard() -> set[str]:
            assert pipeline.runs, pipeline.said
            watcher.listen(0.1)
            return {got.topic for got in watcher.got}

        until(lambda: {"encounters/p0/p1", "news/local"} <= heard(), "it was told")
        # A state is written whole once it has changed a few times.
        for turn in range(100):
            if all(list((data / "checkpoints" / query).rglob("*.zip")) for query in QUERIES[1:]):
                break
            people[2].move(PLACES[2])
            people[2].publish("other", f'{{"turn": {turn}}}')
            until(lambda: all_reached(data), "the pipeline has all")
        watcher.disconnect()
        for person in people:
            person.leave()
        until(lambda: all_reached(data), "the pipeline has all")
        assert pipeline.stop() == 0, pipeline.said
        for broker in brokers:
            assert broker.stop() == 0, broker.said
    finally:
        watcher.leave()
        pipeline.end()
        for broker in brokers:
            broker.end()


def _happen(data: Path, ports: Sequence[int], people: list[Person]) -> None:
    """Have rows of all kinds: the first broker hears of nodes with even numbers."""
    people += [Person(f"p{number}", ports[number % 2]) for number in range(9)]
    for person, at in zip(people, PLACES, strict=False):
        person.move(at)
    first, second = people[0], people[1]
    first.publish("$me/context", '{"kind": "bus", "size": 3}')
    near = f"circle:{PLACES[0].lat},{PLACES[0].lon},500"
    square = [[5.46, 51.43], [5.48, 51.43], [5.48, 51.45], [5.46, 51.45], [5.46, 51.43]]
    polygon = {"type": "Polygon", "coordinates": [square]}
    first.publish("$place/square/market", json.dumps(polygon))
    first.publish("$area/gate", json.dumps({"area": near, "nodes": "kind = 'bus'"}))
    first.publish("$area/gone", json.dumps({"area": near}))
    first.publish("$area/gone", "")
    first.publish("$me/announcements/horn", json.dumps({"to": "circle:me,300"}))
    first.publish("$me/announcements/bell", json.dumps({"to": "place:square/market"}))
    first.publish("$me/announcements/bell", "")
    first.subscribe("horn", nc_where="loud > 3 OR NOT kind = 'car'", nc_from="circle:me,800")
    named = json.dumps({"subject": "offers/#", "where": "price < 20", "from": near})
    second.publish("$me/subscriptions/offers", named)
    second.publish("$me/subscriptions/brief", '{"subject": "brief"}')
    second.publish("$me/subscriptions/brief", "")
    first.publish("horn", '{"loud": 5}', colour="red", nc_at="51.4416,5.4697")
    second.publish("offers/bread", '{"price": 2.5}', nc_valid="86400", nc_object="bread")
    second.publish("offers/raw", "\u00fcber", nc_to=near)
    first.publish("hazard/ice", '{"depth": 1}')
    first.publish("news/local", '{"urgency": 3}', nc_id="n1", size="2")
    stranger = Person("stranger", ports[0])
    stranger.move(Position(51.5, 5.5))
    stranger.publish("other", "who?")
    until(lambda: stranger.name in names_in(data, BROKERS[0]), "the log has the stranger")
    until(lambda: all_reached(data), "the pipeline has all")
    stranger.leave()
    forget(data, BROKERS[0], stranger.name)
    for number, person in enumerate(people):
        person.publish("spots/pub", json.dumps({"noise": 60 + number}), nc_id=f"s{number}")
    first.move(BESIDE_P1)


def forget(data: Path, broker: str, node: str) -> None:
    """Have a node forgotten."""
    command = [sys.executable, "-m", "nearcast", "forget", node, "--yes", "--data", str(data)]
    subprocess.run(command, env=variables({"broker.name": broker}), check=True, timeout=300)


def names_in(data: Path, broker: str) -> set[str | None]:
    """Return the publishers in a broker's log."""
    return {row.publisher for row in read_log(data, broker)}


def save_player(data: Path, broker: str) -> None:
    """Keep a player at the end of a broker's log, as the pipeline does after many rows."""
    player = Player(broker)
    for row in read_log(data, broker):
        player.apply([row])
        player.seq = row.seq
    Snapshots.of(str(data), broker).save(player)


if __name__ == "__main__":
    main()
