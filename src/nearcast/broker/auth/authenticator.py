"""Authentication: which clients may connect, as which node, and with which permissions.

No sockets and no clock: `now` is passed in, in seconds since 1970. Files are read on construction
and on `reload`, which applies all of them or none.
"""

import math
from pathlib import Path

from msgspec import Struct

from nearcast.broker.auth.credentials.auth_files import AuthData, AuthFiles
from nearcast.broker.auth.credentials.passwords import decoy, is_right
from nearcast.broker.auth.credentials.tokens import TokenError, TokenKey, looks_like_token
from nearcast.broker.auth.errors import AuthError
from nearcast.broker.auth.identities import (
    Admitted,
    AuthRefusal,
    CredentialCheck,
    Identity,
    Peer,
    TokenTopics,
    counted_as,
    parse_address,
)
from nearcast.broker.auth.names import RESERVED, automatic_id, check_user_name, node_of
from nearcast.broker.auth.rates import ConnectRates, FailureRates
from nearcast.broker.auth.rules.client_permissions import ActiveRules, ClientPermissions
from nearcast.broker.auth.rules.people_rules import PeopleRule
from nearcast.broker.auth.rules.topic_rules import Principal
from nearcast.broker.config.settings import Settings
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.inputs import RulesSet
from nearcast.store import SessionOwner
from nearcast.wire.mqtt import Connect, ReasonCode

_WRONG = AuthRefusal(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "the user name or the password is wrong")


NOBODY = Identity()
"""The identity of anonymous clients."""


class AuthStatistics(Struct, frozen=True):
    """Sizes of the data in memory; the number of addresses is bounded."""

    version: int
    users: int
    rules: int
    knocking_addresses: int
    knocks_refused: int
    failing_addresses: int


