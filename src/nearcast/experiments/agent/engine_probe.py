"""An engine with one subscriber whose decisions are looked at: sets of atoms and priorities."""

from collections.abc import Mapping, Sequence

from nearcast.core.adaptation.priority_rules import atom_priorities
from nearcast.core.adaptation.relevance import Levels
from nearcast.core.engine.engine import Engine
from nearcast.core.language import Filter
from nearcast.core.model.context import Value
from nearcast.core.model.event import Event, Relevance, Subscription
from nearcast.core.model.inputs import Classified, Input, PolicySet, Published, Subscribed

NODE, PUBLISHER, SUBJECT, NETWORK = "client", "publisher", "uform", "network"


class EngineProbe:
    """One subscriber of an engine of its own."""

    def __init__(
        self, where: Filter, levels: Levels, template: str = "", before: tuple[Input, ...] = ()
    ) -> None:
        """Subscribe with a relevance vector, after inputs such as policies."""
        self.engine = Engine()
        self._now = 0.0
        relevance = Relevance(levels, template)
        self.apply(
            *before, Subscribed(Subscription("s", NODE, SUBJECT, where, relevance=relevance))
        )

    def apply(self, *inputs: Input) -> None:
        """Apply inputs; raise ValueError if one is refused."""
        self._now += 1.0
        refusals = self.engine.step(inputs, self._now).refusals
        if refusals:
            raise ValueError(refusals[0].reason)

    def set_class(self, context_class: int) -> None:
        """Let the subscriber's link have a class, 1 the worst."""
        self.apply(Classified(NODE, NETWORK, context_class))

    def set_throughput(self, kbps: float) -> int:
        """Let the subscriber's link have the class of a throughput; return it."""
        found = self.engine.awareness_of(NODE).modules[0].classify(kbps)
        self.set_class(found)
        return found

    def set_matrix(self, document: str) -> None:
        """Set the priority matrix for everybody."""
        self.apply(PolicySet("matrix", "default", document))

    def priority(self, name: str, attributes: Mapping[str, Value]) -> int | None:
        """The priority at which an event is delivered now; None if it is not."""
        self._now += 1.0
        event = Event(name, SUBJECT, PUBLISHER, self._now, dict(attributes))
        found = self.engine.step([Published(event)], self._now).deliveries
        return found[0].priority if found else None

    def agreeing(
        self, sets: Sequence[tuple[int, ...]], events: Sequence[Mapping[str, Value]]
    ) -> int:
        """How many events are delivered at the priority that follows from sets of atoms.

        The best priority of which the filter with the atoms of its set holds.
        """
        (number,) = self.engine.matcher.subscriptions_of(NODE)
        weighted = self.engine.matcher.priorities.of(number)
        assert weighted is not None
        form, count = weighted.form, len(weighted.form.atoms)
        found = 0
        for event in events:
            follows = None
            for priority, atoms in enumerate(sets, 1):
                where = form.restricted([atom in atoms for atom in range(count)])
                if atoms and where is not None and where.evaluate(event) is True:
                    follows = priority
                    break
            found += self.priority(f"probe {self._now:g}", event) == follows
        return found

    def atom_sets(self) -> list[tuple[int, ...]]:
        """The atoms of each prioritised subscription now, of the most urgent one first."""
        priorities = self.engine.matcher.priorities
        (number,) = self.engine.matcher.subscriptions_of(NODE)
        weighted = priorities.of(number)
        assert weighted is not None
        of_atom = atom_priorities(weighted.levels, priorities.row_of(number))
        levels = self.engine.settings.levels
        return [
            tuple(atom for atom, own in enumerate(of_atom) if 0 < own <= priority)
            for priority in range(1, levels + 1)
        ]
