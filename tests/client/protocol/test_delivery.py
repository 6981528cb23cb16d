"""Whatever a link loses: QoS 1 arrives at least once, QoS 2 exactly once, both in order."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from nearcast.client.api.options import ClientOptions
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import (
    Acknowledged,
    Connected,
    MessageReceived,
    SubscribeAcknowledged,
)
from nearcast.wire.mqtt import NO_PROPERTIES, Publish, TopicFilter
from tests.client.protocol.reference_server import Link, ReferenceServer


class Carry(Struct, frozen=True):
    forth: int
    back: int


SAID = st.sampled_from(["out 0", "out 1", "out 2", "in 0", "in 1", "in 2"])
CARRIED = st.builds(Carry, st.integers(0, 80), st.integers(0, 40))
STEPS = st.one_of(SAID, CARRIED, CARRIED, st.sampled_from(["cut", "connect", "connect"]))


def runs(steps: st.SearchStrategy[str | Carry]) -> st.SearchStrategy[list[str | Carry]]:
    """Runs that are long enough for a handshake, a cut in the middle and what follows."""
    return st.integers(0, 120).flatmap(lambda size: st.lists(steps, min_size=size, max_size=size))


class World:
    """A client and a server that say numbers to each other."""

    def __init__(self, version: int, receive_maximum: int, on_release: bool) -> None:
        self.client = ClientProtocol(
            ClientOptions(
                client_id="c",
                version=version,
                clean_start=version == 5,
                first_packet_id=65_534,
                receive_maximum=3,
                session_expiry_s=3600 if version == 5 else 0,
            )
        )
        limit = receive_maximum if version == 5 else 65_535
        self.server = ReferenceServer(version, limit, on_release)
        self.link = Link(self.client, self.server)
        self.count = 0
        self.out: dict[int, list[str]] = {0: [], 1: [], 2: []}
        self.come: dict[int, list[str]] = {0: [], 1: [], 2: []}
        self.tokens: list[int] = []
        self._known_at: int | None = None

    @property
    def _knows(self) -> bool:
        """Whether the client learned that its session was forgotten.

        Until then it goes on with what it knows of the old one, and MQTT has no way to tell it: a
        number of a message that it has would be taken for that message. So no server here keeps a
        session that its client has not heard of.
        """
        at = self._known_at
        return at is None or any(isinstance(h, Connected) for h in self.link.happened[at:])

    def step(self, step: str | Carry) -> None:
        match step:
            case Carry(forth, back):
                self.link.carry(forth, back)
            case "cut":
                self.link.cut()
                if not self._knows:
                    self.server.forget()
            case "connect":
                self.link.connect()
            case "forget":
                self.link.cut()
                self.server.forget()
                self._known_at = len(self.link.happened)
            case str():
                way, qos = step.split()
                self.say(way, int(qos))
        self.client.validate_state()

    def say(self, way: str, qos: int) -> None:
        self.count += 1
        text = str(self.count)
        if way == "in":
            self.come[qos].append(text)
            self.server.publish(Publish(f"in/{qos}", text.encode(), qos))
            return
        self.out[qos].append(text)
        token = self.client.publish(f"out/{qos}", text.encode(), qos, False, NO_PROPERTIES, 0.0)
        if qos:
            self.tokens.append(token)

    def finish(self) -> None:
        self.link.connect()
        self.link.settle()
        # A server answers once more than it holds; by now there is nothing left to lose.
        statistics = self.client.statistics()
        assert (statistics.waiting, statistics.in_flight, statistics.held_bytes) == (0, 0, 0)

    def got(self, qos: int) -> list[str]:
        return [p.payload.decode() for p in self.server.got if p.qos == qos]

    def received(self, qos: int) -> list[str]:
        messages = [h.publish for h in self.link.happened if isinstance(h, MessageReceived)]
        return [p.payload.decode() for p in messages if p.qos == qos]

    def acknowledged(self) -> list[int]:
        return [h.token for h in self.link.happened if isinstance(h, Acknowledged)]


def firsts(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def is_part(some: list[str], all_: list[str]) -> bool:
    rest = iter(all_)
    return all(text in rest for text in some)


@given(
    st.sampled_from([4, 5]),
    st.integers(1, 4),
    st.booleans(),
    runs(STEPS),
)
def test_a_session_that_lasts_loses_and_repeats_nothing_it_should_not(
    version: int, receive_maximum: int, on_release: bool, steps: list[str | Carry]
) -> None:
    world = World(version, receive_maximum, on_release)
    for step in steps:
        world.step(step)
    world.finish()
    for sent, arrived in ((world.out, world.got), (world.come, world.received)):
        assert is_part(arrived(0), sent[0])
        assert firsts(arrived(1)) == sent[1]
        assert arrived(2) == sent[2]
    assert sorted(world.acknowledged()) == world.tokens


@given(
    st.sampled_from([4, 5]),
    st.integers(1, 4),
    st.booleans(),
    runs(st.one_of(STEPS, STEPS, STEPS, st.just("forget"))),
)
def test_a_session_that_is_forgotten_loses_nothing_but_qos_0(
    version: int, receive_maximum: int, on_release: bool, steps: list[str | Carry]
) -> None:
    world = World(version, receive_maximum, on_release)
    token = world.client.subscribe([TopicFilter("in/#", 2)], NO_PROPERTIES, 0.0)
    for step in steps:
        world.step(step)
    world.finish()
    for qos in (1, 2):
        assert firsts(world.got(qos)) == world.out[qos]
        assert set(world.received(qos)) == set(world.come[qos])
    assert sorted(world.acknowledged()) == world.tokens
    assert [h.token for h in world.link.happened if isinstance(h, SubscribeAcknowledged)] == [token]
    assert world.server.filters == {"in/#": 2}


@given(st.integers(1, 4), runs(STEPS))
def test_the_same_steps_give_the_same_bytes(receive_maximum: int, steps: list[str | Carry]) -> None:
    def run() -> tuple[list[object], list[object]]:
        world = World(5, receive_maximum, False)
        for step in steps:
            world.step(step)
        world.finish()
        return list(world.server.seen), list(world.link.happened)

    assert run() == run()


@given(st.lists(st.integers(0, 2), max_size=30))
def test_without_faults_everything_arrives_in_the_order_it_was_said(qualities: list[int]) -> None:
    world = World(5, 65_535, False)
    for qos in qualities:
        world.say("out", qos)
    world.finish()
    texts = [p.payload.decode() for p in world.server.got]
    assert texts == [str(number + 1) for number in range(len(qualities))]
