"""kill -9 at any moment: every tick that was said to be kept is there, whole, and once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearcast.store import Enqueued, Gap, Kept, MessagePut, rows_of
from tests.support.logs.store_rows import opened

# What a broker does, as fast as it can: ticks of random size, segments, merges, drops.
BROKER_AT_WORK = """
import random, sys
from pathlib import Path
from nearcast.store import *
from tests.support.logs.store_rows import AT_ONCE, message, opened, row, session

store = opened(Path(sys.argv[1]), AT_ONCE)
chance = random.Random(int(sys.argv[2]))
if store.ticks == 0:
    store.commit([session("ann")], now=0.0)
queued = [each.number for each in store.load() if isinstance(each, Enqueued)]
print("open", flush=True)
while True:
    tick = store.ticks + 1
    rows = [row(store.seq + n, b"%d" % tick) for n in range(1, chance.randint(1, 40))]
    id, number = next(store.message_ids), next(store.queue_numbers)
    changes = [
        Kept("last", "tick", b"%d" % tick),
        Kept("last", "seq", b"%d" % (rows[-1].seq if rows else store.seq)),
        MessagePut(id, message(str(tick))),
        Enqueued("ann", number, id, 1),
    ]
    queued.append(number)
    while len(queued) > 20:
        changes.append(Dequeued("ann", queued.pop(0)))
    commit = store.commit if chance.random() < 0.8 else store.commit_unsynced
    commit(changes, RowBuffer.of(rows), now=0.0)
    print(tick, flush=True)
    if chance.random() < 0.4:
        store.roll(now=1.0)
    if chance.random() < 0.05:
        segments = store.log.segments()
        first = next((s.first for s in segments if s.first == s.last), None)
        if first is not None and segments[-1].last - first > 4:
            store.log.merge(first, segments[-1].last - 2)
    if chance.random() < 0.02:
        store.checkpoint()
"""


@pytest.mark.parametrize("seed", range(2))
def test_nothing_that_was_said_to_be_kept_is_lost_or_half_done(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for life in range(3):
        said = live_and_die(tmp_path, seed * 10 + life, chance.uniform(0.0, 0.5))
        check(tmp_path, said)


def live_and_die(data: Path, seed: int, seconds: float) -> int:
    """Run a broker for a while, kill it, and return the last tick that it said was kept."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((*sys.path, os.getcwd()))}
    broker = subprocess.Popen(
        [sys.executable, "-c", BROKER_AT_WORK, str(data), str(seed)],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert broker.stdout is not None
    assert broker.stdout.readline() == "open\n"
    time.sleep(seconds)
    broker.send_signal(signal.SIGKILL)
    lines = [line for line in broker.stdout.read().split("\n")[:-1] if line]
    broker.wait()
    broker.stdout.close()
    assert broker.returncode == -signal.SIGKILL
    return int(lines[-1]) if lines else 0


def check(data: Path, said: int) -> None:
    store = opened(data)
    assert store.problems == []
    # The kill may have come between a commit and its line, so one more may be there.
    assert said == 0 or said <= store.ticks <= said + 1
    loaded = list(store.load())
    kept = {each.key: int(each.value) for each in loaded if isinstance(each, Kept)}
    if kept:
        assert kept == {"tick": store.ticks, "seq": store.seq}
    ticks: list[int] = []
    seqs: list[int] = []
    for part in store.log.read():
        assert not isinstance(part, Gap)
        for row in rows_of(part):
            seqs.append(row.seq)
            ticks.append(int(row.payload or b"0"))
    assert seqs == list(range(1, store.seq + 1))
    assert ticks == sorted(ticks)
    bodies = {each.id: each.message for each in loaded if isinstance(each, MessagePut)}
    queue = [each for each in loaded if isinstance(each, Enqueued)]
    waiting = [int(bodies[each.message].payload) for each in queue]
    newest = store.ticks
    assert waiting == list(range(max(2, newest - 19), newest + 1))[-len(waiting) :]
    assert len(waiting) == min(20, max(0, newest - 1))
    assert len(bodies) == len(queue)
    numbers = [n for each in store.log.segments() for n in range(each.first, each.last + 1)]
    assert numbers == list(range(1, len(numbers) + 1))
    store.abandon()
