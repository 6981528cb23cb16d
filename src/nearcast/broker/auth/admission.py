"""Admission: the interface that decides on clients, and an implementation that admits all.

A server uses `Authenticator`; open access is for tests, simulations and brokers embedded in another
program.
"""

from typing import Protocol

from nearcast.broker.auth import Admitted, AuthRefusal, CredentialCheck, Identity, Peer
from nearcast.broker.auth.permissions import ANYTHING, Permissions
from nearcast.store import SessionOwner
from nearcast.wire.mqtt import Connect

SOMEBODY = Peer("", True)
ANYBODY = SessionOwner(address="", loopback=True)


class Admission(Protocol):
    """Decides which clients may connect."""

    @property
    def asks_for_names(self) -> bool:
        """Whether clients need a user name or a token."""

    def admit(
        self, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal | CredentialCheck:
        """Decide on a client, or return the slow check that will."""

    def stays(self, admitted: Admitted, now: float) -> AuthRefusal | None:
        """Return why a connected client may not stay, or None."""

    def owner(self, admitted: Admitted) -> SessionOwner:
        """Return the identity that is stored with a client's session."""

    def recall(self, owner: SessionOwner, client_id: str) -> Permissions | AuthRefusal:
        """Return what the owner of a session may do now, or why the session must end."""

    def client_id_for(self, identity: Identity, unique: str) -> str:
        """Return a client id for a client that sent none."""

    def rights(self, identity: Identity, client_id: str, address: str) -> Permissions:
        """Return the permissions of a client."""


class OpenAccess:
    """Admits every client, under any name, with all permissions."""

    asks_for_names = False

    def admit(
        self, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal | CredentialCheck:
        """Admit the client."""
        return Admitted(Identity(connect.username), connect.client_id, peer)

    def stays(self, admitted: Admitted, now: float) -> AuthRefusal | None:
        """Keep the client."""
        return None

    def owner(self, admitted: Admitted) -> SessionOwner:
        """Return the same owner for all: names are not checked."""
        return ANYBODY

    def recall(self, owner: SessionOwner, client_id: str) -> Permissions | AuthRefusal:
        """Allow everything."""
        return ANYTHING

    def client_id_for(self, identity: Identity, unique: str) -> str:
        """Return a client id for a client that sent none."""
        return f"auto-{unique}"

    def rights(self, identity: Identity, client_id: str, address: str) -> Permissions:
        """Allow everything."""
        return ANYTHING
