"""Virtual clients of a virtual broker, for random lives."""

from nearcast.broker.config.settings import Settings, SituationSection
from nearcast.testing import ClientOptions, DiskQuality, VirtualClient, World
from nearcast.wire.mqtt import (
    MQTT_5,
    Properties,
    Publish,
    TopicFilter,
)

UNDYING = Settings(situation=SituationSection(position_ttl_s=1e6))


class Virtual:
    """Virtual clients of a virtual broker."""

    def __init__(self, world: World, settings: Settings = UNDYING) -> None:
        self._world = world
        self._broker = world.broker(disk=DiskQuality(), settings=settings)
        self._clients: dict[str, VirtualClient] = {}
        self._looked_at: dict[str, int] = {}

    def connect(self, client: str, version: int, lasting: bool, clean: bool) -> None:
        options = ClientOptions(
            client_id=client,
            version=version,
            clean_start=clean,
            session_expiry_s=86_400 if lasting and version == MQTT_5 else 0,
            keep_alive_s=0,
            resubscribe=False,
        )
        self._world.clients.pop(client, None)
        self._clients[client] = self._world.client(client, options)
        self._looked_at[client] = 0
        self._world.settle()

    def lose(self, client: str) -> None:
        self._clients.pop(client).crash()
        self._world.run(0.5)

    def publish(self, client: str, packets: list[Publish]) -> None:
        receipts = []
        for packet in packets:
            properties = packet.properties
            receipts.append(
                self._clients[client].publish(
                    packet.topic, packet.payload, qos=packet.qos, retain=packet.retain,
                    properties=properties,
                )
            )  # fmt: skip
        self._world.settle()
        for packet, receipt in zip(packets, receipts, strict=True):
            assert not packet.qos or receipt.done, (packet, receipt.reason_codes)

    def subscribe(self, client: str, wanted: TopicFilter, properties: Properties) -> None:
        receipt = self._clients[client].subscribe(wanted, properties=properties)
        self._world.settle()
        assert receipt.done, receipt.reason_codes

    def unsubscribe(self, client: str, topic_filter: str) -> None:
        self._clients[client].unsubscribe(topic_filter)
        self._world.settle()

    def later(self, seconds: float) -> None:
        self._world.run(seconds)

    def restart(self, down_s: float = 1.0) -> None:
        for client in list(self._clients):
            self._clients.pop(client).crash()
        self._broker.crash(power_cut=True)
        self._world.run(down_s)
        self._broker.start()

    def received(self, client: str) -> list[Publish]:
        self._world.settle()
        self._world.run(0.2)
        messages = self._clients[client].messages
        found = messages[self._looked_at[client] :]
        self._looked_at[client] = len(messages)
        return found
