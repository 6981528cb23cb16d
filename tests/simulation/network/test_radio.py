import pytest

from nearcast.core.model import Position
from nearcast.simulation.network.datagrams import DatagramSocket, DatagramTooLargeError
from nearcast.simulation.network.radio import Radio, RadioSettings
from nearcast.simulation.virtual_clock import VirtualClock
from tests.support.radio_field import at_m


class Channel:
    """A channel with hosts on a line."""

    def __init__(self, places_m: dict[str, float], settings: RadioSettings | None = None) -> None:
        self.clock = VirtualClock(1)
        self.places: dict[str, Position] = {name: at_m(x) for name, x in places_m.items()}
        self.radio = Radio(self.clock, self.places.get, settings or RadioSettings())
        self.heard: list[tuple[str, bytes]] = []
        self.sockets: dict[str, DatagramSocket] = {}
        for name in places_m:
            self.sockets[name] = self.radio.open(name, self._hear(name))
            self.sockets[name].join("all")

    def _hear(self, name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return lambda data, sender: self.heard.append((name, data))


def test_a_frame_reaches_the_members_in_range() -> None:
    channel = Channel({"a": 0, "b": 150, "c": 250, "d": -199, "e": 10})
    channel.sockets["e"].leave("all")
    channel.sockets["a"].send(b"x", "all")
    channel.clock.run(1.0)
    assert sorted(channel.heard) == [("b", b"x"), ("d", b"x")]


def test_a_frame_takes_its_time() -> None:
    channel = Channel({"a": 0, "b": 10}, RadioSettings(bytes_per_s=1_000))
    channel.sockets["a"].send(b"x" * 940, "all")
    channel.clock.run(0.99)
    assert channel.heard == []
    channel.clock.run(0.02)
    assert len(channel.heard) == 1


def test_a_sender_waits_for_the_channel() -> None:
    channel = Channel({"a": 0, "b": 10, "c": 20}, RadioSettings(bytes_per_s=1_000))
    channel.sockets["a"].send(b"a", "all")
    channel.clock.run(0.01)
    channel.sockets["b"].send(b"b", "all")
    channel.clock.run(1.0)
    assert channel.radio.counts.deferred == 1
    assert [data for name, data in channel.heard if name == "c"] == [b"a", b"b"]


def test_frames_of_those_who_cannot_hear_each_other_collide_between_them() -> None:
    channel = Channel({"a": 0, "b": 150, "c": 300, "d": 450}, RadioSettings(bytes_per_s=1_000))
    channel.sockets["a"].send(b"a", "all")
    channel.clock.run(0.01)
    channel.sockets["c"].send(b"c", "all")
    channel.clock.run(1.0)
    assert channel.heard == [("d", b"c")]
    assert channel.radio.counts.collided == 2


def test_those_who_begin_in_the_same_moment_collide() -> None:
    channel = Channel({"a": 0, "b": 10, "c": 20})
    channel.sockets["a"].send(b"a", "all")
    channel.sockets["b"].send(b"b", "all")
    channel.clock.run(1.0)
    assert channel.heard == []


def test_without_contention_nothing_collides() -> None:
    channel = Channel({"a": 0, "b": 10, "c": 20}, RadioSettings(contention=False))
    channel.sockets["a"].send(b"a", "all")
    channel.sockets["b"].send(b"b", "all")
    channel.clock.run(1.0)
    assert len(channel.heard) == 4


def test_frames_are_lost_as_often_as_said() -> None:
    channel = Channel({"a": 0, "b": 10}, RadioSettings(loss=0.3, contention=False))
    for _ in range(2_000):
        channel.sockets["a"].send(b"x", "all")
    channel.clock.run(1.0)
    assert 0.25 < channel.radio.counts.lost / 2_000 < 0.35


def test_who_has_no_place_neither_hears_nor_is_heard() -> None:
    channel = Channel({"a": 0, "b": 10})
    del channel.places["b"]
    channel.sockets["a"].send(b"x", "all")
    channel.sockets["b"].send(b"x", "all")
    channel.clock.run(1.0)
    assert channel.heard == []
    assert not channel.radio.hears("a", "b")


def test_a_closed_socket_refuses_and_its_frame_is_cut_off() -> None:
    channel = Channel({"a": 0, "b": 10})
    channel.sockets["a"].send(b"x", "all")
    channel.sockets["a"].close()
    channel.clock.run(1.0)
    assert channel.heard == []
    with pytest.raises(OSError, match="closed"):
        channel.sockets["a"].send(b"x", "all")
    with pytest.raises(DatagramTooLargeError):
        channel.sockets["b"].send(b"x" * 5_000, "all")
