"""A session leaves one broker as one value and goes on at another."""

from pathlib import Path

import pytest

from nearcast.store import (
    CorruptError,
    Enqueued,
    MessagePut,
    ReceivedPut,
    SessionPut,
    Stage,
    Store,
    StoredSession,
    StoredWill,
    StoreError,
    SubscriptionPut,
    SubscriptionState,
)
from tests.support.logs.store_rows import message, opened, session


def fill(store: Store) -> None:
    whole = StoredSession("ann", 5.0, "ann", 3600.0, 9.0, StoredWill(message("bye"), 1), b"own")
    wanted = SubscriptionState("a/#", 1, properties=(("nc-where", "x > 1"), ("nc-meta", "1")))
    store.commit(
        [
            session("bob"),
            SessionPut(whole),
            SubscriptionPut("ann", "a/#", wanted),
            MessagePut(1, message("one")),
            MessagePut(2, message("two")),
            MessagePut(3, message("bob's")),
            Enqueued("ann", 1, 1, 2, packet=4, stage=Stage.SENT),
            Enqueued("bob", 2, 3, 1),
            Enqueued("ann", 3, 2, 1, identifiers=(5,), names=("mine",)),
            Enqueued("ann", 4, 0, 2, packet=5, stage=Stage.RELEASED),
            ReceivedPut("ann", 77),
        ],
        now=0.0,
    )


def test_a_session_goes_on_elsewhere_with_all_that_is_owed_to_it(tmp_path: Path) -> None:
    here, there = opened(tmp_path / "here"), opened(tmp_path / "there")
    fill(here)
    taken = [next(there.message_ids) for _ in range(20)][-1]
    changes = there.import_session(here.export_session("ann"), now=1.0)
    assert sorted(map(repr, changes)) == sorted(map(repr, there.load()))
    queued = [each for each in changes if isinstance(each, Enqueued)]
    bodies = {each.id: each.message for each in changes if isinstance(each, MessagePut)}
    assert [bodies[each.message] for each in queued[:2]] == [message("one"), message("two")]
    assert [(e.packet, e.stage, e.identifiers, e.names) for e in queued] == [
        (4, Stage.SENT, (), ()),
        (0, Stage.WAITING, (5,), ("mine",)),
        (5, Stage.RELEASED, (), ()),
    ]
    assert min(bodies) > taken
    plain = [each for each in changes if not isinstance(each, Enqueued | MessagePut)]
    assert [e for e in here.load() if e in plain] == plain
    here.close()
    there.close()


def test_a_session_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fill(store)
    before = list(store.load())
    with pytest.raises(StoreError, match="a session 'ann' already"):
        store.import_session(store.export_session("ann"), now=1.0)
    assert list(store.load()) == before
    with pytest.raises(StoreError, match="no session 'eve'"):
        store.export_session("eve")
    store.close()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"", "not an exported session"),
        (b"hello", "not an exported session"),
        (b"nearcast session \x09abc", "form 9; this release reads up to 1"),
        (b"nearcast session \x01\xff\xff", "cannot be read"),
    ],
)
def test_what_is_no_session_is_refused(tmp_path: Path, value: bytes, error: str) -> None:
    store = opened(tmp_path)
    with pytest.raises((CorruptError, StoreError), match=error):
        store.import_session(value, now=1.0)
    store.close()
