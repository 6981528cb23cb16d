"""A broker's doors in a directory: settings, files and clients for tests."""

from pathlib import Path

import msgspec

from nearcast.broker.auth import Admitted, Authenticator, AuthRefusal, CredentialCheck, Peer
from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from nearcast.broker.config.settings import AuthSection as Section
from nearcast.broker.config.settings import Limits, Settings
from nearcast.wire.mqtt import Connect

NOW = 1_800_000_000.0
HERE = Peer("127.0.0.1", loopback=True)
THERE = Peer("192.0.2.7", loopback=False)
SECRET = {"alice": b"wonderland", "bob": b"builder", "root": b"toor"}
HASHES = {name: hashed(password) for name, password in SECRET.items()}


def house(
    base: Path,
    *,
    rules: str | None = None,
    connects_per_s: float = 1e6,
    **doors: str | int | tuple[str, ...],
) -> Authenticator:
    """Open doors with a section of settings; rules are the text of their file."""
    if rules is not None:
        (base / "rules.toml").write_text(rules)
        doors["rules"] = str(base / "rules.toml")
    section = msgspec.convert(doors, Section)
    return Authenticator(
        Settings(limits=Limits(connects_per_s=connects_per_s), doors=section), base
    )


def with_users(base: Path, *superusers: str) -> None:
    """Write a users file with everyone who has a secret."""
    accounts = {name: Account(name, HASHES[name], name in superusers) for name in SECRET}
    write_users(base / "users.toml", accounts)


def enter(
    doors: Authenticator, connect: Connect, peer: Peer = HERE, now: float = NOW
) -> Admitted | AuthRefusal:
    """Stand at the door until there is an answer."""
    answer = doors.admit(connect, peer, now)
    return answer.run() if isinstance(answer, CredentialCheck) else answer


def admitted(answer: Admitted | AuthRefusal) -> Admitted:
    """Return the answer of one who is in."""
    assert isinstance(answer, Admitted), answer
    return answer


def refused(answer: Admitted | AuthRefusal | CredentialCheck) -> AuthRefusal:
    """Return the answer of one who is not."""
    assert isinstance(answer, AuthRefusal), answer
    return answer


def as_user(name: str, client_id: str | None = None, password: bytes | None = None) -> Connect:
    """Return the packet of a user who knows the password."""
    return Connect(
        name if client_id is None else client_id,
        username=name,
        password=SECRET[name] if password is None else password,
    )
