"""Datagrams in virtual time: what arrives is compared with a plain list of what should."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nearcast.simulation.network.datagrams import DatagramTooLargeError, SocketStatistics
from nearcast.simulation.network.virtual_connection import LinkQuality
from nearcast.simulation.network.virtual_datagrams import DatagramStatistics, VirtualDatagramSocket
from nearcast.simulation.network.virtual_network import VirtualNetwork
from nearcast.simulation.virtual_clock import VirtualClock

HOSTS, GROUPS = ("ann", "bob", "cleo", "dan"), ("g", "h")
STEP_S = 0.01
"""Less than the delay, so that things happen while datagrams are under way."""
Heard = tuple[float, str, str, bytes]
"""When, who, from whom and what."""

hosts, groups = st.sampled_from(HOSTS), st.sampled_from(GROUPS)
pairs = st.tuples(hosts, hosts).filter(lambda pair: pair[0] != pair[1])
acts = st.one_of(
    st.tuples(st.just("send"), hosts, st.sampled_from(HOSTS + GROUPS)),
    st.tuples(st.sampled_from(("join", "leave")), hosts, groups),
    st.tuples(st.sampled_from(("part", "heal", "near", "far")), hosts, hosts),
    st.tuples(st.sampled_from(("close", "open")), hosts, st.just("")),
)
qualities = st.builds(
    LinkQuality,
    most_delay_s=st.floats(0.001, 0.2),
    loss=st.floats(0, 1),
    duplication=st.floats(0, 1),
    reordering=st.floats(0, 1),
    reordering_s=st.floats(0, 0.5),
)


class Field:
    """Hosts with sockets, in reach of each other or not."""

    def __init__(self, quality: LinkQuality | None = None, seed: int = 0) -> None:
        self.clock = VirtualClock(seed)
        self.network = VirtualNetwork(self.clock, quality)
        self.air = self.network.datagrams
        self.heard: list[Heard] = []
        self.sockets: dict[str, VirtualDatagramSocket] = {}
        self.far: set[tuple[str, str]] = set()
        self.air.set_hears(lambda receiver, sender: (receiver, sender) not in self.far)
        for host in HOSTS:
            self.do("open", host, "")

    def do(self, act: str, host: str, other: str, data: bytes = b"") -> None:
        if act == "open" and host not in self.sockets:
            self.sockets[host] = self.air.open(host)
            self.sockets[host].receive = lambda data, sender: self.heard.append(
                (round(self.clock.elapsed_s, 9), host, sender, data)
            )
        elif act in ("part", "heal"):
            (self.network.part if act == "part" else self.network.heal)(host, other)
        elif act == "far":
            self.far.add((host, other))
        elif act == "near":
            self.far.discard((host, other))
        elif host not in self.sockets:
            return
        elif act == "close":
            self.sockets.pop(host).close()
        elif act == "send":
            self.sockets[host].send(data, other)
        elif act in ("join", "leave"):
            (self.sockets[host].join if act == "join" else self.sockets[host].leave)(other)

    def live(self, story: list[tuple[str, str, str]]) -> list[Heard]:
        for number, (act, host, other) in enumerate(story):
            self.do(act, host, other, b"%d" % number)
            self.clock.run(STEP_S)
            self.check()
        self.clock.run(10.0)
        self.check()
        assert not self.air.statistics().under_way
        return self.heard

    def check(self) -> None:
        """Nothing is unaccounted for."""
        counts = self.air.statistics()
        became = counts.delivered + counts.lost + counts.unheard + counts.under_way
        assert counts.addressed + counts.duplicated == became
        assert counts.delivered == len(self.heard)


def expected(
    story: list[tuple[str, str, str]], delay_steps: int
) -> Counter[tuple[str, str, bytes]]:
    """What a plain reading of the rules lets arrive, without faults: who, from whom, what."""

    def state(
        at: int,
    ) -> tuple[dict[str, int], set[tuple[str, str]], set[frozenset[str]], set[tuple[str, str]]]:
        """Sockets with their numbers, members, the parted and the far, after so many acts."""
        open_ = dict.fromkeys(HOSTS, 0)
        members: set[tuple[str, str]] = set()
        parted: set[frozenset[str]] = set()
        far: set[tuple[str, str]] = set()
        for number, (act, host, other) in enumerate(story[:at], 1):
            if act == "open":
                open_.setdefault(host, number)
            elif act in ("part", "heal"):
                (parted.add if act == "part" else parted.discard)(frozenset((host, other)))
            elif act in ("far", "near"):
                (far.add if act == "far" else far.discard)((host, other))
            elif act == "close":
                open_.pop(host, None)
                members = {each for each in members if each[0] != host}
            elif act == "join" and host in open_:
                members.add((host, other))
            elif act == "leave":
                members.discard((host, other))
        return open_, members, parted, far

    found: Counter[tuple[str, str, bytes]] = Counter()
    for number, (act, sender, to) in enumerate(story):
        before, after = state(number), state(number + delay_steps)
        if act != "send" or sender not in before[0]:
            continue
        for receiver in HOSTS:
            if to in GROUPS:
                is_for = receiver != sender and all(
                    (receiver, to) in then[1] for then in (before, after)
                )
            else:
                is_for = receiver == to
            same = receiver in before[0] and before[0][receiver] == after[0].get(receiver)
            way = frozenset((sender, receiver))
            cut = way in before[2] or way in after[2] or (receiver, sender) in before[3]
            if is_for and same and not cut:
                found[receiver, sender, b"%d" % number] += 1
    return found


@given(st.lists(acts, max_size=40))
def test_without_faults_each_arrives_once_at_all_whom_it_is_for(
    story: list[tuple[str, str, str]],
) -> None:
    # Two and a half steps later: two more acts have happened.
    delay_s = 2.5 * STEP_S
    field = Field(LinkQuality(least_delay_s=delay_s, most_delay_s=delay_s))
    heard = field.live(story)
    assert Counter((who, sender, data) for _, who, sender, data in heard) == expected(story, 3)
    counts = field.air.statistics()
    assert counts.lost == counts.duplicated == 0
    assert all(abs(at - int(data) * STEP_S - delay_s) < 1e-6 for at, _, _, data in heard)


@given(st.lists(acts, max_size=40), qualities, st.integers())
def test_the_same_seed_gives_the_same_run(
    story: list[tuple[str, str, str]], quality: LinkQuality, seed: int
) -> None:
    first, second = Field(quality, seed), Field(quality, seed)
    assert first.live(story) == second.live(story)
    assert first.air.statistics() == second.air.statistics()


@given(st.integers(1, 80), qualities, st.integers())
def test_faults_are_within_what_was_said(count: int, quality: LinkQuality, seed: int) -> None:
    field = Field(quality, seed)
    field.do("join", "bob", "g")
    heard = field.live([("send", "ann", "g")] * count)
    copies = Counter(data for _, _, _, data in heard)
    assert all(times <= (2 if quality.duplication else 1) for times in copies.values())
    if not quality.loss:
        assert len(copies) == count
    latest_s = quality.most_delay_s + (quality.reordering_s if quality.reordering else 0.0)
    for at, _, _, data in heard:
        sent_at = int(data) * STEP_S
        assert sent_at + quality.least_delay_s <= at + 1e-6
        assert at <= sent_at + latest_s + 1e-6
    if not quality.reordering:
        numbers = [int(data) for _, _, _, data in heard]
        assert numbers == sorted(numbers)
    if quality.loss == 1:
        assert not heard


@given(st.integers(), st.sampled_from(("loss", "duplication", "reordering")))
def test_chance_is_as_likely_as_it_says(seed: int, which: str) -> None:
    quality = replace(LinkQuality(most_delay_s=0.001, reordering_s=5.0), **{which: 0.3})
    field = Field(quality, seed)
    heard = field.live([("send", "ann", "bob")] * 400)
    late = sum(at > int(data) * STEP_S + 0.01 for at, _, _, data in heard)
    # Six times the spread of such a draw.
    few, many = 65, 175
    counts = field.air.statistics()
    assert (
        few
        < {"loss": counts.lost, "duplication": counts.duplicated, "reordering": late}[which]
        < many
    )


@given(st.integers(), pairs)
def test_after_a_parting_everything_passes_again(seed: int, parted: tuple[str, str]) -> None:
    one, other = parted
    field = Field(seed=seed)
    for host in HOSTS:
        field.do("join", host, "g")
    field.network.part(one, other)
    field.do("send", one, "g", b"during")
    field.clock.run(1.0)
    assert sorted(who for _, who, _, _ in field.heard) == sorted({*HOSTS} - {*parted})
    field.heard.clear()
    field.network.heal(one, other)
    field.clock.run(1.0)
    assert not field.heard, "what was lost does not come back"
    field.do("send", one, "g", b"after")
    field.do("send", other, one, b"back")
    field.clock.run(1.0)
    others = [(who, one, b"after") for who in HOSTS if who != one]
    assert sorted(each[1:] for each in field.heard) == sorted([*others, (one, other, b"back")])


def test_one_hears_the_other_who_does_not_hear_it() -> None:
    field = Field()
    field.do("far", "ann", "bob")
    field.do("send", "ann", "bob", b"hello?")
    field.do("send", "bob", "ann", b"hello!")
    field.clock.run(1.0)
    assert [each[1:] for each in field.heard] == [("bob", "ann", b"hello?")]


def test_what_others_receive_changes_nothing_for_a_receiver() -> None:
    quality = LinkQuality(loss=0.4, duplication=0.3, reordering=0.3)
    alone, among = Field(quality), Field(quality)
    alone.do("join", "bob", "g")
    for host in ("cleo", "bob", "dan"):
        among.do("join", host, "g")
    story = [("send", "ann", "g")] * 50
    assert alone.live(story) == [each for each in among.live(story) if each[1] == "bob"]


def test_a_datagram_that_is_too_large_is_refused_and_nothing_is_sent() -> None:
    field = Field()
    ann = field.sockets["ann"]
    ann.send(bytes(ann.largest_bytes), "bob")
    with pytest.raises(
        DatagramTooLargeError, match="of 1473 bytes to 'bob' is larger than the 1472 bytes"
    ):
        ann.send(bytes(ann.largest_bytes + 1), "bob")
    field.clock.run(1.0)
    assert field.air.statistics() == DatagramStatistics(sent=1, addressed=1, delivered=1)
    assert ann.statistics() == SocketStatistics(sent=1, sent_bytes=1472)
    assert field.sockets["bob"].statistics() == SocketStatistics(received=1, received_bytes=1472)


def test_large_datagrams_take_longer_where_the_way_is_narrow() -> None:
    field = Field(LinkQuality(bytes_per_s=1_000.0))
    field.do("send", "ann", "bob", bytes(1_000))
    field.clock.run(0.9)
    assert not field.heard
    field.clock.run(0.2)
    assert len(field.heard) == 1


def test_a_host_that_crashed_hears_nothing_and_can_come_back() -> None:
    field = Field()
    field.do("join", "bob", "g")
    field.do("send", "ann", "bob", b"under way")
    field.network.crash("bob")
    field.clock.run(1.0)
    assert not field.heard
    assert field.air.members("g") == []
    with pytest.raises(OSError, match="the socket of 'bob' is closed"):
        field.sockets["bob"].send(b"", "ann")
    del field.sockets["bob"]
    field.do("open", "bob", "")
    field.do("send", "ann", "bob", b"again")
    field.clock.run(1.0)
    assert [each[3] for each in field.heard] == [b"again"]


def test_names_of_hosts_and_groups_are_kept_apart() -> None:
    field = Field()
    with pytest.raises(OSError, match="'ann' has an open socket already"):
        field.air.open("ann")
    with pytest.raises(OSError, match="'bob' is the address of a host"):
        field.sockets["ann"].join("bob")
    field.sockets["ann"].join("g")
    with pytest.raises(OSError, match="'g' is the name of a group"):
        field.air.open("g")
