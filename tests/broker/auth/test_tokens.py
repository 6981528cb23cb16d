"""Tokens: good ones open, and the known ways to forge one do not."""

import hmac
import json
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.auth import Authenticator, AuthError, Identity, TokenTopics
from nearcast.broker.auth.credentials.tokens import TokenError, looks_like_token, token_key
from nearcast.wire.mqtt import Connect, ReasonCode
from tests.support.accounts import NOW, THERE, admitted, enter, house, refused, with_users

SHARED = b"0123456789abcdef0123456789abcdef"
RSA = rsa.generate_private_key(65_537, 2_048)
EC = ec.generate_private_key(ec.SECP256R1())
EDWARDS = ed25519.Ed25519PrivateKey.generate()
ALL = ("HS256", "RS256", "ES256", "EdDSA")
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def public(key: PrivateKey, encoding: Encoding = Encoding.PEM) -> bytes:
    return key.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)


def signed(key: PrivateKey | bytes, algorithm: str, **claims: object) -> bytes:
    return jwt.encode({"sub": "alice", "exp": NOW + 60, **claims}, key, algorithm).encode()


def by_hand(header: dict[str, object], claims: dict[str, object], secret: bytes | None) -> bytes:
    """Make a token as an attacker would, without a library that refuses to."""

    def part(data: bytes) -> bytes:
        return urlsafe_b64encode(data).rstrip(b"=")

    body = part(json.dumps(header).encode()) + b"." + part(json.dumps(claims).encode())
    signature = b"" if secret is None else hmac.digest(secret, body, sha256)
    return body + b"." + part(signature)


def with_key(
    base: Path, data: bytes, audience: str = "", issuer: str = "", failures_per_minute: int = 30
) -> Authenticator:
    (base / "key").write_bytes(data)
    return house(
        base,
        jwt_key=str(base / "key"),
        jwt_algorithms=ALL,
        jwt_audience=audience,
        jwt_issuer=issuer,
        failures_per_minute=failures_per_minute,
    )


def bearer(token: bytes, username: str | None = "alice", client_id: str = "alice") -> Connect:
    return Connect(client_id, username=username, password=token)


@pytest.mark.parametrize(
    ("key", "algorithm", "file"),
    [
        (SHARED, "HS256", SHARED + b"\n"),
        (RSA, "RS256", public(RSA)),
        (RSA, "RS256", public(RSA, Encoding.DER)),
        (EC, "ES256", public(EC)),
        (EDWARDS, "EdDSA", public(EDWARDS)),
    ],
)
def test_a_token_signed_with_the_key_opens(
    key: PrivateKey | bytes, algorithm: str, file: bytes, tmp_path: Path
) -> None:
    doors = with_key(tmp_path, file)
    token = signed(key, algorithm)
    for username in ("alice", "", None):
        found = admitted(enter(doors, bearer(token, username), THERE))
        assert found.identity == Identity("alice", expires=NOW + 60)


