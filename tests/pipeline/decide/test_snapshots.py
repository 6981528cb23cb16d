"""A snapshot holds the inputs in force: from any row on, it decides as the whole log does."""

import random
from pathlib import Path

import pytest

from nearcast.core.model.event import Announcement, Event, Subscription
from nearcast.core.model.geometry.area import Circle, PlaceArea
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    AreaWatched,
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    PolicySet,
    Presence,
    Published,
    RelationshipDefined,
    Restarted,
    RulesSet,
    SightSet,
    Subscribed,
    Undelivered,
)
from nearcast.core.model.record import Record
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.pipeline.decide import player_cache
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import COMPILED, Snapshots
from nearcast.store import (
    Row,
    SnapshotHead,
    UpgradeError,
    follow,
    names_in,
    read_snapshot,
    record_row,
    write_snapshot,
)
from nearcast.testing import World, explore
from tests.support.logs.recorded_life import log_of_a_life, played


@pytest.fixture(params=["directory", "URL"])
def kept(tmp_path: Path, request: pytest.FixtureRequest) -> Snapshots:
    """The snapshots of a broker, in a directory or in an object store."""
    found = Snapshots.of(tmp_path.as_uri() if request.param == "URL" else str(tmp_path), "broker")
    (tmp_path / "brokers" / "broker" / "log").mkdir(parents=True)
    return found


def from_rows(directory: Path, player: Player) -> Player:
    """A player as another release would have it: from the rows of a snapshot alone."""
    head = SnapshotHead(player.broker, player.seq)
    found, inputs = read_snapshot(write_snapshot(directory, head, player.in_force()))
    assert found == head
    return Player.restored(found.broker, found.seq, inputs)


def test_a_player_from_a_snapshot_of_any_row_decides_as_one_that_played_all(tmp_path: Path) -> None:
    def play_on(world: World) -> None:
        rows = log_of_a_life(world)
        draw = random.Random(f"{world.seed} snapshot")
        for at in sorted(draw.sample(range(1, len(rows)), 3)):
            whole, before = Player("broker"), Player("broker")
            whole.apply(rows[:at])
            before.apply(rows[:at])
            restored = from_rows(tmp_path, before)
            assert restored.engine.nodes == whole.engine.nodes
            assert played(restored, rows[at:]) == played(whole, rows[at:]), at

    assert explore(play_on, range(700, 712)) == 12


def test_what_no_random_life_has_is_in_a_snapshot_too(tmp_path: Path) -> None:
    """Turns of groups, removed places that rules name, exceptions, unfinished requests, misses."""
    spot = Circle(Position(51.0, 5.0), 500.0)
    inside = NodeCondition(inside=PlaceArea("yard", "park"))
    sub, more = Subscription("s\0a", "s", "a"), Subscription("s\0b", "s", "b")
    live = Event("live", "b", "p", 3.0, valid_s=900.0, qos=1)
    standing: list[Input] = [
        Restarted(("old",), elsewhere=(("news/#", True),), deliveries=True),
        PlaceDefined("park", "yard", spot),
        PlaceDefined("city", "Ghent", spot, order=7),
        RulesSet((SightRule(other=inside, see=0),)),
        PlaceDefined("park", "yard", None),
        SightSet("a", "b", 1),
        PolicySet("template", "t", '{"where": "a = 1 OR b = 2"}'),
        PolicySet("matrix", "default", '{"rows": [[3, 2, 1], [2, 1, 1], [1, 1, 1]]}'),
        Moved("p", Position(51.0, 5.0)),
        Moved("p", Position(51.0, 5.001)),
        ContextPatched("p", {"kind": "bus", "friends": ["a", None]}),
        *(Subscribed(Subscription(f"{n}\0g", n, "turn", group="g")) for n in "ab"),
        *(Published(Event(f"t{n}", "turn", "q", 4.0)) for n in range(3)),
        AreaWatched("gate", "a", spot),
        RelationshipDefined("pair", "a", ("p", "q"), 2, within=5.0, of="size"),
        RelationshipDefined("far", "a", ("p", "q"), 2, beyond=5.0),
        Announced(Announcement("p", "horn", spot, session="p~1")),
        Subscribed(sub),
        Presence("s", True),
        Published(live),
        Undelivered("s", (("id\0p\0live", "live"),)),
        Presence("s", False),
        Subscribed(more, more=True),
    ]
    player = Player("broker")
    rows = [record_row(Record(seq, seq, value), "broker") for seq, value in enumerate(standing, 1)]
    player.apply(rows)
    restored = from_rows(tmp_path, player)
    first, second = player.in_force(), restored.in_force()
    for field in first.__struct_fields__:
        one, other = getattr(first, field), getattr(second, field)
        if field == "recent":
            one, other = list(one), list(other)
            assert len(one) == 4
        assert one == other, field
    assert first.turns == {("g", "turn"): 3}
    assert first.removed_places == [PlaceDefined("park", "yard", spot)]
    assert first.restarted.sessions == ("old",)
    rights = [each.engine.rights.conceals("p", Position(51.0, 5.0)) for each in (player, restored)]
    assert rights == [True, True]


def test_only_what_this_release_compiled_is_used_without_its_rows(
    kept: Snapshots, rows: list[Row]
) -> None:
    half = len(rows) // 2
    player, other = Player("broker"), Player("broker")
    player.apply(rows[:half])
    other.apply(rows[:half])
    path = kept.save(player)
    compiled = path.with_suffix(COMPILED)
    data, wanted = compiled.read_bytes(), played(other, rows[half:])
    changes = (
        data,
        data.replace(player_cache.release().encode(), b"0" * 64),
        data[: len(data) // 2],
        b"",
    )
    for content in changes:
        compiled.write_bytes(content)
        found = kept.load(half)
        assert found is not None
        assert found.seq == half
        assert played(found, rows[half:]) == wanted
    assert kept.load(half - 1) is None


def test_a_damaged_snapshot_is_passed_over_and_one_of_a_later_release_is_refused(
    kept: Snapshots,
) -> None:
    player = Player("broker")
    paths = []
    for seq in (3, 5):
        player.seq = seq
        paths.append(kept.save(player))
        paths[-1].with_suffix(COMPILED).unlink()
    content = paths[1].read_bytes()
    paths[1].write_bytes(content[: len(content) // 2])
    found = kept.load(9)
    assert found is not None
    assert found.seq == 3
    paths[0].unlink()
    assert content.count(b'"form":1') == 1
    paths[1].write_bytes(content.replace(b'"form":1', b'"form":9'))
    with pytest.raises(UpgradeError, match="has form 9; this release reads up to 1"):
        kept.load(9)


def test_old_snapshots_are_removed_unless_rows_were_dropped_for_them(kept: Snapshots) -> None:
    def seqs() -> list[int]:
        found = [name.split(".") for name in names_in(kept.own)]
        seqs = [int(stem) for stem, suffix in found if suffix == "parquet"]
        assert seqs == [int(stem) for stem, suffix in found if f".{suffix}" == COMPILED]
        return seqs

    player = Player("broker")
    for seq in range(1, 6):
        player.seq = seq
        kept.save(player)
    assert seqs() == [3, 4, 5]
    follow(kept.log, 4)
    for seq in range(6, 9):
        player.seq = seq
        kept.save(player)
    assert seqs() == [4, 5, 6, 7, 8]
    follow(kept.log, 7)
    player.seq = 9
    kept.save(player)
    assert seqs() == [7, 8, 9]
    assert (kept.newest(), kept.newest(8), kept.newest(6)) == (9, 8, 0)
