"""Names of users and nodes: valid user names, and the node that a client id belongs to.

A user name is also a node name, and rules insert it into topics: so it must not contain characters
that separate, select or escape there.
"""

from nearcast.broker.auth.errors import AuthError
from nearcast.core.model.geometry.position import shown

LONGEST_NAME = 100
RESERVED = frozenset(("me", "here"))
FORBIDDEN = "~+#/%\0"
AUTOMATIC = "auto-"


def node_of(client_id: str) -> str:
    """Return the node of a client id: everything before the first `~`."""
    return client_id.partition("~")[0]


def automatic_id(user: str | None, unique: str) -> str:
    """Return a client id for a client that sent none."""
    return f"{AUTOMATIC}{unique}" if user is None else f"{user}~{AUTOMATIC}{unique}"


def check_user_name(name: str) -> str:
    """Return a valid user name, or raise `AuthError`."""
    if not name or len(name) > LONGEST_NAME:
        raise AuthError(
            f"user name {shown(name)}: it has 1 to {LONGEST_NAME} characters, not {len(name)}"
        )
    for character in FORBIDDEN:
        if character in name:
            raise AuthError(
                f"user name {shown(name)} holds {shown(character)}, which means something in "
                "client ids or topics"
            )
    if name in RESERVED:
        raise AuthError(f"user name {shown(name)} is reserved: it stands for whoever says it")
    if name.startswith(AUTOMATIC):
        raise AuthError(
            f"user name {shown(name)} begins with {AUTOMATIC}, as ids of clients that gave none do"
        )
    if name.startswith("$"):
        raise AuthError(f"user name {shown(name)} begins with $, as only the broker's topics do")
    if not name.isprintable() or name != name.strip():
        raise AuthError(
            f"user name {shown(name)} has spaces at an end or characters that cannot be seen"
        )
    return name
