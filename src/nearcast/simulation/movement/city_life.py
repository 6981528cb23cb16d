"""City life: the residents of the city, their subscriptions and their actions, by the second.

An ambulance clears its way, buses run late, shops advertise in their quarter, friends send
messages, and at times a street is blocked. All of it is yielded as inputs for the engine, in order;
the same seed gives the same inputs.
"""

import math
from collections.abc import Iterator
from random import Random

from msgspec import Struct

from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.language import parse
from nearcast.core.model.context import Attributes, Value
from nearcast.core.model.event import Announcement, Event, Relevance, Subscription
from nearcast.core.model.geometry.area import Area, circle, place
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    Classified,
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    Published,
    Subscribed,
)
from nearcast.simulation.movement.city import City, NamedPlace
from nearcast.simulation.movement.movement import Tour, random_tour, street_tour, tour

NAMES = (
    "ann", "ben", "cleo", "dara", "emma", "finn", "gwen", "hugo", "iris", "jack", "kate", "liam",
    "mona", "nils", "orla", "paul", "ruth", "sean", "tara", "umar", "vera", "will", "yara", "zoe",
)  # fmt: skip
SIREN_M, SIREN_S = 500.0, 8.0
LINES = {"7": ((0, 2), (11, 2), (11, 3), (0, 3)), "16": ((1, 0), (6, 0), (6, 6), (1, 6))}
BUSES_PER_LINE = 2
HAZARDS = ("ice", "flood", "roadworks")
HAZARD_M, HAZARD_S = 250.0, 150.0
FEWEST_NODES = 12
"""Enough for ambulance, city works, buses and shops, and some recipients."""

LATE_BUS = "line = '{line}' AND delay > 2 AND distance(me, event) < 800"
FRIEND_NEAR = "friend(publisher) AND distance(me, publisher) < 600"
AFFORDABLE = "price <= me.budget"
SIREN = "approaching(publisher)"


class Resident(Struct, frozen=True):
    """A node of the city: its kind, and how it moves."""

    node: str
    kind: str
    """ambulance, bus, car, person, shop or works."""
    tour: Tour
    every_s: int
    """The interval between its position updates."""
    home: NamedPlace | None = None
    line: str | None = None


