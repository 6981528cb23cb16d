"""On a disk that fills up: what is recorded, what is refused and how, and what goes on."""

import json

import pytest
from msgspec.structs import replace

from nearcast.broker.config.settings import Settings
from nearcast.broker.durability.disk_space import DiskCondition, DiskStage
from nearcast.broker.durability.journal import Journal
from nearcast.broker.hub import Hub
from nearcast.store import Row, rows_of
from nearcast.testing import ClientOptions, DiskQuality, VirtualBroker, World
from nearcast.wire.mqtt import MQTT_5, Properties, PubAck, Publish, ReasonCode, encode
from tests.broker.hub_client import Side

FULL = DiskCondition(DiskStage.REFUSING, "short of space")
LOW = DiskCondition(DiskStage.UNRECORDED, "short of space")
FAILING = DiskCondition(DiskStage.REFUSING, "the disk fails", failing=True)
SPARK = Settings(decide={"news/#": "spark"})


def started(world: World, settings: Settings | None = None) -> VirtualBroker:
    return world.broker(disk=DiskQuality(), settings=settings)


def set_condition(world: World, condition: DiskCondition) -> None:
    world.brokers["broker"].hub.disk_policy.apply(condition, world.clock.now())
    world.run(0.1)


def log_rows(broker: VirtualBroker) -> list[Row]:
    broker.disk.flush()
    return [row for part in broker.disk.store.log.read() for row in rows_of(part)]


def test_events_of_qos_0_are_delivered_and_not_recorded_and_the_log_says_so() -> None:
    with World() as world:
        broker = started(world)
        ann, bob = world.client("ann"), world.client("bob")
        bob.subscribe("#", qos=2)
        world.settle()
        set_condition(world, LOW)
        for number in range(5):
            ann.publish("a", b"lost %d" % number)
        kept = ann.publish("a", b"kept", qos=1)
        ann.publish("stays", b"retained", retain=True)
        ann.publish("$me/position", b"53.0,5.0")
        world.settle()
        assert kept.done
        set_condition(world, DiskCondition())
        ann.publish("a", b"again")
        world.settle()
        world.run(1.0)
        assert len(bob.payloads("a")) == 7
        assert broker.hub.statistics()["unrecorded_total"] == 5
        rows = log_rows(broker)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    payloads = [row.payload for row in rows if row.kind == "event"]
    assert payloads == [b"kept", b"retained", b"again"]
    assert any(row.kind == "position" for row in rows)
    first, last = [json.loads(row.data)["reason"] for row in rows if row.kind == "gap"]
    assert first == "events of QoS 0 are not recorded from here on: short of space"
    assert last == "5 events of QoS 0 were not recorded: the disk was full"


@pytest.mark.parametrize("qos", [1, 2])
def test_a_full_disk_refuses_messages_with_a_reason_and_takes_them_later(qos: int) -> None:
    with World() as world:
        broker = started(world)
        ann = world.client("ann", ClientOptions(session_expiry_s=60))
        bob = world.client("bob", ClientOptions(session_expiry_s=60))
        bob.subscribe("#", qos=2)
        world.settle()
        set_condition(world, FULL)
        before = broker.disk.store.ticks
        refused = [ann.publish("a", b"%d" % number, qos=qos) for number in range(3)]
        world.settle()
        assert [each.reason_codes for each in refused] == [(ReasonCode.QUOTA_EXCEEDED,)] * 3
        assert broker.disk.store.ticks == before, "a refusal is written to the disk"
        # What decisions depend on is taken while there is some space.
        context = ann.publish("$me/context", b'{"role": "medic"}', qos=1)
        ann.publish("a", b"plain")
        world.settle()
        assert context.done
        set_condition(world, DiskCondition())
        again = ann.publish("a", b"again", qos=qos)
        world.settle()
        assert again.done
        assert bob.payloads() == [b"plain", b"again"]


def test_a_client_of_mqtt_3_is_disconnected_and_its_message_comes_when_there_is_space() -> None:
    with World() as world:
        started(world)
        old = ClientOptions(version=4, clean_start=False)
        ann, bob = world.client("ann", old), world.client("bob")
        bob.subscribe("#", qos=2)
        world.settle()
        set_condition(world, FULL)
        receipts = [ann.publish("a", b"one", qos=1), ann.publish("a", b"two", qos=2)]
        world.run(5.0)
        assert not any(receipt.done for receipt in receipts)
        assert len(ann.connected_at) > 1
        ann.publish("a", b"plain")
        set_condition(world, DiskCondition())
        world.run(5.0)
        world.settle()
        assert all(receipt.done for receipt in receipts)
        assert sorted(bob.payloads()) == [b"one", b"plain", b"two"]


