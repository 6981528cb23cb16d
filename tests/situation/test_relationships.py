"""Relationships tell when nodes come near each other, and when they part."""

import json

import pytest

from nearcast.wire.mqtt import ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, at
from tests.support.running_broker import RunningBroker

BAD, BAD_JSON = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, ReasonCode.PAYLOAD_FORMAT_INVALID


class Group:
    """Members, who defines a relationship between them, and who reads of it."""

    def __init__(self, broker: RunningBroker, count: int = 2, version: int = 5) -> None:
        self.name = fresh("convoy")
        self.topic = f"$relate/{self.name}"
        self.definer, self.reader = Talker(broker, version=version), Talker(broker, version=version)
        self.members = [Talker(broker) for _ in range(count)]
        self.nodes = [each.node for each in self.members]

    def stand(self, *metres: float) -> None:
        for member, each in zip(self.members, metres, strict=True):
            member.moves(*at(each))

    def define(self, **said: object) -> ReasonCode:
        wanted = {"members": self.nodes, **said}
        return self.definer.sends(self.topic, json.dumps(wanted).encode())

    def end(self) -> ReasonCode:
        return self.definer.sends(self.topic)

    def read(self) -> None:
        assert self.reader.subscribes(self.topic)[0] < 0x80

    def told(self) -> list[dict[str, object]]:
        return [json.loads(message.payload) for message in self.reader.gets()]

    def states(self) -> list[object]:
        return [each["state"] for each in self.told()]


@pytest.mark.parametrize("version", VERSIONS)
def test_near_and_apart_alternate_and_tell_members_distance_and_time(
    broker: RunningBroker, version: int
) -> None:
    group = Group(broker, version=version)
    group.stand(0, 500)
    assert group.define(within=100) == ReasonCode.SUCCESS
    group.read()

    (message,) = group.reader.gets()
    assert message.retain
    assert message.topic == group.topic
    first = json.loads(message.payload)
    assert first.keys() == {"state", "members", "distance", "time"}
    assert first["state"] == "apart"
    assert first["members"] == group.nodes
    assert first["distance"] == pytest.approx(500, rel=0.01)

    for metres in (300, 90, 50, 99, 150, 200, 0):
        group.members[1].moves(*at(metres))
    told = group.reader.gets()
    states = [json.loads(message.payload) for message in told]
    assert [(each["state"], round(each["distance"], -1)) for each in states] == [
        ("near", 90), ("apart", 150), ("near", 0),
    ]  # fmt: skip
    assert not any(message.retain for message in told)
