"""Access to a server: authentication with threads, files and the log.

Passwords are checked in a queue, changed files are read again and put in force, and clients that
lost their permission are disconnected.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from nearcast.broker.auth import (
    Admitted,
    Authenticator,
    AuthError,
    AuthRefusal,
    CredentialCheck,
    Peer,
)
from nearcast.broker.auth.admission import Admission
from nearcast.broker.auth.credentials.password_queue import PasswordQueue
from nearcast.broker.auth.identities import counted_as
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.broker.net.links import Hold, Link
from nearcast.core.model.errors import ModelError
from nearcast.logs import log_event
from nearcast.wire.mqtt import Connect

REVOKED = ("revoked_sessions", "revoked_subscriptions", "revoked_wills", "dropped_by_rules")
"""Counters of what a change of rules ended."""
log = logging.getLogger("nearcast.broker")


class ServerAccess:
    """Admits clients of a server, and disconnects those that may not stay.

    Raises `AuthError` if the rules cannot be put in force: without them everything would be
    visible. The constructor already reviews restored sessions.
    """

    def __init__(
        self, hub: Hub, admission: Admission, now: Callable[[], float], soon: Callable[[], None]
    ) -> None:
        self._hub = hub
        self._admission = admission
        self._now = now
        self._soon = soon
        self.passwords = PasswordQueue(now)
        self._seen = self.passwords.statistics()
        self._revoked = dict.fromkeys(REVOKED, 0)
        for session in hub.sessions.values():
            if session.owner is not None and session.owner.address:
                self.passwords.remember(session.owner.user, counted_as(session.owner.address))
        if isinstance(admission, Authenticator):
            try:
                hub.set_rules(admission.sight, now())
                self._set_people(admission)
            except ModelError as error:
                raise AuthError(f"the rules of sight cannot be put in force: {error}") from None
            hub.review_rights(now())
            self._log_revoked()

    def _set_people(self, admission: Authenticator) -> None:
        """Put smallest numbers of people in force, and who counts as a person."""
        self._hub.state.people_rules = admission.people
        self._hub.state.has_users = admission.asks_for_names

    def check(self, connection: Connection, check: CredentialCheck) -> None:
        """Queue a password check, without blocking other clients."""
        link = connection.host
        assert isinstance(link, Link)
        link.hold(Hold.DOORS)
        done = partial(self._checked, connection, link)
        self.passwords.check(connection, check, done, link.has_hung_up)

    def _checked(self, connection: Connection, link: Link, answer: Admitted | AuthRefusal) -> None:
        if isinstance(answer, AuthRefusal):
            address = connection.peer.address
            log_event(log, logging.WARNING, "client refused", address=address, why=answer.why)
        self._hub.admit(connection, answer, self._now())
        link.let(Hold.DOORS)
        self._soon()

    async def admit(self, connect: Connect, peer: Peer) -> Admitted | AuthRefusal:
        """Check the credentials of a client that does not use MQTT."""
        answer = self._admission.admit(connect, peer, self._now())
        if isinstance(answer, CredentialCheck):
            answer = await self.passwords.answer(answer)
        if isinstance(answer, AuthRefusal):
            log_event(log, logging.WARNING, "request refused", address=peer.address, why=answer.why)
        return answer

    def dismiss(self, connection: Connection, now: float) -> None:
        """Disconnect a client that may not stay."""
        if connection.admitted is None or connection.trusted is not None:
            return
        refusal = self._admission.stays(connection.admitted, now)
        if refusal is not None:
            self._hub.close(connection, refusal.reason, refusal.why)

    def sweep(self, wall_ahead_s: float) -> bool:
        """Log password checks that were refused or abandoned; return whether files changed.

        `wall_ahead_s`: how far the wall clock, which tokens follow, is ahead of the broker's.
        """
        if isinstance(self._admission, Authenticator):
            self._admission.wall_ahead_s = wall_ahead_s
        self.passwords.sweep()
        seen, self._seen = self._seen, self.passwords.statistics()
        refused, abandoned = (
            self._seen.refused - seen.refused,
            self._seen.abandoned - seen.abandoned,
        )
        if refused or abandoned:
            log_event(
                log, logging.WARNING, "too many passwords to check",
                waiting=self._seen.waiting, refused=refused, abandoned=abandoned,
            )  # fmt: skip
        return isinstance(self._admission, Authenticator) and self._admission.changed()

    def reload(self, connections: Iterable[Connection]) -> None:
        """Read users and rules again and put them in force, also for connected clients."""
        if not isinstance(self._admission, Authenticator):
            return
        problems = self._admission.reload()
        for problem in problems:
            log_event(log, logging.ERROR, "rules stay as they were", why=problem)
        if problems:
            return
        now = self._now()
        try:
            self._hub.set_rules(self._admission.sight, now)
        except ModelError as error:
            log_event(log, logging.ERROR, "rules of sight stay as they were", why=str(error))
        self._set_people(self._admission)
        self._hub.review_rights(now)
        for connection in connections:
            self.dismiss(connection, now)
        self._soon()
        log_event(log, logging.INFO, "users and rules were read again")
        self._log_revoked()

    def _log_revoked(self) -> None:
        """Log what rules have ended since the last call."""
        counters = self._hub.state.counters
        now = {name: counters[name] for name in REVOKED}
        if now != self._revoked:
            more = {name: now[name] - self._revoked[name] for name in REVOKED}
            log_event(log, logging.WARNING, "rules ended what was allowed before", **more)
        self._revoked = now

    def statistics(self) -> dict[str, float]:
        """Counts of waiting, refused and abandoned password checks."""
        found = self.passwords.statistics()
        return {
            "passwords_waiting": found.waiting,
            "passwords_refused_total": found.refused,
            "passwords_abandoned_total": found.abandoned,
        }
