"""Which notices are recorded: the changes of a state, with the nodes that they concern.

That other nodes may see the members of a relationship now, or nobody any more, is no change.
"""

from collections.abc import Iterable, Iterator, Sequence

from nearcast.core.engine.outcome import AreaNotice, Notice
from nearcast.core.model.notice_record import NoticeRecord


def recorded_notices(notices: Iterable[Notice]) -> Iterator[tuple[NoticeRecord, Sequence[str]]]:
    """Yield what is recorded of notices, each with the nodes that it concerns."""
    for each in notices:
        if isinstance(each, AreaNotice):
            state = "in" if each.inside else "out"
            yield NoticeRecord(f"$area/{each.area}", state, each.node, each.time), (each.node,)
        elif each.ended or not (each.is_old or each.veiled):
            state = "ended" if each.ended else "near" if each.near else "apart"
            topic = f"$relate/{each.relationship}"
            yield NoticeRecord(topic, state, each.by or None, each.time), each.members
