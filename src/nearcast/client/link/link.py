"""One transport of a connection, while it lasts: it drives the protocol and keeps its times.

All that is sent in one turn of the loop is written at once.
"""

import asyncio
from collections.abc import Callable

from nearcast.client.link.transports import Transport
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import Happened
from nearcast.wire.mqtt import ReasonCode


class TransportLink:
    """The listener of one transport; `hand_on` gets what happens."""

    def __init__(
        self,
        protocol: ClientProtocol,
        hand_on: Callable[[list[Happened]], None],
        writable: asyncio.Event,
    ) -> None:
        self._protocol = protocol
        self._hand_on = hand_on
        self._writable = writable
        self._loop = asyncio.get_running_loop()
        self._transport: Transport | None = None
        self._listening = True
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        self.gone: asyncio.Future[str] = self._loop.create_future()
        """Why the transport ended, once it has."""

    def begin(self, transport: Transport) -> None:
        """The transport is open: introduce the client."""
        self._transport = transport
        self._protocol.connected_transport(self._loop.time())
        self.flush()

    def stop(self) -> None:
        """Forget the transport and the timer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None and not self.gone.done():
            self._transport.abort()
        self._transport = None

    async def end(self, within_s: float) -> None:
        """Disconnect and wait until the transport is closed."""
        self._protocol.disconnect(ReasonCode.NORMAL_DISCONNECTION, self._loop.time())
        self.flush()
        await asyncio.wait([self.gone], timeout=within_s)

    def listen(self, wanted: bool) -> None:
        """Read from the transport, or let the server wait."""
        if self._transport is None or wanted == self._listening or self.gone.done():
            return
        self._listening = wanted
        self._protocol.not_listening(self._loop.time())
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def flush_soon(self) -> None:
        """Write at the end of this turn of the loop."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what the protocol has to send, and close if it wants to."""
        self._due = False
        if self._transport is None or self.gone.done():
            return
        data = self._protocol.take()
        if data:
            self._transport.write(data)
        if self._protocol.should_close:
            self._transport.close()
        self._set_timer()

    def received(self, data: bytes) -> None:
        """The server sent something."""
        if self._transport is not None:
            self._hand_on(self._protocol.receive(data, self._loop.time()))
            self.flush_soon()

    def lost(self, why: str) -> None:
        """The transport is gone."""
        if not self.gone.done():
            self.gone.set_result(why)

    def pause_writing(self) -> None:
        """The transport holds more than it should."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """There is room again."""
        self._writable.set()

    def _set_timer(self) -> None:
        """Wake up in time; a timer that is too early only looks again."""
        due = self._protocol.next_timer()
        if self._timer is not None:
            if due is None or due < self._timer.when():
                self._timer.cancel()
                self._timer = None
            else:
                return
        if due is not None:
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        if not self._listening:
            self._protocol.not_listening(now)
        found = self._protocol.tick(now)
        if found:
            self._hand_on(found)
        if self._protocol.should_close and self._transport is not None:
            # A server that does not answer does not read a goodbye either.
            self._transport.abort()
        self.flush()
