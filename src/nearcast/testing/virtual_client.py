"""A client in virtual time: the SDK's own state machine on a virtual network.

It reconnects by itself after a loss. Calls return at once; a receipt gets the broker's answer
later. It may crash and come back with its state, like a program that stores it on disk, or without.
"""

from msgspec.structs import replace

from nearcast.client.api.options import ClientOptions
from nearcast.client.link.backoff import Backoff
from nearcast.client.protocol import protocol_events as happened
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import Happened
from nearcast.simulation.network.virtual_connection import End, Tell
from nearcast.simulation.network.virtual_network import VirtualNetwork
from nearcast.simulation.virtual_clock import Alarm
from nearcast.wire.mqtt import NO_PROPERTIES, Properties, Publish, ReasonCode, TopicFilter

QUICK = Backoff(0.1, 2.0)


class Receipt:
    """The result of a request of a client."""

    __slots__ = ("answered_at", "reason_codes")

    def __init__(self) -> None:
        self.answered_at: float | None = None
        self.reason_codes: tuple[ReasonCode, ...] = ()

    @property
    def done(self) -> bool:
        """True if the broker answered and accepted everything."""
        return self.answered_at is not None and not any(code.failed for code in self.reason_codes)


class VirtualClient:
    """One client of a virtual world."""

    def __init__(
        self,
        network: VirtualNetwork,
        options: ClientOptions,
        broker: str = "broker",
        backoff: Backoff = QUICK,
        tell: Tell = lambda who, what: None,
    ) -> None:
        self.name = options.client_id
        self.options = options
        self.broker = broker
        self.messages: list[Publish] = []
        """All received messages, in order."""
        self.happened: list[Happened] = []
        """All events, including messages, in order."""
        self.connected_at: list[float] = []
        """The times at which the broker accepted it."""
        self._network = network
        self._clock = network.clock
        self._chance = network.clock.chance(f"{self.name}/client")
        self._backoff = backoff
        self._tell = tell
        self._protocol = ClientProtocol(options)
        self._receipts: dict[int, Receipt] = {}
        self._listener: _ClientListener | None = None
        self._wanted = self._vanished = False
        self._attempts = 0
        self._run = 0
        """Counts crashes, so that callbacks begun before one are ignored after it."""
        self._listening = True
        self._due = False
        self._timer: Alarm | None = None

    @property
    def online(self) -> bool:
        """True if the broker accepted it, and neither side has disconnected."""
        return self._protocol.online

    @property
    def is_wanted(self) -> bool:
        """True if it is connected or trying to connect."""
        return self._wanted

    @property
    def idle(self) -> bool:
        """True if nothing waits to be sent or answered."""
        statistics = self._protocol.statistics()
        return not (statistics.waiting or statistics.in_flight or statistics.unreleased)

    def payloads(self, topic: str | None = None) -> list[bytes]:
        """The received payloads, of all topics or one, in order."""
        return [each.payload for each in self.messages if topic in (None, each.topic)]

    def connect(self) -> None:
        """Connect, and stay connected."""
        if not self._wanted and not self._vanished:
            self._wanted = True
            self._attempt()

    def disconnect(self) -> None:
        """Disconnect, and stay disconnected."""
        self._wanted = False
        if self._listener is not None:
            self._protocol.disconnect(ReasonCode.NORMAL_DISCONNECTION, self._clock.now())
            self._flush()

    def publish(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> Receipt:
        """Publish now or once connected; the broker does not answer QoS 0."""
        now = self._clock.now()
        token = self._protocol.publish(topic, payload, qos, retain, properties, now)
        return self._receipt(token)

    def subscribe(
        self, *filters: TopicFilter | str, qos: int = 0, properties: Properties = NO_PROPERTIES
    ) -> Receipt:
        """Subscribe now or once connected; a filter given as text gets `qos`."""
        wanted = [TopicFilter(each, qos) if isinstance(each, str) else each for each in filters]
        return self._receipt(self._protocol.subscribe(wanted, properties, self._clock.now()))

    def unsubscribe(self, *filters: str) -> Receipt:
        """End subscriptions, now or once connected."""
        token = self._protocol.unsubscribe(filters, NO_PROPERTIES, self._clock.now())
        return self._receipt(token)

    def crash(self, *, told: bool = True) -> None:
        """Stop at once; with `told` the broker's system learns that the connection is gone."""
        self._run += 1
        self._network.crash(self.name, told=told)
        self._gone()
        self._wanted = False
        self._tell(self.name, "crashes")

    def vanish(self) -> None:
        """Crash for good: later calls of `connect` do nothing."""
        self.crash()
        self._vanished = True

    def forget(self) -> None:
        """Lose all state while it is down; earlier receipts are never answered."""
        assert not self._wanted, f"{self.name} is up"
        # A program that resumes an older session starts with another packet id.
        first = self._chance.randint(1, 0xFFFF)
        self._protocol = ClientProtocol(replace(self.options, first_packet_id=first))
        self._receipts.clear()
        self._tell(self.name, "forgets")

    def listen(self) -> None:
        """Resume reading what the broker sends."""
        self._listening = True
        if self._listener is not None:
            self._listener.end.resume_reading()
            self._protocol.not_listening(self._clock.now())
            self._flush()

    def stop_listening(self) -> None:
        """Read nothing until `listen`."""
        self._listening = False
        if self._listener is not None:
            self._listener.end.pause_reading()
            self._protocol.not_listening(self._clock.now())

    def validate_state(self) -> None:
        """Check the invariants of the protocol."""
        self._protocol.validate_state()

    # The transport

    def _attempt(self) -> None:
        run = self._run
        self._network.connect(self.name, self.broker, lambda end: self._opened(end, run))

    def _opened(self, end: End | None, run: int) -> "_ClientListener | None":
        if run != self._run or not self._wanted or self._listener is not None:
            return None
        if end is None:
            self._again()
            return None
        self._listener = _ClientListener(self, end)
        self._protocol.connected_transport(self._clock.now())
        if not self._listening:
            end.pause_reading()
        self._flush_soon()
        return self._listener

    def _again(self) -> None:
        """Retry after a delay."""
        run, delay_s = self._run, self._backoff.delay_s(self._attempts, self._chance)
        self._attempts += 1

        def attempt() -> None:
            if run == self._run and self._wanted and self._listener is None:
                self._attempt()

        self._clock.after(delay_s, attempt)

    def _gone(self) -> None:
        self._listener = None
        self._protocol.disconnected_transport(self._clock.now())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _receipt(self, token: int) -> Receipt:
        receipt = self._receipts[token] = Receipt()
        self._flush_soon()
        return receipt

    def _flush_soon(self) -> None:
        if not self._due:
            self._due = True
            self._clock.soon(self._flush)

    def _flush(self) -> None:
        """Write the protocol's pending bytes, and close if it asks for that."""
        self._due = False
        if self._listener is None:
            return
        data = self._protocol.take()
        self.validate_state()
        if data:
            self._listener.end.write(data)
        if self._protocol.should_close:
            self._listener.end.close()
        self._set_timer()

    def _set_timer(self) -> None:
        due = self._protocol.next_timer()
        if self._timer is not None:
            if due is not None and due >= self._timer.at:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self._clock.at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.now()
        if not self._listening:
            self._protocol.not_listening(now)
        self._take(self._protocol.tick(now))
        if self._protocol.should_close and self._listener is not None:
            # A broker that does not answer would not read a DISCONNECT either.
            self._listener.end.abort()
        self._flush()

    def received(self, data: bytes, listener: "_ClientListener") -> None:
        """Handle bytes of the broker."""
        if listener is self._listener:
            self._take(self._protocol.receive(data, self._clock.now()))
            self._flush_soon()

    def lost(self, listener: "_ClientListener") -> None:
        """Handle the loss of the transport."""
        if listener is self._listener:
            self._gone()
            self.validate_state()
            if self._wanted:
                self._again()

    def _take(self, found: list[Happened]) -> None:
        self.happened += found
        for event in found:
            match event:
                case happened.MessageReceived(publish):
                    self.messages.append(publish)
                    self._tell(self.name, f"receives {_shown(publish)}")
                case happened.Acknowledged(token, code):
                    self._answered(token, (code,))
                case happened.SubscribeAcknowledged(
                    token, codes
                ) | happened.UnsubscribeAcknowledged(token, codes):
                    self._answered(token, codes)
                case happened.Connected():
                    self.connected_at.append(self._clock.now())
                    self._attempts = 0
                    self._tell(self.name, "is connected")
                case _:
                    self._tell(self.name, str(event))

    def _answered(self, token: int, codes: tuple[ReasonCode, ...]) -> None:
        receipt = self._receipts.pop(token, None)
        if receipt is not None:
            receipt.answered_at = self._clock.now()
            receipt.reason_codes = codes


class _ClientListener:
    """Receives at the client's end of one connection."""

    def __init__(self, client: VirtualClient, end: End) -> None:
        self._client = client
        self.end = end

    def received(self, data: bytes) -> None:
        self._client.received(data, self)

    def lost(self) -> None:
        self._client.lost(self)

    def pause_writing(self) -> None:
        """Ignored: this client keeps writing; its queue is bounded."""

    def resume_writing(self) -> None:
        """Ignored: no write was paused."""


def _shown(publish: Publish) -> str:
    marks = f"QoS {publish.qos}" + (", retained" if publish.retain else "")
    return f"{publish.topic} {publish.payload!r} ({marks})"
