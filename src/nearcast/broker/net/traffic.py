"""Network traffic and client counts."""


class Traffic:
    """Counts since the start of the broker."""

    __slots__ = (
        "answers_sent", "bytes_received", "bytes_sent", "clients", "most_clients",
        "other_packets", "packets_received",
    )  # fmt: skip

    def __init__(self) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.other_packets = 0
        """Received packets other than PUBLISH."""
        self.answers_sent = 0
        """Sent packets other than PUBLISH."""
        self.clients = 0
        """Connected clients."""
        self.most_clients = 0
        """The maximum of connected clients."""

    @property
    def messages_received(self) -> int:
        """The number of received PUBLISH packets."""
        return self.packets_received - self.other_packets

    def received(self, size: int, packets: int) -> None:
        """Count received bytes and complete packets."""
        self.bytes_received += size
        self.packets_received += packets

    def joined(self) -> None:
        """Count a client that connected."""
        self.clients += 1
        self.most_clients = max(self.most_clients, self.clients)

    def left(self) -> None:
        """Count a client that disconnected."""
        self.clients -= 1

    def statistics(self) -> dict[str, float]:
        """The counts by metric name."""
        return {
            "bytes_received_total": self.bytes_received,
            "bytes_sent_total": self.bytes_sent,
            "packets_received_total": self.packets_received,
            "messages_received_total": self.messages_received,
            "connections_most": self.most_clients,
        }
