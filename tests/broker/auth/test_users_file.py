import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.auth import AuthError, node_of
from nearcast.broker.auth.credentials.passwords import check_hash, decoy, hashed, is_right
from nearcast.broker.auth.credentials.users_file import (
    Account,
    changing_users,
    read_users,
    write_users,
)
from nearcast.broker.auth.names import check_user_name
from tests.support.accounts import HASHES, SECRET

HASH = HASHES["alice"]


def test_users_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    accounts = {
        "zoë": Account("zoë", HASH),
        'quote"s\\': Account('quote"s\\', None, True),
        "a b@c.d": Account("a b@c.d", HASH, True),
    }
    write_users(file, accounts)
    assert read_users(file) == accounts
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["users.toml"]


@given(st.text(max_size=105))
def test_every_name_is_either_refused_or_read_back(tmp_path_factory: object, name: str) -> None:
    assert isinstance(tmp_path_factory, pytest.TempPathFactory)
    file = tmp_path_factory.getbasetemp() / "any-users.toml"
    try:
        check_user_name(name)
    except AuthError:
        return
    write_users(file, {name: Account(name)})
    assert read_users(file) == {name: Account(name)}
    assert node_of(f"{name}~part") == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "1 to 100 characters"),
        ("x" * 101, "not 101"),
        *((f"a{character}b", "which means something") for character in "~+#/%\0"),
        ("me", "reserved"),
        ("here", "reserved"),
        ("auto-7", "ids of clients that gave none"),
        ("$SYS", "begins with $"),
        (" a", "spaces at an end"),
        ("a\nb", "cannot be seen"),
        ("a\u202eb", "cannot be seen"),
        ("a\ud800b", "cannot be seen"),
    ],
)
def test_a_name_that_cannot_be_is_refused(name: str, said: str) -> None:
    with pytest.raises(AuthError) as caught:
        check_user_name(name)
    assert said in str(caught.value)


USER = f'[[user]]\nname = "alice"\npassword = "{HASH}"\n'
WRONG = {
    "no TOML": ("[[user]]\nname = alice\n", 2, "Invalid value"),
    "a key at the top": ("users = 1\n", 1, "did you mean user"),
    "user as a table": ("[user.alice]\n", 1, "user is written as [[user]]"),
    "a key": (USER + "pasword = 'x'\n", 4, "did you mean password"),
    "no name": ("\n[[user]]\nsuperuser = true\n", 2, "a user needs a name"),
    "a name": (USER.replace("alice", "a/b"), 2, "holds '/'"),
    "twice": (USER + USER, 5, "there is a user 'alice' above already"),
    "a password in the clear": ('[[user]]\nname = "a"\npassword = "x"\n', 3, "no argon2id hash"),
    "another hash": (USER.replace("argon2id", "argon2i"), 3, "another kind of argon2"),
    "a greedy hash": (USER.replace("m=19456", "m=9999999"), 3, "takes 9999999 KiB"),
    "a number": ('[[user]]\nname = "a"\npassword = 7\n', 3, "the password is text"),
    "superuser": (USER + 'superuser = "yes"\n', 4, "superuser is true or false"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_line(name: str, tmp_path: Path) -> None:
    text, line, said = WRONG[name]
    file = tmp_path / "users.toml"
    file.write_text(text)
    with pytest.raises(AuthError) as caught:
        read_users(file)
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert said in str(caught.value)


def test_two_who_change_it_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "new" / "users.toml"

    def add(number: int) -> None:
        with changing_users(file) as accounts:
            accounts[f"u{number}"] = Account(f"u{number}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(40)))
    assert set(read_users(file)) == {f"u{number}" for number in range(40)}


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    write_users(file, {"alice": Account("alice", HASH)})
    before = file.read_bytes()

    def fail() -> None:
        with changing_users(file) as accounts:
            accounts.clear()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert file.read_bytes() == before


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "real.toml", tmp_path / "users.toml"
    write_users(file, {})
    link.symlink_to(file)
    write_users(link, {"alice": Account("alice")})
    assert link.is_symlink()
    assert set(read_users(file)) == {"alice"}


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(AuthError, match="it cannot be used"),
        changing_users(tmp_path / "file" / "u"),
    ):
        pass


def test_a_password_is_kept_as_argon2id_with_the_stated_cost() -> None:
    assert HASH.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert is_right(HASH, SECRET["alice"])
    assert not is_right(HASH, b"Wonderland")
    with pytest.raises(AuthError, match="at least one character"):
        hashed(b"")


def test_the_decoy_costs_what_a_password_costs() -> None:
    made = decoy()
    assert made.rpartition("$")[0].rpartition("$")[0] == HASH.rpartition("$")[0].rpartition("$")[0]
    assert len(made) == len(HASH)
    assert check_hash(made) == made
    assert not is_right(made, b"")
    assert decoy() != made
