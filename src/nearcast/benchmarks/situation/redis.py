"""The Redis approach: positions in a geo set, a search per event, a channel per mover.

Implemented as a Python application with redis-py: it receives positions and events from movers
(that cost is not counted, which favours Redis), sends searches in pipelines, and publishes to the
channel of every mover found. Redis calculates on a sphere with rounded positions, so the search
radius is slightly enlarged, and receivers decide on distance and content.
"""

import socket
from importlib.util import find_spec
from shutil import which

import msgspec

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.situation.city import Journey, Round
from nearcast.benchmarks.situation.clients import STALLED_S, Crowd
from nearcast.benchmarks.situation.grid import ReceiverFilters, ToldWithPlace
from nearcast.benchmarks.situation.ways import TEXT, ClientApproach, KeepEvents, Told

MOVERS = "movers"
SLACK, SLACK_M = 1.006, 2.0
_END = b"\r\n"
_PARTS = 3
"""A message on a channel is a list of three: the word `message`, the channel, the payload."""


class RedisWay(ClientApproach):
    """GEOADD for a move; GEOSEARCH and PUBLISH for an event."""

    def __init__(self, journey: Journey, keep: KeepEvents, port: int) -> None:
        import redis

        super().__init__(journey, keep)
        self._port = port
        self._redis = redis.Redis(port=port)
        self._moves = self._redis.pipeline(transaction=False)
        self._told: list[tuple[int, float, float, bytes]] = []
        self._sockets: list[socket.socket] = []
        self._filters = ReceiverFilters(journey)
        self._lat, self._lon = list(journey.rounds[0].lat), list(journey.rounds[0].lon)
        self._reach_m = journey.scenario.radius_m * SLACK + SLACK_M
        self._sent = 0
        self._decode = msgspec.json.Decoder(ToldWithPlace).decode
        self._encode = msgspec.json.Encoder().encode

    def join(self) -> None:
        """Connect all movers and set the positions of the first round."""
        for mover in range(self.journey.scenario.movers):
            own = socket.create_connection(("127.0.0.1", self._port), STALLED_S)
            self._sockets.append(own)
            own.sendall(b"SUBSCRIBE %d\r\n" % mover)
            if not own.recv(1 << 10).startswith(b"*3"):
                raise BenchmarkError("a SUBSCRIBE was refused")
        self.crowd = Crowd(self._sockets, channel_payloads, self._heard)
        for mover, (lat, lon) in enumerate(zip(self._lat, self._lon, strict=True)):
            self.move(mover, lat, lon)
        self.settle()

    def move(self, mover: int, lat: float, lon: float) -> None:
        """Queue a GEOADD for a position."""
        self._lat[mover], self._lon[mover] = lat, lon
        self._moves.geoadd(MOVERS, (lon, lat, mover))
        self.move_messages += 2

    def settle(self) -> None:
        """Execute the queued moves."""
        self._moves.execute()

    def tell(self, mover: int, told: Told, one: Round) -> None:
        """Queue an event until `flush`."""
        lat, lon = one.lat[mover], one.lon[mover]
        placed = ToldWithPlace(told.event, told.kind, told.speed, TEXT, lat, lon)
        self._told.append((mover, lat, lon, self._encode(placed)))

    def flush(self) -> None:
        """Search for the movers near each queued event, and publish it to their channels."""
        if len(self._moves):
            self._moves.execute()
        told, self._told = self._told, []
        if not told:
            return
        pipe = self._redis.pipeline(transaction=False)
        for _, lat, lon, _ in told:
            pipe.geosearch(MOVERS, longitude=lon, latitude=lat, radius=self._reach_m, unit="m")
        found = pipe.execute()
        for (mover, _, _, payload), near in zip(told, found, strict=True):
            own = b"%d" % mover
            for other in near:
                if other != own:
                    pipe.publish(other, payload)
                    self._sent += 1
        pipe.execute()

    def wait(self, number: int) -> None:
        """Wait until all published messages have arrived."""
        self.crowd.take_until(self._sent, 0)

    def bytes_moved(self) -> int:
        """Bytes to and from the server so far, from its statistics."""
        told = self._redis.info("stats")
        return int(told["total_net_input_bytes"]) + int(told["total_net_output_bytes"])

    def close(self) -> None:
        """Close all connections."""
        if hasattr(self, "crowd"):
            self.crowd.close()
        for own in self._sockets:
            own.close()
        self._redis.close()

    def _heard(self, mover: int, payloads: list[bytes]) -> None:
        decode = self._decode
        told = [decode(payload) for payload in payloads]
        kept = self._filters.keep(mover, self._lat[mover], self._lon[mover], told)
        if kept:
            self.keep(mover, kept)


def channel_payloads(data: bytes, payloads: list[bytes]) -> tuple[int, int]:
    """Parse the payloads of messages on a channel (see `Parse`)."""
    used = at = 0
    while True:
        at = data.find(_END, used) + len(_END)
        for _ in range(_PARTS):
            size_end = data.find(_END, at)
            if at < len(_END) or size_end < 0:
                return used, 0
            start = size_end + len(_END)
            end = start + int(data[at + 1 : size_end])
            at = end + len(_END)
            if at > len(data):
                return used, 0
        payloads.append(data[start:end])
        used = at


def missing() -> str | None:
    """The missing program or package; None if nothing is missing."""
    if which("redis-server") is None:
        return "redis-server (Debian: apt-get install redis-server)"
    return None if find_spec("redis") else "the Python package redis"
