"""Nodes that follow their regions in virtual time, beside what full reporting would show."""

import json
from collections.abc import Callable
from itertools import combinations
from random import Random

import msgspec

from nearcast.core.model import Position
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.relationships.silence.follow_messages import FollowOrders
from nearcast.core.relationships.silence.follower import Follower
from nearcast.testing import ClientOptions, VirtualClient, World

DEGREE_M = 111_200.0
LASTING = ClientOptions(session_expiry_s=3600, clean_start=False, keep_alive_s=5)


class FollowingNode:
    """A node as the SDK runs it: a follower whose orders and reports are messages."""

    LOOKS_EVERY_S = 0.02

    def __init__(self, world: World, name: str, accuracy_m: float | None) -> None:
        self.world = world
        self.follower = Follower(name, accuracy_m)
        self.client: VirtualClient = world.client(name, LASTING)
        self.reports = 0
        self._read = 0
        self.client.subscribe("$me/follow", qos=1)
        self._look()

    def fix(self, at: Position) -> None:
        self.follower.fix(at, self.world.clock.now())
        self._report()

    def _look(self) -> None:
        for message in self.client.messages[self._read :]:
            orders = msgspec.json.decode(message.payload, type=FollowOrders)
            self.follower.obey(orders, self.world.clock.now())
        self._read = len(self.client.messages)
        self.follower.elapse(self.world.clock.now())
        self._report()
        self.world.clock.after(self.LOOKS_EVERY_S, self._look)

    def _report(self) -> None:
        report = self.follower.take_report()
        if report is not None:
            self.reports += 1
            self.client.publish("$me/follow/report", msgspec.json.encode(report), qos=1)


class Phone:
    """A node that reports every fix."""

    def __init__(self, world: World, name: str) -> None:
        self.client = world.client(name, LASTING)
        self.reports = 0

    def fix(self, at: Position) -> None:
        self.reports += 1
        self.client.publish("$me/position", f"{at.lat},{at.lon}".encode(), qos=1)


class Walk:
    """A random walk in a square, now and then with a rest."""

    def __init__(self, chance: Random, side_m: float, speed_mps: float) -> None:
        self._chance, self._side, self._speed = chance, side_m, speed_mps
        self._at = [chance.uniform(0.0, side_m), chance.uniform(0.0, side_m)]
        self._towards = list(self._at)

    def step(self, seconds: float) -> Position:
        way = [t - a for t, a in zip(self._towards, self._at, strict=True)]
        length = max((way[0] ** 2 + way[1] ** 2) ** 0.5, 1e-9)
        if length < self._speed * seconds:
            self._towards = [self._chance.uniform(0.0, self._side) for _ in range(2)]
        else:
            self._at = [
                a + w / length * self._speed * seconds
                for a, w in zip(self._at, way, strict=True)
            ]  # fmt: skip
        return Position(53.0 + self._at[0] / DEGREE_M, self._at[1] / DEGREE_M)


Near = Callable[[dict[str, Position]], bool]


def every_two_within(members: tuple[str, ...], metres: float) -> Near:
    def near(at: dict[str, Position]) -> bool:
        return all(
            distance_m(at[a].lat, at[a].lon, at[b].lat, at[b].lon) <= metres
            for a, b in combinations(members, 2)
        )

    return near


def states_told(reader: VirtualClient, name: str) -> list[str]:
    """All that was told, repeats of the same message once."""
    told = list(dict.fromkeys(reader.payloads(f"$relate/{name}")))
    return [json.loads(each)["state"] for each in told]
