"""Passwords: argon2id, and the same work for a user that does not exist."""

import secrets
from base64 import b64encode

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

from nearcast.broker.auth.errors import AuthError

MEMORY_KIB = 19 * 1024
PASSES = 2
MOST_MEMORY_KIB = 1 << 20
_HASH_BYTES = 32
_SALT_BYTES = 16
_HASHER = PasswordHasher(
    time_cost=PASSES,
    memory_cost=MEMORY_KIB,
    parallelism=1,
    hash_len=_HASH_BYTES,
    salt_len=_SALT_BYTES,
    type=Type.ID,
)


def hashed(password: bytes) -> str:
    """Return the hash of a password, or raise `AuthError` if it is empty."""
    if not password:
        raise AuthError("a password has at least one character")
    return _HASHER.hash(password)


def is_right(kept: str, password: bytes) -> bool:
    """Return whether a password matches a hash; takes tens of milliseconds."""
    try:
        return _HASHER.verify(kept, password)
    except (VerificationError, InvalidHashError):
        return False


def decoy() -> str:
    """Return a hash that no password matches, but that takes as long to check as any other."""
    salt, digest = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_HASH_BYTES)
    head = f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p=1"
    return f"{head}${_unpadded(salt)}${_unpadded(digest)}"


def check_hash(kept: str) -> str:
    """Return a password hash from a users file if it is valid, or raise `AuthError`."""
    try:
        parameters = extract_parameters(kept)
    except InvalidHashError:
        raise AuthError(
            "the password is no argon2id hash; set it by nearcast user password NAME"
        ) from None
    if parameters.type is not Type.ID:
        raise AuthError("the password is hashed by another kind of argon2 than argon2id")
    if parameters.memory_cost > MOST_MEMORY_KIB:
        raise AuthError(
            f"the password's hash takes {parameters.memory_cost} KiB to check; "
            f"at most {MOST_MEMORY_KIB} are allowed"
        )
    return kept


def _unpadded(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")
