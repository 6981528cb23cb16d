"""Who is there: a question to `$me/nodes`, answered within the asker's rights, in pages."""

import json
from pathlib import Path

import pytest

from nearcast.broker.config.settings import AuthSection as DoorsSection
from nearcast.broker.config.settings import Settings
from nearcast.wire.mqtt import Properties, ReasonCode
from tests.support.clients.talker import METRES_NORTH, VERSIONS, Talker
from tests.support.running_broker import RunningBroker

NODES = "$me/nodes"
HERE = (48.0, 11.0)


def asked(asker: Talker, **question: object) -> dict[str, object]:
    """The answer to one question."""
    if NODES not in getattr(asker, "reads", ()):
        assert not asker.subscribes(NODES)[0].failed
        asker.reads = (NODES,)  # type: ignore[attr-defined]  # for this module alone
    members = {name.rstrip("_"): value for name, value in question.items()}
    assert asker.sends(NODES, json.dumps(members).encode()) is ReasonCode.SUCCESS, asker.reason
    (answer,) = (each for each in asker.gets() if each.topic == NODES)
    found: dict[str, object] = json.loads(answer.payload)
    return found


def names(answer: dict[str, object]) -> list[str]:
    nodes = answer["nodes"]
    assert isinstance(nodes, list)
    return [each["node"] for each in nodes]


def row_of(broker: RunningBroker, prefix: str, count: int) -> list[Talker]:
    """Talkers 100 metres from each other, going north."""
    found = [Talker(broker, f"{prefix}{number}") for number in range(count)]
    for number, talker in enumerate(found):
        talker.moves(HERE[0] + 100 * number * METRES_NORTH, HERE[1])
        talker.is_now(number=number, kind="even" if number % 2 == 0 else "odd")
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_an_area_a_filter_and_the_nearest(broker: RunningBroker, version: int) -> None:
    talkers = row_of(broker, f"row{version}-", 6)
    asker = Talker(broker, f"asker{version}", version)
    asker.moves(*HERE)
    area = f"circle:{HERE[0]},{HERE[1]},250"
    inside = asked(asker, in_=area)
    assert names(inside) == [asker.node, *(each.node for each in talkers[:3])]
    assert inside["next"] is None
    first = inside["nodes"][1]  # type: ignore[index]
    assert first["position"] == [HERE[1], HERE[0]]
    assert first["context"] == {"number": 0, "kind": "even"}
    assert first["online"] is True
    assert first["time"].endswith("Z")
    assert names(asked(asker, in_="circle:me,250", where="kind = 'odd'")) == [talkers[1].node]
    near = asked(asker, near="me", most=2, where="number > 1")
    assert names(near) == [talkers[2].node, talkers[3].node]
    assert [round(each["distance"], -1) for each in near["nodes"]] == [200, 300]  # type: ignore[attr-defined]
    around = asked(asker, near=talkers[5].node, most=1, where="number >= 0")
    assert names(around) == [talkers[4].node]
    for each in (asker, *talkers):
        each.sends("$me/position", b"")


def test_pages_follow_each_other_and_end(broker: RunningBroker) -> None:
    talkers = row_of(broker, "page", 7)
    asker = Talker(broker, "pager")
    area = f"circle:{HERE[0]},{HERE[1]},5000"
    found: list[str] = []
    cursor: object = None
    for most in (3, 3, 3):
        more = {} if cursor is None else {"cursor": cursor}
        answer = asked(asker, in_=area, most=most, **more)
        found += names(answer)
        cursor = answer["next"]
    assert cursor is None
    assert found == [each.node for each in talkers]
    for each in talkers:
        each.sends("$me/position", b"")


def test_a_node_without_a_position_is_there_but_nowhere(broker: RunningBroker) -> None:
    quiet, asker = Talker(broker, "quiet"), Talker(broker, "seeker")
    (found,) = (
        each
        for each in asked(asker, most=1000)["nodes"]  # type: ignore[attr-defined]
        if each["node"] == quiet.node
    )
    assert found == {
        "node": "quiet", "position": None, "time": None, "context": {}, "online": True,
    }  # fmt: skip


