"""`nearcast user`: users with passwords.

The file is written atomically, readable by its owner only; a running broker notices the change.
"""

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from nearcast.broker.auth.credentials.passwords import hashed, is_right
from nearcast.broker.auth.credentials.users_file import (
    USERS_FILE,
    Account,
    changing_users,
    read_users,
)
from nearcast.broker.auth.errors import AuthError
from nearcast.broker.auth.names import check_user_name
from nearcast.broker.config.settings import NodeSection
from nearcast.cli.failures import fail
from nearcast.core.model.errors import did_you_mean

GENERATED_BYTES = 24

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Add and remove users of a broker, and change their passwords.",
)

Name = Annotated[str, typer.Argument(help="The user's name, which is the name of its node too.")]
Users = Annotated[Path, typer.Option("--users", metavar="FILE", help="The users file.")]
PasswordSource = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Take the password from a file's first line; - is stdin."),
]
Generate = Annotated[bool, typer.Option("--generate", help="Make a password and print it.")]
USERS = Path(NodeSection().data) / USERS_FILE


@app.command()
def add(
    name: Name,
    superuser: Annotated[
        bool, typer.Option("--superuser", help="No rule stops this user but one that names it.")
    ] = False,
    password_file: PasswordSource = None,
    generate: Generate = False,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="Comes in by certificate or token only.")
    ] = False,
    users: Users = USERS,
) -> None:
    """Add a user; the password is asked for twice unless it comes from elsewhere."""
    check_user_name(name)
    if users.exists() and name in read_users(users):
        raise AuthError(_taken(name, users))
    if no_password and (generate or password_file is not None):
        raise AuthError("--no-password goes with no other option about passwords")
    chosen = None if no_password else _new_password(password_file, generate)
    kept = None if chosen is None else hashed(chosen)
    with changing_users(users) as accounts:
        if name in accounts:
            raise AuthError(_taken(name, users))
        accounts[name] = Account(name, kept, superuser)
    _print_result(f"Added {name} to {users}.", chosen if generate else None)


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print the users as JSON.")] = False,
    users: Users = USERS,
) -> None:
    """List the users."""
    accounts = sorted(read_users(users).values(), key=lambda account: account.name)
    rows = [
        {
            "name": account.name,
            "superuser": account.superuser,
            "password": account.password is not None,
        }
        for account in accounts
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    grid = Table("user", "rights", "comes in by", box=None, pad_edge=False)
    for account in accounts:
        grid.add_row(
            account.name,
            "everything" if account.superuser else "as the rules say",
            "certificate or token" if account.password is None else "password",
        )
    Console(markup=False).print(grid)


@app.command()
def remove(name: Name, users: Users = USERS) -> None:
    """Remove a user."""
    with _account(name, users) as accounts:
        del accounts[name]
    typer.echo(f"Removed {name} from {users}.")


@app.command()
def password(
    name: Name,
    password_file: PasswordSource = None,
    generate: Generate = False,
    users: Users = USERS,
) -> None:
    """Change a user's password."""
    _known(name, read_users(users), users)
    chosen = _new_password(password_file, generate)
    kept = hashed(chosen)
    with _account(name, users) as accounts:
        accounts[name] = msgspec.structs.replace(accounts[name], password=kept)
    _print_result(f"Changed the password of {name} in {users}.", chosen if generate else None)


@app.command()
def check(name: Name, password_file: PasswordSource = None, users: Users = USERS) -> None:
    """Try a user's password; the exit code is 1 if it is wrong."""
    accounts = read_users(users)
    _known(name, accounts, users)
    kept = accounts[name].password
    if kept is None:
        raise AuthError(f"{name} has no password: it comes in by certificate or token")
    tried = _from_file(password_file) if password_file else _prompt(twice=False)
    if not is_right(kept, tried):
        fail(f"That is not the password of {name}.")
    typer.echo(f"That is the password of {name}.")


@contextmanager
def _account(name: str, users: Path) -> Iterator[dict[str, Account]]:
    if not users.exists():
        read_users(users)
    with changing_users(users) as accounts:
        _known(name, accounts, users)
        yield accounts


def _known(name: str, accounts: dict[str, Account], users: Path) -> None:
    if name not in accounts:
        raise AuthError(f"there is no user {name!r} in {users}{did_you_mean(name, accounts)}")


def _taken(name: str, users: Path) -> str:
    return (
        f"there is a user {name!r} in {users} already; nearcast user password changes its password"
    )


def _new_password(file: Path | None, generate: bool) -> bytes:
    if generate and file is not None:
        raise AuthError("--generate and --password-file exclude each other")
    if generate:
        return secrets.token_urlsafe(GENERATED_BYTES).encode()
    return _from_file(file) if file is not None else _prompt(twice=True)


def _print_result(done: str, generated: bytes | None) -> None:
    # A generated password is alone on standard output, so that it can be piped.
    typer.echo(done, err=generated is not None)
    if generated is not None:
        typer.echo(generated.decode())


def _from_file(file: Path) -> bytes:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise AuthError(f"{file}: it cannot be read ({error.strerror})") from None
    first = data.splitlines()[0] if data else b""
    if not first:
        raise AuthError(f"{file}: its first line is empty, and should be the password")
    return first


def _prompt(*, twice: bool) -> bytes:
    answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt=twice)
    return answer.encode()
