"""Building state anew, from the log: for another number of partitions, or another release's form.

The queries that keep state begin again with the first row. What they had published before then
they do not publish again.
"""

import shutil
from pathlib import Path

import msgspec

from nearcast.pipeline.tables.tables import Tables

GATHER, MOVEMENT = "gather", "movement"
STATEFUL = {GATHER: {"aggregates": "time"}, MOVEMENT: {"encounters": "time", "traffic": "until"}}
"""Queries that keep state, the tables that they write, and the times in them."""
REBUILT = Path("checkpoints") / "rebuilt.json"


def rebuild_state(data: Path) -> dict[str, float]:
    """Let the next run build all state anew from the log; until when each query has published.

    What was published before is not published again.
    """
    tables = Tables(data)
    until: dict[str, float] = published_until(data)
    for query, written in STATEFUL.items():
        times = [tables.newest(name, column) for name, column in written.items()]
        until[query] = max([until.get(query, 0.0), *(time for time in times if time is not None)])
    with tables.locked():
        version = tables.copied(but=[name for names in STATEFUL.values() for name in names])
        path = data / REBUILT
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(until))
        for query in STATEFUL:
            shutil.rmtree(data / "checkpoints" / query, ignore_errors=True)
        (data / "checkpoints" / "began.json").unlink(missing_ok=True)
        tables.use(version)
    return until


def published_until(data: Path) -> dict[str, float]:
    """Return until when what a query found was published before its state was built anew."""
    path = data / REBUILT
    return msgspec.json.decode(path.read_bytes(), type=dict[str, float]) if path.exists() else {}
