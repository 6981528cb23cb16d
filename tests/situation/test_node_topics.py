"""What one reads of others: positions, contexts and presence, as if they were retained."""

import json
from urllib.parse import quote

import pytest

from nearcast.wire.mqtt import MQTT_3_1_1, Properties, Publish, TopicFilter
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, told, words
from tests.support.running_broker import RunningBroker


def tail(topic: str) -> str:
    return topic.rpartition("/")[2]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_present_comes_first_and_then_every_change(broker: RunningBroker, version: int) -> None:
    walker, watcher = Talker(broker, version=version), Talker(broker, version=version)
    walker.moves(53.35, -6.26)
    walker.is_now(role="medic")
    topics = [f"$node/{walker.node}/{what}" for what in ("position", "context", "online")]

    watcher.subscribes(*topics)
    first = {tail(m.topic): (m.payload, m.retain) for m in watcher.gets()}
    walker.moves(53.36, -6.25)
    walker.is_now(role=None, task={"name": "lift"})
    later = [(tail(m.topic), m.payload, m.retain) for m in watcher.gets()]

    assert first["position"] == (b"53.35,-6.26", True)
    assert json.loads(first["context"][0]) == {"role": "medic", "position": [-6.26, 53.35]}
    assert first["online"] == (b"true", True)
    assert [what for what, *_ in later] == ["position", "context", "context"]
    assert later[0] == ("position", b"53.36,-6.25", False)
    assert json.loads(later[2][1]) == {"task": {"name": "lift"}, "position": [-6.25, 53.36]}


def test_several_moves_in_one_piece_are_each_told(broker: RunningBroker) -> None:
    walker, watcher = Talker(broker), Talker(broker)
    watcher.subscribes(f"$node/{walker.node}/position")
    walker.client.send(*[Publish("$me/position", f"{n},0".encode()) for n in range(1, 6)])
    walker.gets()

    assert watcher.payloads() == [f"{n},0".encode() for n in range(1, 6)]


def test_presence_is_that_of_the_node_whatever_parts_it_has(broker: RunningBroker) -> None:
    node, watcher = fresh("node"), Talker(broker)
    watcher.subscribes(f"$node/{node}/online")
    watcher.gets()

    one = Talker(broker, f"{node}~one")
    two = Talker(broker, f"{node}~two")
    assert watcher.payloads() == [b"true"]
    broker.lose(one.client)
    assert watcher.gets() == []
    broker.lose(two.client)
    assert watcher.payloads() == [b"false"]


def test_a_context_stays_when_the_session_ends(broker: RunningBroker) -> None:
    walker, watcher = Talker(broker), Talker(broker)
    walker.moves(1, 2)
    broker.lose(walker.client)

    watcher.subscribes(f"$node/{walker.node}/+")

    assert {tail(m.topic): m.payload for m in watcher.gets()} == {
        "position": b"1,2",
        "context": b'{"position":[2.0,1.0]}',
        "online": b"false",
    }


@pytest.mark.parametrize("pattern", ["$node/+/position", "$node/#", "$node/+/+"])
def test_wildcards_read_of_everyone(broker: RunningBroker, pattern: str) -> None:
    one, two, watcher = (Talker(broker) for _ in range(3))
    one.moves(1, 2)
    two.moves(3, 4)

    watcher.subscribes(pattern)

    found = {m.topic: m.payload for m in watcher.gets()}
    assert found[f"$node/{one.node}/position"] == b"1,2"
    assert found[f"$node/{two.node}/position"] == b"3,4"
    one.moves(5, 6)
    topics = [m.topic for m in watcher.gets()]
    assert topics[0] == f"$node/{one.node}/position"


def test_giving_up_a_position_is_told_and_is_not_there_for_others(broker: RunningBroker) -> None:
    walker, watcher, late = (Talker(broker) for _ in range(3))
    topic = f"$node/{walker.node}/position"
    walker.moves(1, 2)
    watcher.subscribes(topic)
    watcher.gets()

    walker.sends("$me/position", b"")
    late.subscribes(topic)
    walker.is_now(role="x")

    assert watcher.payloads() == [b""]
    assert late.gets() == []


