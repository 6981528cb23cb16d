"""A recount of all usage from the state of a broker, to check what was counted step by step."""

from collections import Counter

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_book import user_name
from nearcast.broker.quotas.sizes import context_bytes, event_bytes, will_bytes
from nearcast.broker.scripts.script_book import ScriptBook
from nearcast.broker.sessions.session_lifecycle import SessionLifecycle
from nearcast.broker.situation.commands import place_of
from nearcast.core.model.geometry.area import area_vertices

_CHECKED_BY_SESSION = (Resource.QUEUED_BYTES, Resource.PACKET_IDS)
"""`Session.validate_state` compares these with its queue."""


def validate_usage(state: BrokerState, lifecycle: SessionLifecycle, scripts: ScriptBook) -> None:
    """Assert that every session and the broker have in use what there is."""
    state.quotas.validate_state()
    counted: Counter[tuple[str, Resource]] = Counter()
    for usage in state.quotas.sessions():
        for resource in Resource:
            if usage.used[resource] and resource not in _CHECKED_BY_SESSION:
                counted[usage.name, resource] = usage.used[resource]
    found = recount(state, lifecycle)
    for sender, size in scripts.recount():
        found[sender, Resource.SCRIPTS] += 1
        found[sender, Resource.SCRIPT_BYTES] += size
    assert counted == +found, (
        f"counted, not found: {counted - found}; not counted: {found - counted}"
    )
    places, in_all = state.engine.matcher.places, state.quotas.in_all.used
    assert in_all[Resource.PLACES] == len(places)
    assert in_all[Resource.PLACE_VERTICES] == sum(area_vertices(each.geometry) for each in places)
    for client_id, session in state.sessions.items():
        assert state.quotas.find(client_id) is session.usage
        assert session.usage.user.name == user_name(session.owner)


def recount(state: BrokerState, lifecycle: SessionLifecycle) -> Counter[tuple[str, Resource]]:
    """Return what each client id has in use."""
    found: Counter[tuple[str, Resource]] = Counter()
    for client_id, session in state.sessions.items():
        found[client_id, Resource.SESSIONS] += 1
        found[client_id, Resource.CONNECTIONS] += session.connection is not None
        found[client_id, Resource.WILL_BYTES] += will_bytes(lifecycle.will_of(session))
        for granted in session.granted.values():
            found[client_id, Resource.SUBSCRIPTIONS] += 1
            found[client_id, Resource.FILTER_BYTES] += granted.size.filter_bytes
            found[client_id, Resource.FILTER_ATOMS] += granted.size.atoms
            found[client_id, Resource.VERTICES] += granted.size.vertices
    for event in state.engine.live:
        found[event.origin, Resource.RETAINED] += 1
        found[event.origin, Resource.RETAINED_BYTES] += event_bytes(event)
        place = state.engine.matcher.places.get(*(place_of(event.subject) or ("", "")))
        if place is not None:
            found[event.origin, Resource.PLACES] += 1
            found[event.origin, Resource.PLACE_VERTICES] += area_vertices(place.geometry)
    for node, known in state.engine.nodes.items():
        found[node, Resource.NODES] += 1
        found[node, Resource.CONTEXT_BYTES] += context_bytes(known.attributes)
    for area in state.engine.watched_areas:
        found[area.node, Resource.AREAS] += 1
        found[area.node, Resource.VERTICES] += area_vertices(area.area)
    for defined in state.engine.relationships:
        found[defined.node, Resource.RELATIONSHIPS] += 1
        found[defined.node, Resource.RELATIONSHIP_MEMBERS] += len(defined.members)
    for announcement in state.engine.announcements.values():
        found[announcement.owner, Resource.ANNOUNCEMENTS] += 1
        found[announcement.owner, Resource.VERTICES] += area_vertices(announcement.to)
    return found