def test_what_would_be_decided_from_the_log_is_refused_when_it_would_be_lost() -> None:
    with World() as world:
        broker = started(world, SPARK)
        ann = world.client("ann")
        ann.subscribe("$me/errors", qos=1)
        world.settle()
        set_condition(world, LOW)
        refused = ann.publish("news/a", b"one", qos=1)
        named = ann.publish("$me/publish/news/a", b'{"text": "two"}', qos=1)
        ann.publish("news/a", b"three")
        taken = ann.publish("other", b"four", qos=1)
        world.settle()
        world.run(1.0)
        for receipt in (refused, named):
            assert receipt.reason_codes == (ReasonCode.QUOTA_EXCEEDED,)
        assert taken.done
        told = [json.loads(each) for each in ann.payloads("$me/errors")]
        assert [each["topic"] for each in told] == ["news/a", "$me/publish/news/a", "news/a"]
        assert all("short of space" in each["error"] for each in told)
        assert {row.subject for row in log_rows(broker) if row.kind == "event"} == {"other"}


def test_what_would_have_to_be_stored_is_refused_also_with_qos_0() -> None:
    with World() as world:
        broker = started(world)
        ann = world.client("ann")
        ann.subscribe("$me/errors", qos=1)
        world.settle()
        set_condition(world, FULL)
        ann.publish("a", b"retained", retain=True)
        ann.publish("a", b"valid", properties=Properties(user_properties=(("nc-valid", "60"),)))
        world.settle()
        world.run(1.0)
        assert len(broker.hub.engine.live) == len(
            [each for each in broker.hub.engine.live if each.subject.startswith("$SYS")]
        )
        assert len(ann.payloads("$me/errors")) == 2


def test_a_message_that_was_taken_before_is_acknowledged_again() -> None:
    with World() as world:
        started(world)
        lasting = ClientOptions(session_expiry_s=60, clean_start=False)
        ann = world.client("ann", lasting)
        bob = world.client("bob", replace(lasting, client_id="bob"))
        bob.subscribe("#", qos=2)
        world.settle()
        receipt = ann.publish("a", b"one", qos=2)
        world.run_until(lambda: bool(bob.messages))
        # The acknowledgement is lost, and the message is sent again to a full disk.
        world.network.lose("ann", learns_s=0.0, other_learns_s=0.0)
        world.brokers["broker"].hub.disk_policy.apply(FULL, world.clock.now())
        world.run(5.0)
        world.settle()
        assert receipt.done
        assert bob.payloads() == [b"one"]


def test_while_writing_fails_commands_are_refused_too() -> None:
    with World() as world:
        started(world)
        ann = world.client("ann")
        world.settle()
        set_condition(world, FAILING)
        receipt = ann.publish("$me/context", b'{"role": "medic"}', qos=1)
        world.settle()
        assert receipt.reason_codes == (ReasonCode.QUOTA_EXCEEDED,)
        ann.publish("$me/position", b"53.0,5.0")
        world.settle()


def test_a_topic_alias_of_a_refused_message_is_known_afterwards() -> None:
    hub = Hub(journal=Journal(True, broker="local"))
    side = Side(hub, "ann", MQTT_5)
    hub.tick(1.0)
    hub.disk_policy.apply(FULL, 1.0)
    named = Publish("a", b"1", 1, packet_id=1).with_(Properties(topic_alias=3))
    side.feed(hub, encode(named, MQTT_5))
    unknown = Publish("", b"2", 1, packet_id=2).with_(Properties(topic_alias=4))
    assert not side.connection.closing
    hub.disk_policy.apply(DiskCondition(), 1.0)
    side.feed(hub, encode(Publish("", b"2", 1, packet_id=2).with_(named.properties), MQTT_5))
    batch = hub.tick(1.0)
    (write,) = batch.writes
    codes = [each.reason_code for each in side.answers.feed(write.data) if isinstance(each, PubAck)]
    assert [code.failed for code in codes] == [True, False]
    assert write.acknowledgements == 1
    assert side.connection.inbound == 1
    hub.disk_policy.apply(FULL, 1.0)
    side.feed(hub, encode(unknown, MQTT_5))
    assert side.connection.closing