class Authenticator:
    """Authenticates clients of one broker, whose data directory is `base`.

    If no users file is configured, `users.toml` in `base` is used if it exists. Files that cannot
    be used raise `AuthError`.
    """

    def __init__(self, settings: Settings, base: Path) -> None:
        self._settings = settings.doors
        self._needs_certificate = settings.listen.client_certificate == "required"
        self._knocks = ConnectRates(settings.limits.connects_per_s)
        self._failures = FailureRates(self._settings.failures_per_minute)
        self.wall_ahead_s = 0.0
        """How far the wall clock is ahead of `now`: the expiry of a token is in wall time."""
        self._decoy = decoy()
        self._files = AuthFiles(settings.doors, base)
        # Stat before reading: a change in between counts as a change.
        self._seen = self._files.state()
        self._book = self._files.read()
        self._rule_book = ActiveRules(self._book.rules)

    @property
    def sight(self) -> RulesSet:
        """The sight rules in force."""
        return self._book.rules.sight

    @property
    def people(self) -> tuple[PeopleRule, ...]:
        """The smallest numbers of people in force, by topic."""
        return self._book.rules.people

    @property
    def asks_for_names(self) -> bool:
        """Whether clients need a user name or a token."""
        return bool(self._book.users) or self._book.key is not None

    def reload(self) -> list[str]:
        """Read the files again; return the problems, one per line.

        With problems nothing changes.
        """
        self._seen = self._files.state()
        try:
            book = self._files.read()
        except AuthError as error:
            return error.problems
        self._book = book
        self._rule_book.replace(book.rules)
        return []

    def changed(self) -> bool:
        """Return whether a file changed since it was last read, successfully or not."""
        return self._files.state() != self._seen

    def knock(self, address: str, now: float) -> bool:
        """Return whether an address may open a connection now, and count it."""
        return self._knocks.allow(counted_as(address), now)

    def admit(
        self, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal | CredentialCheck:
        """Decide whether a client may connect, or return the slow check that will."""
        if connect.properties.authentication_method is not None:
            return AuthRefusal(
                ReasonCode.BAD_AUTHENTICATION_METHOD,
                "there is no enhanced authentication here; use a user name and a password",
            )
        if peer.certificate_name:
            return self._by_certificate(peer.certificate_name, connect, peer)
        if not connect.username and not connect.password:
            if peer.certificate_name is not None and self._needs_certificate:
                return AuthRefusal(
                    ReasonCode.NOT_AUTHORIZED,
                    "the certificate has no common name, or several: it is nobody's; give a user "
                    "name and a password",
                )
            return self._enter_unnamed(NOBODY, connect.client_id, peer)
        wait_s = self._failures.wait_s(counted_as(peer.address), now)
        if wait_s > 0:
            return _too_many(wait_s)
        book, password = self._book, connect.password or b""
        if book.key is not None and (looks_like_token(password) or not book.users):
            return self._by_token(book.key, password, connect, peer, now)
        if not book.users:
            if peer.loopback:
                # There are no users: a user name that a client is configured to send is ignored.
                return self._enter_unnamed(NOBODY, connect.client_id, peer)
            return AuthRefusal(
                ReasonCode.BAD_USER_NAME_OR_PASSWORD,
                "this broker has no users: connect without a name, or add one by nearcast user add",
            )
        if not connect.username or not password:
            return _WRONG
        return CredentialCheck(
            lambda: self._by_password(book, connect, peer, now),
            connect.username,
            counted_as(peer.address),
        )

    def stays(self, admitted: Admitted, now: float) -> AuthRefusal | None:
        """Return why a client may not stay: an expired token, or the result of a reload."""
        identity = admitted.identity
        if identity.expires is not None and identity.expires <= now + self.wall_ahead_s:
            return AuthRefusal(ReasonCode.NOT_AUTHORIZED, "the token has expired; get a new one")
        if identity.user is not None and self._book.mark(identity.user) != identity.account:
            return AuthRefusal(
                ReasonCode.NOT_AUTHORIZED, f"user {identity.user} was changed; connect again"
            )
        entered = self._enter(identity, admitted.client_id, admitted.peer)
        return entered if isinstance(entered, AuthRefusal) else None

    def owner(self, admitted: Admitted) -> SessionOwner:
        """Return the data stored with a session to check its permissions while disconnected."""
        identity, peer = admitted.identity, admitted.peer
        listed = identity.listed
        return SessionOwner(
            identity.user,
            peer.address,
            peer.loopback,
            None if listed is None else (*listed.pub, *listed.all),
            None if listed is None else (*listed.sub, *listed.all),
            identity.superuser_by_token,
            identity.account != 0,
        )

    def recall(self, owner: SessionOwner, client_id: str) -> ClientPermissions | AuthRefusal:
        """Return what the owner of a session may do now, or why the session must end."""
        user, listed = owner.user, None
        if owner.in_users_file and user not in self._book.users:
            return AuthRefusal(ReasonCode.NOT_AUTHORIZED, f"user {user} was removed")
        if owner.publish is not None or owner.subscribe is not None:
            listed = TokenTopics(owner.publish or (), owner.subscribe or ())
        known = NOBODY if user is None else _identity(self._book, user)
        identity = Identity(
            user, known.superuser or owner.superuser, None, listed, known.account, owner.superuser
        )
        if owner.address is not None:
            peer = Peer(owner.address, owner.loopback)
            enter = self._enter_unnamed if user is None else self._enter
            entered = enter(identity, client_id, peer)
            if isinstance(entered, AuthRefusal):
                return entered
        return self.rights(identity, client_id, owner.address or "")

    def client_id_for(self, identity: Identity, unique: str) -> str:
        """Return a client id for a client that sent none; `unique` differs in every call."""
        return automatic_id(identity.user, unique)

    def rights(self, identity: Identity, client_id: str, address: str) -> ClientPermissions:
        """Return the permissions of a client; they follow later changes of the rules."""
        return ClientPermissions(
            self._rule_book, _visitor(identity, client_id, address), identity.listed
        )

    def statistics(self) -> AuthStatistics:
        """Return the sizes of the data in memory."""
        return AuthStatistics(
            self._rule_book.version,
            len(self._book.users),
            len(self._book.rules.rules),
            len(self._knocks),
            self._knocks.refused,
            len(self._failures),
        )

    def _enter_unnamed(
        self, identity: Identity, client_id: str, peer: Peer
    ) -> Admitted | AuthRefusal:
        where = self._settings.anonymous
        if where == "everywhere" or (where == "loopback" and peer.loopback):
            return self._enter(identity, client_id, peer)
        return AuthRefusal(
            ReasonCode.NOT_AUTHORIZED,
            "a user name and a password are needed here"
            if where == "nowhere"
            else "a user name and a password are needed from another machine",
        )

    def _by_certificate(self, name: str, connect: Connect, peer: Peer) -> Admitted | AuthRefusal:
        try:
            check_user_name(name)
        except AuthError as error:
            return AuthRefusal(ReasonCode.NOT_AUTHORIZED, f"the certificate's common name: {error}")
        if connect.username and connect.username != name:
            return AuthRefusal(
                ReasonCode.BAD_USER_NAME_OR_PASSWORD,
                f"the certificate is that of {name}, and the user name another",
            )
        return self._enter(_identity(self._book, name), connect.client_id, peer)

    def _by_token(
        self, key: TokenKey, token: bytes, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal:
        try:
            claims = key.read(token, now + self.wall_ahead_s)
        except TokenError as error:
            # A client with a signed token, even an expired one, is not guessing.
            if error.forged:
                self._failures.note(counted_as(peer.address), now)
            return AuthRefusal(ReasonCode.BAD_USER_NAME_OR_PASSWORD, str(error))
        if connect.username and connect.username != claims.sub:
            return AuthRefusal(
                ReasonCode.BAD_USER_NAME_OR_PASSWORD,
                f"the token is that of {claims.sub}, and the user name another",
            )
        known = _identity(self._book, claims.sub)
        identity = Identity(
            claims.sub,
            known.superuser or claims.superuser,
            claims.exp,
            claims.acl,
            known.account,
            claims.superuser,
        )
        return self._enter(identity, connect.client_id, peer)

    def _by_password(
        self, book: AuthData, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal:
        assert connect.username is not None
        assert connect.password is not None
        address = counted_as(peer.address)
        # Checked again: many may have been queued before the first one failed.
        wait_s = self._failures.wait_s(address, now)
        if wait_s > 0:
            return _too_many(wait_s)
        account = book.users.get(connect.username)
        kept = None if account is None else account.password
        # The same work whether the user exists or not.
        right = is_right(kept or self._decoy, connect.password)
        if not right or account is None or kept is None:
            self._failures.note(address, now)
            return _WRONG
        return self._enter(_identity(book, account.name), connect.client_id, peer)

    def _enter(self, identity: Identity, client_id: str, peer: Peer) -> Admitted | AuthRefusal:
        # Without a client id, check the form of id that will be assigned.
        visitor = _visitor(identity, client_id or automatic_id(identity.user, "0"), peer.address)
        node, user = visitor.node, identity.user
        if not node or node in RESERVED:
            return AuthRefusal(
                ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
                f"{shown(node)} is no node; the client id up to ~ names one, but not me or here",
            )
        if user is None and node in self._book.users:
            return AuthRefusal(
                ReasonCode.NOT_AUTHORIZED,
                f"{node} is a user's name: give the password, or choose another client id",
            )
        allowed = self._book.rules.may_connect(visitor)
        if allowed is None:
            allowed = user is None or identity.superuser or node == user
        if allowed:
            return Admitted(identity, client_id, peer)
        who = "anonymous clients" if user is None else f"user {user}"
        advice = f"; use client id {user} or {user}~PART" if user not in (None, node) else ""
        return AuthRefusal(
            ReasonCode.NOT_AUTHORIZED, f"{who} may not connect as node {shown(node)}{advice}"
        )


def _identity(book: AuthData, user: str) -> Identity:
    account = book.users.get(user)
    return Identity(user, account is not None and account.superuser, account=book.mark(user))


def _visitor(identity: Identity, client_id: str, address: str) -> Principal:
    return Principal(
        identity.user,
        identity.superuser,
        node_of(client_id),
        client_id,
        parse_address(address),
    )


def _too_many(wait_s: float) -> AuthRefusal:
    return AuthRefusal(
        ReasonCode.CONNECTION_RATE_EXCEEDED,
        f"too many wrong passwords from this address; try again in {math.ceil(wait_s)} s",
    )
