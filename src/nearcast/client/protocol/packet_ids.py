"""Packet identifiers: 1 to 65535, each used again only once it is free."""

MOST = 0xFFFF


class PacketIds:
    """Hands out identifiers in turn, so that a free one rests as long as it can."""

    def __init__(self, first: int = 1) -> None:
        self._next = first
        self.taken: set[int] = set()

    def take(self) -> int | None:
        """Return a free identifier, which is taken from now on; None if there is none."""
        if len(self.taken) == MOST:
            return None
        while self._next in self.taken:
            self._step()
        found = self._next
        self.taken.add(found)
        self._step()
        return found

    def free(self, packet_id: int) -> None:
        """Give one back."""
        self.taken.remove(packet_id)

    def forget(self) -> None:
        """All are free: the session that knew them is gone."""
        self.taken.clear()

    def _step(self) -> None:
        self._next = self._next % MOST + 1
