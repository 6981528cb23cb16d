"""Group keys: who has the key reads and writes; who has not sees noise, and cannot forge.

AES-256-GCM seals each datagram: nobody without the key learns names, subjects or positions, changes
a bit of it, or makes one. A key is named by a fingerprint, so that nodes can hold several while
keys change. It also hides the names of nodes in pseudonyms, which members can tell apart.
"""

from base64 import b32decode, b32encode
from binascii import Error as NotBase32
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import count

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

from nearcast.errors import NearcastError

KEY_BYTES = 32
FINGERPRINT_BYTES = 4
NONCE_BYTES = 12
TAG_BYTES = 16
OVERHEAD_BYTES = FINGERPRINT_BYTES + NONCE_BYTES + TAG_BYTES
_COUNTER_BYTES = 6
PSEUDONYM = "anon-"
"""Pseudonyms begin with this; no node is called so."""
SALT_BYTES = 6
LONGEST_HIDDEN_BYTES = 120
_SIV_BYTES = 16


class GroupKeyError(NearcastError, ValueError):
    """A group key that is not valid."""


class GroupKey:
    """A secret that the members of a group share."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise GroupKeyError(
                f"a group key has {KEY_BYTES} bytes, not {len(secret)}; "
                "make one with: nearcast adhoc key FILE"
            )
        self._cipher = AESGCM(secret)
        self.fingerprint = blake2b(
            secret, digest_size=FINGERPRINT_BYTES, person=b"nearcast"
        ).digest()
        # Names are encrypted with a key of their own.
        self._names = AESSIV(blake2b(secret, digest_size=64, person=b"nearcast-name").digest())

    def __repr__(self) -> str:
        return f"<GroupKey {self.fingerprint.hex()}>"

    def seal(self, nonce: bytes, body: bytes) -> bytes:
        """Return a sealed body; a nonce is used once."""
        return self.fingerprint + nonce + self._cipher.encrypt(nonce, body, self.fingerprint)

    def open(self, sealed: bytes) -> bytes | None:
        """Return the body, or None if it was not sealed with this key."""
        begin = FINGERPRINT_BYTES + NONCE_BYTES
        nonce = sealed[FINGERPRINT_BYTES:begin]
        if len(nonce) < NONCE_BYTES or sealed[:FINGERPRINT_BYTES] != self.fingerprint:
            return None
        try:
            return self._cipher.decrypt(nonce, sealed[begin:], self.fingerprint)
        except InvalidTag:
            return None

    def pseudonym(self, node: str, salt: bytes) -> str:
        """Return a name that only members can tell to be a node's; another for each salt.

        Raises `GroupKeyError` for a name that is too long to be hidden.
        """
        name = node.encode()
        if len(name) > LONGEST_HIDDEN_BYTES:
            raise GroupKeyError(
                f"a node with pseudonyms has a name of at most {LONGEST_HIDDEN_BYTES} bytes, "
                f"not {len(name)}"
            )
        hidden = salt + self._names.encrypt(name, [salt])
        return PSEUDONYM + b32encode(hidden).decode().rstrip("=").lower()

    def node_of(self, pseudonym: str) -> str | None:
        """Return the node that a pseudonym stands for, or None if it is none of this group's."""
        text = pseudonym.removeprefix(PSEUDONYM).upper()
        try:
            hidden = b32decode(text + "=" * (-len(text) % 8))
            salt, name = hidden[:SALT_BYTES], hidden[SALT_BYTES:]
            if len(name) <= _SIV_BYTES:
                return None
            return self._names.decrypt(name, [salt]).decode()
        except (InvalidTag, NotBase32, ValueError):
            return None


class KeyRing:
    """The keys of a node: the first seals, all open."""

    def __init__(self, keys: Sequence[GroupKey], run: bytes) -> None:
        """`run` are random bytes of this run of the node, from which nonces count up."""
        self.keys = tuple(keys)
        self.renew(run)
        self.node_of = lru_cache(4_096)(self._node_of)

    def renew(self, run: bytes) -> None:
        """Count nonces from other random bytes: datagrams of before and after are not alike."""
        self._run = run[: NONCE_BYTES - _COUNTER_BYTES].ljust(NONCE_BYTES - _COUNTER_BYTES, b"\0")
        self._count = count()

    def _node_of(self, name: str) -> str:
        """Return the node that goes by a name: its own, or a pseudonym."""
        if name.startswith(PSEUDONYM):
            for key in self.keys:
                node = key.node_of(name)
                if node is not None:
                    return node
        return name

    def seal(self, body: bytes) -> bytes:
        """Return a sealed body; as it is if there is no key."""
        if not self.keys:
            return body
        nonce = self._run + next(self._count).to_bytes(_COUNTER_BYTES, "big")
        return self.keys[0].seal(nonce, body)

    def open(self, sealed: bytes) -> bytes | None:
        """Return the body, or None if no key opens it."""
        if not self.keys:
            return sealed
        for key in self.keys:
            body = key.open(sealed)
            if body is not None:
                return body
        return None

    @property
    def overhead_bytes(self) -> int:
        """By how much a sealed body is longer."""
        return OVERHEAD_BYTES if self.keys else 0


def read_key(text: str) -> GroupKey:
    """Return the key that the text of a key file stands for."""
    try:
        return GroupKey(bytes.fromhex(text.strip()))
    except GroupKeyError:
        raise
    except ValueError:
        raise GroupKeyError(
            "a key file holds one line of 64 hexadecimal digits; make one with: "
            "nearcast adhoc key FILE"
        ) from None
