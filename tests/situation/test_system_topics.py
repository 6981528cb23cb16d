"""`$SYS/broker/…`: the figures that monitoring tools read, for those who ask for them."""

from pathlib import Path

import pytest

from nearcast.broker.config.settings import AuthSection as DoorsSection
from nearcast.broker.config.settings import Settings
from nearcast.wire.mqtt import ReasonCode
from tests.support.clients.talker import VERSIONS, Talker, told
from tests.support.running_broker import RunningBroker

TOPICS = {
    "version", "uptime", "clients/total", "clients/connected", "clients/disconnected",
    "clients/maximum", "subscriptions/count", "messages/received", "messages/sent",
    "publish/messages/received", "publish/messages/sent", "publish/messages/dropped",
    "bytes/received", "bytes/sent", "retained messages/count",
}  # fmt: skip


def figures(reader: Talker) -> dict[str, str]:
    got = [each for each in reader.gets() if each.topic.startswith("$SYS/")]
    return {each.topic.removeprefix("$SYS/broker/"): each.payload.decode() for each in got}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_reader_has_all_figures_at_once(broker: RunningBroker, version: int) -> None:
    reader = Talker(broker, version=version)
    assert reader.subscribes("$SYS/#") == (ReasonCode.GRANTED_QOS_1,)
    messages = reader.gets()
    assert all(each.retain for each in messages)
    found = {each.topic.removeprefix("$SYS/broker/"): each.payload.decode() for each in messages}
    assert set(found) == TOPICS
    assert found["version"].startswith("nearcast version ")
    assert found["uptime"].endswith(" seconds")
    for name in TOPICS - {"version", "uptime"}:
        assert int(found[name]) >= 0, name


def test_figures_follow_what_happens_every_ten_seconds(broker: RunningBroker) -> None:
    reader, other = Talker(broker), Talker(broker)
    reader.subscribes("$SYS/broker/#")
    before = figures(reader)
    for _ in range(5):
        other.says("some/topic", b"12345")
    other.says("kept/here", b"x", retain=True)
    assert figures(reader) == {}
    broker.later(10.0)
    after = figures(reader)
    assert set(after) == TOPICS

    def grown(name: str) -> int:
        return int(after[name]) - int(before[name])

    assert grown("publish/messages/received") == 6
    assert grown("retained messages/count") == 1
    assert grown("publish/messages/sent") >= len(TOPICS)
    assert grown("messages/received") >= 6
    assert grown("messages/sent") >= 6
    assert grown("bytes/received") > 6 * 5
    assert grown("bytes/sent") > 0
    assert int(after["clients/connected"]) >= 2
    assert int(after["clients/maximum"]) >= int(after["clients/connected"])
    other.says("kept/here", b"", retain=True)


def test_wildcards_at_the_start_do_not_match_them(broker: RunningBroker) -> None:
    reader = Talker(broker)
    reader.subscribes("#", "+/broker/uptime")
    assert figures(reader) == {}
    broker.later(10.0)
    assert figures(reader) == {}


def test_a_filter_and_metadata_work_as_for_any_topic(broker: RunningBroker) -> None:
    reader = Talker(broker)
    reader.wants("$SYS/broker/clients/+", where="value >= 1")
    got = reader.gets()
    assert {each.topic for each in got} >= {"$SYS/broker/clients/connected"}
    assert all(int(each.payload) >= 1 for each in got)
    assert "nc-publisher" not in told(got[0])


def test_nobody_publishes_to_them(broker: RunningBroker) -> None:
    assert Talker(broker).sends("$SYS/broker/uptime", b"0") is ReasonCode.NOT_AUTHORIZED


def test_only_those_read_them_whom_rules_let(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\npermission = "deny"\nwho = "node:nosy"\naction = "subscribe"\n'
        'topics = ["$SYS/#"]\n'
    )
    running = RunningBroker(Settings(doors=DoorsSection(rules=str(rules))), tmp_path / "data")
    try:
        nosy, other = Talker(running, "nosy"), Talker(running, "other")
        assert nosy.subscribes("$SYS/broker/#") == (ReasonCode.NOT_AUTHORIZED,)
        assert other.subscribes("$SYS/broker/#") == (ReasonCode.GRANTED_QOS_1,)
        assert figures(nosy) == {}
        assert set(figures(other)) == TOPICS
    finally:
        running.stop()


def test_a_reader_goes_on_after_a_restart_and_no_log_has_them(tmp_path: Path) -> None:
    running = RunningBroker(data=tmp_path)
    reader = Talker(running, "watch", expiry=1_000)
    reader.subscribes("$SYS/broker/uptime")
    assert set(figures(reader)) == {"uptime"}
    running.later(10.0)
    assert set(figures(reader)) == {"uptime"}
    running.stop()
    again = RunningBroker(data=tmp_path)
    try:
        reader = Talker(again, "watch", clean=False, expiry=1_000)
        reader.gets()
        again.later(10.0)
        assert set(figures(reader)) == {"uptime"}
    finally:
        again.stop()
    segments = [path.read_bytes() for path in (tmp_path / "brokers/local/log").glob("*.parquet")]
    assert segments
    assert not any(b" seconds" in each for each in segments)
