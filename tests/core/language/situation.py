"""A scope made of plain dictionaries."""

from msgspec import Struct

from nearcast.core.language import Filter, Value

DUBLIN = (53.3498, -6.2603)

NORTH = (53.3598, -6.2603)


class Situation(Struct):
    """A scope made of plain dictionaries, which notes what was counted."""

    values: dict[str, Value] = {}
    now: dict[str, tuple[float, float]] = {}
    before: dict[str, tuple[float, float]] = {}
    counts: int | None = None
    friends: bool | None = None
    counted: list[tuple[str, str | None, float | None, str]] = []

    def value(self, name: str) -> Value:
        return self.values.get(name)

    def position(self, who: str) -> tuple[float, float] | None:
        return self.now.get(who)

    def previous_position(self, who: str) -> tuple[float, float] | None:
        return self.before.get(who)

    def count(
        self,
        subject: str,
        where: Filter | None,
        metres: float | None,
        around: str = "me",
        most: int | None = None,
    ) -> int | None:
        self.counted.append((subject, where.to_text() if where else None, metres, around))
        return self.counts

    def friend(self, who: str) -> bool | None:
        return self.friends

    def nearest(self, where: Filter | None, to: tuple[float, float]) -> float | None:
        return None
