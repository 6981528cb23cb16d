"""One transport of a connection: it drives the protocol and its timers.

Everything sent in one iteration of the event loop is written at once.
"""

import asyncio
from collections.abc import Callable

from nearcast.client.link.transports import Transport
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import Happened
from nearcast.wire.mqtt import ReasonCode


class TransportLink:
    """The listener of one transport; `hand_on` gets the events."""

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
        """Send CONNECT over the open transport."""
        self._transport = transport
        self._protocol.connected_transport(self._loop.time())
        self.flush()

    def stop(self) -> None:
        """Cancel the timer and abort the transport."""
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
        """Pause or resume reading from the transport."""
        if self._transport is None or wanted == self._listening or self.gone.done():
            return
        self._listening = wanted
        self._protocol.not_listening(self._loop.time())
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def flush_soon(self) -> None:
        """Write at the end of this iteration of the event loop."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the protocol's output, and close if it requests that."""
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
        """Process bytes from the server."""
        if self._transport is not None:
            self._hand_on(self._protocol.receive(data, self._loop.time()))
            self.flush_soon()

    def lost(self, why: str) -> None:
        """Note the loss of the transport."""
        if not self.gone.done():
            self.gone.set_result(why)

    def pause_writing(self) -> None:
        """Stop writing while the transport's buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Resume writing."""
        self._writable.set()

    def _set_timer(self) -> None:
        """Set the timer; one that fires too early is set again."""
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
            # A server that does not answer does not read a DISCONNECT either.
            self._transport.abort()
        self.flush()
