"""PostGIS: subscriptions are rows with a bounding box, found through GiST indexes.

The indexes contain subject and topic as well as the box, so that one descent decides on all three.
The peer creates a cluster in a temporary directory, reachable only through a socket there, without
fsync. The server refuses to run as root; if the benchmark does, it runs as another user.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nearcast.benchmarks.city import CitySubscriptions, Events, People
from nearcast.benchmarks.matching.peers.peer import MatchedPairs, PeerKind
from nearcast.benchmarks.matching.peers.server_process import (
    cpu_s,
    free_of_server,
    stop,
    wait_until,
)
from nearcast.benchmarks.matching.peers.sql import matching_query
from nearcast.benchmarks.matching.peers.tables import events_table, subscriptions_table

SETTINGS = (
    "listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off",
    "wal_level=minimal", "max_wal_senders=0", "max_wal_size=8GB", "autovacuum=off",
    "shared_buffers=512MB", "maintenance_work_mem=512MB", "work_mem=64MB", "jit=off",
    "max_parallel_workers_per_gather=0", "max_parallel_maintenance_workers=0",
)  # fmt: skip
"""No durability, no parallel workers, and enough memory for all data."""

TABLES = """
CREATE EXTENSION postgis; CREATE EXTENSION btree_gist;
CREATE TABLE loading (
    id int, subject int, kind int, line int, speed_below float8, speed_above float8,
    severity float8, delay float8, form int, x float8, y float8, z float8, chord_squared float8,
    south float8, north float8, west float8, east float8);
"""
INDEXES = """
CREATE TABLE subscriptions AS SELECT *, ST_MakeEnvelope(west, south, east, north, 4326) AS box
    FROM loading;
DROP TABLE loading;
CREATE INDEX ON subscriptions USING gist (line, subject, box) WHERE line IS NOT NULL;
CREATE INDEX ON subscriptions USING gist (kind, subject, box) WHERE line IS NULL;
ANALYZE subscriptions;
"""
IN_BOX = "s.box && ST_SetSRID(ST_MakePoint(e.lon, e.lat), 4326)"
EVENTS = """
WITH events AS MATERIALIZED (SELECT * FROM unnest(
    %s::int[], %s::int[], %s::float8[], %s::float8[], %s::int[], %s::int[], %s::float8[],
    %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[]
) AS events (id, subject, lat, lon, kind, line, speed, severity, delay, x, y, z))
"""
EVENTS_AT_ONCE = 4096


class PostGis:
    """A temporary PostgreSQL cluster."""

    def __init__(self) -> None:
        import psycopg

        binaries = _binaries()
        assert binaries is not None
        user = _user()
        self._directory = Path(tempfile.mkdtemp(prefix="nearcast-postgis-"))
        data, socket = self._directory / "data", self._directory / "socket"
        socket.mkdir()
        if user is not None:
            shutil.chown(self._directory, user)
            shutil.chown(socket, user)
        self._server: subprocess.Popen[bytes] | None = None
        self._closing = ExitStack()
        try:
            subprocess.run(
                [binaries / "initdb", "-D", data, "-U", "nearcast", "-A", "trust", "-E", "UTF8",
                 "--locale", "C", "--no-sync"],
                check=True, stdout=subprocess.DEVNULL, user=user, cwd="/",
            )  # fmt: skip
            settings = [part for setting in SETTINGS for part in ("-c", setting)]
            self._server = subprocess.Popen(
                [str(binaries / "postgres"), "-D", str(data), "-k", str(socket), *settings],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, cwd="/",
            )  # fmt: skip
            wait_until(lambda: _is_ready(data), self._server)
            self._db = psycopg.connect(
                host=str(socket), user="nearcast", dbname="postgres", autocommit=True
            )
            self._closing.callback(self._db.close)
            self._db.execute(TABLES)
        except BaseException:
            self.close()
            raise

    def load(self, subscriptions: CitySubscriptions, people: People) -> None:
        """Copy all rows, then build the indexes."""
        table = subscriptions_table(subscriptions, people)
        columns = [column.to_pylist() for column in table.columns]
        with self._db.cursor().copy("COPY loading FROM STDIN") as copy:
            for row in zip(*columns, strict=True):
                copy.write_row(row)
        self._db.execute(INDEXES)

    def match(self, events: Events, first: int, last: int) -> MatchedPairs:
        """Match EVENTS_AT_ONCE events at a time, passed as parameters of a prepared query."""
        parts = []
        cursor = self._db.cursor(binary=True)
        for start in range(first, last, EVENTS_AT_ONCE):
            table = events_table(events, start, min(last, start + EVENTS_AT_ONCE))
            values = [column.to_pylist() for column in table.columns]
            found = cursor.execute(EVENTS + matching_query(IN_BOX), values, prepare=True)
            parts.append(np.array(found.fetchall(), np.int32))
        pairs = np.concatenate([part.reshape(-1, 2) for part in parts])
        return MatchedPairs(pairs[:, 0], pairs[:, 1])

    def server_cpu_s(self) -> float:
        """CPU seconds of the cluster's processes."""
        assert self._server is not None
        return cpu_s(self._server.pid)

    def close(self) -> None:
        """Stop the cluster and delete its files."""
        self._closing.close()
        if self._server is not None:
            if self._server.poll() is None:
                self._server.send_signal(signal.SIGINT)
            stop(self._server)
        shutil.rmtree(self._directory, ignore_errors=True)


def _is_ready(data: Path) -> bool:
    # The postmaster writes its state into the last line once it accepts connections.
    note = data / "postmaster.pid"
    return note.exists() and "ready" in note.read_text()


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    named = shutil.which("initdb")
    if named is not None:
        found.append(Path(named).resolve())
    return found[-1].parent if found else None


def _user() -> str | None:
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


def _missing() -> str | None:
    binaries = _binaries()
    if binaries is None:
        return "PostgreSQL (initdb)"
    # Debian's directory, or the one next to the binaries.
    shares = Path("/usr/share/postgresql") / binaries.parent.name, binaries.parent / "share"
    controls = ("extension/postgis.control", "extension/btree_gist.control")
    if not any(all((share / control).exists() for control in controls) for share in shares):
        return "the PostgreSQL extensions postgis and btree_gist"
    if not find_spec("psycopg"):
        return "the Python package psycopg"
    return free_of_server()


def _version() -> str:
    binaries = _binaries()
    assert binaries is not None
    text = subprocess.run(
        [binaries / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return f"{text.split()[2]} (client {metadata.version('psycopg')})"


KIND = PeerKind(
    describe="PostGIS, GiST over subject, topic and box",
    start=PostGis,
    missing=_missing,
    version=_version,
)
