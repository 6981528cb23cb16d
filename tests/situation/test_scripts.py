"""Scripts over MQTT: placed by topic, run at the broker on behalf of their node."""

import json

import pytest

from nearcast.wire.mqtt import PubAck, Publish, ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.script_author import COUNTER, Author
from tests.support.clients.talker import Talker, told, words
from tests.support.running_broker import RunningBroker

OK, BAD, NO_RIGHT, BAD_JSON = (
    ReasonCode.SUCCESS,
    ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    ReasonCode.NOT_AUTHORIZED,
    ReasonCode.PAYLOAD_FORMAT_INVALID,
)


@pytest.fixture
def author(broker: RunningBroker) -> Author:
    found = Author(broker, fresh("author"))
    found.subscribes("$me/errors", qos=0)
    return found


def test_a_script_is_called_with_events_and_keeps_its_state(author: Author) -> None:
    subject = fresh("speed")
    author.subscribes("counted")
    assert author.adds(COUNTER, subject) is OK
    author.says(subject, b'{"speed": 5}')
    author.says(subject, b'{"speed": 6}')
    assert author.hears("counted") == {"n": 1, "of": subject}
    assert author.hears("counted") == {"n": 2, "of": subject}


def test_what_is_there_is_not_added_and_what_is_not_is_not_changed(author: Author) -> None:
    for action in ("edit", "execute", "remove"):
        assert author.tells(author.node, "s", {"action": action}) is BAD
    assert author.sends(f"$node/{author.node}/scripts/s", b"") is BAD
    assert author.adds(COUNTER) is OK
    assert author.adds(COUNTER) is BAD
    assert "already" in str(author.reason)
    assert author.tells(author.node, "s", {"action": "remove"}) is OK
    assert author.adds(COUNTER) is OK
    assert author.sends(f"$node/{author.node}/scripts/s", b"") is OK
    assert author.executes() is BAD


def test_an_edited_script_keeps_its_state(author: Author) -> None:
    first, second = fresh("first"), fresh("second")
    author.subscribes("counted")
    author.adds(COUNTER, first)
    author.says(first)
    assert author.hears("counted") == {"n": 1, "of": first}
    changed = COUNTER.replace("+ 1", "+ 10")
    assert author.edits(source=changed, events=[second]) is OK
    author.says(first)
    author.says(second)
    assert author.hears("counted") == {"n": 11, "of": second}


def test_what_an_edit_does_not_name_stays_as_it_is(author: Author) -> None:
    subject = fresh("same")
    author.subscribes("counted")
    author.adds(COUNTER, subject)
    assert author.edits(source=COUNTER.replace("+ 1", "+ 5")) is OK
    author.says(subject)
    assert author.hears("counted") == {"n": 5, "of": subject}


def test_a_script_runs_on_command_with_arguments(author: Author) -> None:
    author.subscribes("ran")
    author.adds(COUNTER)
    assert author.executes({"n": 7}) is OK
    assert author.hears("ran") == {"args": {"n": 7}, "n": 7}
    assert author.executes() is OK
    assert author.hears("ran") == {"args": None, "n": 7}


def test_a_script_runs_on_load_after_add_and_edit(author: Author) -> None:
    author.subscribes("ran")
    assert author.adds(COUNTER, run_on_load=True) is OK
    assert author.hears("ran") == {"args": None, "n": None}
    assert author.edits(run_on_load=True) is OK
    assert author.hears("ran") == {"args": None, "n": None}


def test_a_script_sees_of_an_event_what_there_is(author: Author) -> None:
    subject = fresh("seen")
    author.subscribes("seen")
    author.adds('def on_event(event, state):\n    publish("seen", event)', subject)
    author.says(subject, b'{"a": {"b": [1, 2.5, null]}}', at="53.5,-6.25", id="one")
    found = author.hears("seen")
    assert isinstance(found, dict)
    assert found.pop("time").endswith("Z")
    assert found == {
        "id": "one",
        "subject": subject,
        "publisher": author.node,
        "position": [-6.25, 53.5],
        "attributes": {"a": {"b": [1, 2.5, None]}},
        "text": None,
    }
    author.says(subject, b"no JSON")
    found = author.hears("seen")
    assert isinstance(found, dict)
    assert (found["text"], found["attributes"], found["position"]) == ("no JSON", None, None)
    author.says(subject, b"5")
    found = author.hears("seen")
    assert isinstance(found, dict)
    assert (found["text"], found["attributes"]) == (None, {"value": 5})


