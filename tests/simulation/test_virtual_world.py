from collections.abc import Iterator

import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.testing import ClientOptions, DiskQuality, Fault, FaultKind, LinkQuality, World
from nearcast.wire.mqtt import ReasonCode, Will

LASTING = ClientOptions(session_expiry_s=3_600, clean_start=False, keep_alive_s=5)


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=7) as world:
        yield world


def test_a_message_comes_to_who_subscribed(world: World) -> None:
    world.broker()
    ann, bob = world.client("ann"), world.client("bob")
    wish = bob.subscribe("news/#", qos=1)
    world.run_until(lambda: wish.done)
    receipt = ann.publish("news/a", b"hello", qos=1)
    world.settle()
    assert receipt.done
    assert bob.payloads("news/a") == [b"hello"]
    assert wish.reason_codes == (ReasonCode.GRANTED_QOS_1,)


def test_an_acknowledgement_waits_for_the_disk(world: World) -> None:
    world.broker(disk=DiskQuality(3.0, 3.0))
    ann = world.client("ann", LASTING)
    world.run_until(lambda: ann.online)
    receipt = ann.publish("news", b"1", qos=1)
    asked_at = world.clock.now()
    world.run_until(lambda: receipt.done)
    assert world.clock.now() > asked_at + 3.0


def test_what_was_promised_outlives_a_power_cut(world: World) -> None:
    broker = world.broker(disk=DiskQuality())
    ann, bob = world.client("ann", LASTING), world.client("bob", LASTING)
    wish = bob.subscribe("news", qos=2)
    world.run_until(lambda: wish.done)
    bob.crash()
    receipt = ann.publish("news", b"1", qos=2)
    world.run_until(lambda: receipt.done)
    broker.crash(power_cut=True, told=False)
    world.run(3.0)
    broker.start()
    bob.connect()
    world.settle()
    assert bob.payloads() == [b"1"]


def test_what_was_not_promised_yet_may_be_gone_after_a_crash() -> None:
    def granted(seed: int) -> bool:
        with World(seed) as world:
            broker = world.broker(disk=DiskQuality(3.0, 3.0))
            bob = world.client("bob", LASTING)
            wish = bob.subscribe("news", qos=1)
            world.run_until(lambda: bob.online)
            world.run(2.0)
            assert not wish.done
            broker.restart()
            return bool(broker.hub.sessions["bob"].granted)

    assert {granted(seed) for seed in range(10)} == {True, False}


def test_a_broker_without_a_disk_begins_with_nothing(world: World) -> None:
    broker = world.broker()
    ann = world.client("ann", LASTING)
    ann.publish("news", b"1", qos=1, retain=True)
    world.settle()
    broker.restart()
    assert broker.hub.statistics()["live"] == 0
    assert broker.starts == 2
    world.settle()
    assert len(ann.connected_at) == 2


def test_a_broker_that_stops_says_goodbye(world: World) -> None:
    broker = world.broker(disk=DiskQuality())
    ann = world.client("ann", LASTING)
    world.run_until(lambda: ann.online)
    broker.stop()
    world.run(1.0)
    assert not ann.online
    assert "SERVER_SHUTTING_DOWN" in world.trace
    broker.start()
    world.settle()


def test_who_does_not_read_gets_everything_later_and_in_order(world: World) -> None:
    limits = Limits(unsent_bytes=1_000, stalled_s=300.0)
    broker = world.broker(settings=Settings(limits=limits))
    world.network.set_usual(LinkQuality(held_bytes=500))
    ann = world.client("ann")
    bob = world.client("bob", ClientOptions(keep_alive_s=0))
    wish = bob.subscribe("news", qos=1)
    world.run_until(lambda: wish.done)
    bob.stop_listening()
    texts = [b"%03d" % number * 30 for number in range(100)]
    for number, text in enumerate(texts):
        ann.publish("news", text, qos=number % 2)
    world.run(20.0)
    session = broker.hub.sessions["bob"]
    assert session.connection is not None
    assert session.connection.blocked
    assert session.statistics()["waiting"] > 50
    bob.listen()
    world.settle()
    assert bob.payloads() == texts


def test_who_never_reads_is_disconnected(world: World) -> None:
    limits = Limits(unsent_bytes=1_000, stalled_s=5.0)
    broker = world.broker(settings=Settings(limits=limits))
    world.network.set_usual(LinkQuality(held_bytes=500))
    ann = world.client("ann")
    bob = world.client("bob", ClientOptions(keep_alive_s=0))
    wish = bob.subscribe("news")
    world.run_until(lambda: wish.done)
    bob.stop_listening()
    for _ in range(10):
        ann.publish("news", bytes(400))
    world.run(3.0)
    assert broker.hub.statistics()["connects_total"] == 2
    world.run(10.0)
    assert broker.hub.statistics()["connects_total"] == 3


@pytest.mark.parametrize(
    "kind", [FaultKind.HALF_OPEN, FaultKind.UNHEARD, FaultKind.PARTED, FaultKind.LOST]
)
def test_whichever_side_learns_late_the_client_comes_back(world: World, kind: FaultKind) -> None:
    world.broker(disk=DiskQuality())
    ann, bob = world.client("ann", LASTING), world.client("bob", LASTING)
    wish = bob.subscribe("news", qos=2)
    world.run_until(lambda: wish.done)
    world.inflict([Fault(2.0, kind, "bob", 30.0)])
    world.run(2.0)
    for number in range(10):
        ann.publish("news", str(number).encode(), qos=2)
        world.run(0.5)
    world.settle()
    assert bob.payloads() == [str(number).encode() for number in range(10)]


@pytest.mark.parametrize("graceful", [True, False])
def test_a_will_is_for_those_who_go_without_a_word(world: World, graceful: bool) -> None:
    world.broker()
    bob = world.client("bob")
    ann = world.client("ann", ClientOptions(will=Will("wills", b"ann is gone"), keep_alive_s=5))
    bob.subscribe("wills")
    world.settle()
    if graceful:
        ann.disconnect()
    else:
        ann.crash(told=False)
    world.run(20.0)
    assert bob.payloads() == ([] if graceful else [b"ann is gone"])


def test_who_comes_back_without_memory_is_still_owed_what_it_never_took(world: World) -> None:
    world.broker(disk=DiskQuality())
    ann, bob = world.client("ann"), world.client("bob", LASTING)
    wish = bob.subscribe("news", qos=1)
    world.run_until(lambda: wish.done)
    bob.crash()
    bob.forget()
    receipt = ann.publish("news", b"1", qos=1)
    world.run_until(lambda: receipt.done)
    bob.connect()
    world.settle()
    assert bob.payloads() == [b"1"]


def test_a_condition_that_never_holds_is_given_up(world: World) -> None:
    ann = world.client("ann")
    with pytest.raises(TimeoutError, match="after 5 s of virtual time"):
        world.run_until(lambda: ann.online, within_s=5.0)
