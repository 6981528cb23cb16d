from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import argon2
import pytest

from nearcast.broker.auth import (
    Admitted,
    Authenticator,
    AuthError,
    CredentialCheck,
    Identity,
    Peer,
    node_of,
)
from nearcast.broker.auth.credentials.users_file import Account, changing_users
from nearcast.broker.config.configuration import load
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.wire.mqtt import Connect, Properties, ReasonCode
from tests.support.accounts import (
    HERE,
    NOW,
    THERE,
    admitted,
    as_user,
    enter,
    house,
    refused,
    with_users,
)

CERTIFIED = Peer("192.0.2.7", loopback=False, certificate_name="alice")


@pytest.mark.parametrize(
    ("anonymous", "from_here", "from_there"),
    [("loopback", True, False), ("everywhere", True, True), ("nowhere", False, False)],
)
def test_the_anonymous_come_in_where_the_settings_say(
    anonymous: str, from_here: bool, from_there: bool, tmp_path: Path
) -> None:
    doors = house(tmp_path, anonymous=anonymous)
    for peer, expected in ((HERE, from_here), (THERE, from_there)):
        for connect in (Connect("x"), Connect("x", username=""), Connect("x", password=b"")):
            answer = enter(doors, connect, peer)
            assert isinstance(answer, Admitted) == expected
            if expected:
                assert answer == Admitted(Identity(), "x", peer)
            else:
                assert refused(answer).reason is ReasonCode.NOT_AUTHORIZED
                assert "a user name and a password are needed" in refused(answer).why


def test_a_user_comes_in_with_the_password_from_anywhere(tmp_path: Path) -> None:
    with_users(tmp_path, "root")
    doors = house(tmp_path, anonymous="nowhere")
    found = admitted(enter(doors, as_user("alice", "alice~phone"), THERE))
    assert (found.identity.user, found.identity.superuser) == ("alice", False)
    assert node_of(found.client_id) == "alice"
    assert admitted(enter(doors, as_user("root"), THERE)).identity.superuser


@pytest.mark.parametrize(
    "connect",
    [
        as_user("alice", password=b"Wonderland"),
        Connect("x", username="nobody", password=b"wonderland"),
        Connect("x", username="+", password=b"x"),
        Connect("alice", username="alice"),
        Connect("alice", username="alice", password=b""),
        Connect("alice", password=b"wonderland"),
    ],
)
def test_whoever_is_wrong_hears_the_same(connect: Connect, tmp_path: Path) -> None:
    with_users(tmp_path)
    found = refused(enter(house(tmp_path, anonymous="everywhere"), connect))
    assert found.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert found.why == "the user name or the password is wrong"


