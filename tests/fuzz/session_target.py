"""MQTT sessions with our words, in virtual time: broken clients lose only their own connections.

Some clients connect, say anything, fall silent, come back and take over each other's sessions,
while one honest client goes on. After each tick the broker's state is checked; in the end the
honest client has got all of its messages, also after the broker has started again from its disk.
"""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from nearcast.broker.config.settings import Limits, Settings
from nearcast.simulation.network.virtual_connection import End
from nearcast.testing import ClientOptions, DiskQuality, VirtualClient, World
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    Connect,
    Decoder,
    Properties,
    Publish,
    Sender,
    encode,
)
from tests.fuzz.random_packets import PacketSource
from tests.support.fuzzing.fuzz_target import FuzzTarget

PACKET_BYTES = 8_192
SETTINGS = Settings(
    limits=Limits(
        packet_bytes=PACKET_BYTES,
        queued=20,
        receive_maximum=10,
        topic_aliases=4,
        retained=12,
        subscriptions=8,
        sessions=6,
        unsent_bytes=4_096,
        in_flight=5,
        topic_levels=8,
    )
)
"""Small limits, so that a few packets reach them."""


class Step(Struct, frozen=True, array_like=True):
    """What happens next: `who` says something, hangs up or stops reading, or time passes."""

    action: str
    who: int = 0
    data: bytes = b""
    seconds: float = 0.0


OPEN, SAY, HANG_UP, DEAF, WAIT, HONEST, RESTART = (
    "open", "say", "hang up", "deaf", "wait", "honest", "restart",
)  # fmt: skip
_CONNECT = encode(Connect("a"))
_LATE = encode(Publish("s/1", b"x").with_(Properties(message_expiry_interval=0xFFFF_FFFF)))
EXAMPLES = {
    # Whether what is left of it was rounded up depended on the time.
    "a message that expires as late as MQTT can say": (
        Step(OPEN),
        Step(SAY, data=_CONNECT),
        *(Step(SAY, data=_LATE) for _ in range(12)),
    ),
}


class SessionTarget(FuzzTarget[tuple[Step, ...]]):
    """Steps of several clients at one broker."""

    name = "sessions"
    suite_cases = 150
    examples = EXAMPLES

    def generate(self, random: Random) -> tuple[Step, ...]:
        sources = [PacketSource(random) for _ in range(3)]
        steps = [
            step
            for who, source in enumerate(sources)
            for step in (Step(OPEN, who), Step(SAY, who, source.connect()))
        ]
        for _ in range(random.choice((10, 30, 60))):
            who = random.randrange(3)
            match random.randrange(30):
                case 0:
                    sources[who] = PacketSource(random)
                    steps += (Step(OPEN, who), Step(SAY, who, sources[who].connect()))
                case 1:
                    steps.append(Step(HANG_UP, who))
                case 2:
                    steps.append(Step(WAIT, seconds=random.choice((0.01, 0.5, 3.0, 700.0))))
                case 3:
                    steps.append(Step(HONEST))
                case 4 if random.random() < 0.3:
                    steps.append(Step(RESTART))
                case 5 if random.random() < 0.3:
                    steps.append(Step(DEAF, who))
                case _:
                    said = b"".join(sources[who].next() for _ in range(random.choice((1, 1, 4))))
                    steps.append(Step(SAY, who, said))
        return tuple(steps)

    def check(self, case: tuple[Step, ...]) -> None:
        with World("fuzz") as world:
            SessionRun(world).run(case)


class SessionRun:
    """One run of steps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._broker = world.broker(disk=DiskQuality(), settings=SETTINGS)
        self._strangers: dict[int, Stranger] = {}
        self._sent = 0
        options = ClientOptions(clean_start=True, session_expiry_s=10_000, keep_alive_s=0)
        self._honest: VirtualClient = world.client("honest", options)
        self._honest.subscribe("honest/#", qos=2)
        world.settle()

    def run(self, steps: tuple[Step, ...]) -> None:
        """Take all steps, and see that the honest client still gets its messages."""
        for step in steps:
            self._take(step)
        self._publish()
        self._take(Step(RESTART))
        self._publish()
        self._check_honest()

    def _take(self, step: Step) -> None:
        world = self._world
        stranger = self._strangers.get(step.who)
        if step.action == OPEN:
            if stranger is not None:
                stranger.hang_up()
            self._strangers[step.who] = Stranger(world, f"stranger-{step.who}")
        elif step.action == WAIT:
            world.run(step.seconds)
        elif step.action == HONEST:
            self._publish()
        elif step.action == RESTART:
            self._broker.restart()
            world.run(1.0)
        elif stranger is not None:
            if step.action == SAY:
                stranger.say(step.data)
                world.run(0.05)
            elif step.action == HANG_UP:
                stranger.hang_up()
            else:
                stranger.stop_reading()

    def _publish(self) -> None:
        """Let the honest client publish with every QoS, and see it acknowledged."""
        self._wait_for(lambda: self._honest.online)
        receipts = []
        for qos in (0, 1, 2):
            self._sent += 1
            receipts.append(self._honest.publish(f"honest/{qos}", b"%d" % self._sent, qos=qos))
        self._wait_for(lambda: all(receipt.done for receipt in receipts[1:]))
        self._wait_for(lambda: len(self._honest.messages) >= self._sent)

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        self._world.run_until(condition, within_s=30.0)

    def _check_honest(self) -> None:
        self._world.run(1.0)
        sent = range(1, self._sent + 1)
        for qos in (0, 1, 2):
            came = sorted(int(payload) for payload in self._honest.payloads(f"honest/{qos}"))
            # Of QoS 1, what was not acknowledged when the broker crashed comes again.
            came = sorted(set(came)) if qos == 1 else came
            assert came == list(sent[qos::3]), (qos, came)
        assert len(self._honest.connected_at) == self._broker.starts, "it was disconnected"


class Stranger:
    """A client that says anything, and understands whatever the broker answers."""

    def __init__(self, world: World, name: str) -> None:
        self._end: End | None = None
        self._decoder: Decoder | None = None
        self._first = b""
        world.network.connect(name, "broker", self._opened)
        world.run(0.05)

    def _opened(self, end: End | None) -> "Stranger":
        self._end = end
        return self

    def say(self, data: bytes) -> None:
        """Send bytes."""
        if self._end is not None:
            self._end.write(data)

    def hang_up(self) -> None:
        """Close the connection without a word."""
        if self._end is not None:
            self._end.abort()

    def stop_reading(self) -> None:
        """Read nothing any more."""
        if self._end is not None:
            self._end.pause_reading()

    def received(self, data: bytes) -> None:
        """Read the broker's answers, which are valid whatever was asked."""
        if self._decoder is None:
            self._first += data
            if len(self._first) < 2:
                return
            # A CONNACK is the first packet; that of MQTT 5 is longer than two bytes.
            version = MQTT_3_1_1 if self._first[1] == 2 else MQTT_5
            self._decoder, data = Decoder(sender=Sender.SERVER, version=version), self._first
        for packet in self._decoder.feed(data):
            if isinstance(packet, Publish):
                packet.validate(Sender.SERVER)

    def lost(self) -> None:
        """The broker has closed the connection."""
        self._end = None

    def pause_writing(self) -> None:
        """What cannot be sent yet waits."""

    def resume_writing(self) -> None:
        """It is sent by the network."""
