"""What a client of the HTTP API may see of nodes and events, by the rules in force."""

from msgspec import Struct

from nearcast.console.gate import Asker
from nearcast.core.matching.reference import WorldView, would_reach
from nearcast.core.model.event import Event
from nearcast.core.model.visibility import SEE_ALL


class View(Struct, frozen=True):
    """The visibility of nodes and events for a client; without a world nothing is hidden."""

    asker: Asker
    world: WorldView | None

    def sees(self, node: str) -> int:
        """The visible aspects of a node."""
        if self.world is None or node == self.asker.node:
            return SEE_ALL
        return self.world.may_see(self.asker.node, node)

    def may_read(self, publisher: str, subject: str) -> bool:
        """Whether the client may subscribe to the subject of an event, or published it."""
        return publisher == self.asker.node or self.asker.permissions.may_subscribe(subject)

    def could_get(self, event: Event) -> bool:
        """Whether the client published an event or could have received it at its position.

        A client that may operate the broker could have received all of them.
        """
        if event.publisher == self.asker.node or self.world is None:
            return True
        if not self.may_read(event.publisher, event.subject):
            return False
        return self.asker.operates or would_reach(event, self.asker.node, self.world)
