"""Properties of events that are refused."""

from nearcast.wire.mqtt import (
    ReasonCode,
)

BAD = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR

# Properties of a PUBLISH, and what the reason names.
BAD_EVENTS = [
    ((("nc-at", "91,0"),), "90"),
    ((("nc-at", "53"),), "LAT,LON"),
    ((("nc-at", "53,-6,7"),), "LAT,LON"),
    ((("nc-at", "nan,0"),), "finite"),
    ((("nc-at", "0,inf"),), "finite"),
    ((("nc-to", "circle:me"),), "nc-to"),
    ((("nc-to", "place:nowhere"),), "nc-to: no place is called 'nowhere'"),
    ((("nc-valid", "-1"),), "negative"),
    ((("nc-valid", "soon"),), "number"),
    ((("nc-valid", "nan"),), "number"),
    ((("nc-object", ""),), "nc-object"),
    ((("nc-object", "x" * 201),), "200"),
    ((("nc-priority", "0"),), "1"),
    ((("nc-priority", "1.5"),), "whole"),
    ((("nc-deadline", "-2"),), "negative"),
    ((("nc-deadline", "0"),), "it must be more"),
    ((("nc-deadline", "inf"),), "is a number"),
    ((("nc-time", "yesterday"),), "2026-11-15T14:30:00Z"),
    ((("nc-time", "2026-11-15T14:30:00"),), "2026-11-15T14:30:00Z"),
    ((("nc-time", "0001-01-01T00:00:00+14:00"),), "nc-time"),
    ((("nc-time", "2026-11-15T14:30:00+0530"),), "2026-11-15T14:30:00Z"),
    ((("nc-id", ""),), "nc-id"),
    ((("nc-speed", "5"),), "nc-speed"),
    ((("nc-where", "speed > 5"),), "nc-where"),
    ((("nc-id", "a"), ("nc-id", "a")), "twice"),
    ((("nc-people", "1"),), "from 2 to 10000"),
]