def test_what_is_given_with_a_question_comes_back(broker: RunningBroker) -> None:
    asker = Talker(broker)
    asker.subscribes(NODES)
    sent = Properties(correlation_data=b"\0mine")
    asker.sends(NODES, b'{"id": {"any": 1}, "most": 1}', properties=sent)
    (answer,) = asker.gets()
    assert json.loads(answer.payload)["id"] == {"any": 1}
    assert answer.properties.correlation_data == b"\0mine"


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"in": "circle:1"}, '"in"'),
        ({"in": "place:nowhere"}, "nowhere"),
        ({"where": "a ="}, '"where"'),
        ({"most": 0}, '"most"'),
        ({"most": 1001}, '"most"'),
        ({"most": True}, '"most"'),
        ({"near": 5}, '"near"'),
        ({"cursor": "made-up"}, '"cursor"'),
        ({"limit": 5}, "unknown 'limit'"),
    ],
)
def test_a_question_that_cannot_be_meant_is_refused(
    broker: RunningBroker, question: dict[str, object], why: str
) -> None:
    asker = Talker(broker)
    asker.subscribes(NODES)
    reason = asker.sends(NODES, json.dumps(question).encode())
    assert reason is ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    assert why in (asker.reason or "")


def test_the_answer_needs_a_place_to_go_to_and_nobody_asks_without_end(
    broker: RunningBroker,
) -> None:
    asker = Talker(broker)
    assert asker.sends(NODES, b"{}").failed
    assert "subscribe to $me/nodes" in (asker.reason or "")
    assert asker.sends(NODES, b"[]") is ReasonCode.PAYLOAD_FORMAT_INVALID or asker.reason
    asker.subscribes(NODES)
    answers = [asker.sends(NODES, b'{"most": 1}') for _ in range(60)]
    assert ReasonCode.QUOTA_EXCEEDED in answers


def test_what_may_not_be_seen_is_not_there(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\npermission = "deny"\nwho = "node:nosy"\naction = "subscribe"\n'
        'topics = ["$node/shy/position", "$node/gone/#"]\n'
        '[[sight]]\nviewer = "node:nosy"\nother = "node:hidden"\nsee = []\n'
        '[[sight]]\nviewer = "node:nosy"\nother = "node:placeless"\n'
        'see = ["identity", "attributes"]\n'
        '[[sight]]\nviewer = "node:nosy"\nother = "node:blank"\nsee = ["position", "identity"]\n'
    )
    running = RunningBroker(Settings(doors=DoorsSection(rules=str(rules))), tmp_path / "data")
    try:
        everyone = ("hidden", "placeless", "blank", "shy", "gone", "open")
        for name in everyone:
            talker = Talker(running, name)
            talker.moves(*HERE)
            talker.is_now(rank_of="captain")
        nosy, fair = Talker(running, "nosy"), Talker(running, "fair")
        area = f"circle:{HERE[0]},{HERE[1]},100"
        assert set(names(asked(fair, in_=area))) == set(everyone)
        assert names(asked(nosy, in_=area)) == ["blank", "open"]
        assert names(asked(nosy, near="open")) == ["blank"]
        assert asked(nosy, near="hidden") == asked(nosy, near="nobody") == asked(nosy, near="shy")
        captains = names(asked(nosy, where="rank_of = 'captain'"))
        assert captains == ["open", "placeless", "shy"]
        told = {each["node"]: each for each in asked(nosy)["nodes"]}  # type: ignore[attr-defined]
        assert set(told) == {"blank", "fair", "nosy", "open", "placeless", "shy"}
        assert told["blank"]["context"] == {}
        assert told["placeless"]["position"] is told["shy"]["position"] is None
    finally:
        running.stop()
