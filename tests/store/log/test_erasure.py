"""What is left of the log when a person is forgotten."""

from urllib.parse import quote

import msgspec
import pytest
from msgspec.structs import replace

from nearcast.core.engine.engine import Record
from nearcast.core.language import parse
from nearcast.core.model import Announcement, Event, Subscription, parse_area
from nearcast.core.model.context import Value
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    AreaWatched,
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    Published,
    RelationshipDefined,
    RelationshipEnded,
    Restarted,
    RulesSet,
    Subscribed,
    Unsubscribed,
)
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.store import ERASED, Row, delivery_row, input_of, recipients_of, record_row
from nearcast.store.log.erasure import FORGOTTEN, Erasure

NAMES = ["ann", "李/雷", "ev il", "a+b%", "z.b-1"]
LONGER = ["ann2", "joann", "ann-marie", "ann.b", "x.ann", "ann*", "%ann"]


def row(value: Input, seq: int = 1) -> Row:
    return record_row(Record(seq, 1.7e9 + seq, value), "local")


def found(event_id: str, subject: str, payload: object = None) -> Event:
    """What the pipeline publishes."""
    return Event(event_id, subject, "$pipeline", 1.7e9, payload=msgspec.json.encode(payload))


def level(name: str) -> str:
    """A name as the pipeline has it in a subject."""
    return "".join(f"%{ord(each):02X}" if each in "%/+#" else each for each in name)


def met(name: str) -> Event:
    subject = f"encounters/{level(name)}/ben"
    return found(f"{subject}/near/1794784080.221983", subject, {"a": name, "b": "ben"})


def wanted(subject: str = "chat/#", id_: str = "ben\0chat/#", **more: object) -> Row:
    return row(Subscribed(Subscription(id_, "ben", subject, **more)))  # type: ignore[arg-type]


def delivered(event: Event, *to: tuple[str, tuple[str, ...]]) -> Row:
    return delivery_row(event, [(*each, 1, False) for each in to], "local", 9, 1.7e9)


