"""Admission: what the hub asks of the doors, and doors that are open to everyone.

The doors that a server has are in `doors/`; open ones are for tests, simulations and brokers
that live inside another program.
"""

from typing import Protocol

from nearcast.broker.auth import Admitted, AuthRefusal, CredentialCheck, Identity, Peer
from nearcast.broker.auth.permissions import ANYTHING, Permissions
from nearcast.store import SessionOwner
from nearcast.wire.mqtt import Connect

SOMEBODY = Peer("", True)
ANYBODY = SessionOwner(address="", loopback=True)


class Admission(Protocol):
    """Whoever decides who may come in."""

    @property
    def asks_for_names(self) -> bool:
        """Whether there are users, or tokens, to be asked for."""

    def admit(
        self, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal | CredentialCheck:
        """Decide, or say that it takes long."""

    def stays(self, admitted: Admitted, now: float) -> AuthRefusal | None:
        """Return why someone who is in may not stay."""

    def owner(self, admitted: Admitted) -> SessionOwner:
        """Return what is kept of someone with their session."""

    def recall(self, owner: SessionOwner, client_id: str) -> Permissions | AuthRefusal:
        """Return what the owner of a session may do now, or why they may no longer have it."""

    def client_id_for(self, identity: Identity, unique: str) -> str:
        """Return a client id for one who brought none."""

    def rights(self, identity: Identity, client_id: str, address: str) -> Permissions:
        """Return what a client may do."""


class OpenAccess:
    """Everyone may come in, under any name, and do anything."""

    asks_for_names = False

    def admit(
        self, connect: Connect, peer: Peer, now: float
    ) -> Admitted | AuthRefusal | CredentialCheck:
        """Let everyone in."""
        return Admitted(Identity(connect.username), connect.client_id, peer)

    def stays(self, admitted: Admitted, now: float) -> AuthRefusal | None:
        """Let everyone stay."""
        return None

    def owner(self, admitted: Admitted) -> SessionOwner:
        """All are one: names that nobody checks tell nobody apart."""
        return ANYBODY

    def recall(self, owner: SessionOwner, client_id: str) -> Permissions | AuthRefusal:
        """Allow everything."""
        return ANYTHING

    def client_id_for(self, identity: Identity, unique: str) -> str:
        """Return a client id for one who brought none."""
        return f"auto-{unique}"

    def rights(self, identity: Identity, client_id: str, address: str) -> Permissions:
        """Allow everything."""
        return ANYTHING
