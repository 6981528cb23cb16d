"""A plain twin of a reader with relevance: priorities by hand, and a list of what waits."""

from collections import Counter

from nearcast.core.propagation.outbox import WITHHELD
from tests.support.plain.plain_outbox import Bounds, PlainOutbox, Waiting

KINDS = ("infantry", "armor", "artillery")
FILTER = "(unit = 'infantry' OR unit = 'armor' OR unit = 'artillery') AND size <= 100"
VECTORS = {
    ("scout", "go"): (3, 2, 1, 3),
    ("scout", "stay"): (1, 2, 3, 3),
    ("medic", "go"): (1, 1, 1, 1),
    ("medic", "stay"): (0, 0, 3, 3),
}
DELAY = [[3, 2, 1], [2, 1, 1], [1, 1, 1]]


class Unit(Waiting, eq=False):
    """An event, and what waits of it."""

    number: int = 0
    kind: str = ""
    strength: int = 0
    said: int | None = None


class PlainReader:
    """One reader, whose client takes one message after the other."""

    def __init__(self, queued: int) -> None:
        self.role, self.task, self.battery = "scout", "go", 90
        self.vector = VECTORS["scout", "go"]
        self.matrices: dict[str, list[list[int]]] = {}
        self.sent: Counter[int] = Counter()
        self.dropped: Counter[int] = Counter()
        self.withheld_on_arrival = self.withheld_later = 0
        self._queue = PlainOutbox(1 << 60)
        self._bounds = Bounds(queued, 1 << 60)

    def publish(self, unit: Unit) -> None:
        """An event comes."""
        if not self._selects(unit, [level > 0 for level in self.vector]):
            return
        unit.priority = self._priority(unit)
        if unit.priority == WITHHELD:
            self.withheld_on_arrival += 1
        else:
            gone = self._queue.put(unit, self._bounds)
            self.dropped.update(each.priority for each in gone)

    def change(self) -> None:
        """Role, task, battery or a matrix may have changed."""
        self.vector = VECTORS.get((self.role, self.task), self.vector)
        for each in self._queue.waiting:
            assert isinstance(each, Unit)
            before, each.priority = each.priority, self._priority(each)
            self.withheld_later += before != WITHHELD and each.priority == WITHHELD

    @property
    def waits(self) -> bool:
        """Whether anything waits, if only because it is withheld."""
        return bool(self._queue.waiting)

    def next(self) -> Unit | None:
        """The message that leaves next, if any may."""
        found = self._queue.next(1, 0, 0)
        if found is None:
            return None
        assert isinstance(found, Unit)
        self._queue.remove([found])
        self.sent[found.priority] += 1
        return found

    def _priority(self, unit: Unit) -> int:
        context_class = 1 if self.battery <= 20 else 2 if self.battery <= 50 else 3
        matrix = self.matrices.get(self.role) or self.matrices.get("default") or DELAY
        of_atom = [matrix[context_class - 1][level - 1] if level else 0 for level in self.vector]
        if self._selects(unit, [level > 0 for level in self.vector]):
            for priority in (1, 2, 3):
                if self._selects(unit, [0 < each <= priority for each in of_atom]):
                    return max(priority, unit.said or 1)
        return WITHHELD

    def _selects(self, unit: Unit, atoms: list[bool]) -> bool:
        kinds = [unit.kind == kind for kind, has in zip(KINDS, atoms[:3], strict=True) if has]
        sizes = [unit.strength <= 100] if atoms[3] else []
        return any(atoms) and (any(kinds) or not kinds) and all(sizes)
