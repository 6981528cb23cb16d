"""Redis: subscriptions as members of geo sets, found by GEOSEARCH, decided in numpy.

There is a set for every subject, topic (a line or a kind) and class of radii, so that a search
returns few false candidates. One script call searches for many events and returns the candidates
of each as one string, which costs the client almost nothing. Redis calculates on a sphere with
rounded positions, so the search radius is slightly enlarged and numpy decides.
"""

import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nearcast.benchmarks import city
from nearcast.benchmarks.city import I32, CitySubscriptions, Events, People
from nearcast.benchmarks.matching.peers import columns
from nearcast.benchmarks.matching.peers.peer import MatchedPairs, PeerKind, joined
from nearcast.benchmarks.matching.peers.server_process import (
    cpu_s,
    free_of_server,
    stop,
    wait_until,
)

CLASSES_M = (500.0, 1600.0, 5000.0)
SLACK, SLACK_M = 1.006, 2.0
EVENTS_AT_ONCE = 64

SEARCH = """
local found = {}
for i = 1, #ARGV, 5 do
  local lon, lat = ARGV[i], ARGV[i + 1]
  local ids = {}
  for _, subject in ipairs({ARGV[i + 2], 'any'}) do
    for _, topic in ipairs({ARGV[i + 3], ARGV[i + 4]}) do
      local set = subject .. ':' .. topic .. ':'
      for class, reach in ipairs(REACHES) do
        for _, id in ipairs(redis.call('GEOSEARCH', set .. class, 'FROMLONLAT', lon, lat,
                                       'BYRADIUS', reach, 'm')) do
          ids[#ids + 1] = id
        end
      end
    end
  end
  found[#found + 1] = table.concat(ids, ' ')
end
return found
"""


class RedisGeosearch:
    """A separate Redis server, on a socket in a temporary directory."""

    _subscriptions: CitySubscriptions
    _where: columns.Where

    def __init__(self) -> None:
        import redis

        self._directory = Path(tempfile.mkdtemp(prefix="nearcast-redis-"))
        socket = self._directory / "socket"
        self._closing = ExitStack()
        self._server = subprocess.Popen(
            [
                "redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "",
                "--appendonly", "no", "--dir", str(self._directory),
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(socket.exists, self._server)
            self._redis = redis.Redis(unix_socket_path=str(socket))
            self._closing.callback(self._redis.close)
            reaches = ",".join(f"'{reach * SLACK + SLACK_M}'" for reach in CLASSES_M)
            self._search = self._redis.register_script(SEARCH.replace("REACHES", f"{{{reaches}}}"))
        except BaseException:
            self.close()
            raise

    def load(self, subscriptions: CitySubscriptions, people: People) -> None:
        """Add every subscription to its set."""
        self._subscriptions = subscriptions
        self._where = columns.where(subscriptions, people)
        order, starts = self._sets()
        lat, lon = people.lat[subscriptions.owner], people.lon[subscriptions.owner]
        pipe = self._redis.pipeline(transaction=False)
        queued = 0
        for rows in np.split(order, starts[1:]):
            values = np.column_stack([lon[rows], lat[rows]]).tolist()
            arguments = [part for (x, y), row in zip(values, rows.tolist(), strict=True)
                         for part in (x, y, row)]  # fmt: skip
            pipe.geoadd(self._set_of(int(rows[0])), arguments)
            queued += len(rows)
            if queued > 20_000:
                pipe.execute()
                queued = 0
        pipe.execute()

    def match(self, events: Events, first: int, last: int) -> MatchedPairs:
        """Search for EVENTS_AT_ONCE events per call, then filter the candidates of each event."""
        parts: list[tuple[int, I32]] = []
        x, y, z = columns.points(events.lat[first:last], events.lon[first:last])
        for start in range(first, last, EVENTS_AT_ONCE):
            some = slice(start, min(last, start + EVENTS_AT_ONCE))
            asked = zip(
                events.lon[some].tolist(), events.lat[some].tolist(),
                events.subject[some].tolist(), [f"l{v}" for v in events.line[some].tolist()],
                [f"k{v}" for v in events.kind[some].tolist()], strict=True,
            )  # fmt: skip
            answers = self._search(args=[value for row in asked for value in row])
            for i, answer in enumerate(answers, start):
                rows: I32 = np.fromstring(answer, np.int32, sep=" ")
                rows = columns.content(self._subscriptions, rows, events, i)
                rows = columns.numbers(self._subscriptions, rows, events, i)
                at = i - first
                parts.append((i, columns.near(self._where, rows, x[at], y[at], z[at])))
        return joined(parts)

    def server_cpu_s(self) -> float:
        """CPU seconds of the server."""
        return cpu_s(self._server.pid)

    def close(self) -> None:
        """Stop the server and delete its files."""
        self._closing.close()
        stop(self._server)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _sets(self) -> tuple[I32, I32]:
        s = self._subscriptions
        key = _topics(s) * (len(city.SUBJECTS) + 1) + s.subject
        key = key * len(CLASSES_M) + np.searchsorted(CLASSES_M, s.radius_m)
        order = np.argsort(key, kind="stable").astype(np.int32)
        return order, np.unique(key[order], return_index=True)[1].astype(np.int32)

    def _set_of(self, row: int) -> str:
        s = self._subscriptions
        subject = "any" if s.subject[row] == city.ANY_SUBJECT else str(s.subject[row])
        topic = f"l{s.line[row]}" if s.line[row] != city.ABSENT else f"k{s.kind[row]}"
        return f"{subject}:{topic}:{np.searchsorted(CLASSES_M, s.radius_m[row]) + 1}"


def _topics(s: CitySubscriptions) -> I32:
    by_kind = len(city.LINES) + s.kind
    return np.where(s.line != city.ABSENT, s.line, by_kind)


def _missing() -> str | None:
    if shutil.which("redis-server") is None:
        return "redis-server"
    if not find_spec("redis"):
        return "the Python package redis"
    return free_of_server()


KIND = PeerKind(
    describe="Redis GEOSEARCH, a set per subject, topic and radius class",
    start=RedisGeosearch,
    missing=_missing,
    version=lambda: _server_version() + f" (client {metadata.version('redis')})",
)


def _server_version() -> str:
    text = subprocess.run(
        ["redis-server", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return text.split("v=", 1)[-1].split()[0]
