"""Shards together decide what one engine decides alone, for each session in the same order."""

import pickle
import random
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from nearcast.pipeline.decide import plain_events, shard_merge
from nearcast.pipeline.decide import player as playing
from nearcast.pipeline.decide.decisions import decided_batches, shard_batches
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.shard_merge import ShardRows
from nearcast.store import Row
from nearcast.store.rows.snapshot_rows import inputs_from, snapshot_rows
from nearcast.testing import World, explore
from tests.pipeline.decide.random_lives import Life, cut
from tests.pipeline.decide.shard_rows import Decided, assert_same, merged, shards_of
from tests.support.logs.recorded_life import log_of_a_life, played, recorded


def in_one_piece(player: Player, batches: Iterator[pa.RecordBatch]) -> Decided:
    parts = [decided_batches("broker", *each) for each in player.decide_columns(batches)]
    return [row for part in parts for batch in part for row in batch.to_pylist()]


def of_shard(player: Player, batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    rows = ShardRows(player.shard)
    parts = player.decide_columns(batches)
    return [batch for each in parts for batch in shard_batches("broker", rows, *each)]


def compare(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decide a life whole and in shards, which begin anew from snapshots of others in between."""
    monkeypatch.setattr(plain_events, "LEAST", 3)
    for name in ("LEAST", "FIRST_AT_ONCE", "MOST_AT_ONCE"):
        monkeypatch.setattr(playing, name, 20)
    draw = random.Random(f"shards {seed}")
    monkeypatch.setattr(shard_merge, "BLOCK_SEQS", draw.choice((1, 7, 1_024)))
    rows: list[Row] = Life(seed).live(120)
    at = draw.randrange(1, len(rows))
    whole = Player("broker")
    players = [Player("broker", shard) for shard in shards_of(draw.randrange(2, 5))]
    for part in (rows[:at], rows[at:]):
        wanted = in_one_piece(whole, cut(draw, part))
        found = [batch for each in players for batch in of_shard(each, cut(draw, part))]
        assert_same(merged(found), wanted)
        assert [each.seq for each in players] == [part[-1].seq] * len(players)
        held = [set(each.engine.subscriptions) for each in players]
        assert sum(map(len, held)) == len(whole.engine.subscriptions)
        assert set().union(*held) == set(whole.engine.subscriptions)
        players = restored(draw, whole, players)


def restored(draw: random.Random, whole: Player, players: list[Player]) -> list[Player]:
    """Players of the same or of another number of shards, from some snapshot."""
    if draw.random() < 0.3:
        return [pickle.loads(pickle.dumps(each)) for each in players]
    if draw.random() < 0.3:
        parts = [whole.in_force()]
    else:
        parts = [each.in_force() for each in players]
        parts[1:] = [each.of_sessions() for each in parts[1:]]
    rows = [row for part in parts for row in snapshot_rows(part, "broker")]
    return [
        Player.restored("broker", whole.seq, inputs_from(rows, shard), shard)
        for shard in shards_of(draw.randrange(2, 5))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_shards_decide_as_a_whole_engine_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 240))
def test_in_many_lives_shards_decide_as_a_whole_engine_does(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(seed, monkeypatch)


def test_shards_decide_together_what_a_broker_recorded() -> None:
    def play_again(world: World) -> None:
        rows = log_of_a_life(world)
        count = random.Random(f"{world.seed} shards").randrange(2, 5)
        players = [Player("broker", shard) for shard in shards_of(count)]
        found = [played(each, rows) for each in players]
        assert sum(found, Counter()) == recorded(rows)

    assert explore(play_again, range(800, 812)) == 12
