"""A new kind of input is declared once: rows, recovery and erasing follow from it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from nearcast.broker.config.settings import Settings
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import journal_for
from nearcast.broker.hub import Hub
from nearcast.core.engine import engine
from nearcast.core.engine.updates.session_presence import SessionPresence
from nearcast.core.language import Filter, parse
from nearcast.core.model import circle
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.input_form import _FORMS, InputForm
from nearcast.core.model.inputs import Input, Restarted
from nearcast.core.model.record import Record
from nearcast.store import (
    ERASED,
    Forgotten,
    Gap,
    Kept,
    Row,
    RowBuffer,
    Store,
    input_of,
    is_unknown,
    rows_of,
    standing_change,
)
from nearcast.store.log.erasure import FORGOTTEN

BROKER = "b"


class CurfewSet(Struct, frozen=True, tag_field="kind", tag="curfew"):
    """Nobody who fits is to be in an area of a node."""

    node: str
    name: str
    area: Area
    whom: Filter | None = None
    guests: tuple[str, ...] = ()
    level: int = 1


class CurfewLifted(Struct, frozen=True, tag_field="kind", tag="curfew-end"):
    """A curfew is over."""

    node: str
    name: str


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    under = {"space": "curfews", "key": ("node", "name")}
    InputForm(node="node", renamed=("name",), **under)(CurfewSet)  # type: ignore[arg-type]
    InputForm(node="node", ends=True, **under)(CurfewLifted)  # type: ignore[arg-type]
    yield
    del _FORMS["curfew"], _FORMS["curfew-end"]


def curfew(node: str, name: str, *guests: str) -> Input:
    return CurfewSet(node, name, circle("me", 50.0), parse("rank < 3"), guests, 2)  # type: ignore[return-value]


def written(*values: Input) -> RowBuffer:
    buffer = RowBuffer(BROKER)
    for seq, value in enumerate(values, 1):
        buffer.append_record(Record(seq, 1.7e9, value))
    return buffer


def kept_rows(store: Store) -> list[Row]:
    return [row for part in store.log.read() if not isinstance(part, Gap) for row in rows_of(part)]


def test_it_is_written_and_read_back() -> None:
    least = CurfewSet("ann", "night", circle("me", 50.0))
    for value in (curfew("ann", "night", "ben"), least, CurfewLifted("ann", "night")):
        (row,) = written(value)  # type: ignore[arg-type]
        assert (row.kind, row.node) == (type(value).__struct_config__.tag, "ann")
        assert input_of(row) == value
        assert not is_unknown(row.kind)


def test_it_is_recovered_until_it_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = curfew("ann", "night"), curfew("ann", "day"), curfew("ben", "night")
    store = Store(tmp_path, BROKER)
    store.commit([standing_change(value) for value in values], written(*values), now=1.0)
    store.commit([standing_change(CurfewLifted("ann", "day"))], now=2.0)  # type: ignore[arg-type]
    store.close()
    store = Store(tmp_path, BROKER)
    found: list[Input] = []

    class Part(SessionPresence):
        """The part of an engine that such an input concerns."""

        def resume(self, standing: Iterable[Input], restarted: Restarted) -> None:
            found.extend(value for value in standing if isinstance(value, CurfewSet))

    monkeypatch.setattr(engine, "SessionPresence", Part)
    restore(Hub(Settings(), journal_for(store)), store, 3.0)
    store.close()
    assert found == [values[0], values[2]]


def test_it_is_kept_under_its_key() -> None:
    change = standing_change(curfew("ann", "night"))
    assert isinstance(change, Kept)
    assert (change.space, change.key) == ("curfews", "ann\0night")
    assert standing_change(CurfewLifted("ann", "night")) == Forgotten("curfews", "ann\0night")  # type: ignore[arg-type]


def test_it_is_erased_with_the_person_it_concerns(tmp_path: Path) -> None:
    store = Store(tmp_path, BROKER)
    values = (
        curfew("ann", "night"), curfew("ben", "night", "ann", "eve"), curfew("ben", "of ann"),
        curfew("eve", "night"),
    )  # fmt: skip
    store.commit([], written(*values), now=1.0)
    store.erase("ann", now=2.0)
    own, guest, named, other = kept_rows(store)
    store.close()
    assert own.kind == named.kind == ERASED
    assert input_of(guest) == curfew("ben", "night", FORGOTTEN, "eve")
    assert input_of(other) == values[3]
