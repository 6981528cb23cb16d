"""The key with which a broker signs chains and credentials; each start has a new one."""

from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nearcast.core.propagation.chains.chain_message import ChainMessage, signed_bytes
from nearcast.wire.peer_frames import Credential, credential_bytes


class BrokerKey:
    """A key that is made when it is first needed."""

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.generate()

    @cached_property
    def public(self) -> bytes:
        """Its public half."""
        return self._key.public_key().public_bytes_raw()

    def chain(self, number: int, content: bytes, members: list[bytes], degree: int) -> ChainMessage:
        """Return a signed chain message."""
        signature = self._key.sign(signed_bytes(number, content, members, degree))
        return ChainMessage(number, content, members, degree, signature)

    def credential(self, address: bytes, key: bytes) -> Credential:
        """Return the word that whoever has a key is at an address."""
        return Credential(address, key, self._key.sign(credential_bytes(address, key)))
