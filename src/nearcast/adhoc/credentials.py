"""What a node without a broker proves itself with: group keys, a signing key, the members' keys."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from nearcast.adhoc.errors import AdhocOptionsError
from nearcast.wire.beacons.group_key import SALT_BYTES, GroupKey, read_key
from nearcast.wire.beacons.signatures import (
    Member,
    MembersError,
    SigningKey,
    read_members,
    read_signing_key,
)

KeyLike = GroupKey | bytes | str | os.PathLike[str]
SigningKeyLike = SigningKey | bytes | str | os.PathLike[str]
MembersLike = Mapping[str, Member] | str | os.PathLike[str]
LEAST_PSEUDONYM_S = 60.0


class Credentials(Struct, frozen=True):
    """What a node proves itself with, and knows others by."""

    keys: tuple[GroupKey, ...] = ()
    """The first seals, all open."""
    sign: SigningKey | None = None
    members: Mapping[str, Member] | None = None
    """Whose signatures are believed; None: nothing is checked."""
    pseudonym_s: float | None = None
    """How long others know the node by one name; None: by its own."""


def credentials(
    node: str,
    key: KeyLike | Sequence[KeyLike] | None,
    sign: SigningKeyLike | None,
    members: MembersLike | None,
    pseudonym_s: float | None,
) -> Credentials:
    """Return the credentials that a program gives, read from files and checked."""
    keys = tuple(_key(each) for each in _listed(key))
    signing = None if sign is None else _signing_key(sign)
    known = None if members is None else _members(members)
    if known is not None and signing is not None:
        _check_member(node, signing, known)
    if pseudonym_s is not None:
        _check_pseudonym(node, pseudonym_s, keys)
    return Credentials(keys, signing, known, pseudonym_s)


def _listed(key: KeyLike | Sequence[KeyLike] | None) -> list[KeyLike]:
    if key is None:
        return []
    return [key] if isinstance(key, GroupKey | bytes | str | os.PathLike) else list(key)


def _key(given: KeyLike) -> GroupKey:
    if isinstance(given, GroupKey):
        return given
    if isinstance(given, bytes):
        return GroupKey(given)
    return read_key(_read(given, "group key", "nearcast adhoc key FILE"))


def _signing_key(given: SigningKeyLike) -> SigningKey:
    if isinstance(given, SigningKey):
        return given
    if isinstance(given, bytes):
        return SigningKey(given)
    return read_signing_key(_read(given, "signing key", "nearcast adhoc sign NODE FILE"))


def _members(given: MembersLike) -> Mapping[str, Member]:
    if isinstance(given, Mapping):
        return given
    return read_members(_read(given, "file of members", "nearcast adhoc sign NODE FILE"))


def _check_member(node: str, signing: SigningKey, members: Mapping[str, Member]) -> None:
    member = members.get(node)
    if member is None or member.public != signing.public:
        line = f"{node} {signing.public.hex()}"
        why = "is not among the members" if member is None else "has another key among the members"
        raise MembersError(f"{node!r} {why}: nobody would believe it; its line there is: {line}")


def _check_pseudonym(node: str, lasts_s: float, keys: Sequence[GroupKey]) -> None:
    if not keys:
        raise AdhocOptionsError(
            "pseudonyms take a group key, by which members know whose they are: key=..."
        )
    if not (math.isfinite(lasts_s) and lasts_s >= LEAST_PSEUDONYM_S):
        raise AdhocOptionsError(
            f"pseudonym_s is {lasts_s} seconds; it is at least {LEAST_PSEUDONYM_S:g}"
        )
    keys[0].pseudonym(node, bytes(SALT_BYTES))


def _read(path: str | os.PathLike[str], what: str, command: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise AdhocOptionsError(
            f"the {what} {os.fspath(path)} cannot be read ({error.strerror}); make one with: "
            f"{command}"
        ) from None