CLAIMS: dict[str, object] = {"sub": "alice", "exp": NOW + 60}
FORGED = {
    "alg none": (public(RSA), by_hand({"alg": "none"}, CLAIMS, None)),
    "alg None": (public(RSA), by_hand({"alg": "None", "typ": "JWT"}, CLAIMS, None)),
    "no alg": (public(RSA), by_hand({"typ": "JWT"}, CLAIMS, None)),
    "none with a secret": (SHARED, by_hand({"alg": "none"}, CLAIMS, None)),
    "the public key as a secret": (public(RSA), by_hand({"alg": "HS256"}, CLAIMS, public(RSA))),
    "the same without its last line end": (
        public(RSA),
        by_hand({"alg": "HS256"}, CLAIMS, public(RSA).strip()),
    ),
    "the binary public key as a secret": (
        public(RSA, Encoding.DER),
        by_hand({"alg": "HS256"}, CLAIMS, public(RSA, Encoding.DER)),
    ),
    "another secret": (SHARED, signed(SHARED[::-1], "HS256")),
    "another kind of key": (public(EC), signed(RSA, "RS256")),
    "an algorithm that is an object": (SHARED, by_hand({"alg": {}}, CLAIMS, SHARED)),
    "a critical header": (
        SHARED,
        by_hand({"alg": "HS256", "crit": ["x"], "x": 1}, CLAIMS, SHARED),
    ),
    "a header that is deep": (
        SHARED,
        b"eyJ" + urlsafe_b64encode(b'{"a":' + b"[" * 9_999)[3:] + b".e30.e30",
    ),
    "changed": (SHARED, signed(SHARED, "HS256")[:-4] + b"AAAA"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_opens_nothing_and_is_counted(name: str, tmp_path: Path) -> None:
    file, token = FORGED[name]
    doors = with_key(tmp_path, file, failures_per_minute=1)
    found = refused(enter(doors, bearer(token), THERE))
    assert found.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert found.why == "the token is not signed with this broker's key"
    again = refused(enter(doors, bearer(token), THERE))
    assert again.reason is ReasonCode.CONNECTION_RATE_EXCEEDED


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "expired": ({"exp": NOW}, "the token has expired"),
    "without an end": ({"exp": None}, "cannot be used"),
    "with an end that is text": ({"exp": "never"}, "cannot be used"),
    "not yet valid": ({"nbf": NOW + 6}, "not valid yet"),
    "for others": ({"aud": "shop"}, "another audience"),
    "for nobody": ({"aud": []}, "another audience"),
    "from others": ({"iss": "them"}, "another issuer"),
    "of nobody": ({"sub": ""}, "1 to 100 characters"),
    "of a name with a wildcard": ({"sub": "+"}, "which means something"),
    "with a superuser that is text": ({"superuser": "no"}, "cannot be used"),
    "with an acl that is a list": ({"acl": []}, "cannot be used"),
    "with an unknown acl": ({"acl": {"publish": []}}, "cannot be used"),
    "with a broken acl": ({"acl": {"pub": ["a/#/b"]}}, "# must be the whole last level"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_signed_token_that_does_not_hold_here_is_refused_and_not_counted(
    name: str, tmp_path: Path
) -> None:
    claims, said = REFUSED[name]
    doors = with_key(tmp_path, SHARED, audience="mqtt", issuer="us", failures_per_minute=1)
    good = {"aud": ["mqtt", "web"], "iss": "us", "nbf": NOW + 4, "sub": "alice", "exp": NOW + 60}
    changed = {key: value for key, value in (good | claims).items() if value is not None}
    found = refused(enter(doors, bearer(by_hand({"alg": "HS256"}, changed, SHARED)), THERE))
    assert found.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert said in found.why
    admitted(enter(doors, bearer(by_hand({"alg": "HS256"}, good, SHARED)), THERE))


def test_a_token_for_an_audience_is_refused_where_none_is_expected(tmp_path: Path) -> None:
    doors = with_key(tmp_path, SHARED)
    found = refused(enter(doors, bearer(signed(SHARED, "HS256", aud="shop")), THERE))
    assert "another audience" in found.why


def test_a_token_is_good_for_its_own_user_only(tmp_path: Path) -> None:
    doors = with_key(tmp_path, SHARED)
    token = signed(SHARED, "HS256")
    assert "the user name another" in refused(enter(doors, bearer(token, "bob"), THERE)).why
    assert "node 'bob'" in refused(enter(doors, bearer(token, client_id="bob"), THERE)).why


def test_a_token_may_make_a_superuser_or_list_topics(tmp_path: Path) -> None:
    doors = with_key(tmp_path, SHARED)
    token = signed(SHARED, "HS256", superuser=True)
    assert admitted(enter(doors, bearer(token, client_id="any"), THERE)).identity.superuser
    acl = {"pub": ["out/${user}"], "sub": ["in/#"], "all": ["both"]}
    found = admitted(enter(doors, bearer(signed(SHARED, "HS256", acl=acl)), THERE)).identity
    assert found.listed == TokenTopics(("out/${user}",), ("in/#",), ("both",))
    rights = doors.rights(found, "alice", THERE.address)
    assert not rights.unrestricted
    assert rights.may_publish("out/alice")
    assert rights.may_publish("both")
    assert not rights.may_publish("out/bob")
    assert not rights.may_publish("in/x")
    assert rights.may_subscribe("in/+")
    assert not rights.may_subscribe("#")


def test_a_list_does_not_go_beyond_the_rules_and_an_empty_one_allows_nothing(
    tmp_path: Path,
) -> None:
    rule = '[[rule]]\npermission = "deny"\nwho = "all"\naction = "all"\ntopics = ["in/secret"]\n'
    doors = house(tmp_path, rules=rule)
    listed = Identity("alice", listed=TokenTopics(sub=("in/#",)))
    rights = doors.rights(listed, "alice", THERE.address)
    assert rights.may_subscribe("in/x")
    assert not rights.may_subscribe("in/#")
    assert not rights.may_publish("in/x")
    nothing = doors.rights(Identity("alice", listed=TokenTopics()), "alice", THERE.address)
    assert not nothing.may_subscribe("in/x")


def test_tokens_and_passwords_go_together(tmp_path: Path) -> None:
    with_users(tmp_path)
    doors = with_key(tmp_path, SHARED)
    admitted(enter(doors, bearer(signed(SHARED, "HS256")), THERE))
    admitted(enter(doors, bearer(b"wonderland"), THERE))
    refused(enter(doors, bearer(b"not.a.token"), THERE))


BROKEN = {
    "a short secret": (b"secret", ALL, "the secret has 6 bytes, and HS256 needs at least 32"),
    "a secret too short for one": (SHARED, ("HS256", "HS512"), "HS512 needs at least 64"),
    "nothing": (b"\n", ALL, "the secret has 0 bytes"),
    "a private key": (
        RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ALL,
        "this is a private key",
    ),
    "half a key": (public(RSA)[:99], ALL, "the key cannot be read"),
    "a key of SSH": (
        EDWARDS.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        ALL,
        "write it as PEM",
    ),
    "a key as JSON": (b'{"kty": "oct", "k": "x"}', ALL, "write it as PEM"),
    "a key that does not sign tokens": (
        dsa.generate_private_key(1_024)
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        ALL,
        "a key of this kind",
    ),
    "a small key": (public(rsa.generate_private_key(65_537, 1_024)), ALL, "has 1024 bits"),
    "another curve": (public(ec.generate_private_key(ec.SECP256K1())), ALL, "secp256k1"),
    "no algorithm for it": (public(EC), ("HS256", "RS256"), "jwt_algorithms has only HS256, RS256"),
    "no algorithm": (public(EDWARDS), (), "an Edwards key, for EdDSA, and jwt_algorithms has only"),
    "only secrets for a key": (public(RSA), ("HS256",), "an RSA key, for RS256 or"),
    "only keys for a secret": (SHARED, ("RS256",), "a shared secret, for HS256 or"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_key_that_cannot_be_used_is_refused(name: str) -> None:
    data, algorithms, said = BROKEN[name]
    with pytest.raises(AuthError) as caught:
        token_key(data, algorithms)
    assert said in str(caught.value)


@given(st.binary(max_size=60) | st.from_regex(rb"eyJ[A-Za-z0-9_-]{0,30}\.[\w-]{1,20}\.[\w-]{0,20}"))
def test_whatever_is_given_as_a_token_is_refused_in_order(token: bytes) -> None:
    looks_like_token(token)
    with pytest.raises(TokenError):
        token_key(SHARED, ALL).read(token, NOW)


def test_the_expiry_of_a_token_is_in_the_time_of_the_machine(tmp_path: Path) -> None:
    doors = with_key(tmp_path, SHARED)
    token = Connect("alice", password=signed(SHARED, "HS256"))
    let_in = admitted(enter(doors, token))
    assert doors.stays(let_in, NOW) is None
    doors.wall_ahead_s = 61.0
    assert "expired" in refused(enter(doors, token)).why
    assert doors.stays(let_in, NOW) is not None
    doors.wall_ahead_s = -1_000.0
    assert admitted(enter(doors, token, now=NOW + 1_000.0))
