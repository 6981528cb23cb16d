"""Signatures: a member of a group cannot speak in the name of another (Ed25519).

The members' file says which public key is whose, and which nodes may pass on what others published
elsewhere, as gateways do. A signature covers what its author said. What members set on the way is
left out: the group, whether to pass on, and the beacon that goes along, which has its own.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.proximity.messages import Beacon, EventMessage, Message
from nearcast.errors import NearcastError
from nearcast.wire.beacons.message_codec import decode_message, encode_message

SIGNATURE_BYTES = 64
KEY_BYTES = 32
GATEWAY = "gateway"
_CONTEXT = b"nearcast adhoc 1\0"
_MOST_VERIFIED = 4_096
_FORM = "it is: NODE PUBLIC-KEY, and the word gateway for one that passes on what others published"


class MembersError(NearcastError, ValueError):
    """A signing key or a file of members that is not valid."""


class SigningKey:
    """The secret by which one node signs."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise MembersError(f"a signing key has {KEY_BYTES} bytes, not {len(secret)}")
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"<SigningKey of {self.public.hex()}>"

    def sign(self, body: bytes) -> bytes:
        """Return the signature of a body."""
        return self._key.sign(_CONTEXT + body)


class Member(Struct, frozen=True):
    """A node that may speak."""

    public: bytes
    gateway: bool = False
    """It may pass on what other nodes published elsewhere, under their names."""


Members = Mapping[str, Member]
Said = TypeVar("Said", Beacon, EventMessage, Message)


class Signatures:
    """Signs what a node says, and tells whether what it hears is signed by who says it."""

    def __init__(
        self,
        node: str,
        key: SigningKey | None = None,
        members: Members | None = None,
        node_of: Callable[[str], str] = lambda name: name,
    ) -> None:
        """`node_of` tells which node goes by a pseudonym; without members all is believed."""
        self._node = node
        self._key = key
        self._node_of = node_of
        self._members = members
        self._public = {
            name: Ed25519PublicKey.from_public_bytes(each.public)
            for name, each in (members or {}).items()
        }
        self._verified: OrderedDict[bytes, None] = OrderedDict()

    def signed(self, message: Message) -> Message:
        """Return a message with the node's signatures, as far as the node is its author."""
        if self._key is None:
            return message
        if isinstance(message, EventMessage) and message.beacon is not None:
            message = replace(message, beacon=self._sign(message.beacon))
        return self._sign(message)

    @property
    def speaks_for_others(self) -> bool:
        """True if members believe this node what others published elsewhere."""
        return self._passes_on(self._node)

    def are_valid(self, message: Message) -> bool:
        """Return whether everything in a message is signed by who says it."""
        if self._members is None:
            return True
        if isinstance(message, EventMessage):
            if message.beacon is not None and not self._is_valid(message.beacon):
                return False
            named = message.publisher not in ("", message.producer)
            if named and not self._passes_on(self._node_of(message.producer)):
                return False
        return self._is_valid(message)

    def _passes_on(self, node: str) -> bool:
        if self._members is None:
            return True
        return node in self._members and self._members[node].gateway

    def _sign(self, message: Said) -> Said:
        if message.signature or self._node_of(author_of(message)) != self._node:
            return message
        assert self._key is not None
        # As it is read: programs say 5 where a reader finds 5.0.
        read = decode_message(encode_message(message))
        return replace(message, signature=self._key.sign(signed_bytes(read)))

    def _is_valid(self, message: Message) -> bool:
        public = self._public.get(self._node_of(author_of(message)))
        if public is None or len(message.signature) != SIGNATURE_BYTES:
            return False
        body = signed_bytes(message)
        # The same event comes from several members.
        name = blake2b(message.signature + body, digest_size=16).digest()
        if name in self._verified:
            return True
        try:
            public.verify(message.signature, _CONTEXT + body)
        except InvalidSignature:
            return False
        self._verified[name] = None
        if len(self._verified) > _MOST_VERIFIED:
            self._verified.popitem(last=False)
        return True


def author_of(message: Message) -> str:
    """Return the name of who says a message."""
    return message.producer if isinstance(message, Beacon | EventMessage) else message.sender


def signed_bytes(message: Message) -> bytes:
    """Return what a signature covers."""
    if isinstance(message, EventMessage):
        return encode_message(replace(message, signature=b"", group=0, hops=False, beacon=None))
    return encode_message(replace(message, signature=b""))


def read_signing_key(text: str) -> SigningKey:
    """Return the signing key that the text of its file stands for."""
    try:
        return SigningKey(bytes.fromhex(text.strip()))
    except MembersError:
        raise
    except ValueError:
        raise MembersError(
            "a signing key's file holds one line of 64 hexadecimal digits; make one with: "
            "nearcast adhoc sign NODE FILE"
        ) from None


def read_members(text: str) -> dict[str, Member]:
    """Return the members that a file lists: a line each, and comments after #."""
    found: dict[str, Member] = {}
    for number, line in _lines(text):
        node, member = _read_line(number, line)
        if node in found:
            raise MembersError(f"line {number} of the members is a second one of {node!r}")
        found[node] = member
    return found


def member_line(node: str, member: Member) -> str:
    """Return the line of a member in the file of members."""
    return f"{node} {member.public.hex()}{f' {GATEWAY}' if member.gateway else ''}"


def check_member_name(node: str) -> None:
    """Raise `MembersError` for a name that no line can hold."""
    if not node or node.startswith("#") or any(each.isspace() for each in node):
        raise MembersError(f"{node!r} cannot be a member: names have no blanks, and no # in front")


def _lines(text: str) -> Iterable[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        said = line.strip()
        if said and not said.startswith("#"):
            yield number, said


def _read_line(number: int, line: str) -> tuple[str, Member]:
    node, _, rest = line.partition(" ")
    public, _, role = rest.strip().partition(" ")
    try:
        key = bytes.fromhex(public)
        if len(key) != KEY_BYTES or role.strip() not in ("", GATEWAY):
            raise ValueError
        Ed25519PublicKey.from_public_bytes(key)
    except ValueError:
        raise MembersError(f"line {number} of the members is {line[:100]!r}; {_FORM}") from None
    return node, Member(key, bool(role))