def test_what_a_script_publishes_has_the_options_it_gave(author: Author) -> None:
    author.subscribes("out", properties=words(meta="1"))
    source = """
def run(args, state):
    publish("out", {"n": 1}, at=[-6.25, 53.5], id="mine", time="2026-11-15T14:30:00Z", qos=0)
    publish("out", "text", at="53.5,-6.25")
    publish("out", [1, 2])
    publish("out")
"""
    author.adds(source)
    author.executes()
    first, second, third, fourth = (author.message("out") for _ in range(4))
    assert (first.payload, second.payload, third.payload, fourth.payload) == (
        b'{"n":1}', b"text", b"[1,2]", b"",
    )  # fmt: skip
    assert (first.qos, second.qos) == (0, 1)
    assert told(first)["nc-id"] == ["mine"]
    assert told(first)["nc-time"] == ["2026-11-15T14:30:00.000Z"]
    assert told(first)["nc-at"] == told(second)["nc-at"] == ["53.5,-6.25"]
    assert told(first)["nc-publisher"] == [f"{author.node}~s"]


def test_an_option_that_is_wrong_fails_the_call_and_nothing_is_published(author: Author) -> None:
    author.subscribes("out")
    source = """
def run(args, state):
    state["n"] = 1
    publish("out", "before")
    publish(args[0], "x", **args[1])
"""
    author.adds(source + '\ndef on_event(e, s):\n    publish("out", s)\n')
    for subject, options, named in (
        ("out", {"to": "circle:me"}, "circle"),
        ("out", {"to": "place:nowhere"}, "nowhere"),
        ("out", {"valid": "soon"}, "valid"),
        ("a/#", {}, "#"),
        ("$me/position", {}, "$me/position"),
        ("out", {"qos": 3}, "qos"),
        ("out", {"till": 3}, "till"),
    ):
        assert author.executes([subject, options]) is OK
        assert named in author.is_told()
        # It would stop otherwise.
        author.edits(source=source)
    author.edits(source='def run(args, state):\n    publish("out", state)')
    author.executes()
    assert author.hears("out") == {}


def test_a_script_reads_contexts_and_measures_distances(
    author: Author, broker: RunningBroker
) -> None:
    other = Talker(broker, fresh("other"))
    other.moves(53.0, -6.0)
    other.is_now(battery=80)
    author.subscribes("out")
    author.adds(
        "def run(args, state):\n"
        '    publish("out", [context(args), context("nobody"), distance([0, 0], [0, 1]),'
        ' distance(None, [0, 1]), seconds("1970-01-01T00:01:00Z")])'
    )
    author.executes(other.node)
    found, nobody, metres, unknown, seconds = json.loads(author.message("out").payload)
    assert found == {"battery": 80, "position": [-6.0, 53.0]}
    assert nobody is None
    assert metres == pytest.approx(110_574, rel=1e-4)
    assert unknown is None
    assert seconds == 60.0


def test_a_failed_call_has_no_effect_at_all(author: Author) -> None:
    subject = fresh("fails")
    author.subscribes("out")
    source = """
def on_event(event, state):
    state["n"] = state.get("n", 0) + 1
    publish("out", state)
    if event["text"] == "bad":
        fail("too bad")
"""
    author.adds(source, subject)
    for text in (b"good", b"bad", b"good"):
        author.says(subject, text)
    assert author.hears("out") == {"n": 1}
    assert author.hears("out") == {"n": 2}
    assert "line 6: too bad" in author.is_told()


def test_events_have_filters_and_areas_and_me_is_the_host(
    author: Author, broker: RunningBroker
) -> None:
    subject = fresh("near")
    other = Talker(broker)
    author.moves(53.0, -6.0)
    author.is_now(limit=50)
    author.subscribes("counted")
    wanted = {"subject": subject, "where": "speed > me.limit", "from": "circle:me,1000"}
    assert author.adds(COUNTER, wanted) is OK
    other.says(subject, b'{"speed": 60}', at="53.001,-6.0")
    other.says(subject, b'{"speed": 40}', at="53.001,-6.0")
    other.says(subject, b'{"speed": 60}', at="53.1,-6.0")
    other.says(subject, b'{"speed": 70}', at="53.001,-6.0")
    assert author.hears("counted") == {"n": 1, "of": subject}
    assert author.hears("counted") == {"n": 2, "of": subject}
    author.executes()
    assert author.sends("$me/context", b"{}") is OK


def test_a_script_does_not_hear_itself(author: Author) -> None:
    subject = fresh("echo")
    author.subscribes(subject)
    source = f'def on_event(event, state):\n    publish("{subject}", "again")\n'
    author.adds(source, subject)
    author.says(subject, b"once")
    assert [author.message(subject).payload for _ in range(2)] == [b"once", b"again"]
    author.subscribes("done")
    author.edits(source=f'{source}def run(args, state):\n    publish("done")\n')
    author.executes()
    assert author.message("done").payload == b""
    assert author.client.payloads() == []


