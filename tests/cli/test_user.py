"""`nearcast user`: files are written whole, passwords never shown, mistakes told."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nearcast.broker.auth import Admitted, Authenticator, CredentialCheck, Peer
from nearcast.broker.auth.credentials.passwords import is_right
from nearcast.broker.auth.credentials.users_file import read_users
from nearcast.broker.config.settings import Settings
from nearcast.cli import app
from nearcast.wire.mqtt import Connect


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "data" / "users.toml"


def run(users: Path, *arguments: str, answers: str | bytes | None = None) -> Result:
    done = CliRunner().invoke(app, ["user", *arguments, "--users", str(users)], input=answers)
    assert "Traceback" not in done.output
    return done


def test_a_user_who_was_added_comes_in(users: Path) -> None:
    done = run(users, "add", "alice", answers="secret\nsecret\n")
    assert done.exit_code == 0
    assert "secret" not in done.output
    assert stat.S_IMODE(users.stat().st_mode) == 0o600
    doors = Authenticator(Settings(), users.parent)
    connect = Connect("alice", username="alice", password=b"secret")
    answer = doors.admit(connect, Peer("192.0.2.7", loopback=False), 0.0)
    assert isinstance(answer, CredentialCheck)
    assert isinstance(answer.run(), Admitted)


def test_the_password_is_asked_for_until_it_is_the_same_twice(users: Path) -> None:
    done = run(users, "add", "alice", answers="secret\nother\nsecret\nsecret\n")
    assert done.exit_code == 0
    assert run(users, "check", "alice", answers="secret\n").exit_code == 0


def test_a_generated_password_is_alone_on_the_standard_output(users: Path) -> None:
    made = run(users, "add", "alice", "--generate").stdout.strip()
    assert len(made) == 32
    kept = read_users(users)["alice"].password
    assert kept is not None
    assert is_right(kept, made.encode())
    again = run(users, "password", "alice", "--generate").stdout.strip()
    assert again != made
    assert run(users, "check", "alice", answers=f"{made}\n").exit_code == 1
    assert run(users, "check", "alice", answers=f"{again}\n").exit_code == 0


def test_a_password_may_come_from_a_file_or_the_standard_input(users: Path, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"pass word\xff\r\nsecond line\n")
    assert run(users, "add", "alice", "--password-file", str(file)).exit_code == 0
    tried = run(users, "check", "alice", "--password-file", "-", answers=b"pass word\xff")
    assert tried.exit_code == 0
    assert tried.stdout == "That is the password of alice.\n"


def test_users_are_listed_without_their_hashes(users: Path) -> None:
    run(users, "add", "root", "--superuser", "--generate")
    run(users, "add", "[bold]", "--no-password")
    done = run(users, "list")
    assert "argon2" not in done.stdout
    assert "everything" in done.stdout
    assert "[bold]" in done.stdout
    assert json.loads(run(users, "list", "--json").stdout) == [
        {"name": "[bold]", "superuser": False, "password": False},
        {"name": "root", "superuser": True, "password": True},
    ]


def test_a_user_can_be_removed(users: Path) -> None:
    run(users, "add", "alice", "--generate")
    run(users, "add", "bob", "--generate")
    assert run(users, "remove", "alice").exit_code == 0
    assert set(read_users(users)) == {"bob"}


def test_a_changed_password_leaves_the_rest_as_it_was(users: Path) -> None:
    run(users, "add", "root", "--superuser", "--generate")
    assert run(users, "password", "root", answers="new\nnew\n").exit_code == 0
    assert read_users(users)["root"].superuser
    assert run(users, "check", "root", answers="new\n").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "a/b", "--generate"], "holds '/'"),
        (["add", "me", "--generate"], "reserved"),
        (["add", "alice", "--generate"], "there is a user 'alice'"),
        (["add", "bob", "--generate", "--password-file", "x"], "exclude each other"),
        (["add", "bob", "--generate", "--no-password"], "goes with no other option"),
        (["add", "bob", "--password-file", "missing"], "missing: it cannot be read"),
        (["add", "bob", "--password-file", "/dev/null"], "its first line is empty"),
        (["remove", "alcie"], "did you mean alice"),
        (["password", "bob", "--generate"], "there is no user 'bob'"),
        (["check", "bob"], "there is no user 'bob'"),
        (["check", "carol"], "carol has no password"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(
    users: Path, arguments: list[str], said: str
) -> None:
    run(users, "add", "alice", "--generate")
    run(users, "add", "carol", "--no-password")
    before = users.read_bytes()
    done = run(users, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert users.read_bytes() == before


@pytest.mark.parametrize("verb", ["list", "remove", "password", "check"])
def test_a_missing_file_is_told_and_not_made(users: Path, verb: str) -> None:
    done = run(users, verb, *(() if verb == "list" else ("alice",)))
    assert done.exit_code == 2
    assert "there is no such file; nearcast user add" in done.stderr
    assert not users.parent.exists()


def test_a_broken_file_is_told_with_its_line_and_kept(users: Path) -> None:
    users.parent.mkdir()
    users.write_text("[[user]]\nname = 'alice'\nsuperuser = 7\n")
    done = run(users, "add", "bob", "--generate")
    assert done.exit_code == 2
    assert f"{users}:3: superuser is true or false" in done.stderr
    assert users.read_text().endswith("superuser = 7\n")
