"""Packet identifiers: 1 to 65535, each used again only once it is free."""

MOST = 0xFFFF


class PacketIds:
    """Allocates identifiers in turn, so that a free one is reused as late as possible."""

    def __init__(self, first: int = 1) -> None:
        self._next = first
        self.taken: set[int] = set()

    def take(self) -> int | None:
        """Allocate an identifier; None if all are in use."""
        if len(self.taken) == MOST:
            return None
        while self._next in self.taken:
            self._step()
        found = self._next
        self.taken.add(found)
        self._step()
        return found

    def free(self, packet_id: int) -> None:
        """Free an identifier."""
        self.taken.remove(packet_id)

    def forget(self) -> None:
        """Free all: the session that used them has ended."""
        self.taken.clear()

    def _step(self) -> None:
        self._next = self._next % MOST + 1
