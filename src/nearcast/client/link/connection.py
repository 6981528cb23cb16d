"""A connection to a server that reconnects, for programs that use plain MQTT messages.

Unacknowledged messages are sent again after a loss. Received ones wait in a bounded buffer for the
reader; when that is full the socket is not read.
"""

from collections.abc import AsyncIterator

from nearcast.client.api.exchange import Exchange
from nearcast.client.api.options import ClientOptions
from nearcast.client.api.statistics import ConnectionStatistics as ConnectionStatistics
from nearcast.client.link.connection_options import ConnectionOptions as ConnectionOptions
from nearcast.client.receive.receive_buffer import ReceiveBuffer
from nearcast.wire.mqtt import Publish


class ClientConnection(Exchange):
    """A client on a server and its received messages, in order."""

    def __init__(
        self,
        url: str,
        options: ClientOptions | None = None,
        behaviour: ConnectionOptions | None = None,
    ) -> None:
        behaviour = behaviour or ConnectionOptions()
        self._arrivals = ReceiveBuffer[Publish](
            behaviour.buffered_messages, behaviour.buffered_bytes
        )
        super().__init__(url, _AllMessages(self._arrivals), options, behaviour)

    def statistics(self) -> ConnectionStatistics:
        """Return the sizes of the queues."""
        return ConnectionStatistics(
            self.sending,
            len(self._arrivals),
            self._arrivals.bytes,
            self.connections,
        )

    async def messages(self) -> AsyncIterator[Publish]:
        """Yield messages as they come, until the connection is closed.

        Raises the reason if the connection cannot be restored.
        """
        while (message := await self._arrivals.get()) is not None:
            self.read_or_not()
            yield message


class _AllMessages:
    """All messages in one queue."""

    def __init__(self, arrivals: ReceiveBuffer[Publish]) -> None:
        self._arrivals = arrivals

    def __len__(self) -> int:
        return len(self._arrivals)

    @property
    def full(self) -> bool:
        return self._arrivals.full

    @property
    def overfull(self) -> bool:
        return self._arrivals.overfull

    def begin(self, session_present: bool) -> None:
        pass

    def put(self, message: Publish) -> None:
        size = len(message.topic) + len(message.payload) + len(message.raw_properties)
        self._arrivals.put(message, size)

    def end(self, why: Exception | None) -> None:
        self._arrivals.end(why)
