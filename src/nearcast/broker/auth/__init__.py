"""Access control: who may connect, as which node, and what they may do there."""

from nearcast.broker.auth.authenticator import Authenticator, AuthStatistics
from nearcast.broker.auth.errors import AuthError
from nearcast.broker.auth.identities import (
    Admitted,
    AuthRefusal,
    CredentialCheck,
    Identity,
    Peer,
    TokenTopics,
)
from nearcast.broker.auth.names import node_of
from nearcast.broker.auth.rules.client_permissions import ClientPermissions

__all__ = [
    "Admitted",
    "AuthError",
    "AuthRefusal",
    "AuthStatistics",
    "Authenticator",
    "ClientPermissions",
    "CredentialCheck",
    "Identity",
    "Peer",
    "TokenTopics",
    "node_of",
]
