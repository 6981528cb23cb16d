"""The users file: names, password hashes and superusers.

`nearcast user` writes it atomically, readable by its owner only; it can also be written by hand. A
user without a password connects by certificate or token only.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from nearcast.broker.auth.credentials.passwords import check_hash
from nearcast.broker.auth.errors import AuthError
from nearcast.broker.auth.names import check_user_name
from nearcast.broker.auth.toml_file import TomlFile, read_bytes
from nearcast.core.model.geometry.position import shown
from nearcast.store.durable_files import beside, put_in_place
from nearcast.store.file_access import make_directory

USERS_FILE = "users.toml"
_KEYS = ("name", "password", "superuser")
_HEAD = "# Users of a Nearcast broker, kept by `nearcast user`; passwords are argon2id hashes.\n"


class Account(Struct, frozen=True):
    """A user: the password hash, if any, and whether the user is exempt from rules."""

    name: str
    password: str | None = None
    superuser: bool = False


def read_users(path: Path) -> dict[str, Account]:
    """Return the users in a file by name, or raise `AuthError` with all problems."""
    advice = f"nearcast user add NAME --users {path} makes it"
    file = TomlFile(path, read_bytes(path, advice))
    problems = [
        f"{file.place(key)}: {problem}" for key, problem in file.unknown(file.table, ("user",))
    ]
    accounts: dict[str, Account] = {}
    for at, table in enumerate(file.tables("user")):
        found = list(_problems(file, at, table))
        name = str(table.get("name"))
        if name in accounts and not found:
            place = file.place_of("user", at, "name")
            found.append(f"{place}: there is a user {shown(name)} above already")
        problems += found
        if not found:
            password = table.get("password")
            superuser = table.get("superuser", False)
            accounts[name] = Account(
                name, None if password is None else str(password), superuser is True
            )
    if problems:
        raise AuthError(*problems)
    return accounts


def write_users(path: Path, accounts: Mapping[str, Account]) -> None:
    """Write a users file atomically and durably, readable by its owner only."""
    # A symbolic link stays one, and the file keeps its owner (the broker's user).
    path = path.resolve()
    partial = beside(path)
    partial.unlink(missing_ok=True)
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with suppress(FileNotFoundError, PermissionError):
                was = path.stat()
                os.fchown(descriptor, was.st_uid, was.st_gid)
            file.write(_text(accounts).encode())
            file.flush()
            os.fsync(descriptor)
        put_in_place(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def changing_users(path: Path) -> Iterator[dict[str, Account]]:
    """Yield the users of a file to be changed; they are written when the block succeeds.

    Concurrent changes of the same file wait. A missing file is created.
    """
    path = path.resolve()
    try:
        make_directory(path.parent)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise AuthError(f"{path.parent}: it cannot be used ({error.strerror})") from None
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        accounts = read_users(path) if path.exists() else {}
        before = dict(accounts)
        yield accounts
        if accounts != before:
            write_users(path, accounts)
    except OSError as error:
        raise AuthError(f"{path}: it cannot be written ({error.strerror})") from None
    finally:
        os.close(directory)


def _problems(file: TomlFile, at: int, table: dict[str, object]) -> Iterator[str]:
    for key, problem in file.unknown(table, _KEYS):
        yield f"{file.place_of('user', at, key)}: {problem}"
    name, password = table.get("name"), table.get("password")
    if not isinstance(name, str):
        yield f'{file.place_of("user", at, "name")}: a user needs a name, as in name = "alice"'
    else:
        try:
            check_user_name(name)
        except AuthError as error:
            yield f"{file.place_of('user', at, 'name')}: {error}"
    if not isinstance(password, str | None):
        yield f"{file.place_of('user', at, 'password')}: the password is text, as a hash"
    elif password is not None:
        try:
            check_hash(password)
        except AuthError as error:
            yield f"{file.place_of('user', at, 'password')}: {error}"
    if not isinstance(table.get("superuser", False), bool):
        yield f"{file.place_of('user', at, 'superuser')}: superuser is true or false"


def _text(accounts: Mapping[str, Account]) -> str:
    parts = [_HEAD]
    for name in sorted(accounts):
        account = accounts[name]
        # Names have no control characters, so their JSON text is valid TOML.
        parts.append(f"\n[[user]]\nname = {json.dumps(name, ensure_ascii=False)}\n")
        if account.password is not None:
            parts.append(f"password = {json.dumps(account.password)}\n")
        if account.superuser:
            parts.append("superuser = true\n")
    return "".join(parts)
