"""Whatever a payload is, it is delivered: it only has no attributes."""

import pytest

from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize(
    "payload",
    [
        b'{"x": 2, "d": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"x": 2, "d": ' + b'{"e": ' * 40 + b"1" + b"}" * 41,
        b'{"x": 2, "n": ' + b"9" * 400 + b"}",
        b'{"x": 2, "n": 1e999}',
        b"[" + b",".join([b"1e9"] * 15_000) + b"]",
        b'"' + b"z" * 65_530 + b'"',
        b"[" * 5_000 + b"]" * 5_000,
        b"[" * 30_000,
        b'{"": 1, "a\\u0000": "\\u0000"}',
        b'{"a": "\\ud800"}',
        b"\xff\xfe",
    ],
    ids=[
        "lists", "objects", "digits", "infinite", "many", "long", "deep", "open", "names",
        "surrogate", "bytes",
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", VERSIONS)
def test_no_payload_is_a_reason_to_refuse_an_event(
    broker: RunningBroker, payload: bytes, version: int
) -> None:
    plain, filtering, publisher = Talker(broker), Talker(broker), Talker(broker, version=version)
    subject = fresh("odd")
    plain.subscribes(f"{subject}/#")
    filtering.wants(f"{subject}/#", where="nothing IS NULL")

    assert not publisher.sends(f"{subject}/1", payload).failed
    assert not publisher.sends(f"{subject}/2", payload, qos=0).failed
    assert not publisher.sends(f"{subject}/3", payload, retain=True).failed
    assert not publisher.says(f"{subject}/4", payload, valid="60", at="1,1").failed

    assert sorted(m.topic[-1] for m in plain.gets() if m.payload == payload) == [*"1234"]
    assert sorted(m.topic[-1] for m in filtering.gets() if m.payload == payload) == [*"1234"]
