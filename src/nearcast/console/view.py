"""What one who asks over HTTP may know of nodes and events, by the rules of now."""

from msgspec import Struct

from nearcast.console.gate import Asker
from nearcast.core.matching.reference import WorldView, would_reach
from nearcast.core.model.event import Event
from nearcast.core.model.visibility import SEE_ALL


class View(Struct, frozen=True):
    """The world as an asker may see it; without a world nothing is hidden."""

    asker: Asker
    world: WorldView | None

    def sees(self, node: str) -> int:
        """What may be seen of a node."""
        if self.world is None or node == self.asker.node:
            return SEE_ALL
        return self.world.may_see(self.asker.node, node)

    def may_read(self, event: Event) -> bool:
        """Whether the subject of an event is open to the asker, or the event its own."""
        asker = self.asker
        return event.publisher == asker.node or asker.permissions.may_subscribe(event.subject)

    def could_get(self, event: Event) -> bool:
        """Whether an event is the asker's own or one that it could have got where it is now.

        Whoever may connect as anyone could have got them all.
        """
        if event.publisher == self.asker.node or self.world is None:
            return True
        if not self.may_read(event):
            return False
        return self.asker.operates or would_reach(event, self.asker.node, self.world)
