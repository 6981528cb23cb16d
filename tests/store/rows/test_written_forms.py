"""Rows of every kind of input are written as every release has written them."""

from typing import get_args

import pytest

from nearcast.core.language import parse
from nearcast.core.model import Announcement, Event, Subscription, circle, place
from nearcast.core.model.event import Relevance
from nearcast.core.model.geometry.area import Box
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    AreaUnwatched,
    AreaWatched,
    Classified,
    ContextPatched,
    Forgot,
    Input,
    Left,
    LiveForgotten,
    Moved,
    NeedTold,
    NodeExpired,
    PlaceDefined,
    PolicySet,
    Presence,
    Published,
    QueueDrained,
    RelationshipDefined,
    RelationshipEnded,
    RelationshipSettled,
    RelationshipSilenced,
    Restarted,
    Resumed,
    RulesSet,
    SightSet,
    SilenceTold,
    Subscribed,
    Suspended,
    Unannounced,
    Undelivered,
    Unsubscribed,
)
from nearcast.core.model.record import Record
from nearcast.core.model.region_record import RegionRecord
from nearcast.core.model.relationship_state import RelationshipState
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.core.model.subject_permissions import SubjectClause, SubjectPermissions
from nearcast.store import input_of, record_row

AT, BOX = Position(53.25, -6.5), Box(53.0, -7.0, 54.0, -6.0)
PERMISSIONS = SubjectPermissions((SubjectClause(True, ("a/#",)),), False, None)
RULE = SightRule(
    NodeCondition(("ann",), parse("rank >= 3"), None),
    NodeCondition((), None, place("Mater", "hospital")),
    3, True, "team",
)  # fmt: skip
Written = tuple[str | None, str | None, float | None, float | None, str]
"""Node, subject, latitude, longitude and data of a row."""

