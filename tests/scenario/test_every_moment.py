"""One small exchange, and the same thing going wrong at each of its moments in turn."""

from collections.abc import Callable

import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.testing import ClientOptions, DiskQuality, LinkQuality, World
from tests.support.world_faults import power_cut

TEXTS = [b"1", b"2", b"3"]
LASTING = ClientOptions(session_expiry_s=3_600, clean_start=False, keep_alive_s=5)


def broker_crash(world: World) -> None:
    world.brokers["broker"].restart()


def lost_receiver(world: World) -> None:
    world.network.lose("bob", learns_s=0.0, other_learns_s=None)


def lost_sender(world: World) -> None:
    world.network.lose("ann", learns_s=0.0, other_learns_s=1.0)


def receiver_crash(world: World) -> None:
    bob = world.clients["bob"]
    bob.crash()
    world.clock.after(1.0, bob.connect)


def exchange(moment: int, goes_wrong: Callable[[World], None]) -> bool:
    """Send three messages, one at a time on the way; False if all was over before the moment."""
    with World(moment) as world:
        settings = Settings(limits=Limits(in_flight=1))
        world.broker(disk=DiskQuality(0.02, 0.04), settings=settings)
        ann, bob = world.client("ann", LASTING), world.client("bob", LASTING)
        wish = bob.subscribe("orders", qos=2)
        world.settle()
        assert wish.done
        receipts = [ann.publish("orders", text, qos=2) for text in TEXTS]
        for _ in range(moment):
            world.clock.step()
        was_over = len(bob.messages) == len(TEXTS) and bob.idle and ann.idle
        goes_wrong(world)
        world.run(2.0)
        world.settle()
        assert all(receipt.done for receipt in receipts)
        assert bob.payloads() == TEXTS
        return not was_over


def slow_reader(moment: int) -> bool:
    """A message that waited for room is sent; False if all was over before the moment."""
    with World(moment, LinkQuality(held_bytes=200)) as world:
        settings = Settings(limits=Limits(unsent_bytes=500))
        broker = world.broker(disk=DiskQuality(0.02, 0.04), settings=settings)
        ann, bob = world.client("ann", LASTING), world.client("bob", LASTING)
        wish = bob.subscribe("#", qos=2)
        world.run_until(lambda: wish.done)
        ann.publish("orders", TEXTS[0], qos=2)
        world.settle()
        # What the disk need not sync, it has by now: packet ids would begin again at one.
        world.run(6.0)
        bob.stop_listening()
        ann.publish("noise", bytes(2_000))
        world.run(1.0)
        for text in TEXTS[1:]:
            ann.publish("orders", text, qos=2)
        world.run(1.0)
        assert broker.hub.sessions["bob"].statistics()["waiting"] == 2
        bob.listen()
        for _ in range(moment):
            world.clock.step()
        was_over = len(bob.payloads("orders")) == len(TEXTS) and bob.idle
        power_cut(world)
        world.run(2.0)
        world.settle()
        assert bob.payloads("orders") == TEXTS
        return not was_over


def test_a_message_that_waited_for_a_slow_reader_comes_once_whenever_power_is_lost() -> None:
    moment = 0
    while slow_reader(moment):
        moment += 1
    assert moment > 30


@pytest.mark.parametrize(
    "goes_wrong", [power_cut, broker_crash, lost_receiver, lost_sender, receiver_crash]
)
def test_messages_come_once_and_in_order_whenever_it_happens(
    goes_wrong: Callable[[World], None],
) -> None:
    moment = 0
    while exchange(moment, goes_wrong):
        moment += 1
    assert moment > 30
