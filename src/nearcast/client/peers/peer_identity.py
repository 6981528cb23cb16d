"""Who a peer is: its key, the broker's word for it, and what it proves to others.

Both sides of a hop show the broker's word that their key is at their address, and sign the other's
fresh key. From both fresh keys follows the key of the hop: nobody else can read or write on it.
"""

import hmac

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.peer_frames import (
    KEY_BYTES,
    Credential,
    PeerNews,
    credential_bytes,
    decode_credential,
    token_hint,
)

_HOP = b"nearcast hop"


class PeerIdentity:
    """A peer's own key, and what the broker told."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self._token = b""
        self._broker: Ed25519PublicKey | None = None
        self.credential: Credential | None = None
        """The broker's word; None: this is no peer yet."""

    @property
    def public(self) -> bytes:
        """The public half of its key."""
        return self._key.public_key().public_bytes_raw()

    def can_answer(self, nonce: bytes) -> bool:
        """Whether a challenge is about the token of now."""
        return bool(self._token) and nonce.startswith(token_hint(self._token))

    def take(self, news: PeerNews) -> None:
        """Take what the broker told; raise `DecodingError` if it is not well formed."""
        try:
            if news.token:
                self._token, self.credential = bytes.fromhex(news.token), None
            if news.broker_key:
                key = bytes.fromhex(news.broker_key)
                self._broker = Ed25519PublicKey.from_public_bytes(key)
                self.credential = decode_credential(bytes.fromhex(news.credential))
        except ValueError as error:
            raise DecodingError(
                f"what the broker told a peer is not well formed: {error}"
            ) from None

    def forget(self) -> None:
        """Be no peer any more: the connection to the broker is lost."""
        self._token, self.credential = b"", None

    def proof(self, nonce: bytes) -> bytes:
        """Return the answer to a challenge."""
        return hmac.digest(self._token, nonce + self.public, "sha256")

    def is_of_broker(self, data: bytes, signature: bytes) -> bool:
        """Return whether the broker signed some bytes."""
        return self._broker is not None and _is_signed(self._broker, data, signature)

    def checked(self, data: bytes) -> Credential:
        """Return the credential of another peer; raise `DecodingError` if it is not valid."""
        found = decode_credential(data)
        if not self.is_of_broker(credential_bytes(found.address, found.key), found.signature):
            raise DecodingError("a credential is not the broker's")
        return found

    def signed(self, hop: bytes) -> bytes:
        """Return its signature of the keys of a hop."""
        return self._key.sign(_HOP + hop)


class FreshKey:
    """A key for one hop."""

    def __init__(self) -> None:
        self._key = X25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes_raw()

    def cipher(self, other: bytes, hop: bytes) -> "HopCipher":
        """Return the cipher that follows from the key of the other side."""
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError as error:
            raise DecodingError(f"a key is not valid: {error}") from None
        return HopCipher(HKDF(SHA256(), KEY_BYTES, salt=hop, info=_HOP).derive(shared))


class HopCipher:
    """Encrypts, or decrypts, the messages of one hop in their order."""

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)
        self._count = 0

    def encrypt(self, data: bytes) -> bytes:
        """Return a message as it is sent."""
        return self._cipher.encrypt(self._nonce(), data, None)

    def decrypt(self, data: bytes) -> bytes:
        """Return a message; raise `DecodingError` if it is not the next of the other side."""
        try:
            return self._cipher.decrypt(self._nonce(), data, None)
        except InvalidTag:
            raise DecodingError("a message of a peer cannot be decrypted") from None

    def _nonce(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(12, "big")


def is_signed_hop(credential: Credential, hop: bytes, signature: bytes) -> bool:
    """Return whether a peer signed the keys of a hop."""
    key = Ed25519PublicKey.from_public_bytes(credential.key)
    return _is_signed(key, _HOP + hop, signature)


def _is_signed(key: Ed25519PublicKey, data: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True