WRITTEN: list[tuple[Input, Written]] = [
    (Published(Event("e", "s", "p", 1.5)), (None, "s", None, None, "{}")),
    (
        Published(
            Event(
                "e",
                "s",
                "p",
                1.5,
                {"a": 1},
                AT,
                True,
                circle("me", 5.0),
                3.0,
                "o",
                True,
                2,
                4.0,
                b"x",
                1,
                "p~2",
                True,
                ("q", "r"),
                AT,
                expires_at=5.5,
            )
        ),
        (
            None,
            "s",
            53.25,
            -6.5,
            '{"at_given":true,"valid_s":3.0,"object":"o","retain":true,"priority":2,"deadline_s":4.0,"qos":1,"session":"p~2","clock_off":true,"about":["q","r"],"to":{"circle":{"center":"me","radius":5.0}},"target_at":[-6.5,53.25],"attributes":{"a":1}}',
        ),
    ),
    (Moved("ann", AT), ("ann", None, 53.25, -6.5, "{}")),
    (Moved("ann", None), ("ann", None, None, None, "{}")),
    (
        ContextPatched("ann", {"rank": 3, "a": {"b": None}}),
        ("ann", None, None, None, '{"patch":{"rank":3,"a":{"b":null}}}'),
    ),
    (
        Subscribed(Subscription("ann\0s", "ann", "s")),
        ("ann", "s", None, None, '{"id":"ann\\u0000s"}'),
    ),
    (
        Subscribed(
            Subscription(
                "ann\0s",
                "ann",
                "s",
                parse("a > 1"),
                BOX,
                Relevance((3,), "units"),
                [1],
                "d",
                2,
                True,
                "ann~2",
                "g",
                True,
                PERMISSIONS,
            ),
            False,
            True,
        ),
        (
            "ann",
            "s",
            None,
            None,
            '{"id":"ann\\u0000s","where":{"cql2":{"op":">","args":[{"property":"a"},1]}},"from":{"bbox":[53.0,-7.0,54.0,-6.0]},"relevance":{"levels":[3],"template":"units"},"countable":{"clauses":[{"allow":true,"patterns":["a/#"]}],"default":false,"only":null},"aggregate":[1],"detail":"d","qos":2,"no_local":true,"session":"ann~2","group":"g","meta":true,"input":{"replay":false,"more":true}}',
        ),
    ),
    (Unsubscribed("ann\0s"), (None, None, None, None, '{"id":"ann\\u0000s"}')),
    (NodeExpired("ann"), ("ann", None, None, None, "{}")),
    (
        Classified("ann", "network", 2, "ann~2", True),
        (
            "ann",
            None,
            None,
            None,
            '{"module":"network","context_class":2,"input":{"session":"ann~2","attribute":true}}',
        ),
    ),
    (Suspended("ann\0s"), (None, None, None, None, '{"id":"ann\\u0000s"}')),
    (Resumed("ann\0s"), (None, None, None, None, '{"id":"ann\\u0000s"}')),
    (
        Announced(Announcement("ann", "s", circle("me", 5.0))),
        ("ann", "s", None, None, '{"to":{"circle":{"center":"me","radius":5.0}}}'),
    ),
    (
        Announced(Announcement("ann", "s", BOX, "ann~2")),
        ("ann", "s", None, None, '{"to":{"bbox":[53.0,-7.0,54.0,-6.0]},"session":"ann~2"}'),
    ),
    (Unannounced("ann", "s"), ("ann", "s", None, None, "{}")),
    (
        PlaceDefined("city", "Dublin", BOX),
        (
            None,
            None,
            None,
            None,
            '{"kind":"city","name":"Dublin","geometry":{"bbox":[53.0,-7.0,54.0,-6.0]}}',
        ),
    ),
    (
        PlaceDefined("city", "Dublin", BOX, "Ireland", 7),
        (
            None,
            None,
            None,
            None,
            '{"kind":"city","name":"Dublin","geometry":{"bbox":[53.0,-7.0,54.0,-6.0]},"parent":"Ireland","input":{"order":7}}',
        ),
    ),
    (
        PlaceDefined("city", "Dublin", None),
        (None, None, None, None, '{"kind":"city","name":"Dublin","geometry":null}'),
    ),
    (
        PolicySet("matrix", "default", '{"rows": []}'),
        (
            None,
            None,
            None,
            None,
            '{"kind":"matrix","name":"default","document":"{\\"rows\\": []}"}',
        ),
    ),
    (
        PolicySet("matrix", "default", None),
        (None, None, None, None, '{"kind":"matrix","name":"default","document":null}'),
    ),
    (SightSet("ann", "ben", 3), ("ann", None, None, None, '{"other":"ben","mask":3}')),
    (SightSet("ann", "ben", None), ("ann", None, None, None, '{"other":"ben","mask":null}')),
    (
        RulesSet(),
        (
            None,
            None,
            None,
            None,
            '{"rules":[],"grants":{},"protected":["rank"],"settable":[],"default":7}',
        ),
    ),
    (
        RulesSet((RULE,), {"a*": {"rank": 3}}, ("rank", "x"), ("y",), 5),
        (
            None,
            None,
            None,
            None,
            '{"rules":[{"viewer":{"nodes":["ann"],"where":{"cql2":{"op":">=","args":[{"property":"rank"},3]}},"inside":null},"other":{"nodes":[],"where":null,"inside":{"place":"hospital/Mater"}},"see":3,"friend":true,"same":"team"}],"grants":{"a*":{"rank":3}},"protected":["rank","x"],"settable":["y"],"default":5}',
        ),
    ),
    (Presence("ann", True), ("ann", None, None, None, '{"here":true}')),
    (
        Presence("ann", False, "ann~2"),
        ("ann", None, None, None, '{"here":false,"input":{"session":"ann~2"}}'),
    ),
    (Undelivered("ann", (("k", "v"),)), ("ann", None, None, None, '{"live":[["k","v"]]}')),
    (
        Undelivered("ann", (), "ann~2"),
        ("ann", None, None, None, '{"live":[],"input":{"session":"ann~2"}}'),
    ),
    (QueueDrained("ann"), ("ann", None, None, None, "{}")),
    (QueueDrained("ann", "ann~2"), ("ann", None, None, None, '{"input":{"session":"ann~2"}}')),
    (Left("ann"), ("ann", None, None, None, "{}")),
    (Left("ann", "ann~2"), ("ann", None, None, None, '{"input":{"session":"ann~2"}}')),
    (LiveForgotten("ann", 5), ("ann", None, None, None, '{"most":5}')),
    (Forgot("ann"), ("ann", None, None, None, "{}")),
    (NodeExpired("ann"), ("ann", None, None, None, "{}")),
    (
        Classified("ann", "network", 2, "ann~2", True),
        (
            "ann",
            None,
            None,
            None,
            '{"module":"network","context_class":2,"input":{"session":"ann~2","attribute":true}}',
        ),
    ),
    (
        AreaWatched("here", "ann", BOX),
        ("ann", None, None, None, '{"name":"here","area":{"bbox":[53.0,-7.0,54.0,-6.0]}}'),
    ),
    (
        AreaWatched("here", "ann", circle("ben", 5.0), parse("a > 1")),
        (
            "ann",
            None,
            None,
            None,
            '{"name":"here","area":{"circle":{"center":"ben","radius":5.0}},"where":{"cql2":{"op":">","args":[{"property":"a"},1]}}}',
        ),
    ),
    (AreaUnwatched("here"), (None, None, None, None, '{"name":"here"}')),
    (
        RelationshipDefined("convoy", "ann", ("a", "b"), 2, within=100.0),
        (
            "ann",
            None,
            None,
            None,
            '{"name":"convoy","members":["a","b"],"need":2,"input":{"within":100.0}}',
        ),
    ),
    (
        RelationshipDefined(
            "tanks",
            "ann",
            ("a", "b"),
            2,
            None,
            None,
            (1.0, 5.5),
            "tank.level",
            parse("a > 1"),
            (RelationshipState(True, 7.5), RelationshipState(False, 8.0, True)),
        ),
        (
            "ann",
            None,
            None,
            None,
            '{"name":"tanks","members":["a","b"],"need":2,"where":{"cql2":{"op":">","args":[{"property":"a"},1]}},"input":{"metres":[1.0,5.5],"of":"tank.level","states":[{"near":true,"since":7.5,"veiled":false},{"near":false,"since":8.0,"veiled":true}]}}',
        ),
    ),
    (RelationshipEnded("convoy"), (None, None, None, None, '{"name":"convoy"}')),
    (
        RelationshipSilenced("convoy", True),
        (None, None, None, None, '{"name":"convoy","silent":true}'),
    ),
    (RelationshipSettled("convoy"), (None, None, None, None, '{"name":"convoy"}')),
    (
        RelationshipSettled("convoy", (RegionRecord("a", "b", "b", "circle:53.35,-6.26,50", 4.5),)),
        (
            None,
            None,
            None,
            None,
            '{"name":"convoy","input":{"regions":[{"node":"a","peer":"b","told_by":"b","region":"circle:53.35,-6.26,50","margin_m":4.5}]}}',
        ),
    ),
    (SilenceTold("ann", True), ("ann", None, None, None, '{"silent":true}')),
    (
        SilenceTold("ann", False, "ann~car"),
        ("ann", None, None, None, '{"silent":false,"input":{"session":"ann~car"}}'),
    ),
    (
        NeedTold("ann", "ann\0s", "bob", "e1", "volume 5"),
        (
            "ann",
            None,
            None,
            None,
            '{"subscription":"ann\\u0000s","publisher":"bob","event":"e1","need":"volume 5"}',
        ),
    ),
    (
        Restarted(),
        (
            None,
            None,
            None,
            None,
            '{"kind":"restart","sessions":[],"position_ttl_s":600.0,"recent_s":300.0,"elsewhere":[],"deliveries":false,"keeps_recent":false,"shared_objects":[],"live_at_once":0,"levels":3,"replays_go_on":false}',
        ),
    ),
    (
        Restarted(("ann",), 60.0, 30.0, (("s/#", True),), True, True, ("o/#",)),
        (
            None,
            None,
            None,
            None,
            '{"kind":"restart","sessions":["ann"],"position_ttl_s":60.0,"recent_s":30.0,"elsewhere":[["s/#",true]],"deliveries":true,"keeps_recent":true,"shared_objects":["o/#"],"live_at_once":0,"levels":3,"replays_go_on":false}',
        ),
    ),
]


@pytest.mark.parametrize(("value", "written"), WRITTEN, ids=lambda each: type(each).__name__)
def test_a_row_is_written_as_ever_and_read_back(value: Input, written: Written) -> None:
    row = record_row(Record(7, 2.5, value), "b")
    assert (row.node, row.subject, row.lat, row.lon, row.data) == written
    assert (row.kind, row.seq, row.ingested) == (type(value).__struct_config__.tag, 7, 2.5)
    assert input_of(row) == value
    if isinstance(value, Published):
        event = value.event
        told = (row.event_id, row.publisher, row.time, row.payload)
        assert told == (event.id, event.publisher, event.time, event.payload)
    else:
        assert (row.event_id, row.publisher, row.time, row.payload) == (None,) * 4


def test_every_kind_is_here() -> None:
    assert {type(value) for value, _ in WRITTEN} == set(get_args(Input))
