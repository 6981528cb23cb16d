"""A broker writes a snapshot of what is in force when a pipeline wants one, even while idle."""

from pathlib import Path

from nearcast.broker.config.settings import RecordSection, Settings
from nearcast.pipeline.decide.player import Player
from nearcast.store import (
    ask_broker,
    broker_directory,
    broker_snapshots,
    find_snapshots,
    read_snapshot,
    wanted_snapshot,
)
from tests.support.clients.person import Person
from tests.support.logs.broker_log import read_log
from tests.support.logs.recorded_life import played, recorded
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until


def test_an_idle_broker_writes_what_a_player_needs_to_go_on(tmp_path: Path) -> None:
    settings = Settings(record=RecordSection(deliveries=True), decide={"news/#": "spark"})
    broker = RunningBroker(settings, tmp_path)
    log = broker_directory(tmp_path, "local") / "log"
    try:
        ann, ben = Person("ann", broker.port), Person("ben", broker.port)
        ann.subscribe("news/#", "horn/#")
        ben.publish("horn/1", '{"loud": 1}', nc_valid="3600")
        for _ in range(2):
            known = [each.seq for each in find_snapshots(broker_snapshots(log))]
            ask_broker(log, 1)
            until(lambda: wanted_snapshot(log) is None, "the broker has answered")
            (found,) = find_snapshots(broker_snapshots(log))
            assert [found.seq] != known
            ben.publish("horn/2", '{"loud": 2}')
        ann.subscribe("horn/+")
        ann.leave()
        ben.leave()
    finally:
        broker.stop()
    head, inputs = read_snapshot(found.path)
    assert (head.broker, head.seq) == ("local", found.seq)
    assert inputs.restarted.elsewhere == (("news/#", True),)
    rows = read_log(tmp_path)
    assert rows[found.seq - 1].kind == "delivery", "it came once the log had the row"
    later = rows[found.seq :]
    assert played(Player.restored("local", head.seq, inputs), later) == recorded(later)
    assert recorded(later)