def test_a_position_in_the_context_is_a_fix_and_null_forgets_it(broker: RunningBroker) -> None:
    walker, watcher = Talker(broker), Talker(broker)
    watcher.subscribes(f"$node/{walker.node}/position")

    walker.is_now(position=[-6.26, 53.35], role="x")
    walker.is_now(position=None)

    assert watcher.payloads() == [b"53.35,-6.26", b""]


@pytest.mark.parametrize("name", ["a/b", "a b", "50%", "é", "a+b", "#1", "a,b", "car:7", "x&y=z"])
def test_ids_are_percent_encoded_in_topics_and_areas(broker: RunningBroker, name: str) -> None:
    node = fresh(name)
    walker, watcher, publisher = Talker(broker, node), Talker(broker), Talker(broker)
    encoded = quote(node, safe="")

    watcher.subscribes(f"$node/{encoded}/position")
    walker.moves(53.35, -6.26)
    watcher.wants(subject := fresh("news"), from_=f"circle:{encoded},500")
    publisher.says(subject, b"near", at="53.351,-6.26")
    publisher.says(subject, b"far", at="54,-6.26")

    assert [(m.topic, m.payload) for m in watcher.gets()] == [
        (f"$node/{encoded}/position", b"53.35,-6.26"),
        (subject, b"near"),
    ]


def test_readers_who_ask_for_more_do_not_keep_it_from_others(broker: RunningBroker) -> None:
    walker, plain, meta, shared, counting = (Talker(broker) for _ in range(5))
    topic = f"$node/{walker.node}/position"
    plain.subscribes(topic)
    meta.subscribes(topic, properties=words(meta="1"))
    shared.subscribes(f"$share/g/{topic}")
    counting.wants(fresh("news"), where="count('x') > 5")

    walker.moves(1, 2)

    assert plain.payloads() == [b"1,2"]
    assert shared.payloads() == [b"1,2"]
    (message,) = meta.gets()
    assert told(message)["nc-publisher"] == [walker.node]
    assert told(message)["nc-at"] == ["1,2"]
    assert told(message)["nc-subscription"] == [topic]


def test_filters_and_areas_of_readers_are_about_the_node(broker: RunningBroker) -> None:
    bus, tram, reader = (Talker(broker) for _ in range(3))
    reader.wants("$node/+/context", where="kind = 'bus'", from_="circle:53.35,-6.26,500")
    for walker, kind in ((bus, "bus"), (tram, "tram")):
        walker.is_now(kind=kind)
        walker.moves(53.35, -6.26)
    bus.moves(54, -6.26)

    assert [m.topic for m in reader.gets()] == [f"$node/{bus.node}/context"]


def test_a_named_subscription_reads_of_nodes_too_in_an_envelope(broker: RunningBroker) -> None:
    walker, reader = Talker(broker), Talker(broker, version=MQTT_3_1_1)
    walker.moves(1, 2)

    reader.names("them", subject=f"$node/{walker.node}/position", envelope=True)
    walker.moves(3, 4)

    first, second = (json.loads(message.payload) for message in reader.gets())
    assert (first["text"], second["text"]) == ("1,2", "3,4")
    assert first["publisher"] == walker.node


def test_one_copy_with_all_identifiers_and_the_highest_qos(broker: RunningBroker) -> None:
    walker, reader = Talker(broker), Talker(broker)
    for number, (pattern, qos) in enumerate(
        (("$node/+/position", 0), (f"$node/{walker.node}/+", 1))
    ):
        wanted = TopicFilter(pattern, qos, retain_as_published=True)
        reader.subscribes(wanted, properties=Properties(subscription_identifiers=(number + 1,)))
    reader.gets()

    walker.moves(1, 2)

    message, _ = reader.gets()
    assert message.qos == 1
    assert message.retain
    assert sorted(message.properties.subscription_identifiers) == [1, 2]
