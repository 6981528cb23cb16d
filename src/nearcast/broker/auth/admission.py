"""Admission: how the hub asks who may connect, and an implementation that admits everyone.

A server uses `Authenticator`; open access is for tests, simulations and brokers inside another
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
    """Decides who may connect."""

    @property
    def asks_for_names(self) -> bool:
        """Whether clients need a user name or a token."""

    def admit(
        self, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal | CredentialCheck:
        """Decide, or return the slow check that will."""

    def stays(self, admitted: Admitted, now: float) -> AuthRefusal | None:
        """Return why a connected client may not stay, or None."""

    def owner(self, admitted: Admitted) -> SessionOwner:
        """Return the identity that is stored with a client's session."""

    def recall(self, owner: SessionOwner, client_id: str) -> Permissions | AuthRefusal:
        """Return what the owner of a session may do now, or why they may no longer have it."""

    def client_id_for(self, identity: Identity, unique: str) -> str:
        """Return a client id for a client that sent none."""

    def rights(self, identity: Identity, client_id: str, address: str) -> Permissions:
        """Return what a client may do."""


class OpenAccess:
    """Admits everyone, under any name, with all rights."""

    asks_for_names = False

    def admit(
        self, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal | CredentialCheck:
        """Admit."""
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
