"""What the pipeline hands over reaches clients once and whole, whatever happens in between."""

import pytest
from msgspec.structs import replace

from nearcast.broker.handover import staged_rows
from nearcast.store import LogReader
from nearcast.testing import ClientOptions, VirtualClient, World
from nearcast.testing.virtual_broker import PIPELINE_TOKEN
from nearcast.wire.handover import (
    CHUNK_DELIVERIES,
    Abort,
    DeliveryRow,
    EventRow,
    HandedRow,
    Release,
    RowJudged,
    RowRecipient,
    Staged,
    manifest_bytes,
    packets,
)
from nearcast.wire.mqtt import Properties, ReasonCode, TopicFilter, user_properties
from tests.support.clients.pipeline_client import (
    LARGEST,
    LASTING,
    PIPELINE,
    delivery,
    event,
    release,
    stage,
    to,
)


@pytest.fixture
def bob(world: World) -> VirtualClient:
    bob = world.client("bob", LASTING)
    bob.subscribe("spots/#", qos=2)
    world.settle()
    return bob


def test_nothing_staged_is_published_before_it_is_released(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    count = stage(pipeline, [event("1"), event("2")])
    world.settle()
    assert bob.payloads() == []
    receipt = release(pipeline, (0, "a", count))
    world.settle()
    assert receipt.done
    assert bob.payloads() == [b"1", b"2"]
    assert world.brokers["broker"].hub.releasing.staging.statistics()["staged_bytes"] == 0


def test_an_epoch_is_released_once(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    release(pipeline, (0, "a", stage(pipeline, [event("1")])))
    again = stage(pipeline, [event("1 again")], attempt="b")
    receipts = [release(pipeline, (0, "b", again)), release(pipeline, (0, "a", 1))]
    late = stage(pipeline, [event("2")], epoch=1)
    receipts.append(release(pipeline, (0, "a", late), epoch=1))
    world.settle()
    assert all(receipt.done for receipt in receipts)
    assert bob.payloads() == [b"1", b"2"]
    assert world.brokers["broker"].hub.releasing.staging.statistics()["staged_bytes"] == 0


def test_only_the_attempts_that_count_are_released(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    stage(pipeline, [event("lost 1"), event("lost 2")], attempt="failed")
    kept = stage(pipeline, [event("1")], attempt="second")
    other = stage(pipeline, [event("2")], partition=1, attempt="first")
    release(pipeline, (0, "second", kept), (1, "first", other))
    world.settle()
    assert bob.payloads() == [b"1", b"2"]


def test_a_release_of_what_is_not_all_there_is_refused_and_changes_nothing(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    count = stage(pipeline, [event("1"), event("2")])
    refused = release(pipeline, (0, "a", count + 1))
    world.settle()
    assert refused.reason_codes == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)
    assert bob.payloads() == []
    assert release(pipeline, (0, "a", count)) is not None
    world.settle()
    assert bob.payloads() == [b"1", b"2"]


def test_queries_have_epochs_of_their_own(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    for query in ("gather", "move/ment 100%"):
        release(pipeline, (0, "a", stage(pipeline, [event(query)], 7, query=query)), epoch=7,
                query=query)  # fmt: skip
    world.settle()
    assert sorted(bob.payloads()) == [b"gather", b"move/ment 100%"]


def test_what_was_aborted_is_gone(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    count = stage(pipeline, [event("1")])
    pipeline.publish(Abort("q", 0).topic, qos=1)
    refused = release(pipeline, (0, "a", count))
    world.settle()
    assert refused.reason_codes == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)
    assert world.brokers["broker"].hub.releasing.staging.statistics()["staged_bytes"] == 0


def test_a_later_epoch_and_many_attempts_leave_no_rubbish(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    for number in range(9):
        stage(pipeline, [event("x" * 1_000)], epoch=3, attempt=f"attempt-{number}")
    world.settle()
    held = world.brokers["broker"].hub.releasing.staging.statistics()["staged_bytes"]
    assert 8_000 < held < 10_000
    stage(pipeline, [event("1")], epoch=4)
    world.settle()
    assert world.brokers["broker"].hub.releasing.staging.statistics()["staged_bytes"] < 1_000


def test_a_row_larger_than_a_packet_goes_in_parts(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    large = EventRow("1", "spots/park", bytes(range(256)) * 40, qos=1)
    count = stage(pipeline, [large, event("2")], largest=1_000)
    assert count > 10
    release(pipeline, (0, "a", count))
    world.settle()
    assert bob.payloads() == [large.payload, b"2"]


def test_a_delivery_goes_to_those_it_names_and_to_nobody_else(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    carol = world.client("carol~phone", LASTING)
    carol.subscribe("spots/#", qos=1)
    told = world.client("told")
    told.subscribe("spots/#", properties=Properties(user_properties=(("nc-meta", "1"),)))
    world.settle()
    count = stage(
        pipeline,
        [
            delivery("1", to("bob"), to("nobody"), to("carol~phone", "other/#")),
            delivery("2", to("carol~phone"), to("bob")),
            DeliveryRow(
                "3", "spots/park", b"3", "ann", 1_700_000_000.0,
                (RowRecipient("told", ("told\0spots/#",), 4),), lat=53.0, lon=-6.0,
                headers=user_properties((("colour", "red"),)),
            ),
        ],
    )  # fmt: skip
    release(pipeline, (0, "a", count))
    world.settle()
    assert bob.payloads() == [b"1", b"2"]
    assert [message.qos for message in bob.messages] == [2, 2]
    assert carol.payloads() == [b"2"]
    (message,) = told.messages
    assert dict(message.properties.user_properties) == {
        "nc-id": "3", "nc-at": "53,-6", "nc-publisher": "ann", "nc-priority": "4",
        "nc-time": "2023-11-14T22:13:20.000Z", "nc-subscription": "spots/#", "colour": "red",
    }  # fmt: skip


@pytest.mark.parametrize(
    "judged",
    [
        RowJudged(b"{", (1,), 1, 0, ("bob\0spots/#",)),
        RowJudged(b"[]", (1,), 1, 0, ("bob\0spots/#",)),
        RowJudged(b'{"cql2": {"op": "="}}', (1,), 1, 0, ("bob\0spots/#",)),
        RowJudged(b"", (1, 2), 1, 0, ("bob\0spots/#",)),
        RowJudged(b"", (1,), 2, 0, ("bob\0spots/#",)),
    ],
)
def test_what_was_judged_by_no_filter_is_refused(
    world: World, pipeline: VirtualClient, bob: VirtualClient, judged: RowJudged
) -> None:
    row = replace(delivery("1", to("bob")), judged=(judged,))
    (packet,) = packets([row], LARGEST)
    receipt = pipeline.publish(Staged("q", 0, 0, "a", 0).topic, packet, qos=1)
    world.settle()
    assert receipt.reason_codes == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)
    assert bob.payloads() == []


def test_who_is_away_gets_a_delivery_later_and_one_that_expired_does_not_come(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    bob.disconnect()
    world.run(1.0)
    soon = world.clock.now() + 5.0
    short = DeliveryRow("2", "spots/park", b"2", "ann", 1.5, (to("bob"),), qos=1, expires=soon)
    count = stage(pipeline, [delivery("1", to("bob")), short, delivery("3", to("bob"), qos=0)])
    release(pipeline, (0, "a", count))
    world.run(10.0)
    world.brokers["broker"].restart()
    bob.connect()
    world.settle()
    assert bob.payloads() == [b"1"]


def test_an_event_is_matched_recorded_and_idempotent(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    near = world.client("near")
    where = Properties(user_properties=(("nc-from", "circle:53.35,-6.26,500"),))
    near.subscribe(TopicFilter("spots/#", 1), properties=where)
    world.settle()
    rows: list[HandedRow] = [
        EventRow("1", "spots/a", b'{"n": 1}', lat=53.35, lon=-6.26, time=1.0),
        EventRow("2", "spots/b", b'{"n": 2}', lat=53.45, lon=-6.26, retain=True),
        EventRow("1", "spots/c", b"the same id"),
    ]
    release(pipeline, (0, "a", stage(pipeline, rows)))
    world.settle()
    assert bob.payloads() == [b'{"n": 1}', b'{"n": 2}']
    assert near.payloads() == [b'{"n": 1}']
    late = world.client("late")
    late.subscribe("spots/#")
    world.settle()
    assert late.payloads() == [b'{"n": 2}']
    broker = world.brokers["broker"]
    directory = broker.disk.store.directory
    broker.stop()
    found = [
        row
        for part in LogReader(directory / "log").read(1)
        if not isinstance(part, tuple)
        for row in part.to_pylist()  # type: ignore[union-attr]
        if row["kind"] == "event"
    ]
    assert [(row["event_id"], row["publisher"]) for row in found] == [
        ("1", "$pipeline"), ("2", "$pipeline"),
    ]  # fmt: skip


def test_the_pipeline_itself_leaves_no_trace_in_the_log(
    world: World, pipeline: VirtualClient
) -> None:
    world.settle()
    before = world.brokers["broker"].hub.engine.seq
    pipeline.disconnect()
    world.run(1.0)
    pipeline.connect()
    world.settle()
    assert world.brokers["broker"].hub.engine.seq == before


@pytest.mark.parametrize(
    "rows",
    [
        [EventRow("1", "spots/+")],
        [EventRow("1", "spots", lat=91.0, lon=0.0)],
        [EventRow("1", "spots", to="circle:nonsense")],
        [EventRow("1", "spots", headers=b"\x26\x00")],
        [EventRow("1", "spots", qos=3)],
    ],
)
def test_rows_that_cannot_be_are_refused_when_they_are_staged(
    world: World, pipeline: VirtualClient, rows: list[HandedRow]
) -> None:
    (packet,) = packets(rows, LARGEST)
    receipt = pipeline.publish(Staged("q", 0, 0, "a", 0).topic, packet, qos=1)
    world.settle()
    assert receipt.reason_codes == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)


@pytest.mark.parametrize("topic", ["stage/q/0/0/a", "release/q/-1", "release//0", "other/q/0"])
def test_other_topics_of_the_pipeline_are_refused(
    world: World, pipeline: VirtualClient, topic: str
) -> None:
    receipt = pipeline.publish(f"$pipeline/{topic}", b"\x90", qos=1)
    world.settle()
    assert receipt.reason_codes == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)


def test_strangers_are_refused_and_stay(world: World, bob: VirtualClient) -> None:
    asked = [
        bob.publish(Staged("q", 0, 0, "a", 0).topic, b"\0\x90", qos=1),
        bob.publish(Release("q", 0).topic, manifest_bytes([]), qos=1),
        bob.publish(Abort("q", 0).topic, qos=1),
    ]
    wish = bob.subscribe("$pipeline/#")
    shared = bob.subscribe("$share/g/$pipeline/stage/#")
    world.settle()
    assert {receipt.reason_codes for receipt in asked} == {(ReasonCode.NOT_AUTHORIZED,)}
    assert all(each.reason_codes[0].failed for each in (wish, shared))
    assert len(bob.connected_at) == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("$pipeline~2", ClientOptions()),
        ("$pipeline~2", ClientOptions(username="$pipeline", password=b"wrong")),
        ("$pipeline", ClientOptions(username="ann", password=PIPELINE_TOKEN.encode())),
        ("ann", PIPELINE),
    ],
)
def test_nobody_else_comes_in_as_the_pipeline(
    world: World, name: str, options: ClientOptions
) -> None:
    stranger = world.client(name, options)
    world.run(5.0)
    assert not stranger.connected_at


def test_too_much_is_refused_until_something_is_released(
    world: World, pipeline: VirtualClient, bob: VirtualClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_rows, "MOST_BYTES", 4_000)
    rows: list[HandedRow] = [event("x" * 1_000)]
    stage(pipeline, rows)
    world.settle()
    (packet,) = packets(rows, LARGEST)
    refused = pipeline.publish(Staged("q", 0, 1, "a", 0).topic, packet, qos=1)
    world.settle()
    assert refused.reason_codes == (ReasonCode.QUOTA_EXCEEDED,)
    # Another query does not wait for one that may never come back.
    taken = pipeline.publish(Staged("other", 0, 1, "a", 0).topic, packet, qos=1)
    world.settle()
    assert taken.done


def test_a_large_release_lets_others_come_first(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    sessions = [f"s{number}" for number in range(5 * CHUNK_DELIVERIES)]
    row = delivery("1", *map(to, sessions), to("bob"))
    sent = list(packets([row], LARGEST))
    assert len(sent) == 6
    for number, packet in enumerate(sent):
        pipeline.publish(Staged("q", 0, 0, "a", number).topic, packet, qos=1)
    release(pipeline, (0, "a", len(sent)))
    hub = world.brokers["broker"].hub
    world.run_until(lambda: hub.releasing.pending)
    assert hub.next_timer(1.0) == 1.0
    world.settle()
    assert not hub.releasing.pending
    assert bob.payloads() == [b"1"]


def test_a_delivery_does_not_overtake_an_event_before_it(
    world: World, pipeline: VirtualClient, bob: VirtualClient
) -> None:
    rows: list[HandedRow] = [event("1"), delivery("2", to("bob")), event("3")]
    sent = list(packets(rows, LARGEST))
    assert len(sent) == 1
    pipeline.publish(Staged("q", 0, 0, "a", 0).topic, sent[0], qos=1)
    release(pipeline, (0, "a", 1))
    world.settle()
    assert bob.payloads() == [b"1", b"2", b"3"]


def test_a_delivery_goes_by_the_subscription_of_now(world: World, pipeline: VirtualClient) -> None:
    # Without topic aliases frames are shared between receivers.
    cleo = world.client("cleo", ClientOptions(topic_alias_maximum=0))
    cleo.subscribe("spots/#")
    world.settle()

    def hand(epoch: int) -> None:
        rows: list[HandedRow] = [delivery(str(epoch), to("cleo"), qos=0)]
        release(pipeline, (0, "a", stage(pipeline, rows, epoch)), epoch=epoch)
        world.settle()

    hand(0)
    cleo.subscribe("spots/#", properties=Properties(user_properties=(("nc-meta", "1"),)))
    world.settle()
    hand(1)
    cleo.unsubscribe("spots/#")
    world.settle()
    hand(2)
    assert [(each.payload, each.qos) for each in cleo.messages] == [(b"0", 0), (b"1", 0)]
    told = [dict(each.properties.user_properties).get("nc-id") for each in cleo.messages]
    assert told == [None, "1"]


def test_epochs_that_are_still_handed_out_when_a_broker_dies_come_whole(
    world: World, pipeline: VirtualClient, bob: VirtualClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = world.brokers["broker"].hub
    hub.releasing.may_go_on = lambda: False
    receipts = [
        release(pipeline, (0, "a", stage(pipeline, [event(f"{e}.1"), event(f"{e}.2")], e)), epoch=e)
        for e in range(3)
    ]
    world.run_until(lambda: all(receipt.done for receipt in receipts))
    assert hub.releasing.staging.statistics()["unreleased_chunks"] == 6
    assert bob.payloads() == []
    world.brokers["broker"].crash(power_cut=True)
    world.brokers["broker"].start()
    world.settle()
    assert bob.payloads() == [b"0.1", b"0.2", b"1.1", b"1.2", b"2.1", b"2.2"]
