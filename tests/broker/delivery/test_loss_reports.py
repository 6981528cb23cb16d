"""Every dropped message is told, summed, also to a client that was away."""

from pathlib import Path

import pytest

from nearcast.broker.config.settings import Limits, Settings
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker

FULL = "messages were dropped on the way to this session: its queue was full"
SETTINGS = Settings(limits=Limits(queued=4))


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_who_was_away_is_told_the_sum_when_it_comes_back(tmp_path: Path, restarts: bool) -> None:
    broker = RunningBroker(SETTINGS, tmp_path)
    reader = Talker(broker, "reader", expiry=600)
    reader.subscribes("news")
    reader.subscribes("$me/errors")
    broker.lose(reader.client)
    publisher = Talker(broker, "publisher")
    for part in range(2):
        for number in range(10):
            publisher.sends("news", b"%d" % (10 * part + number))
        broker.later(60.0)
        sweep(broker)
    if restarts:
        broker.stop()
        broker = RunningBroker(SETTINGS, tmp_path)

    back = Talker(broker, "reader", clean=False, expiry=600)
    found = back.gets()
    assert [message.payload for message in found if message.topic == "news"] == [
        b"16", b"17", b"18", b"19",
    ]  # fmt: skip
    told = [message.payload.decode() for message in found]
    assert [text for text in told if FULL in text] == [
        '{"error":"16 messages were dropped on the way to this session: its queue was full '
        '(limits.queued, limits.queued_bytes)","dropped":16,"priority":1,"reason":"full"}'
    ]
    broker.validate()
    broker.stop()


def sweep(broker: RunningBroker) -> None:
    async def now() -> None:
        broker.server.hub.sweep(broker.server.now())
        broker.server.soon()

    broker.run(now())
