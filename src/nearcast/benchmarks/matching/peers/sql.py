"""The city's conditions in SQL: a plain form, and one that lets a planner use equality.

NULL means "no condition". With `s.line = e.line OR s.line IS NULL` a planner can neither hash a
join nor use an index, so the tuned query is a union of four: subscriptions with and without a
subject, with and without a line (those without a line have a kind). "Any subject" is a value of
its own, because an index finds a value faster than a NULL.
"""

from nearcast.benchmarks.city import ANY_SUBJECT

NUMBERS = """
    coalesce(e.delay > s.delay, true) AND CASE s.form
        WHEN 1 THEN coalesce(e.speed < s.speed_below, e.speed > s.speed_above)
            OR e.severity >= s.severity
        ELSE coalesce(e.speed < s.speed_below, true) AND coalesce(e.speed > s.speed_above, true)
            AND coalesce((e.severity >= s.severity) = (s.form = 0), true)
    END"""

NEAR = (
    "(s.x - e.x) * (s.x - e.x) + (s.y - e.y) * (s.y - e.y) + (s.z - e.z) * (s.z - e.z)"
    " <= s.chord_squared"
)

_SUBJECTS = ("s.subject = e.subject", f"s.subject = {ANY_SUBJECT}")
_TOPICS = (
    "s.line = e.line AND (s.kind = e.kind OR s.kind IS NULL)",
    "s.line IS NULL AND s.kind = e.kind",
)


def plain_query(box: str) -> str:
    """A query for all pairs as a single join, as a user would first write it."""
    return (
        "SELECT e.id AS event, s.id AS subscription FROM events e JOIN subscriptions s ON"
        f" (s.subject = e.subject OR s.subject = {ANY_SUBJECT})"
        " AND (s.line IS NULL OR s.line = e.line) AND (s.kind IS NULL OR s.kind = e.kind)"
        f" AND {box} AND {NEAR} AND {NUMBERS}"
    )


def matching_query(box: str) -> str:
    """A query for all pairs as a union of four joins; `box` is the condition on s's box."""
    return "\nUNION ALL ".join(
        "SELECT e.id AS event, s.id AS subscription FROM events e JOIN subscriptions s"
        f" ON {subject} AND {topic} AND {box} AND {NEAR} AND {NUMBERS}"
        for subject in _SUBJECTS
        for topic in _TOPICS
    )