class CityLife:
    """A city with a number of nodes, drawn from a seed."""

    def __init__(self, nodes: int = 60, seed: int = 1, city: City | None = None) -> None:
        assert nodes >= FEWEST_NODES
        self.city = City() if city is None else city
        self._random = Random(seed)
        self.residents = {each.node: each for each in self._settle(nodes)}
        self.people = [each.node for each in self.residents.values() if each.kind == "person"]
        self._made = 0

    def arrivals(self) -> Iterator[Input]:
        """Yield the first inputs: places, initial positions and subscriptions."""
        for each in self.city.places:
            yield PlaceDefined(each.kind, each.name, self.city.ground(each))
        for resident in self.residents.values():
            yield Moved(resident.node, resident.tour.at(0.0))
            yield from self._subscriptions(resident)

    def second(self, time_s: int) -> Iterator[Input]:
        """Yield the inputs of one second: first movements, then events."""
        for number, resident in enumerate(self.residents.values()):
            if (time_s + number) % resident.every_s == 0:
                yield Moved(resident.node, resident.tour.at(time_s))
        for number, resident in enumerate(self.residents.values()):
            yield from self._doings(resident, number, time_s)
        if time_s % 25 == 7:
            attributes = {"says": self._random.choice(("coffee?", "lunch?", "hello"))}
            yield self._publish(self._random.choice(self.people), "friend/near", time_s, attributes)

    def positions(self, time_s: float) -> dict[str, Position]:
        """Return the positions of all nodes at a time, also unreported ones."""
        return {each.node: each.tour.at(time_s) for each in self.residents.values()}

    # Residents

    def _settle(self, nodes: int) -> Iterator[Resident]:
        services = list(self._services())
        yield from services
        yield from self._public(nodes - len(services))

    def _services(self) -> Iterator[Resident]:
        city, random = self.city, self._random
        call = street_tour(city, [(1, 1), (10, 1), (10, 5), (3, 5)], 14.0)
        yield Resident("ambulance", "ambulance", call, 1)
        for line, stops in LINES.items():
            length_m = street_tour(city, list(stops), 0.0).travelled_m[-1]
            for number in range(BUSES_PER_LINE):
                start_m = (number + random.random() / 2.0) * length_m / BUSES_PER_LINE
                route = street_tour(city, list(stops), 8.0, start_m)
                yield Resident(f"bus-{line}{'ab'[number]}", "bus", route, 2, line=line)
        for home in city.places:
            stand = tour([city.position(home.south_west)], 0.0)
            if home.kind == "quarter":
                name = f"{home.name.lower().replace(' ', '-')}-cafe"
                yield Resident(name, "shop", stand, 60, home)
        yield Resident("city-works", "works", tour([city.position((5, 0))], 0.0), 60)

    def _public(self, count: int) -> Iterator[Resident]:
        city, random = self.city, self._random
        cars = count * 2 // 5
        for number in range(cars):
            route = random_tour(city, random, random.uniform(7.0, 12.0), 5)
            yield Resident(f"car-{number + 1}", "car", route, 2)
        for number in range(count - cars):
            again, which = divmod(number, len(NAMES))
            name = NAMES[which] + (f"-{again + 1}" if again else "")
            yield Resident(name, "person", random_tour(city, random, random.uniform(1.1, 1.8)), 4)

    # Subscriptions

    def _subscriptions(self, resident: Resident) -> Iterator[Input]:
        node = resident.node
        if resident.kind in ("car", "person"):
            # On the move links are middling: what matters less comes later.
            yield Classified(node, "network", 2)
        if resident.kind == "ambulance":
            yield Announced(Announcement(node, "emergency/vehicle", circle("me", SIREN_M)))
        elif resident.kind == "car":
            near_first = f"(distance(me, publisher) < 200 OR TRUE) AND {SIREN}"
            yield _subscription(node, "emergency/vehicle", near_first, (3, 1))
            yield _subscription(node, "hazard/#")
        elif resident.kind == "person":
            others = [other for other in self.people if other != node]
            friends: list[Value] = [*self._random.sample(others, min(5, len(others)))]
            budget = self._random.randint(2, 6)
            yield ContextPatched(node, {"friends": friends, "budget": budget})
            line = self._random.choice(list(LINES))
            late_first = f"(delay > 5 OR TRUE) AND {LATE_BUS.format(line=line)}"
            yield _subscription(node, "bus/position", late_first, (3, 1))
            yield _subscription(node, "offer/#", AFFORDABLE)
            yield _subscription(node, "friend/near", FRIEND_NEAR)
            yield _subscription(node, "hazard/#")

    # Actions

    def _doings(self, resident: Resident, number: int, time_s: int) -> Iterator[Input]:
        node = resident.node
        if resident.kind == "ambulance" and time_s % 12 == 1:
            # It stays valid for a while, so that nodes reached by its area later get it too.
            lane = {"lane": 1 + time_s // 12 % 2}
            yield self._publish(node, "emergency/vehicle", time_s, lane, valid_s=SIREN_S)
        elif resident.kind == "bus" and (time_s + 5 * number) % 20 == 0:
            delay = round(max(0.0, 3.0 + 4.0 * math.sin(time_s / 60.0 + number)), 1)
            yield self._publish(
                node, "bus/position", time_s, {"line": resident.line, "delay": delay}
            )
        elif resident.kind == "shop" and (time_s + 20 * number) % 40 == 3:
            assert resident.home is not None
            offer = {"price": self._random.randint(2, 5)}
            to = place(resident.home.name, resident.home.kind)
            yield self._publish(node, "offer/coffee", time_s, offer, to=to)
        elif resident.kind == "works" and time_s % 60 == 5:
            column = self._random.randint(2, self.city.columns - 3)
            at = self.city.position((column, self._random.randint(2, self.city.rows - 3)))
            subject = f"hazard/{self._random.choice(HAZARDS)}"
            yield self._publish(
                node, subject, time_s, {}, to=circle(at, HAZARD_M), at=at, valid_s=HAZARD_S
            )

    def _publish(
        self,
        node: str,
        subject: str,
        time_s: int,
        attributes: Attributes,
        *,
        to: Area | None = None,
        at: Position | None = None,
        valid_s: float | None = None,
    ) -> Published:
        self._made += 1
        given = at is not None
        return Published(
            Event(str(self._made), subject, node, time_s, attributes, at, given, to, valid_s)
        )


def _subscription(
    node: str, subject: str, where: str = "", first: tuple[int, ...] = ()
) -> Subscribed:
    """Return a subscription; `first` are levels of its first atoms, the others matter most."""
    name = f"{node}/{subject.partition('/')[0]}"
    condition = parse(where) if where else None
    relevance = None
    if first:
        atoms = len(FormFunction(condition).atoms)
        relevance = Relevance((*first, *(3,) * (atoms - len(first))))
    return Subscribed(Subscription(name, node, subject, condition, relevance=relevance))
