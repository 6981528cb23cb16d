"""Truth of atoms: for each match of a subscription with relevance, which of its atoms hold.

Decided after matching, for matches only. What depends on the event alone is decided once for all
subscriptions with the same filter.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.matching.candidate_scan import load_event, unload_event
from nearcast.core.matching.memory import Memory, Scratch
from nearcast.core.matching.pair_decision import PARTIAL, SHARED, may_see, rule_truths
from nearcast.core.matching.tables import I32, I64, NODE, NONE, RULE, EventArrays
from nearcast.core.model.visibility import SEE_ALL


class TruthColumns(NamedTuple):
    """For each match, a bit for each atom that is true, and for each that is false."""

    true: I64
    false: I64

    def only(self, which: "npt.NDArray[np.bool_] | I64") -> "TruthColumns":
        """Return the rows that a mask selects, or in the order of an index."""
        return TruthColumns(self.true[which], self.false[which])


def joined_truths(
    parts: Sequence[TruthColumns | None], lengths: Sequence[int]
) -> TruthColumns | None:
    """Return columns one after the other; where there are none, nothing is known of any atom."""
    if not any(parts):
        return None
    known = [
        TruthColumns(*np.zeros((2, length), np.int64)) if part is None else part
        for part, length in zip(parts, lengths, strict=True)
    ]
    return TruthColumns(
        np.concatenate([part.true for part in known]),
        np.concatenate([part.false for part in known]),
    )


@compiled
def judge_atoms(
    event: I32,
    subscription: I32,
    serial: int,
    events: EventArrays,
    restricted: bool,
    memory: Memory,
    scratch: Scratch,
) -> tuple[I64, I64]:
    """Return the truth of the atoms of each match; 0 where kernels cannot decide all of them.

    Matches of one event are adjacent. `serial` numbers the first event.
    """
    true = np.zeros(len(event), np.int64)
    false = np.zeros(len(event), np.int64)
    rules, subscriptions = memory.rules, memory.subscriptions
    loaded = NONE
    for i in range(len(event)):
        s = subscription[i]
        rule = subscriptions.rows[s, RULE]
        if rules.sections[rule] == 0 or rules.flags[rule] & PARTIAL:
            continue
        e = event[i]
        is_shared = rules.flags[rule] & SHARED != 0
        if not is_shared or rules.judged[rule] != serial + e:
            if loaded != e:
                if loaded != NONE:
                    unload_event(scratch.kinds, events, loaded)
                load_event(scratch.kinds, scratch.values, events, e)
                loaded = e
            me = subscriptions.rows[s, NODE]
            publisher = events.publisher[e]
            mask = SEE_ALL
            if restricted:
                mask = may_see(memory.groups, memory.nodes, memory.exceptions, me, publisher)
            rules.true[rule], rules.false[rule] = rule_truths(
                rule, rules, memory.atoms, scratch.kinds, scratch.values, memory.nodes,
                memory.friends, me, publisher, events.lat[e], events.lon[e], mask,
                events.borrowed[e],
            )  # fmt: skip
            rules.judged[rule] = serial + e if is_shared else NONE
        true[i] = rules.true[rule]
        false[i] = rules.false[rule]
    if loaded != NONE:
        unload_event(scratch.kinds, events, loaded)
    return true, false