def rows_about(name: str) -> list[Row]:
    """Rows of every kind that tell of a node and are of nobody else."""
    encoded = quote(name, safe="")
    near = parse_area(f"circle:{encoded},500")
    return [
        row(Moved(name, Position(1, 2))),
        row(Published(Event("1", "chat/1", name, 1.7e9))),
        row(Published(met(name))),
        row(Published(found("spots/1", "spots", {"people": ["ben", name], "count": 2}))),
        row(Published(found("spots/2", "spots", {"events": [{"id": f"{name}/7"}]}))),
        delivered(met(name), ("ben", ("ben\0encounters/#",))),
        delivered(Event("1", "chat/1", name, 1.7e9), ("ben", ("ben\0chat/#",))),
        delivered(Event("2", "chat/1", "ben", 1.7e9), (f"{name}~phone", ("x",)), ("cat", ("y",))),
        wanted(f"$node/{encoded}/position", f"ben\0$node/{encoded}/position"),
        wanted(id_=f"ben\0\0{name}"),
        wanted(from_=near),
        wanted(where=parse("publisher.name = '" + name + "'")),
        row(Unsubscribed(f"ben\0encounters/{level(name)}/#")),
        row(Announced(Announcement("ben", "chat/1", near))),
        row(AreaWatched("door", "ben", near)),
        row(RelationshipDefined("both", "ben", ("cat", name), 2, within=5.0)),
        row(RelationshipEnded(name)),
        row(ContextPatched("ben", {"friends": [name, "cat"], "marks": {name: 5}})),
        row(PlaceDefined("home", name, parse_area("circle:1,2,50"))),  # type: ignore[arg-type]
        row(
            RulesSet(
                (SightRule(NodeCondition((name, "ben"))),), {name: {"rank": 5}, "ben": {"rank": 1}}
            )
        ),
        row(Restarted((name, f"{name}~phone", "ben"))),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_no_row_tells_of_a_node_afterwards(name: str) -> None:
    for each in rows_about(name):
        erasure = Erasure(name)
        assert erasure.concerns(each), each
        left = erasure.left(each)
        said = repr(replace(left, kind="")) + repr(msgspec.json.decode(left.data))
        for form in (name, level(name), quote(name, safe="")):
            assert form not in said, each
        assert left.kind in (ERASED, each.kind)
        assert (left.seq, left.ingested) == (each.seq, each.ingested)


@pytest.mark.parametrize("other", LONGER)
def test_a_longer_name_is_another(other: str) -> None:
    for each in rows_about(other):
        erasure = Erasure("ann")
        assert erasure.left(each) is each, each
        assert not erasure.concerns(each)


def test_what_others_asked_for_stays_without_the_name() -> None:
    erasure = Erasure("ann")

    def left(value: Input) -> Input:
        return input_of(erasure.left(row(value)))

    round_ann, round_nobody = parse_area("circle:ann,500"), parse_area(f"circle:{FORGOTTEN},500")
    sub = Subscription("ben\0\0near", "ben", "chat/#", from_=round_ann)
    same = Subscription("ben\0\0near", "ben", "chat/#", from_=round_nobody)
    assert left(Subscribed(sub)) == Subscribed(same)
    told, kept = (Announcement("ben", "to/ann", at) for at in (round_ann, round_nobody))
    assert left(Announced(told)) == Announced(kept)
    patch: dict[str, Value] = {"friends": ["ann", "cat"], "note": "for ann."}
    assert left(ContextPatched("ben", patch)) == ContextPatched(
        "ben", {"friends": [FORGOTTEN, "cat"], "note": f"for {FORGOTTEN}."}
    )
    rules = RulesSet((SightRule(NodeCondition(("ann", "an*")), see=0),), {"ann": {"rank": 5}})
    assert left(rules) == RulesSet(
        (SightRule(NodeCondition((FORGOTTEN, "an*")), see=0),), {FORGOTTEN: {"rank": 5}}
    )
    # What others publish is theirs, whatever it says.
    own = row(Published(Event("ann/1", "to/ann", "ben", 1.7e9, payload=b'"ann"')))
    assert erasure.left(own) is own


def test_a_name_that_is_a_word_of_the_form_erases_the_row() -> None:
    each = wanted(where=parse("a = 1 AND b = 2"))
    assert Erasure("and").left(each).kind == ERASED
    assert Erasure("where").left(each) is each


def test_with_an_event_of_the_pipeline_goes_the_record_of_who_got_it() -> None:
    spots = found("spots/1", "spots", {"people": ["ann", "ben"]})
    others = found("spots/2", "spots", {"people": ["cat", "ben"]})
    log = [
        row(Published(spots)),
        row(Published(others)),
        delivered(spots, ("cat", ("cat\0spots",))),
        delivered(others, ("cat", ("cat\0spots",))),
    ]
    erasure = Erasure("ann")
    assert [erasure.left(each).kind for each in log] == [ERASED, "event", ERASED, "delivery"]


def test_a_subscription_that_is_erased_is_in_no_record_of_deliveries() -> None:
    erasure = Erasure("ann")
    event = Event("1", "chat/ann", "cat", 1.7e9)
    both = delivered(event, ("ben", ("ben\0\0one", "ben\0\0two")), ("dan", ("dan\0#",)))
    only = delivered(event, ("ben", ("ben\0\0one",)))
    assert erasure.left(both) is both
    assert erasure.left(wanted("chat/ann", "ben\0\0one")).kind == ERASED
    assert [each[:2] for each in recipients_of(erasure.left(both))] == [
        ("ben", ("ben\0\0two",)),
        ("dan", ("dan\0#",)),
    ]
    assert recipients_of(erasure.left(only)) == []
    # The same name may stand for another subscription later.
    again = wanted("chat/#", "ben\0\0one")
    assert erasure.left(again) is again
    assert erasure.left(both) is both
