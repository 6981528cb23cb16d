"""DuckDB: subscriptions and events are tables, and matching is a join.

Measured with the plain join, and with a join split by hand so that every part can be hashed. One
thread, so that it is the work of one core. DuckDB is fastest with all events in one query.
"""

from importlib import metadata
from importlib.util import find_spec

import numpy as np

from nearcast.benchmarks.city import CitySubscriptions, Events, People
from nearcast.benchmarks.matching.peers.peer import MatchedPairs, PeerKind
from nearcast.benchmarks.matching.peers.sql import matching_query, plain_query
from nearcast.benchmarks.matching.peers.tables import events_table, subscriptions_table

IN_BOX = "e.lat BETWEEN s.south AND s.north AND e.lon BETWEEN s.west AND s.east"


class DuckDbJoin:
    """An in-memory database."""

    def __init__(self, query: str = plain_query(IN_BOX)) -> None:
        import duckdb

        self._query = query

        self._db = duckdb.connect(config={"threads": 1})
        # The progress bar of a long query would be written into the output of --json.
        self._db.execute("SET enable_progress_bar = false")

    def load(self, subscriptions: CitySubscriptions, people: People) -> None:
        """Copy all subscriptions into a table."""
        self._db.register("arriving", subscriptions_table(subscriptions, people))
        self._db.execute("CREATE TABLE subscriptions AS SELECT * FROM arriving")
        self._db.unregister("arriving")

    def match(self, events: Events, first: int, last: int) -> MatchedPairs:
        """Match all events in one query."""
        self._db.register("events", events_table(events, first, last))
        found = self._db.execute(self._query).fetchnumpy()
        return MatchedPairs(np.asarray(found["event"]), np.asarray(found["subscription"]))

    def server_cpu_s(self) -> float:
        """Always 0: DuckDB runs in this process."""
        return 0.0

    def close(self) -> None:
        """Close the database."""
        self._db.close()


KIND = PeerKind(
    describe="DuckDB, one thread, all events in one join",
    start=DuckDbJoin,
    missing=lambda: None if find_spec("duckdb") else "the Python package duckdb",
    version=lambda: metadata.version("duckdb"),
)

TUNED_KIND = PeerKind(
    describe="DuckDB, one thread, the join split by hand into four that hash",
    start=lambda: DuckDbJoin(matching_query(IN_BOX)),
    missing=lambda: None if find_spec("duckdb") else "the Python package duckdb",
    version=lambda: metadata.version("duckdb"),
)
