"""A world of peers that pass messages on in chains, in virtual time, some of them dead or lying.

The broker's book and the members' protocol are the real ones; the network between peers delays,
loses, and finds nobody or somebody else at an address. What every recipient was given is compared
with what was sent while it was there.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.propagation.chains.chain_ledger import ChainLedger, LedgerSettings
from nearcast.core.propagation.chains.chain_member import ChainMember, Verify
from nearcast.core.propagation.chains.chain_message import ChainMessage, signed_bytes
from nearcast.core.propagation.chains.chain_plan import Peers, plan_chains
from nearcast.simulation.virtual_clock import VirtualClock

Sign = Callable[[bytes], bytes]
CONFIRM_EVERY_S = 0.5
NOTICED_AFTER_S = 3.0
FORGED = b"forged"


class ChainWorldSettings(Struct, frozen=True):
    """What happens in a world."""

    seed: int
    peers: int = 60
    plain: int = 5
    """Recipients that get everything directly."""
    messages: int = 40
    every_s: float = 0.5
    percent: float = 25.0
    degree: int = 1
    faulty: float = 0.2
    """The share of peers that fail, leave or lie."""
    joining: float = 0.1
    """The share of peers that come later."""
    lost: float = 0.01
    """The share of hops that fail for no reason."""
    hop_s: float = 0.05


class ChainWorldResult(Struct):
    """What happened."""

    delivered: int = 0
    doubled: int = 0
    missed: int = 0
    """Messages that somebody who was there all the time did not get."""
    forged_taken: int = 0
    refused: int = 0
    """Forged, changed, replayed and misdirected messages that members refused."""
    attempts: int = 0
    """Of all those that liars sent."""
    unauthenticated: int = 0
    """Hops that ended because somebody else was at the address."""
    pushes: int = 0
    """Messages that the broker sent, directly and to the first of chains."""
    sent_again: int = 0
    """Messages that went directly after all."""


class _Peer(Struct):
    name: int
    address: bytes
    member: ChainMember
    fault: str
    joined: float
    left: float = float("inf")
    got: dict[bytes, int] = {}
    had: list[ChainMessage] = []

    @property
    def is_gone(self) -> bool:
        """Whether it left, which the broker may not have noticed yet."""
        return self.left < float("inf")


class ChainWorld:
    """The broker, the peers, and the network between them."""

    def __init__(self, settings: ChainWorldSettings, sign: Sign, verify: Verify) -> None:
        self._settings = settings
        self._sign, self._verify = sign, verify
        self._clock = VirtualClock(settings.seed)
        self._chance = Random(f"{settings.seed}/chains")
        self._ledger = ChainLedger[int](LedgerSettings(base_s=2.0, per_hop_s=0.2))
        self._peers: dict[int, _Peer] = {}
        self._at: dict[bytes, int] = {}
        self._contents: dict[int, bytes] = {}
        self._sent: list[tuple[float, bytes]] = []
        self._number = 0
        self._result = ChainWorldResult()

    def run(self) -> ChainWorldResult:
        """Run it until everything is confirmed, and return what happened."""
        settings, clock = self._settings, self._clock
        for name in range(settings.plain + settings.peers):
            late = name >= settings.plain and self._chance.random() < settings.joining
            after = self._chance.random() * settings.messages * settings.every_s if late else 0.0
            clock.at(clock.now() + after, partial(self._join, name))
        for count in range(settings.messages):
            clock.at(clock.now() + 0.01 + count * settings.every_s, self._send)
        length = settings.messages * settings.every_s + 120.0
        for count in range(int(length / CONFIRM_EVERY_S)):
            clock.at(clock.now() + (count + 1) * CONFIRM_EVERY_S, self._settle)
        clock.run(length)
        return self._count()

    def _join(self, name: int) -> None:
        """Let a peer come; some take the address of one that left."""
        settings, chance = self._settings, self._chance
        fault = ""
        if name >= settings.plain and chance.random() < settings.faulty:
            fault = chance.choice(("dead", "leaves", "drops", "forges", "replays", "diverts"))
        address = name.to_bytes(6, "big")
        member = ChainMember(self._verify, self._number + 1, address)
        peer = _Peer(name, address, member, fault, self._clock.now(), got={}, had=[])
        self._peers[name], self._at[address] = peer, name
        if fault == "leaves":
            when = self._clock.now() + chance.random() * settings.messages * settings.every_s
            self._clock.at(when, lambda: self._leave(peer))

    def _leave(self, peer: _Peer) -> None:
        """Let a peer go; somebody else may answer at its address."""
        peer.left = self._clock.now()
        self._clock.after(NOTICED_AFTER_S, lambda: self._notice(peer))
        if self._chance.random() < 0.5:
            self._at[peer.address] = -1
        else:
            del self._at[peer.address]

    def _notice(self, peer: _Peer) -> None:
        """Let the broker notice that a peer is gone."""
        self._ledger.leave(peer.name)
        del self._peers[peer.name]

    def _send(self) -> None:
        """Send one message to everybody who is there."""
        settings, now = self._settings, self._clock.now()
        self._number += 1
        number, content = self._number, b"message %d" % self._number
        self._contents[number] = content
        self._sent.append((now, content))
        passing = [
            name
            for name in self._peers
            if name >= settings.plain and self._ledger.may_pass_on(name, now)
        ]
        for name in [*self._peers]:
            if name not in passing:
                self._result.pushes += 1
                self._give(self._peers[name], content, self._peers[name].member, number)
        weak = np.array([self._ledger.is_weak(name) for name in passing], dtype=bool)
        unknown = np.full(len(passing), np.nan)
        for chain in plan_chains(Peers(unknown, unknown, weak), settings.percent):
            members = [passing[place] for place in chain.tolist()]
            addresses = [self._peers[name].address for name in members]
            signed = signed_bytes(number, content, addresses, settings.degree)
            message = ChainMessage(number, content, addresses, settings.degree, self._sign(signed))
            self._ledger.begin(number, members, settings.degree, now)
            self._result.pushes += 1
            self._arrive(members[0], message)

    def _arrive(self, name: int, message: ChainMessage) -> None:
        """Let a message come to a peer, from the broker or from another peer."""
        peer = self._peers.get(name)
        if peer is None or peer.fault == "dead" or peer.is_gone:
            return
        reception = peer.member.receive(message)
        if reception.refused:
            self._result.refused += 1
            return
        if reception.content is not None:
            self._note(peer, reception.content)
        peer.had.append(message)
        if peer.fault in ("drops", "forges", "replays", "diverts"):
            self._lie(peer, message)
            return
        for address in reception.next_members:
            self._hop(address, message)

    def _hop(self, address: bytes, message: ChainMessage) -> None:
        """Pass a message on; the receiver proves first that the address is its own."""
        if self._chance.random() < self._settings.lost:
            return
        name = self._at.get(address)
        if name == -1:
            self._result.unauthenticated += 1
        elif name is not None:
            delay = self._settings.hop_s * (0.5 + self._chance.random())
            self._clock.at(self._clock.now() + delay, lambda: self._arrive(name, message))

    def _lie(self, peer: _Peer, message: ChainMessage) -> None:
        """Do what a liar does in place of passing a message on."""
        others = [each.address for each in self._peers.values() if each is not peer]
        if peer.fault == "drops" or not others:
            return
        target = self._chance.choice(others)
        self._result.attempts += 1
        if peer.fault == "forges":
            forged = replace(message, content=FORGED, number=message.number + 1)
            self._hop(target, self._chance.choice((forged, replace(message, content=FORGED))))
        elif peer.fault == "replays":
            self._hop(target, self._chance.choice(peer.had))
        else:
            members = [*message.members, target]
            self._hop(target, replace(message, members=members))

    def _give(self, peer: _Peer, content: bytes, member: ChainMember, number: int) -> None:
        """Deliver directly; a peer that is dead in chains still reads its own session."""
        if not peer.is_gone and member.receive_directly(number):
            self._note(peer, content)

    def _note(self, peer: _Peer, content: bytes) -> None:
        peer.got[content] = peer.got.get(content, 0) + 1
        self._result.forged_taken += content == FORGED

    def _settle(self) -> None:
        """Take confirmations, and send directly what is late."""
        for peer in self._peers.values():
            if not peer.is_gone:
                self._ledger.confirm(peer.name, peer.member.confirmation())
        for name, number in self._ledger.due(self._clock.now()):
            late = self._peers[name]
            self._result.pushes += 1
            self._result.sent_again += 1
            self._give(late, self._contents[number], late.member, number)

    def _count(self) -> ChainWorldResult:
        """Compare what everybody has with what was sent while they were there."""
        assert not self._ledger.missing, "something is open for ever"
        for peer in self._peers.values():
            expected = {content for when, content in self._sent if when >= peer.joined}
            self._result.delivered += sum(peer.got.values())
            self._result.doubled += sum(count - 1 for count in peer.got.values())
            self._result.missed += len(expected - peer.got.keys())
        return self._result
