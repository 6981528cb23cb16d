"""Tokens (JWT) as passwords: one key, and only the algorithms suitable for its kind.

The algorithm is never taken from the token: a public key is loaded as a key, not as text, so it
cannot be used as a shared secret. Times are compared with the time passed in.
"""

import re
from contextlib import suppress

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate
from jwt import PyJWS, PyJWTError
from msgspec import Struct

from nearcast.broker.auth.errors import AuthError
from nearcast.broker.auth.identities import TokenTopics
from nearcast.broker.auth.names import check_user_name
from nearcast.broker.auth.rules.topic_patterns import parse_topic_pattern
from nearcast.core.model.errors import ModelError
from nearcast.errors import NearcastError

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey

SMALLEST_RSA_BITS = 2_048
SMALLEST_SECRET = {"HS256": 32, "HS384": 48, "HS512": 64}
AHEAD_S = 5.0
"""How far the clock of a token's issuer may be ahead of the broker's."""
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_TOKEN = re.compile(rb"eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_JWS = PyJWS()


class Claims(Struct, frozen=True):
    """The claims of a token that are used here."""

    sub: str
    exp: float
    nbf: float = 0.0
    aud: str | tuple[str, ...] = ()
    iss: str = ""
    superuser: bool = False
    acl: TokenTopics | None = None


class TokenError(NearcastError):
    """An invalid token; a `forged` one was not signed with the broker's key."""

    def __init__(self, message: str, *, forged: bool = False) -> None:
        super().__init__(message)
        self.forged = forged


def looks_like_token(password: bytes) -> bool:
    """Return whether a password has the form of a token."""
    return _TOKEN.fullmatch(password) is not None


class TokenKey(Struct, frozen=True):
    """The key that verifies tokens, and the algorithms allowed with it."""

    key: bytes | PublicKey
    algorithms: tuple[str, ...]
    audience: str = ""
    issuer: str = ""

    def read(self, token: bytes, now: float) -> Claims:
        """Return the claims of a valid token, or raise `TokenError`."""
        try:
            payload = _JWS.decode(token, self.key, algorithms=self.algorithms)
        except (PyJWTError, ValueError, RecursionError):
            raise TokenError(
                "the token is not signed with this broker's key", forged=True
            ) from None
        try:
            claims = msgspec.json.decode(payload, type=Claims)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise TokenError(f"the token's claims cannot be used: {error}") from None
        self._check(claims, now)
        return claims

    def _check(self, claims: Claims, now: float) -> None:
        if claims.exp <= now:
            raise TokenError("the token has expired; get a new one")
        if claims.nbf > now + AHEAD_S:
            raise TokenError("the token is not valid yet")
        meant_for = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
        # A token for an audience is valid for that one only, even if none is configured.
        if (self.audience or meant_for) and self.audience not in meant_for:
            raise TokenError("the token is meant for another audience")
        if self.issuer and claims.iss != self.issuer:
            raise TokenError("the token comes from another issuer")
        try:
            check_user_name(claims.sub)
            if claims.acl is not None:
                for pattern in (*claims.acl.pub, *claims.acl.sub, *claims.acl.all):
                    parse_topic_pattern(pattern)
        except (AuthError, ModelError) as error:
            raise TokenError(f"the token's claims cannot be used: {error}") from None


def token_key(
    data: bytes, algorithms: tuple[str, ...], audience: str = "", issuer: str = ""
) -> TokenKey:
    """Return the key in a file's bytes, or raise `AuthError`."""
    key = _key(data)
    possible = _possible(key)
    usable = tuple(name for name in algorithms if name in possible)
    if not usable:
        raise AuthError(
            f"the key is {_kind(key)}, for {' or '.join(possible)}, and jwt_algorithms has only "
            f"{', '.join(algorithms) or 'nothing'}"
        )
    if isinstance(key, bytes):
        needed = max(SMALLEST_SECRET[name] for name in usable)
        if len(key) < needed:
            raise AuthError(
                f"the secret has {len(key)} bytes, and {usable[-1]} needs at least {needed}; "
                "make one with openssl rand -hex 32"
            )
    if isinstance(key, RSAPublicKey) and key.key_size < SMALLEST_RSA_BITS:
        raise AuthError(
            f"the RSA key has {key.key_size} bits; it needs at least {SMALLEST_RSA_BITS}"
        )
    return TokenKey(key, usable, audience, issuer)


def _key(data: bytes) -> bytes | PublicKey:
    text = data.strip()
    if b"PRIVATE KEY-----" in text:
        raise AuthError(
            "this is a private key, which the broker should never see; give it the public one: "
            "openssl pkey -in KEY -pubout"
        )
    if text.startswith((b"ssh-", b"ecdsa-", b"{")):
        raise AuthError("the key is in a form of SSH or JSON; write it as PEM")
    try:
        key = _public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise AuthError(
            "the key cannot be read; a public key or certificate is PEM, from its BEGIN line to "
            "its END line"
        ) from None
    if key is None:
        return text
    if not isinstance(key, PublicKey):
        raise AuthError(f"tokens cannot be signed with a key of this kind ({type(key).__name__})")
    return key


def _public_key(data: bytes) -> object | None:
    text = data.strip()
    if text.startswith(b"-----BEGIN CERTIFICATE-----"):
        return load_pem_x509_certificate(text).public_key()
    if b"-----BEGIN" in text:
        return load_pem_public_key(text)
    # Binary keys must be recognised: as text they would be a secret that is public.
    with suppress(ValueError, UnsupportedAlgorithm):
        return load_der_public_key(data)
    with suppress(ValueError, UnsupportedAlgorithm):
        return load_der_x509_certificate(data).public_key()
    return None


def _possible(key: bytes | PublicKey) -> tuple[str, ...]:
    if isinstance(key, bytes):
        return tuple(SMALLEST_SECRET)
    if isinstance(key, RSAPublicKey):
        return ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
    if isinstance(key, EllipticCurvePublicKey):
        if key.curve.name not in _CURVES:
            raise AuthError(
                f"the key is on the curve {key.curve.name}; tokens use {', '.join(_CURVES)}"
            )
        return (_CURVES[key.curve.name],)
    return ("EdDSA",)


def _kind(key: bytes | PublicKey) -> str:
    if isinstance(key, bytes):
        return "a shared secret"
    if isinstance(key, RSAPublicKey):
        return "an RSA key"
    if isinstance(key, EllipticCurvePublicKey):
        return f"a key on the curve {key.curve.name}"
    return "an Edwards key"
