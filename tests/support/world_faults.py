"""What can happen to a virtual broker."""

from nearcast.testing import World


def power_cut(world: World) -> None:
    broker = world.brokers["broker"]
    broker.crash(power_cut=True, told=False)
    world.clock.after(1.0, broker.start)
