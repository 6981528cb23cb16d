"""A client in virtual time: the SDK's own state machine on a virtual network.

It connects again by itself after a loss. Calls return at once; a receipt tells later what the
broker said. It may crash and come back with its state, as a program that keeps it on disk, or
without.
"""

from msgspec.structs import replace

from nearcast.client.api.options import ClientOptions
from nearcast.client.link.backoff import Backoff
from nearcast.client.protocol import protocol_events as happened
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import Happened
from nearcast.simulation.virtual_clock import Alarm
from nearcast.simulation.virtual_connection import End, Tell
from nearcast.simulation.virtual_network import VirtualNetwork
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
        """Whether the broker took it all."""
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
        """All that came, in order."""
        self.happened: list[Happened] = []
        """All that happened, messages too, in order."""
        self.connected_at: list[float] = []
        """When the broker let it in, each time."""
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
        """Counts crashes, so that what was begun before one is not heard after it."""
        self._listening = True
        self._due = False
        self._timer: Alarm | None = None

    @property
    def online(self) -> bool:
        """Whether the broker accepted it, and neither side has disconnected."""
        return self._protocol.online

    @property
    def is_wanted(self) -> bool:
        """Whether it is connected or trying to be."""
        return self._wanted

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be sent or answered."""
        statistics = self._protocol.statistics()
        return not (statistics.waiting or statistics.in_flight or statistics.unreleased)

    def payloads(self, topic: str | None = None) -> list[bytes]:
        """What came, or what came on one topic, in order."""
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
        """Publish now or once connected; of QoS 0 nobody tells what became."""
        now = self._clock.now()
        token = self._protocol.publish(topic, payload, qos, retain, properties, now)
        return self._receipt(token)

    def subscribe(
        self, *filters: TopicFilter | str, qos: int = 0, properties: Properties = NO_PROPERTIES
    ) -> Receipt:
        """Subscribe now or once connected; a filter that is only text gets `qos`."""
        wanted = [TopicFilter(each, qos) if isinstance(each, str) else each for each in filters]
        return self._receipt(self._protocol.subscribe(wanted, properties, self._clock.now()))

    def unsubscribe(self, *filters: str) -> Receipt:
        """End subscriptions, now or once connected."""
        token = self._protocol.unsubscribe(filters, NO_PROPERTIES, self._clock.now())
        return self._receipt(token)

    def crash(self, *, told: bool = True) -> None:
        """Stop at once; with `told` the broker's system hears that the connection is gone."""
        self._run += 1
        self._network.crash(self.name, told=told)
        self._gone()
        self._wanted = False
        self._tell(self.name, "crashes")

    def vanish(self) -> None:
        """Crash for good: it never connects again, whatever asks it to."""
        self.crash()
        self._vanished = True

    def forget(self) -> None:
        """Lose all that it knew, while it is down; receipts from before are never answered."""
        assert not self._wanted, f"{self.name} is up"
        # A program that takes up an older session begins somewhere else.
        first = self._chance.randint(1, 0xFFFF)
        self._protocol = ClientProtocol(replace(self.options, first_packet_id=first))
        self._receipts.clear()
        self._tell(self.name, "forgets")

    def listen(self) -> None:
        """Read again what the broker sends."""
        self._listening = True
        if self._listener is not None:
            self._listener.end.resume_reading()
            self._protocol.not_listening(self._clock.now())
            self._flush()

    def stop_listening(self) -> None:
        """Read nothing for a while."""
        self._listening = False
        if self._listener is not None:
            self._listener.end.pause_reading()
            self._protocol.not_listening(self._clock.now())

    def validate_state(self) -> None:
        """Assert what always holds."""
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
        """Try again after a while."""
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
        """Write what the protocol has to send, and close if it wants to."""
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
            # A broker that does not answer does not read a goodbye either.
            self._listener.end.abort()
        self._flush()

    def received(self, data: bytes, listener: "_ClientListener") -> None:
        """The broker sent something."""
        if listener is self._listener:
            self._take(self._protocol.receive(data, self._clock.now()))
            self._flush_soon()

    def lost(self, listener: "_ClientListener") -> None:
        """The transport is gone."""
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
        """A client of this kind writes on; its queue has bounds."""

    def resume_writing(self) -> None:
        """Nothing waited."""


def _shown(publish: Publish) -> str:
    marks = f"QoS {publish.qos}" + (", retained" if publish.retain else "")
    return f"{publish.topic} {publish.payload!r} ({marks})"
