"""Quotas: what clients can make grow, and the settings that bound it.

Each resource is bounded for one session, for one user and for the whole broker, where that makes
sense. The bound of a user is a share (`limits.user_share`) of that of the broker. Anonymous clients
of one address are one user.
"""

from enum import IntEnum
from math import ceil

from msgspec import Struct

from nearcast.broker.config.settings import Limits

UNBOUNDED = 1 << 62


class Resource(IntEnum):
    """What is counted."""

    CONNECTIONS = 0
    SESSIONS = 1
    SUBSCRIPTIONS = 2
    FILTER_BYTES = 3
    FILTER_ATOMS = 4
    VERTICES = 5
    QUEUED_BYTES = 6
    PACKET_IDS = 7
    WILL_BYTES = 8
    RETAINED = 9
    RETAINED_BYTES = 10
    ANNOUNCEMENTS = 11
    AREAS = 12
    PLACES = 13
    PLACE_VERTICES = 14
    NODES = 15
    CONTEXT_BYTES = 16
    RELATIONSHIPS = 17
    RELATIONSHIP_MEMBERS = 18
    SCRIPTS = 19
    SCRIPT_BYTES = 20

    @property
    def label(self) -> str:
        """Its name in metrics."""
        return self.name.lower()


class Quota(Struct, frozen=True):
    """The bounds of a resource: names of settings in `limits`, None where it is not bounded."""

    resource: Resource
    what: str
    """The resource in words."""
    in_all: str
    per_session: str | None = None


QUOTAS = (
    Quota(Resource.CONNECTIONS, "connections", "connections"),
    Quota(Resource.SESSIONS, "sessions", "sessions"),
    Quota(Resource.SUBSCRIPTIONS, "subscriptions", "all_subscriptions", "subscriptions"),
    Quota(Resource.FILTER_BYTES, "bytes of filters", "all_filter_bytes", "filter_bytes"),
    Quota(Resource.FILTER_ATOMS, "conditions in filters", "all_filter_atoms", "filter_atoms"),
    Quota(Resource.VERTICES, "vertices of areas", "all_vertices", "vertices"),
    Quota(Resource.QUEUED_BYTES, "bytes of queued messages", "all_queued_bytes", "queued_bytes"),
    Quota(Resource.PACKET_IDS, "unreleased messages of QoS 2", "all_packet_ids"),
    Quota(Resource.WILL_BYTES, "bytes of wills", "all_will_bytes"),
    Quota(Resource.RETAINED, "retained messages and live events", "retained"),
    Quota(Resource.RETAINED_BYTES, "bytes of retained messages and live events", "retained_bytes"),
    Quota(Resource.ANNOUNCEMENTS, "announcements", "all_announcements", "announcements"),
    Quota(Resource.AREAS, "watched areas", "all_areas", "areas"),
    Quota(Resource.PLACES, "places", "places"),
    Quota(Resource.PLACE_VERTICES, "vertices of places", "place_vertices"),
    Quota(Resource.NODES, "nodes", "nodes"),
    Quota(Resource.CONTEXT_BYTES, "bytes of contexts", "all_context_bytes"),
    Quota(Resource.RELATIONSHIPS, "relationships", "all_relationships", "relationships"),
    Quota(
        Resource.RELATIONSHIP_MEMBERS,
        "members of relationships",
        "all_relationship_members",
        "relationship_members",
    ),
    Quota(Resource.SCRIPTS, "scripts", "all_scripts", "scripts"),
    Quota(Resource.SCRIPT_BYTES, "bytes of scripts and states", "all_script_bytes", "script_bytes"),
)
"""The quotas of all resources, in the order of `Resource`."""

OF_SESSIONS = (
    Resource.CONNECTIONS,
    Resource.SESSIONS,
    Resource.SUBSCRIPTIONS,
    Resource.FILTER_BYTES,
    Resource.FILTER_ATOMS,
    Resource.QUEUED_BYTES,
    Resource.PACKET_IDS,
    Resource.WILL_BYTES,
)
"""What ends with a session; everything else outlives it or ends by an input of its own."""


def bounds_in_all(limits: Limits) -> list[int]:
    """Return the bounds of the whole broker, in the order of `Resource`."""
    return [int(getattr(limits, quota.in_all)) for quota in QUOTAS]


def bounds_of_user(limits: Limits) -> list[int]:
    """Return the bounds of one user."""
    return [ceil(limits.user_share * bound) for bound in bounds_in_all(limits)]


def bounds_of_session(limits: Limits) -> list[int]:
    """Return the bounds of one session."""
    return [
        UNBOUNDED if quota.per_session is None else int(getattr(limits, quota.per_session))
        for quota in QUOTAS
    ]
