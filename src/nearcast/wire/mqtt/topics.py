"""Topic filters of a SUBSCRIBE; a shared one begins with its group.

Valid subjects and patterns are defined by `nearcast.core.model.subject`; here is only the form
`$share/GROUP/PATTERN` of MQTT 5, which MQTT 3 clients may use as well.
"""

from msgspec import Struct

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.subject import check_pattern

SHARED = "$share"


class CheckedFilter(Struct, frozen=True, gc=False):
    """A validated topic filter: its pattern, and the group that shares it."""

    pattern: str
    group: str | None = None


def is_shared(topic_filter: str) -> bool:
    """Return True if a topic filter requests a shared subscription, well-formed or not."""
    return topic_filter.startswith("$share/") or topic_filter == SHARED


def parse_filter(topic_filter: str) -> CheckedFilter:
    """Return the parsed topic filter; raises `ModelError` if it is invalid."""
    if not is_shared(topic_filter):
        return CheckedFilter(check_pattern(topic_filter))
    _, _, rest = topic_filter.partition("/")
    group, slash, pattern = rest.partition("/")
    if not group or not {"+", "#", "\0"}.isdisjoint(group):
        raise ModelError(
            f"shared filter {shown(topic_filter)}: the group is at least one character, without "
            "+ and #, as in $share/GROUP/traffic/#"
        )
    if not slash or not pattern:
        raise ModelError(
            f"shared filter {shown(topic_filter)} has no pattern after its group; "
            "write $share/GROUP/PATTERN"
        )
    return CheckedFilter(check_pattern(pattern), group)
