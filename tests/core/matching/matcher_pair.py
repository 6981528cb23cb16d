"""The matcher and the plain world, told the same."""

from nearcast.core.matching.matcher import Matcher
from nearcast.core.model import Box, Circle, Event, Polygon, Position, Subscription
from nearcast.core.model.event_batch import EventBatch
from tests.support.plain import plain_world as plain


class Pair:
    """The matcher and the plain world, told the same."""

    def __init__(self) -> None:
        self.matcher = Matcher()
        self.world = plain.PlainWorld()
        self.wanted: dict[int, Subscription] = {}
        dublin = Polygon((((-6.4, 53.2), (-6.1, 53.2), (-6.1, 53.4), (-6.4, 53.4), (-6.4, 53.2)),))
        for places in (self.matcher.places, self.world.places):
            places.add("city", "Dublin", dublin)
            places.add("city", "Null", Circle(Position(0.0, 0.0), 900.0))
            places.add("region", "Pole", Box(80.0, -180.0, 90.0, 180.0))

    def add(self, subscription: Subscription) -> None:
        number = self.matcher.add(subscription)
        self.wanted[number] = subscription
        if subscription.relevance is not None:
            self.matcher.priorities.set_row([number], plain.ROW)

    def remove(self, which: int) -> None:
        if self.wanted:
            number = list(self.wanted)[which % len(self.wanted)]
            del self.wanted[number]
            self.matcher.remove(number)

    def move(self, node: str, position: Position | None) -> None:
        self.matcher.move(node, position)
        if position is None:
            self.world.fixes.pop(node, None)
        else:
            self.world.fixes.setdefault(node, []).append(position)

    def update(self, node: str, context: dict[str, object]) -> None:
        self.matcher.update(node, context)  # type: ignore[arg-type]
        self.world.contexts[node] = context

    def see(self, viewer: str, other: str, mask: int) -> None:
        self.matcher.sight.set_exception(viewer, other, mask)
        self.world.masks[viewer, other] = mask

    def match(self, events: list[Event]) -> None:
        found = self.matcher.match(EventBatch.of(events))
        got = sorted(zip(*(column.tolist() for column in found[:3]), strict=True))
        expected = sorted(
            (i, number, priority)
            for i, event in enumerate(events)
            for number, wanted in self.wanted.items()
            if (priority := self.world.concerns(event, wanted)) is not None
        )
        assert got == expected
