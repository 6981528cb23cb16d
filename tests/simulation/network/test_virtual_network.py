from hypothesis import given
from hypothesis import strategies as st

from nearcast.simulation.network.virtual_connection import ConnectionListener, End, LinkQuality
from nearcast.simulation.network.virtual_network import CONNECT_WITHIN_S, VirtualNetwork
from nearcast.simulation.virtual_clock import VirtualClock


class Listener:
    """Keeps what it hears at one end."""

    def __init__(self, end: End) -> None:
        self.end = end
        self.pieces: list[bytes] = []
        self.is_lost = False
        self.paused: list[bool] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def received(self, data: bytes) -> None:
        assert data
        assert not self.is_lost
        self.pieces.append(data)

    def lost(self) -> None:
        assert not self.is_lost
        self.is_lost = True

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)


class Pair:
    """A connection from ann to bob."""

    def __init__(self, quality: LinkQuality | None = None, seed: int = 0) -> None:
        self.clock = VirtualClock(seed)
        self.network = VirtualNetwork(self.clock, quality)
        self.ends: list[Listener] = []
        self.refused = 0
        self.network.listen("bob", self._accept)

    def _accept(self, end: End) -> ConnectionListener:
        self.ends.append(Listener(end))
        return self.ends[-1]

    def _opened(self, end: End | None) -> ConnectionListener | None:
        if end is None:
            self.refused += 1
            return None
        self.ends.append(Listener(end))
        return self.ends[-1]

    def connect(self) -> None:
        self.network.connect("ann", "bob", self._opened)

    def connected(self) -> tuple[Listener, Listener]:
        self.connect()
        self.clock.run(5.0)
        bob, ann = self.ends
        return ann, bob


@given(st.integers(), st.lists(st.binary(min_size=1, max_size=300)), st.booleans())
def test_bytes_arrive_in_order_however_they_are_cut(
    seed: int, said: list[bytes], slow: bool
) -> None:
    quality = LinkQuality(pieces=0.8, held_bytes=50, bytes_per_s=1_000.0 if slow else 1e9)
    ann, bob = (pair := Pair(quality, seed)).connected()
    for data in said:
        ann.end.write(data)
    bob.end.write(b"and back")
    pair.clock.run(60.0)
    assert bob.data == b"".join(said)
    assert ann.data == b"and back"


def test_a_slow_link_takes_its_time() -> None:
    pair = Pair(LinkQuality(bytes_per_s=100.0))
    ann, bob = pair.connected()
    ann.end.write(bytes(1_000))
    pair.clock.run(5.0)
    assert 400 <= len(bob.data) <= 510
    pair.clock.run(6.0)
    assert len(bob.data) == 1_000


def test_a_sender_is_paused_while_nobody_reads_and_goes_on_afterwards() -> None:
    pair = Pair(LinkQuality(held_bytes=100))
    ann, bob = pair.connected()
    ann.end.limit(high=500, low=100)
    bob.end.pause_reading()
    ann.end.write(bytes(400))
    assert ann.paused == []
    ann.end.write(bytes(400))
    pair.clock.run(10.0)
    assert ann.paused == [True]
    assert bob.data == b""
    assert ann.end.unsent_bytes == 700
    bob.end.resume_reading()
    pair.clock.run(10.0)
    assert len(bob.data) == 800
    assert ann.paused == [True, False]


def test_closing_lets_everything_arrive_first() -> None:
    pair = Pair(LinkQuality(bytes_per_s=1_000.0))
    ann, bob = pair.connected()
    ann.end.write(bytes(2_000))
    ann.end.close()
    pair.clock.run(0.5)
    assert (ann.is_lost, bob.is_lost) == (False, False)
    pair.clock.run(5.0)
    assert len(bob.data) == 2_000
    assert (ann.is_lost, bob.is_lost) == (True, True)


def test_aborting_drops_what_waits() -> None:
    pair = Pair(LinkQuality(bytes_per_s=1_000.0))
    ann, bob = pair.connected()
    ann.end.write(bytes(2_000))
    ann.end.abort()
    pair.clock.run(5.0)
    assert len(bob.data) < 2_000
    assert (ann.is_lost, bob.is_lost) == (True, True)


def test_of_a_lost_connection_each_side_learns_in_its_own_time() -> None:
    pair = Pair()
    ann, bob = pair.connected()
    ann.end.write(b"before")
    pair.clock.run(1.0)
    assert pair.network.lose("ann", learns_s=2.0, other_learns_s=None) == 1
    ann.end.write(b"into the void")
    pair.clock.run(1.0)
    assert (ann.is_lost, bob.is_lost) == (False, False)
    pair.clock.run(60.0)
    assert (ann.is_lost, bob.is_lost) == (True, False)
    assert bob.data == b"before"


def test_a_parting_delays_and_loses_nothing() -> None:
    pair = Pair(LinkQuality(most_delay_s=0.2, pieces=0.9))
    ann, bob = pair.connected()
    ann.end.write(b"one ")
    pair.network.part("ann", "bob")
    ann.end.write(b"two ")
    pair.clock.run(10.0)
    assert bob.data == b""
    ann.end.write(b"three ")
    pair.network.heal("bob", "ann")
    ann.end.write(b"four")
    pair.clock.run(1.0)
    assert bob.data == b"one two three four"


def test_nobody_is_reached_across_a_parting() -> None:
    pair = Pair()
    pair.network.part("ann", "bob")
    pair.connect()
    pair.clock.run(CONNECT_WITHIN_S - 0.1)
    assert pair.refused == 0
    pair.clock.run(1.0)
    assert pair.refused == 1


def test_nobody_is_reached_where_nobody_listens() -> None:
    pair = Pair()
    pair.network.stop_listening("bob")
    pair.connect()
    pair.clock.run(1.0)
    assert pair.refused == 1


def test_a_host_that_crashes_hears_nothing_and_the_others_are_told() -> None:
    pair = Pair()
    ann, bob = pair.connected()
    pair.network.crash("bob")
    pair.clock.run(1.0)
    assert ann.is_lost
    assert not bob.is_lost


def test_who_was_not_told_of_a_crash_learns_of_it_by_asking() -> None:
    pair = Pair()
    ann, _ = pair.connected()
    pair.network.crash("bob", told=False)
    pair.clock.run(60.0)
    assert [ann.is_lost] == [False]
    ann.end.write(b"are you there?")
    pair.clock.run(1.0)
    assert [ann.is_lost] == [True]
