"""Any input becomes a row of the log and comes back as it was."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nearcast.core.engine.engine import Record
from nearcast.core.language import Filter, parse
from nearcast.core.model import Announcement, Event, Subscription, circle, place
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Relevance
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.input_form import input_forms
from nearcast.core.model.inputs import (
    Announced,
    AreaUnwatched,
    AreaWatched,
    ContextPatched,
    Forgot,
    Input,
    Left,
    Moved,
    PlaceDefined,
    PolicySet,
    Presence,
    Published,
    RelationshipDefined,
    RelationshipEnded,
    RelationshipSettled,
    RelationshipSilenced,
    RulesSet,
    SightSet,
    SilenceTold,
    Subscribed,
    Unannounced,
    Unsubscribed,
)
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.region_record import RegionRecord
from nearcast.core.model.relationship_state import RelationshipState
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.core.model.subject_permissions import SubjectClause, SubjectPermissions
from nearcast.store import (
    CorruptError,
    Row,
    StoreError,
    UpgradeError,
    batch_of,
    input_of,
    plain_row,
    record_row,
    rows_of,
)
from nearcast.store.state.values import decoded_input, decoded_node, encoded_input, encoded_node
from nearcast.wire.mqtt import Properties, Publish, user_properties
from tests.support.plain import model_strategies as model
from tests.support.plain import plain_world

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
payloads = (
    st.binary(max_size=40)
    | st.sampled_from(
        (b"", b"null", b"17", b'{"a": 1}', b'{"a":1,"a":1.0}', b'{"b": [1, 2.0, true]}', b"[1]")
    )
    | st.just(b'"' + b"x" * 70_000 + b'"')
)
seconds = st.none() | st.floats(0, 1e9)
events = st.builds(
    lambda event, extra, areas: replace(event, to=areas, **extra),
    plain_world.events,
    st.fixed_dictionaries(
        {},
        optional={
            "id": texts, "time": st.floats(0, 4e9), "valid_s": seconds, "object": st.none() | texts,
            "retain": st.booleans(), "priority": st.none() | st.integers(1, 9),
            "deadline_s": seconds, "payload": payloads, "qos": st.integers(0, 2),
            "attributes": st.dictionaries(texts, json_values, max_size=4), "session": texts,
            "target_at": st.none() | model.positions,
        },
    ),
    st.none() | model.areas,
)  # fmt: skip
several = st.none() | st.lists(texts, max_size=3).map(tuple)
permissions = st.builds(
    SubjectPermissions,
    st.lists(st.builds(SubjectClause, st.booleans(), several), max_size=3).map(tuple),
    st.booleans(),
    several,
)
subscriptions = st.builds(
    lambda subscription, extra: replace(subscription, **extra),
    plain_world.subscriptions,
    st.fixed_dictionaries(
        {"id": texts},
        optional={
            "from_": st.none() | model.areas, "qos": st.integers(0, 2), "no_local": st.booleans(),
            "aggregate": json_values, "detail": json_values,
            "session": texts, "group": st.none() | texts, "countable": st.none() | permissions,
        },
    ),
)  # fmt: skip
names = st.lists(texts, max_size=3).map(tuple)
whoever = st.tuples(
    names,
    st.none() | st.sampled_from((parse("rank >= 3"), parse("a.b = 'x' OR c IS NULL"))),
    st.none() | model.fixed_areas | st.just(place("St James", "hospital")),
).map(lambda given_: NodeCondition(*given_))
sight_rules = st.builds(
    SightRule, whoever, whoever, st.integers(0, 7), st.booleans(), st.none() | st.just("team")
)
inputs: st.SearchStrategy[Input] = st.one_of(
    st.builds(Published, events),
    st.builds(Moved, texts, st.none() | model.positions),
    st.builds(ContextPatched, texts, st.dictionaries(texts, json_values, max_size=4)),
    st.builds(Subscribed, subscriptions, st.booleans()),
    st.builds(Unsubscribed, texts),
    st.builds(Announced, st.builds(Announcement, texts, texts, model.areas, texts)),
    st.builds(Unannounced, texts, texts),
    st.builds(PlaceDefined, texts, texts, st.none() | model.fixed_areas, st.none() | texts),
    st.builds(PolicySet, texts, texts, st.none() | texts),
    st.builds(SightSet, texts, texts, st.none() | st.integers(0, 15)),
    st.tuples(
        st.lists(sight_rules, max_size=3).map(tuple),
        st.dictionaries(texts, st.dictionaries(texts, json_values, max_size=2), max_size=2),
        names,
        names,
        st.integers(0, 7),
    ).map(lambda given_: RulesSet(*given_)),
    st.builds(Presence, texts, st.booleans(), texts),
    st.builds(Left, texts, texts),
    st.builds(Forgot, texts),
    st.tuples(texts, texts, model.areas, st.none() | st.just(parse("a > 1"))).map(
        lambda given_: AreaWatched(*given_)
    ),
    st.builds(AreaUnwatched, texts),
    st.tuples(
        texts,
        texts,
        names,
        st.integers(2, 5),
        *(st.none() | st.floats(0, 1e6),) * 2,
        st.lists(st.floats(0, 1e6), max_size=3).map(tuple),
        st.none() | texts,
        st.none() | st.just(parse("a > 1")),
        st.lists(st.builds(RelationshipState, st.booleans(), st.floats(0, 2e9)), max_size=2).map(
            tuple
        ),
    ).map(lambda given_: RelationshipDefined(*given_)),
    st.builds(RelationshipEnded, texts),
    st.builds(RelationshipSilenced, texts, st.booleans()),
    st.builds(
        RelationshipSettled,
        texts,
        st.lists(
            st.builds(RegionRecord, texts, texts, texts, texts, st.floats(-1e6, 1e6)), max_size=2
        ).map(tuple),
    ),
    st.builds(SilenceTold, texts, st.booleans(), texts),
)
pairs = st.lists(st.tuples(texts, texts), max_size=4).map(tuple)
INGESTED = 1.7e9


headers = pairs.map(user_properties) | st.builds(
    lambda some, kind: Publish("x").with_(Properties(user_properties=some, content_type=kind)),
    pairs,
    texts,
).map(lambda packet: packet.raw_properties)


@given(st.lists(st.tuples(inputs, headers, st.none() | st.integers(1, 10**6)), max_size=8))
def test_any_input_comes_back_as_it_was(given_: list[tuple[Input, bytes, int | None]]) -> None:
    values: list[Input] = []
    for value, raw, expiry_s in given_:
        if isinstance(value, Published):
            event = value.event
            lasts_s = min((each for each in (expiry_s, event.valid_s) if each), default=None)
            if expiry_s is not None and event.valid_s and expiry_s >= event.valid_s:
                lasts_s = event.valid_s
            expires_at = None if lasts_s is None else INGESTED + lasts_s
            value = Published(replace(event, headers=raw, expires_at=expires_at))
        values.append(value)
    written = [record_row(Record(seq, INGESTED, value), "b") for seq, value in enumerate(values, 1)]
    read = list(rows_of(batch_of(written))) if written else []
    assert read == written
    for row, value in zip(read, values, strict=True):
        found = input_of(row)
        if isinstance(value, Published) and not value.event.attributes:
            # Nobody looked into its payload; who reads the row does.
            said = attributes_of(value.event.payload)
            value = Published(replace(value.event, attributes=said))
        assert found == value
        assert repr(found) == repr(value)  # 1, 1.0 and True are equal, and not the same
        if not isinstance(value, Published):
            assert decoded_input(encoded_input(value)) == value


@settings(max_examples=30)
@given(
    st.builds(
        NodeState, texts, model.positions, st.floats(0, 4e9), st.none() | model.positions,
        st.none() | st.floats(0, 4e9), st.dictionaries(texts, json_values, max_size=4),
        st.none() | st.floats(0, 4e9),
    )
)  # fmt: skip
def test_what_is_known_of_a_node_comes_back_as_it_was(state: NodeState) -> None:
    assert decoded_node(encoded_node(state, 7)) == (state, 7)


def test_every_field_of_events_and_subscriptions_is_written() -> None:
    full = Event(
        "i", "s", "p", 1.0, {"a": 1}, None, True, circle("me", 5.0), 3.0, "o", True, 2, 4.0, b"x",
        1, "p~2", True, ("q", "r"), Position(1.0, 2.0), user_properties([("a", "b")]), 3.0, "S",
        True, 2, 3, 4, "every 5", "ann", ("ann", "bob"),
    )  # fmt: skip
    differing = [
        name
        for name, default in zip(
            reversed(Event.__struct_fields__), reversed(Event.__struct_defaults__), strict=False
        )
        if getattr(full, name) != default
    ]
    assert set(Event.__struct_fields__) - set(differing) == {
        "id", "subject", "publisher", "time", "position",
    }  # fmt: skip
    assert input_of(record_row(Record(1, 1.0, Published(full)), "b")) == Published(full)


def test_every_kind_of_input_is_declared() -> None:
    assert [form.declared for form in input_forms()] == list(get_args(Input))


@given(payloads, st.integers(0, 2), st.none() | model.positions)
def test_a_plain_event_has_the_same_row_either_way(
    payload: bytes, qos: int, position: Position | None
) -> None:
    carried = user_properties([("a", "b")])
    event = Event(
        "i", "s", "p", 1.0, {}, position, payload=payload, qos=qos, headers=carried,
        expires_at=32.0,
    )  # fmt: skip
    said = replace(event, attributes=attributes_of(payload))
    row = record_row(Record(3, 2.0, Published(said)), "b")
    assert plain_row(event, "b", 3, 2.0) == row


def test_attributes_that_the_payload_says_are_not_written_again() -> None:
    event = Event("i", "s", "p", 1.0, {"speed": 12}, payload=b'{ "speed": 12 }')
    row = record_row(Record(1, 1.0, Published(event)), "b")
    assert "speed" not in row.data
    assert input_of(row) == Published(event)


def test_a_filter_of_seed_c_stays_two_valued_and_nested() -> None:
    root = parse("a = 1 AND (b = 2 OR c = 3)").root
    where = Filter(root, two_valued=True)
    relevance = Relevance((3, 0, 1), "units")
    wanted = Subscribed(Subscription("i", "ann", "#", where, relevance=relevance))
    assert input_of(record_row(Record(1, 1.0, wanted), "b")) == wanted


def test_a_row_from_a_later_release_is_refused_by_name() -> None:
    row = record_row(Record(7, 1.0, Left("ann")), "dublin")
    with pytest.raises(UpgradeError, match=r"row 7 of dublin has form 9; .* up to 1\. Upgrade"):
        input_of(replace(row, schema=9))
    with pytest.raises(UpgradeError, match=r"row 7 of dublin is of kind 'teleport'.*upgrade"):
        input_of(replace(row, kind="teleport"))


@pytest.mark.parametrize(
    "row",
    [
        Row("b", 3, "event", 1.0),
        Row("b", 3, "context", 1.0, node="ann", data="[]"),
        Row("b", 3, "announcement", 1.0, node="ann", subject="s", data='{"to": {"cirle": 1}}'),
        Row("b", 3, "subscription", 1.0, node="n", subject="s", data='{"id":"x","where":{"a":1}}'),
        Row("b", 3, "event", 1.0, 1, "i", "s", "p", 1.0, data='{"unheard": 1}'),
        Row(
            "b",
            3,
            "subscription",
            1.0,
            node="n",
            subject="s",
            data='{"id":"x","relevance":{"levels":[1,2]}}',
        ),
    ],
)
def test_a_row_that_means_nothing_is_named(row: Row) -> None:
    with pytest.raises(CorruptError, match=f"row 3 of b, a.? {row.kind}, cannot be read"):
        input_of(row)


def test_what_json_cannot_say_is_refused_before_it_is_written() -> None:
    wanted = Subscribed(Subscription("i", "ann", "#", detail=object()))
    with pytest.raises(StoreError, match="the log cannot write detail"):
        record_row(Record(1, 1.0, wanted), "b")
    late = Published(Event("i", "s", "p", 1.0, deadline_s=float("nan")))
    with pytest.raises(StoreError, match="deadline"):
        record_row(Record(1, 1.0, late), "b")
