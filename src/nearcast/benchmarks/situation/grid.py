"""The approach with topics only: cells as topics, re-subscription on moves, receiver filters.

Implemented as a careful user would: an event is published with its position to the topic of its
cell, changes of cells are sent as one SUBSCRIBE and one UNSUBSCRIBE (more beyond MOST_FILTERS), and
the receiver decodes each event and decides on distance and content. With content filters, the kind
may be part of the topic.
"""

import math

import msgspec

from nearcast.benchmarks.load.mqtt_clients import Client
from nearcast.benchmarks.load.mqtt_frames import TOPICS
from nearcast.benchmarks.situation.cells import Cell, Cells, arrivals
from nearcast.benchmarks.situation.city import KINDS, Journey, Round
from nearcast.benchmarks.situation.clients import frame_head, publish_frame, text_field
from nearcast.benchmarks.situation.ways import TEXT, KeepEvents, MqttWay, Told
from nearcast.core.model.geometry import ellipsoid

_SUBSCRIBE, _UNSUBSCRIBE = 0x82, 0xA2
_NO_LOCAL = b"\x04"
MOST_FILTERS = 60
"""Maximum number of topic filters in one packet."""


class ToldWithPlace(Told, frozen=True, gc=False):
    """An event with its position, for receivers that decide on the distance."""

    lat: float = 0.0
    lon: float = 0.0


class GridWay(MqttWay):
    """Clients that subscribe to the cells around them, as topics."""

    def __init__(
        self, journey: Journey, keep: KeepEvents, port: int, cell_m: float, kind_in_topic: bool
    ) -> None:
        super().__init__(journey, keep, port)
        scenario, first = journey.scenario, journey.rounds[0]
        self._cells = Cells(cell_m, scenario.radius_m)
        self._kinds = journey.wishes.kinds if kind_in_topic and scenario.filtered else None
        self._decode = msgspec.json.Decoder(ToldWithPlace).decode
        self._encode = msgspec.json.Encoder().encode
        self._filters = ReceiverFilters(journey)
        self._lat, self._lon = list(first.lat), list(first.lon)
        self._box: list[Cell] = [(-1, -1)] * scenario.movers
        self._around: list[set[Cell]] = [set() for _ in range(scenario.movers)]
        self._unanswered = 0
        self._expected = [arrivals(self._cells, one, self._kinds) for one in journey.rounds]

    def join(self) -> None:
        """Connect all movers and subscribe to the cells around the positions of the first round."""
        self.connect(self._heard)
        for mover, (lat, lon) in enumerate(zip(self._lat, self._lon, strict=True)):
            self.move(mover, lat, lon)
        self.settle()

    def subscribe(self, clients: list[Client]) -> None:
        """Do nothing: `move` subscribes, with the first positions."""
        return

    def move(self, mover: int, lat: float, lon: float) -> None:
        """Change the subscriptions if the cells around the position have changed."""
        self._lat[mover], self._lon[mover] = lat, lon
        box = self._cells.box(lat, lon)
        if box == self._box[mover]:
            return
        self._box[mover] = box
        around, before = self._cells.around(box), self._around[mover]
        if around == before:
            return
        self._around[mover] = around
        for kind, wanted in ((_SUBSCRIBE, around - before), (_UNSUBSCRIBE, before - around)):
            options = _NO_LOCAL if kind == _SUBSCRIBE else b""
            topics = [self._topic(cell, mover) + options for cell in wanted]
            for start in range(0, len(topics), MOST_FILTERS):
                body = b"\0\1\0" + b"".join(topics[start : start + MOST_FILTERS])
                self.crowd.send(mover, frame_head(kind, len(body)) + body)
                self._unanswered += 1
                self.move_messages += 2

    def settle(self) -> None:
        """Wait until every SUBSCRIBE and UNSUBSCRIBE is acknowledged."""
        unanswered, self._unanswered = self._unanswered, 0
        self.crowd.take_until(0, self.crowd.answers + unanswered)

    def tell(self, mover: int, told: Told, one: Round) -> None:
        """Publish an event to the topic of its cell."""
        lat, lon = one.lat[mover], one.lon[mover]
        x, y = self._cells.cell(lat, lon)
        topic = f"{TOPICS}/{x}/{y}"
        if self._kinds is not None:
            topic = f"{topic}/{told.kind}"
        placed = ToldWithPlace(told.event, told.kind, told.speed, TEXT, lat, lon)
        self.crowd.send(mover, publish_frame(text_field(topic), self._encode(placed)))

    def expected(self, number: int) -> int:
        """Number of events delivered in a round, useful or not."""
        return self._expected[number]

    def _topic(self, cell: Cell, mover: int) -> bytes:
        if self._kinds is None:
            return text_field(f"{TOPICS}/{cell[0]}/{cell[1]}")
        return text_field(f"{TOPICS}/{cell[0]}/{cell[1]}/{KINDS[self._kinds[mover]]}")

    def _heard(self, mover: int, payloads: list[bytes]) -> None:
        decode = self._decode
        told = [decode(payload) for payload in payloads]
        kept = self._filters.keep(mover, self._lat[mover], self._lon[mover], told)
        if kept:
            self.keep(mover, kept)


class ReceiverFilters:
    """Filters by distance and content at the receiver."""

    def __init__(self, journey: Journey) -> None:
        scenario, first = journey.scenario, journey.rounds[0]
        self._limit = scenario.radius_m**2
        # Movers do not go far in a run, so the length of a degree is taken at the initial position.
        self._degrees = [_degree_m(lat) for lat in first.lat]
        self._wishes: list[tuple[str, float]] | None = None
        if scenario.filtered:
            kinds = [KINDS[kind] for kind in journey.wishes.kinds]
            self._wishes = list(zip(kinds, journey.wishes.least_speeds, strict=True))

    def keep(self, mover: int, lat: float, lon: float, told: list[ToldWithPlace]) -> list[int]:
        """The numbers of the events that pass a mover's filters."""
        north, east = self._degrees[mover]
        limit = self._limit
        if self._wishes is not None:
            kind, least = self._wishes[mover]
            told = [each for each in told if each.kind == kind and each.speed > least]
        return [
            each.event
            for each in told
            if ((each.lat - lat) * north) ** 2 + ((each.lon - lon) * east) ** 2 <= limit
        ]


def _degree_m(lat: float) -> tuple[float, float]:
    """The length in metres of a degree of latitude and of longitude."""
    sine = math.sin(math.radians(lat))
    curve = 1.0 - ellipsoid.ECCENTRICITY_SQUARED * sine * sine
    normal = ellipsoid.EQUATORIAL_RADIUS_M / math.sqrt(curve)
    meridian = normal * (1.0 - ellipsoid.ECCENTRICITY_SQUARED) / curve
    return math.radians(meridian), math.radians(normal * math.cos(math.radians(lat)))
