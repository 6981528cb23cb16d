"""What a filter is evaluated against: values by name, positions, counts and friendships."""

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
    """The situation in which an event meets a subscriber; None always means unknown.

    `who` is ``me``, ``publisher`` or ``event``; filters from seed C's XML also ask for the
    position of ``node.NAME``, for counts round one of these, and for the nearest earlier event.
    """

    def value(self, name: str) -> Value:
        """Return what a property's dotted path leads to."""
        ...

    def position(self, who: str) -> LatLon | None:
        """Return where someone is, as latitude and longitude."""
        ...

    def previous_position(self, who: str) -> LatLon | None:
        """Return where someone was at the fix before the last."""
        ...

    def count(
        self, subject: str, where: "Filter | None", metres: float | None, around: str = "me"
    ) -> int | None:
        """Return how many earlier events match, within a distance or anywhere."""
        ...

    def friend(self, who: str) -> bool | None:
        """Return whether someone's context lists me as a friend."""
        ...

    def nearest(self, where: "Filter | None", to: LatLon) -> float | None:
        """Return the metres from a place to the nearest earlier event that matches."""
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
        """Return the position member of someone's context."""
        return lat_lon(self.value(f"{who}.position"))

    def previous_position(self, who: str) -> LatLon | None:
        """Return the previous_position member of someone's context."""
        return lat_lon(self.value(f"{who}.previous_position"))

    def count(
        self, subject: str, where: "Filter | None", metres: float | None, around: str = "me"
    ) -> int | None:
        """Return None: one event's properties know of no others."""
        return None

    def friend(self, who: str) -> bool | None:
        """Return whether their friends contain my node."""
        friends, me = self.value(f"{who}.friends"), self.value("me.node")
        if not isinstance(friends, list | tuple) or not isinstance(me, str):
            return None
        return me in friends

    def nearest(self, where: "Filter | None", to: LatLon) -> float | None:
        """Return None: one event's properties know of no others."""
        return None


def followed(properties: Mapping[str, Value], path: str) -> Value:
    """Return the value that a dotted path leads to through nested objects."""
    found: Value = properties
    for step in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


def lat_lon(value: Value) -> LatLon | None:
    """Return the position given as a GeoJSON Point, [lon, lat] or {"lat", "lon"}."""
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
