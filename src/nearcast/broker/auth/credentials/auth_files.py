"""The files of users, rules and the token key, read all or none."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from nearcast.broker.auth.credentials.tokens import TokenKey, token_key
from nearcast.broker.auth.credentials.users_file import USERS_FILE, Account, read_users
from nearcast.broker.auth.errors import AuthError
from nearcast.broker.auth.rules.rules_file import read_rules
from nearcast.broker.auth.rules.topic_rules import Rules
from nearcast.broker.auth.toml_file import read_bytes
from nearcast.broker.config import settings

T = TypeVar("T")

FileStamps = tuple[tuple[int, int, int] | None, ...]


class AuthData(Struct, frozen=True):
    """The contents of the files."""

    users: dict[str, Account]
    rules: Rules
    key: TokenKey | None

    def mark(self, user: str) -> int:
        """Return a number that changes when a user's entry does; 0 without one."""
        account = self.users.get(user)
        return 0 if account is None else hash((account.password, account.superuser)) or 1


class AuthFiles:
    """The paths of the files.

    Without a configured users file it is `users.toml` in `base`, if that exists.
    """

    def __init__(self, section: settings.AuthSection, base: Path) -> None:
        self._section = section
        self._users = Path(section.users) if section.users else base / USERS_FILE
        self._rules = Path(section.rules) if section.rules else None
        self._key = Path(section.jwt_key) if section.jwt_key else None

    def read(self) -> AuthData:
        """Return the contents of the files, or raise `AuthError` with all problems."""
        problems: list[str] = []
        users = _kept(self._read_users, problems)
        rules = _kept(self._read_rules, problems)
        key = _kept(self._read_key, problems)
        if problems:
            raise AuthError(*problems)
        return AuthData(users or {}, rules or Rules(), key)

    def state(self) -> FileStamps:
        """Return times, sizes and inodes, which change with the files."""
        return tuple(
            None if path is None else _state(path) for path in (self._users, self._rules, self._key)
        )

    def _read_users(self) -> dict[str, Account]:
        if not self._section.users and not self._users.exists():
            return {}
        return read_users(self._users)

    def _read_rules(self) -> Rules:
        return Rules() if self._rules is None else read_rules(self._rules)

    def _read_key(self) -> TokenKey | None:
        if self._key is None:
            return None
        section = self._section
        data = read_bytes(self._key, "without tokens, leave the setting doors.jwt_key out")
        try:
            return token_key(data, section.jwt_algorithms, section.jwt_audience, section.jwt_issuer)
        except AuthError as error:
            raise AuthError(f"{self._key}: {error}") from None


def _kept(read: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return read()
    except AuthError as error:
        problems += error.problems
    return None


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
