"""The input of an evaluation: values by name, positions, counts and friendships."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias

from nearcast.core.language.geometry import clamped_point, problem_with_point

if TYPE_CHECKING:
    from nearcast.core.language.filter import Filter

Value: TypeAlias = (
    bool | int | float | str | datetime | date | Sequence["Value"] | Mapping[str, "Value"] | None
)
LatLon: TypeAlias = tuple[float, float]


class Scope(Protocol):
    """The situation of one event and one subscriber; None always means unknown.

    `who` is ``me``, ``publisher`` or ``event``; filters from seed C's XML also use the position
    of ``node.NAME``, counts around one of these, and the nearest earlier event.
    """

    def value(self, name: str) -> Value:
        """Return the value at a property's dotted path."""
        ...

    def position(self, who: str) -> LatLon | None:
        """Return the position of `who` as latitude and longitude."""
        ...

    def previous_position(self, who: str) -> LatLon | None:
        """Return the position of `who` at the fix before the latest."""
        ...

    def count(
        self,
        subject: str,
        where: "Filter | None",
        metres: float | None,
        around: str = "me",
        most: int | None = None,
    ) -> int | None:
        """Return the number of matching earlier events, anywhere or within `metres` of `around`.

        If there are more than `most`, any number from `most` on is right.
        """
        ...

    def friend(self, who: str) -> bool | None:
        """Return whether the context of `who` lists the subscriber as a friend."""
        ...

    def nearest(self, where: "Filter | None", to: LatLon) -> float | None:
        """Return the metres from a position to the nearest matching earlier event."""
        ...


class PropertiesScope:
    """A scope over one mapping: attributes by name, contexts under ``me`` and ``publisher``."""

    def __init__(self, properties: Mapping[str, Value]) -> None:
        self.properties = properties

    def value(self, name: str) -> Value:
        """Return the value under the exact name, else under its path."""
        if name in self.properties:
            return self.properties[name]
        found = followed(self.properties, name)
        if found is None and name.startswith("event.attributes."):
            return self.value(name.removeprefix("event.attributes."))
        return found

    def position(self, who: str) -> LatLon | None:
        """Return the ``position`` member of a context."""
        return lat_lon(self.value(f"{who}.position"))

    def previous_position(self, who: str) -> LatLon | None:
        """Return the ``previous_position`` member of a context."""
        return lat_lon(self.value(f"{who}.previous_position"))

    def count(
        self,
        subject: str,
        where: "Filter | None",
        metres: float | None,
        around: str = "me",
        most: int | None = None,
    ) -> int | None:
        """Return None: the properties of one event contain no other events."""
        return None

    def friend(self, who: str) -> bool | None:
        """Return whether the ``friends`` of a context contain ``me.node``."""
        friends, me = self.value(f"{who}.friends"), self.value("me.node")
        if not isinstance(friends, list | tuple) or not isinstance(me, str):
            return None
        return me in friends

    def nearest(self, where: "Filter | None", to: LatLon) -> float | None:
        """Return None: the properties of one event contain no other events."""
        return None


def followed(properties: Mapping[str, Value], path: str) -> Value:
    """Return the value at a dotted path through nested objects, or None."""
    found: Value = properties
    for step in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


def lat_lon(value: Value) -> LatLon | None:
    """Return the position of a GeoJSON Point, [lon, lat] or {"lat", "lon"}; None if invalid."""
    if isinstance(value, Mapping):
        if value.get("type") == "Point":
            value = value.get("coordinates")
        elif "type" not in value:
            value = [value.get("lon"), value.get("lat")]
    if not isinstance(value, list | tuple) or not 2 <= len(value) <= 3:
        return None
    numbers: list[float] = []
    for number in value:
        if isinstance(number, bool) or not isinstance(number, int | float):
            return None
        numbers.append(float(number) if abs(number) < 1e300 else float("inf"))
    point = clamped_point(tuple(numbers))
    return None if problem_with_point(point) else (point[1], point[0])
