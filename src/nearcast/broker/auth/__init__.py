"""Access control: which clients may connect, as which node, and with which permissions."""

from nearcast.broker.auth.authenticator import Authenticator as Authenticator
from nearcast.broker.auth.authenticator import AuthStatistics as AuthStatistics
from nearcast.broker.auth.errors import AuthError as AuthError
from nearcast.broker.auth.identities import Admitted as Admitted
from nearcast.broker.auth.identities import AuthRefusal as AuthRefusal
from nearcast.broker.auth.identities import CredentialCheck as CredentialCheck
from nearcast.broker.auth.identities import Identity as Identity
from nearcast.broker.auth.identities import Peer as Peer
from nearcast.broker.auth.identities import TokenTopics as TokenTopics
from nearcast.broker.auth.names import node_of as node_of
from nearcast.broker.auth.rules.client_permissions import ClientPermissions as ClientPermissions
