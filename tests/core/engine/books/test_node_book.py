"""Positions expire in the order of their fixes, also where a clock was set back."""

from random import Random

from nearcast.core.engine.books.node_book import NodeBook
from nearcast.core.model.context import NodeState
from nearcast.core.model.geometry.position import Position


def test_positions_expire_when_they_are_old_in_whatever_order_they_came() -> None:
    chance = Random(4)
    book, plain = NodeBook(10.0), dict[str, float]()
    now = 0.0
    for _ in range(2000):
        now += chance.choice((0.0, 0.5, 1.0, -3.0, 2.0))
        node = f"n{chance.randrange(12)}"
        state = NodeState(node, Position(1.0, 2.0), now)
        book.by_name[node] = state
        book.fixed(node, now)
        plain[node] = now
        if chance.random() < 0.1:
            book.resumed()
        later = now + chance.choice((0.0, 5.0, 9.0))
        expiry = book.next_expiry()
        assert expiry is not None
        assert expiry <= min(plain.values()) + 10.0
        expected = sorted((at, each) for each, at in plain.items() if at + 10.0 <= later)
        found = []
        for gone, due in book.outdated(later):
            assert gone.position_at is not None
            assert due == gone.position_at + 10.0
            found.append((gone.position_at, gone.node))
            # As the engine does: it has no position any more.
            del plain[gone.node], book.by_name[gone.node]
        assert found == expected
