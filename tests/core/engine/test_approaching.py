"""`approaching` in the engine, by kernels and by the reference, against the fixes themselves."""

import random

import pytest

from nearcast.core.engine.engine import Engine
from nearcast.core.language import parse
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Input, Moved, Published, Subscribed

NODES = ("ann", "bob", "cy")
POINT = Position(53.001, -6.26)
ASKED = {
    "publisher": "approaching(publisher)",
    "event": "approaching(event)",
    "point": f"approaching(POINT({POINT.lon} {POINT.lat}))",
    "me": "approaching(me)",
}
Fixes = dict[str, list[Position]]


def plainly(what: str, me: str, publisher: str, fixes: Fixes) -> bool | None:
    """Whether it is nearer to me than before the latest fix of either."""
    its = {"publisher": fixes[publisher], "event": fixes[publisher][-1:], "point": [POINT]}
    mine, other = fixes[me], its.get(what, fixes[me])
    if not mine or not other or len(mine) == len(other) == 1:
        return None
    now, then = ((a[0], b[0]) for a, b in ((mine[-1:], other[-1:]), (mine[-2:], other[-2:])))
    return _metres(*now) < _metres(*then)


def _metres(a: Position, b: Position) -> float:
    return float(distance_m(a.lat, a.lon, b.lat, b.lon))


@pytest.mark.parametrize("slow", ["", " AND event.subject LIKE 's%'"])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_the_fixes_say(seed: int, slow: str) -> None:
    """With a part that kernels leave to the reference, and without."""
    draw = random.Random(seed)
    engine = Engine()
    wanted: list[Input] = []
    for node in NODES:
        for what, text in ASKED.items():
            for answer, test in (("yes", text), ("no", f"NOT {text}")):
                where = parse(test + slow)
                one = Subscription(f"{node} {what} {answer}", node, "s", where)
                wanted.append(Subscribed(one))
    engine.step(wanted, 0.0)
    fixes: Fixes = {node: [] for node in NODES}
    unknown = 0
    for number in range(60):
        node = draw.choice(NODES)
        at = None
        if draw.random() < 0.85:
            at = Position(53.0 + draw.randrange(9) / 1000, -6.26)
        engine.step([Moved(node, at)], number)
        fixes[node] = [] if at is None else [*fixes[node], at]
        publisher = draw.choice(NODES)
        sent = engine.step([Published(Event(f"{number}", "s", publisher, number))], number)
        found = {name for each in sent.deliveries for name in each.subscriptions}
        expected = set()
        for me in NODES:
            for what in ASKED:
                known = plainly(what, me, publisher, fixes)
                unknown += known is None
                if known is not None:
                    expected.add(f"{me} {what} {'yes' if known else 'no'}")
        assert found == expected, f"seed {seed}, step {number}"
    assert unknown > 0
