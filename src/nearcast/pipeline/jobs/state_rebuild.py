"""Rebuilding state from the log, for another number of partitions or another format.

Queries with state begin again at the first row. They do not publish again what they had published
before the rebuild.
"""

import shutil
from pathlib import Path

import msgspec

from nearcast.pipeline.tables.tables import Tables

GATHER, MOVEMENT = "gather", "movement"
STATEFUL = {GATHER: {"aggregates": "time"}, MOVEMENT: {"encounters": "time", "traffic": "until"}}
"""Queries with state, the tables they write, and the time column of each."""
REBUILT = Path("checkpoints") / "rebuilt.json"


def rebuild_state(data: Path) -> dict[str, float]:
    """Make the next run rebuild all state; return the time up to which each query has published.

    Results up to that time are not published again.
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
    """Return the time up to which each query had published before its state was rebuilt."""
    path = data / REBUILT
    return msgspec.json.decode(path.read_bytes(), type=dict[str, float]) if path.exists() else {}
