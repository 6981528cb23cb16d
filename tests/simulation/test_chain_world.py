"""Chains with peers that fail, lie, come and go: nobody misses or doubles anything."""

import hashlib
import hmac
import os
from math import ceil

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nearcast.simulation.chain_world import ChainWorld, ChainWorldResult, ChainWorldSettings

RUNS = int(os.environ.get("NEARCAST_CHAIN_RUNS", "12"))
KEY = b"the broker's"


def sign(data: bytes) -> bytes:
    """A quick stand-in for signatures, which has no public half."""
    return hmac.digest(KEY, data, hashlib.sha512)


def verify(data: bytes, signature: bytes) -> bool:
    return hmac.compare_digest(sign(data), signature)


def happened(settings: ChainWorldSettings) -> ChainWorldResult:
    return ChainWorld(settings, sign, verify).run()


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.parametrize("degree", [1, 3])
def test_everybody_alive_gets_everything_exactly_once(seed: int, degree: int) -> None:
    found = happened(ChainWorldSettings(seed, degree=degree))
    assert (found.missed, found.doubled, found.forged_taken) == (0, 0, 0)
    assert found.delivered > 1_000


def test_liars_are_refused() -> None:
    found = [happened(ChainWorldSettings(seed, faulty=0.4)) for seed in range(RUNS)]
    assert sum(each.attempts for each in found) > 100
    assert sum(each.refused for each in found) > 50
    assert sum(each.unauthenticated for each in found) > 0
    assert not any(each.forged_taken or each.missed or each.doubled for each in found)


def test_without_faults_the_server_pushes_direct_and_chains_alone() -> None:
    settings = ChainWorldSettings(1, faulty=0.0, joining=0.0, lost=0.0)
    found = happened(settings)
    chains = ceil(settings.peers / round(settings.peers * settings.percent / 100))
    assert found.pushes == settings.messages * (settings.plain + chains)
    assert found.sent_again == 0
    assert found.delivered == settings.messages * (settings.plain + settings.peers)


def test_peers_that_break_chains_are_left_out_for_a_while() -> None:
    few = happened(ChainWorldSettings(2, messages=20))
    many = happened(ChainWorldSettings(2, messages=200))
    assert many.sent_again / 200 < few.sent_again / 20 / 2


def test_with_the_real_signatures() -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key()

    def is_signed(data: bytes, signature: bytes) -> bool:
        try:
            public.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    settings = ChainWorldSettings(3, peers=20, messages=10)
    found = ChainWorld(settings, key.sign, is_signed).run()
    assert (found.missed, found.doubled, found.forged_taken) == (0, 0, 0)


def test_the_same_seed_is_the_same_run() -> None:
    assert happened(ChainWorldSettings(5)) == happened(ChainWorldSettings(5))
