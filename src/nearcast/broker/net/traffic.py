"""How much came over the network and went out, and how many clients there are."""


class Traffic:
    """Counts since the broker began; whoever reads or writes adds to them."""

    __slots__ = (
        "answers_sent", "bytes_received", "bytes_sent", "clients", "most_clients",
        "other_packets", "packets_received",
    )  # fmt: skip

    def __init__(self) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.other_packets = 0
        """Those among them that are no PUBLISH."""
        self.answers_sent = 0
        """Packets sent that are no PUBLISH."""
        self.clients = 0
        """Clients that are connected."""
        self.most_clients = 0
        """The most that ever were at once."""

    @property
    def messages_received(self) -> int:
        """How many PUBLISH packets came."""
        return self.packets_received - self.other_packets

    def received(self, size: int, packets: int) -> None:
        """Bytes came, and packets were whole with them."""
        self.bytes_received += size
        self.packets_received += packets

    def joined(self) -> None:
        """A client was let in."""
        self.clients += 1
        self.most_clients = max(self.most_clients, self.clients)

    def left(self) -> None:
        """A client is gone."""
        self.clients -= 1

    def statistics(self) -> dict[str, float]:
        """All of it."""
        return {
            "bytes_received_total": self.bytes_received,
            "bytes_sent_total": self.bytes_sent,
            "packets_received_total": self.packets_received,
            "messages_received_total": self.messages_received,
            "connections_most": self.most_clients,
        }
