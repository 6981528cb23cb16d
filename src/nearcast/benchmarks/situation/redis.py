"""The way with Redis: positions in a geo set, a search for every event, a channel for everyone.

As an application in Python would do it with redis-py: it takes positions and events from movers
(what that costs is not counted, which favours this way), asks with pipelines, and publishes to
the channel of everyone found. Redis calculates on a sphere and with rounded positions, so it is
asked for a little more than the radius, and receivers decide, also on content.
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
"""What comes on a channel is a list of three: that it is a message, the channel, the message."""


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
        """Let everyone come, at the positions of the first round."""
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
        """Put a position into the set."""
        self._lat[mover], self._lon[mover] = lat, lon
        self._moves.geoadd(MOVERS, (lon, lat, mover))
        self.move_messages += 2

    def settle(self) -> None:
        """Wait until all moves hold."""
        self._moves.execute()

    def tell(self, mover: int, told: Told, one: Round) -> None:
        """Take an event to be sent on."""
        lat, lon = one.lat[mover], one.lon[mover]
        placed = ToldWithPlace(told.event, told.kind, told.speed, TEXT, lat, lon)
        self._told.append((mover, lat, lon, self._encode(placed)))

    def flush(self) -> None:
        """Find who is near, and publish to their channels."""
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
        """Wait until all that was published has arrived."""
        self.crowd.take_until(self._sent, 0)

    def bytes_moved(self) -> int:
        """Bytes to and from the server so far, by its own count."""
        told = self._redis.info("stats")
        return int(told["total_net_input_bytes"]) + int(told["total_net_output_bytes"])

    def close(self) -> None:
        """Let everyone go."""
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
    """Find the messages among what came on a channel."""
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
    """What is not there to measure with."""
    if which("redis-server") is None:
        return "redis-server (Debian: apt-get install redis-server)"
    return None if find_spec("redis") else "the Python package redis"