def test_a_chain_of_scripts_ends_after_eight_events(author: Author) -> None:
    ping, pong, done = fresh("ping"), fresh("pong"), fresh("done")
    author.subscribes(ping, pong)
    for id_, from_, to in (("s", ping, pong), ("t", pong, ping)):
        source = f'def on_event(event, state):\n    publish("{to}", event["publisher"])\n'
        given = {"action": "add", "source": source, "events": [from_]}
        assert author.tells(author.node, id_, given) is OK
    author.says(ping, b"start")
    came = [author.client.wait_for(Publish) for _ in range(9)]
    assert [each.topic for each in came] == [ping, *[pong, ping] * 4]
    assert came[1].payload.decode() == author.node
    assert came[2].payload.decode() == f"{author.node}~s"
    author.subscribes(done)
    author.edits(source=f'def run(args, state):\n    publish("{done}")\n', events=[])
    author.executes()
    author.message(done)
    assert author.client.payloads() == []


def test_what_a_script_publishes_has_the_context_of_its_node(
    author: Author, broker: RunningBroker
) -> None:
    subject = fresh("by")
    other = Talker(broker)
    author.moves(53.0, -6.0)
    author.is_now(kind="bus")
    where = "publisher.kind = 'bus'"
    other.wants(subject, where=where, from_="circle:53.0,-6.0,10")
    author.adds(f'def run(args, state):\n    publish("{subject}", "x")')
    author.executes()
    found = other.client.wait_for(Publish)
    assert told(found)["nc-publisher"] == [f"{author.node}~s"]
    assert told(found)["nc-at"] == ["53,-6"]


def test_a_host_lists_its_scripts_now_and_on_change(author: Author) -> None:
    author.subscribes("$me/scripts")
    assert author.hears("$me/scripts") == []
    wanted = ["a/#", {"subject": "b", "where": "speed > 5"}]
    author.adds(COUNTER, *wanted)
    listed = {"id": "s", "from": author.name, "events": wanted, "state": "runs", "error": None}
    assert author.hears("$me/scripts") == [listed]
    author.edits(source='def on_event(e, s):\n    pass\ndef run(a, s):\n    fail("no")')
    assert author.hears("$me/scripts") == [listed]
    for _ in range(3):
        author.executes()
    stopped = listed | {"state": "stopped", "error": "line 4: no"}
    assert author.hears("$me/scripts") == [stopped]
    assert author.executes() is BAD
    assert "line 4: no" in str(author.reason)
    author.edits()
    assert author.hears("$me/scripts") == [listed]
    author.sends(f"$node/{author.node}/scripts/s", b"")
    assert author.hears("$me/scripts") == []


def test_three_failures_in_a_row_stop_a_script_until_it_is_edited(author: Author) -> None:
    subject = fresh("maybe")
    author.subscribes("out")
    source = """
def on_event(event, state):
    if event["text"] == "bad":
        fail("bad")
    publish("out", event["text"])
"""
    author.adds(source, subject)
    for text in (b"bad", b"bad", b"good", b"bad", b"bad", b"bad", b"after"):
        author.says(subject, text)
    assert author.message("out").payload == b"good"
    assert [author.is_told()[:16] for _ in range(5)] == ["on_event failed:"] * 5
    assert author.is_told().startswith("stopped after 3 failures in a row, until it is edited")
    author.edits()
    author.says(subject, b"again")
    assert author.message("out").payload == b"again"


def test_a_host_evicts_a_script_and_its_sender_is_told(
    author: Author, broker: RunningBroker
) -> None:
    author.adds(COUNTER)
    part = Talker(broker, f"{author.node}~phone")
    assert part.sends("$me/scripts/s", b"x") is BAD
    assert part.sends("$me/scripts/s", b"") is OK
    assert "removed" in author.is_told()
    assert author.executes() is BAD
    assert part.sends("$me/scripts/s", b"") is BAD