def test_an_unknown_user_is_hashed_like_a_known_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_users(tmp_path)
    with changing_users(tmp_path / "users.toml") as accounts:
        accounts["cert"] = Account("cert")
    doors = house(tmp_path)
    costs: list[argon2.Parameters] = []
    verify = argon2.PasswordHasher.verify

    def counting(self: argon2.PasswordHasher, kept: str, password: bytes) -> object:
        costs.append(argon2.extract_parameters(kept))
        return verify(self, kept, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", counting)
    for name in ("alice", "nobody", "cert"):
        answer = doors.admit(Connect(name, username=name, password=b"guess"), THERE, NOW)
        assert isinstance(answer, CredentialCheck)
        refused(answer.run())
    assert len(costs) == 3
    assert costs[0] == costs[1] == costs[2]


def test_without_users_a_name_from_elsewhere_is_refused_with_advice(tmp_path: Path) -> None:
    named = Connect("x", username="x", password=b"x")
    for anonymous in ("loopback", "everywhere", "nowhere"):
        found = refused(enter(house(tmp_path, anonymous=anonymous), named, THERE))
        assert found.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
        assert "nearcast user add" in found.why


def test_without_users_a_name_and_a_password_are_ignored_on_loopback(tmp_path: Path) -> None:
    for connect in (
        Connect("x", username="x", password=b"x"),
        Connect("x", username="x"),
        Connect("x", password=b"x"),
    ):
        assert admitted(enter(house(tmp_path), connect, HERE)) == Admitted(Identity(), "x", HERE)
    nowhere = enter(house(tmp_path, anonymous="nowhere"), connect, HERE)
    assert refused(nowhere).reason is ReasonCode.NOT_AUTHORIZED


def test_enhanced_authentication_is_refused(tmp_path: Path) -> None:
    connect = Connect("x", properties=Properties(authentication_method="SCRAM"))
    assert refused(enter(house(tmp_path), connect)).reason is ReasonCode.BAD_AUTHENTICATION_METHOD


@pytest.mark.parametrize("needed", ["optional", "required"])
def test_a_certificate_without_a_name_is_nobodys(tmp_path: Path, needed: str) -> None:
    with_users(tmp_path)
    listen = ListenSection(client_certificate=needed, client_authority="ca.pem")  # type: ignore[arg-type]
    doors = Authenticator(Settings(listen=listen), tmp_path)
    near, far = Peer("127.0.0.1", True, ""), Peer("192.0.2.7", False, "")
    answer = enter(doors, Connect("car"), near)
    if needed == "optional":
        assert admitted(answer).identity == Identity()
    else:
        assert "it is nobody's" in refused(answer).why
    assert refused(enter(doors, Connect("car"), far)).reason is ReasonCode.NOT_AUTHORIZED
    assert admitted(enter(doors, as_user("alice"), far)).identity.user == "alice"


def test_a_certificate_names_the_user(tmp_path: Path) -> None:
    with_users(tmp_path, "alice")
    doors = house(tmp_path, anonymous="nowhere")
    found = admitted(enter(doors, Connect("alice~x"), CERTIFIED)).identity
    assert (found.user, found.superuser) == ("alice", True)
    assert "the user name another" in refused(enter(doors, as_user("bob"), CERTIFIED)).why
    odd = Peer("192.0.2.7", loopback=False, certificate_name="CA/Root")
    assert "common name" in refused(enter(doors, Connect("x"), odd)).why


def test_a_user_is_its_own_node_and_no_other(tmp_path: Path) -> None:
    with_users(tmp_path, "root")
    doors = house(tmp_path)
    admitted(enter(doors, as_user("alice", "alice~a~b")))
    admitted(enter(doors, as_user("root", "bob")))
    found = refused(enter(doors, as_user("alice", "bob")))
    assert found.reason is ReasonCode.NOT_AUTHORIZED
    assert found.why == (
        "user alice may not connect as node 'bob'; use client id alice or alice~PART"
    )


def test_the_anonymous_cannot_be_a_user(tmp_path: Path) -> None:
    with_users(tmp_path)
    rules = '[[rule]]\npermission = "allow"\nwho = "all"\naction = "connect"\nnodes = ["*"]\n'
    doors = house(tmp_path, rules=rules)
    for client_id in ("alice", "alice~x"):
        assert "alice is a user's name" in refused(enter(doors, Connect(client_id))).why
    admitted(enter(doors, Connect("Alice")))


@pytest.mark.parametrize("client_id", ["me", "here", "me~x", "~x"])
def test_a_client_id_must_name_a_node(client_id: str, tmp_path: Path) -> None:
    found = refused(enter(house(tmp_path), Connect(client_id)))
    assert found.reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID


CONNECT = """
[[rule]]
permission = "deny"
who = "user:alice"
action = "connect"
nodes = ["truck-13"]

[[rule]]
permission = "allow"
who = "user:alice"
action = "connect"
nodes = ["truck-*", "${user}-*"]

[[rule]]
permission = "allow"
who = "anonymous"
action = "connect"
nodes = ["sensor-*"]

[[rule]]
permission = "deny"
who = ["anonymous", "address:192.0.2.0/24", "superuser"]
action = "connect"
"""


def test_rules_say_as_which_nodes_one_may_connect(tmp_path: Path) -> None:
    with_users(tmp_path, "root")
    doors = house(tmp_path, rules=CONNECT)
    for client_id in ("alice", "truck-7", "truck-7~engine", "alice-2"):
        admitted(enter(doors, as_user("alice", client_id)))
    for client_id in ("truck-13", "bob", "bob-2", "xtruck-1"):
        refused(enter(doors, as_user("alice", client_id)))
    admitted(enter(doors, Connect("sensor-1")))
    for client_id in ("other", "", "auto-1"):
        assert "anonymous clients may not" in refused(enter(doors, Connect(client_id))).why
    admitted(enter(doors, as_user("bob"), HERE))
    assert refused(enter(doors, as_user("bob"), THERE)).why.endswith("as node 'bob'")
    refused(enter(doors, as_user("root"), HERE))


def test_one_without_an_id_is_given_one_of_its_own_node(tmp_path: Path) -> None:
    with_users(tmp_path)
    doors = house(tmp_path)
    found = admitted(enter(doors, as_user("alice", "")))
    assert found.client_id == ""
    assert doors.client_id_for(found.identity, "7") == "alice~auto-7"
    assert doors.client_id_for(admitted(enter(doors, Connect(""))).identity, "7") == "auto-7"


def test_too_many_wrong_passwords_shut_an_address_out_for_the_minute(tmp_path: Path) -> None:
    with_users(tmp_path)
    doors = house(tmp_path, failures_per_minute=2)
    for _ in range(4):
        admitted(enter(doors, as_user("alice"), THERE))
    for _ in range(2):
        refused(enter(doors, as_user("alice", password=b"guess"), THERE))
    found = refused(doors.admit(as_user("alice"), THERE, NOW + 30))
    assert found.reason is ReasonCode.CONNECTION_RATE_EXCEEDED
    assert found.why == "too many wrong passwords from this address; try again in 30 s"
    admitted(enter(doors, as_user("alice"), HERE, NOW + 30))
    admitted(enter(doors, Connect("alice"), CERTIFIED, NOW + 30))
    admitted(enter(doors, as_user("alice"), THERE, NOW + 60))


def test_checks_begun_at_once_do_not_get_more_guesses(tmp_path: Path) -> None:
    with_users(tmp_path)
    doors = house(tmp_path, failures_per_minute=2)
    guesses = [doors.admit(as_user("bob", password=b"guess"), THERE, NOW) for _ in range(9)]
    runs: list[Callable[[], object]] = [
        one.run for one in guesses if isinstance(one, CredentialCheck)
    ]
    assert len(runs) == 9
    with ThreadPoolExecutor(1) as threads:
        answers = [threads.submit(run).result() for run in runs]
    reasons = [getattr(answer, "reason", None) for answer in answers]
    assert reasons.count(ReasonCode.BAD_USER_NAME_OR_PASSWORD) == 2
    assert reasons.count(ReasonCode.CONNECTION_RATE_EXCEEDED) == 7


def test_knocking_is_limited_by_address(tmp_path: Path) -> None:
    doors = house(tmp_path, connects_per_s=2.0)
    assert [doors.knock("2001:db8::1", NOW) for _ in range(3)] == [True, True, False]
    assert not doors.knock("2001:db8::2", NOW)
    assert doors.knock("2001:db8:0:1::1", NOW)
    figures = doors.statistics()
    assert (figures.knocking_addresses, figures.knocks_refused) == (2, 2)


def test_a_users_file_that_appears_is_found(tmp_path: Path) -> None:
    doors = house(tmp_path)
    assert not doors.changed()
    with_users(tmp_path)
    assert doors.changed()
    assert doors.reload() == []
    assert not doors.changed()
    admitted(enter(doors, as_user("alice"), THERE))
    assert doors.statistics().users == 3


def test_a_reload_takes_everything_or_nothing(tmp_path: Path) -> None:
    with_users(tmp_path)
    rule = '[[rule]]\npermission = "deny"\nwho = "all"\naction = "publish"\ntopics = ["a"]\n'
    doors = house(tmp_path, rules=rule)
    rights = doors.rights(Identity("alice"), "alice", "::1")
    assert not rights.may_publish("a")
    (tmp_path / "rules.toml").write_text(rule.replace('"a"', '"b"'))
    (tmp_path / "users.toml").write_text("[[user]]\nname = 7\n")
    assert doors.changed()
    problems = doors.reload()
    assert problems == [f'{tmp_path / "users.toml"}:2: a user needs a name, as in name = "alice"']
    assert not doors.changed()
    assert not rights.may_publish("a")
    assert rights.may_publish("b")
    admitted(enter(doors, as_user("alice")))
    with_users(tmp_path)
    assert doors.reload() == []
    assert rights.may_publish("a")
    assert not rights.may_publish("b")


def test_rules_that_come_and_go_are_followed_by_those_who_are_in(tmp_path: Path) -> None:
    doors = house(tmp_path, rules="")
    rights = doors.rights(Identity(), "x", "::1")
    answers = []
    for text in ("", 'default = "deny"\n', ""):
        (tmp_path / "rules.toml").write_text(text)
        assert doors.reload() == []
        answers.append((rights.unrestricted, rights.may_subscribe("a")))
    assert answers == [(True, True), (False, False), (True, True)]


def test_a_file_that_is_gone_is_a_problem_and_changes_nothing(tmp_path: Path) -> None:
    doors = house(tmp_path, rules='default = "deny"\n')
    (tmp_path / "rules.toml").unlink()
    assert doors.changed()
    assert "there is no such file" in doors.reload()[0]
    assert not doors.rights(Identity(), "x", "::1").may_publish("a")


def test_broken_files_stop_the_start_with_all_their_problems(tmp_path: Path) -> None:
    no_users, no_key = str(tmp_path / "no.toml"), str(tmp_path / "no.key")
    with pytest.raises(AuthError) as caught:
        house(tmp_path, users=no_users, rules="nonsense = 1", jwt_key=no_key)
    said = caught.value.problems
    assert len(said) == 3
    assert "nearcast user add NAME --users" in said[0]
    assert "nonsense means nothing here" in said[1]
    assert "leave the setting doors.jwt_key out" in said[2]


def test_files_are_where_their_settings_say_and_not_in_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with_users(tmp_path)
    (tmp_path / "key").write_bytes(b"k" * 64)
    (tmp_path / "rules.toml").write_text('default = "deny"\n')
    (tmp_path / "nearcast.toml").write_text(
        '[doors]\nusers = "users.toml"\nrules = "rules.toml"\njwt_key = "key"\n'
    )
    (tmp_path / "data").mkdir()
    doors = Authenticator(load(None, {}, {}), tmp_path / "data")
    admitted(enter(doors, as_user("alice")))
    assert not doors.rights(Identity(), "x", "::1").may_publish("a")


def test_a_key_that_is_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(AuthError, match="key: the secret has 5 bytes"):
        house(tmp_path, jwt_key=str(tmp_path / "key"))


def test_those_who_are_in_stay_until_something_about_them_changes(tmp_path: Path) -> None:
    with_users(tmp_path)
    doors = house(tmp_path, rules="")
    alice = admitted(enter(doors, as_user("alice", "")))
    carol = admitted(enter(doors, Connect("carol")))
    token = Admitted(Identity("dave", expires=NOW + 9), "dave", THERE)
    for one in (alice, carol, token):
        assert doors.stays(one, NOW) is None
    assert "expired" in refused_now(doors.stays(token, NOW + 9))
    with changing_users(tmp_path / "users.toml") as accounts:
        accounts["carol"] = Account("carol")
        del accounts["alice"]
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\npermission = "deny"\nwho = "user:dave"\naction = "connect"\n'
    )
    assert doors.reload() == []
    assert refused_now(doors.stays(alice, NOW)) == "user alice was changed; connect again"
    assert "carol is a user's name" in refused_now(doors.stays(carol, NOW))
    assert "user dave may not connect" in refused_now(doors.stays(token, NOW))


def refused_now(answer: object) -> str:
    assert answer is not None
    return str(getattr(answer, "why", ""))
