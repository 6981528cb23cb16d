"""What idle clients cost in memory: there are tens of thousands of them."""

import tracemalloc

from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota_usage import QuotaUsage, SessionUsage, UserUsage
from nearcast.broker.sessions.session import Session

CLIENTS = 500
MOST_BYTES = 1_200
"""Of Python objects. `nearcast bench broker --rows memory` measures all of a connection."""


def test_an_idle_session_and_its_connection_are_small() -> None:
    user, in_all = UserUsage("user"), QuotaUsage()
    names = [f"client-{number}" for number in range(CLIENTS)]
    kept = []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for name in names:
            usage = SessionUsage(name, user=user, in_all=in_all)
            session, connection = Session(name, 0.0, usage), Connection()
            session.attach(connection)
            kept.append(session)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / CLIENTS < MOST_BYTES
