"""Alternatives to Nearcast's matcher, each given the data in the form that suits it best."""

from nearcast.benchmarks.matching.peers import (
    duckdb_join,
    numpy_scan,
    postgis,
    redis_geosearch,
    strtree,
)
from nearcast.benchmarks.matching.peers.peer import MatchedPairs as MatchedPairs
from nearcast.benchmarks.matching.peers.peer import MatchingPeer as MatchingPeer
from nearcast.benchmarks.matching.peers.peer import PeerKind as PeerKind

PEERS: dict[str, PeerKind] = {
    "numpy": numpy_scan.KIND,
    "strtree": strtree.KIND,
    "strtree-python": strtree.PYTHON_KIND,
    "duckdb": duckdb_join.KIND,
    "duckdb-tuned": duckdb_join.TUNED_KIND,
    "redis": redis_geosearch.KIND,
    "postgis": postgis.KIND,
}