@pytest.mark.parametrize(
    ("members", "reason", "named"),
    [
        ({}, BAD, '"action"'),
        ({"action": "start"}, BAD, "add, edit, execute, remove"),
        ({"action": "add"}, BAD, '"source"'),
        ({"action": "add", "source": 5}, BAD, '"source"'),
        ({"action": "add", "source": " "}, BAD, "empty"),
        ({"action": "add", "source": "x = 1"}, BAD, "on_event(event, state)"),
        ({"action": "add", "source": "def on_event(e, s):\n  e ="}, BAD, "line 2"),
        ({"action": "add", "source": "import os"}, BAD, "import"),
        ({"action": "add", "source": "x = [] + 1\n" + COUNTER}, BAD, "line 1"),
        ({"action": "add", "source": "#" * 70_000}, BAD, "65536"),
        ({"action": "add", "source": "(" * 300}, BAD, "200 brackets"),
        ({"action": "add", "source": COUNTER, "till": 5}, BAD, "till"),
        ({"action": "add", "source": COUNTER, "run_on_load": 1}, BAD, "run_on_load"),
        ({"action": "add", "source": COUNTER, "events": "a"}, BAD, '"events"'),
        ({"action": "add", "source": COUNTER, "events": ["a/#/b"]}, BAD, "#"),
        ({"action": "add", "source": COUNTER, "events": ["$me/errors"]}, BAD, "$me"),
        ({"action": "add", "source": COUNTER, "events": ["$queue/x"]}, BAD, "$queue"),
        ({"action": "add", "source": COUNTER, "events": [{"where": "a > 1"}]}, BAD, "subject"),
        (
            {"action": "add", "source": COUNTER, "events": [{"subject": "a", "where": "a >"}]},
            BAD,
            "where",
        ),
        (
            {"action": "add", "source": COUNTER, "events": [{"subject": "a", "from": "place:x"}]},
            BAD,
            "place",
        ),
        ({"action": "add", "source": "def run(a, s):\n  pass", "events": ["a"]}, BAD, "on_event"),
        (
            {"action": "add", "source": "def on_event(e, s):\n  pass", "run_on_load": True},
            BAD,
            "run(args, state)",
        ),
    ],
)
def test_a_script_that_cannot_be_placed_is_refused_with_a_reason(
    author: Author, members: dict[str, object], reason: ReasonCode, named: str
) -> None:
    assert author.tells(author.node, "s", members) is reason
    assert named in str(author.reason)
    assert named in author.is_told()
    assert author.executes() is BAD, "nothing is half done"


def test_what_is_no_json_or_names_no_script_is_refused(author: Author) -> None:
    topic = f"$node/{author.node}/scripts"
    assert author.sends(f"{topic}/s", b"{") is BAD_JSON
    assert author.sends(f"{topic}/s", b"[]") is BAD_JSON
    assert author.sends(topic, b"{}") is NO_RIGHT
    assert author.sends(f"{topic}/s/t", b"{}") is NO_RIGHT
    assert author.sends(f"{topic}/{'x' * 201}", b"{}") is BAD
    assert author.tells(author.node, "a%2Fb", {"action": "add", "source": COUNTER}) is OK


def test_answers_stay_in_order_while_a_source_is_checked(author: Author) -> None:
    author.subscribes("ran")
    topic = f"$node/{author.node}/scripts/s"
    add = json.dumps({"action": "add", "source": COUNTER}).encode()
    execute = b'{"action": "execute"}'
    author.client.send(
        Publish("a", b"", 1, packet_id=11),
        Publish(topic, add, 1, packet_id=12),
        Publish("b", b"", 1, packet_id=13),
        Publish(topic, execute, 1, packet_id=14),
    )
    answers = [author.client.wait_for(PubAck) for _ in range(4)]
    assert [(each.packet_id, each.reason_code) for each in answers] == [
        (11, OK), (12, OK), (13, OK), (14, OK),
    ]  # fmt: skip
    assert author.hears("ran") == {"args": None, "n": None}


def test_a_script_has_its_name_to_itself(author: Author, broker: RunningBroker) -> None:
    Talker(broker, f"{author.node}~phone")
    given = {"action": "add", "source": COUNTER}
    assert author.tells(author.node, "phone", given) is BAD
    assert author.adds(COUNTER) is OK
    with pytest.raises(AssertionError):
        broker.client(f"{author.node}~s")


def test_a_script_does_not_make_its_node_appear_online(
    author: Author, broker: RunningBroker
) -> None:
    author.adds(COUNTER)
    other = Talker(broker)
    node = author.node
    broker.lose(author.client)
    other.subscribes(f"$node/{node}/online")
    assert other.client.wait_for(Publish).payload == b"false"


def test_live_events_come_to_a_script_that_subscribes_or_whose_node_moves(
    author: Author, broker: RunningBroker
) -> None:
    subject = fresh("live")
    other = Talker(broker)
    other.says(subject, b"near", valid="600", at="53.0,-6.0")
    other.says(subject, b"far", valid="600", at="54.0,-6.0")
    author.moves(53.0, -6.0)
    author.subscribes("got")
    source = 'def on_event(event, state):\n    publish("got", event["text"])'
    author.adds(source, {"subject": subject, "from": "circle:me,1000"})
    assert author.message("got").payload == b"near"
    author.moves(54.0, -6.0)
    assert author.message("got").payload == b"far"
