"""Rows that the pipeline hands over: hostile rows, topics and manifests, staged and released.

What is accepted can be delivered and outlives a crash, and what is refused changes nothing.
"""

from random import Random

import msgspec
from msgspec import Struct

from nearcast.testing import DiskQuality, World
from nearcast.wire.handover import (
    LAST_PART,
    PART,
    WHOLE,
    Abort,
    DeliveryRow,
    EventRow,
    HandedRow,
    Interest,
    Release,
    RowRecipient,
    Staged,
    Tick,
    manifest_bytes,
    packets,
    subjects_bytes,
)
from tests.support.clients.pipeline_client import (
    LASTING,
    PIPELINE,
    event,
    release,
    stage,
    to,
)
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import HOSTILE_TEXTS, mutated_bytes, mutated_text


class Handed(Struct, frozen=True, array_like=True):
    """One message of the pipeline."""

    topic: str
    payload: bytes
    qos: int = 1


def _undying(expires: float) -> DeliveryRow:
    return DeliveryRow("id", "spots/park", b"x", "ann", 1.5, (to("ann", "#"),), expires=expires)


_STAGED = Staged("q", 0, 0, "a", 0).topic
_ROWS = b"".join(packets([event("one")], 4_096))
EXAMPLES = {
    "a question of QoS 2": (Handed(Interest().topic, subjects_bytes(["a"]), 2),),
    "text that is not UTF-8": (Handed(_STAGED, _ROWS.replace(b"spots", b"\xffpots")),),
    "a manifest that is not UTF-8": (Handed(Release("q", 0).topic, b"\x91\x93\0\xa1\xff\1"),),
    "subjects that are not UTF-8": (Handed(Interest().topic, b"\x91\xa1\xff"),),
    "a last part without the parts before": (
        Handed(_STAGED, LAST_PART + b"\xc1"),
        Handed(Release("q", 0).topic, manifest_bytes([(0, "a", 1)])),
    ),
    "fewer packets released than staged": (
        Handed(_STAGED, _ROWS),
        Handed(Release("q", 0).topic, manifest_bytes([(0, "a", 0)])),
    ),
    "a row that expires at no time": (
        Handed(_STAGED, b"".join(packets([_undying(float("nan"))], 4_096))),
        Handed(Release("q", 0).topic, manifest_bytes([(0, "a", 1)])),
    ),
    "an attempt that is named twice": (
        Handed(_STAGED, _ROWS),
        Handed(Release("q", 0).topic, manifest_bytes([(0, "a", 1), (0, "a", 1)])),
    ),
}


class HandoverTarget(FuzzTarget[tuple[Handed, ...]]):
    """Messages of the pipeline to a broker with a subscriber, in virtual time."""

    name = "handover"
    suite_cases = 120
    examples = EXAMPLES

    def generate(self, random: Random) -> tuple[Handed, ...]:
        messages = []
        for epoch in range(random.choice((1, 2))):
            count = random.randint(1, 4)
            for number in range(count):
                data = b"".join(packets([_row(random) for _ in range(random.randint(1, 3))], 4_096))
                if random.random() < 0.2:
                    mark = random.choice((WHOLE, PART, LAST_PART, b"\3", b""))
                    data = mark + mutated_bytes(random, data[1:])
                messages.append(Handed(Staged("q", epoch, 0, "a", number).topic, data))
            manifest = [(0, "a", random.choice((count, count, count + 1, 0, 10**6)))]
            messages.append(Handed(Release("q", epoch).topic, manifest_bytes(manifest)))
        for _ in range(random.choice((0, 0, 2))):
            messages.insert(random.randint(0, len(messages)), _other(random))
        return tuple(messages)

    def check(self, case: tuple[Handed, ...]) -> None:
        with World("handover") as world:
            broker = world.broker(disk=DiskQuality())
            subscriber = world.client("ann", LASTING)
            subscriber.subscribe("#", qos=2)
            pipeline = world.client("$pipeline~fuzz", PIPELINE)
            world.settle()
            for each in case:
                receipt = pipeline.publish(each.topic, each.payload, qos=each.qos)
                world.run_until(lambda: pipeline.idle, within_s=10.0)
                assert receipt.answered_at is not None or not each.qos
            world.run(2.0)
            broker.restart()
            world.settle()
            stage(pipeline, [event("last")], query="honest")
            release(pipeline, (0, "a", 1), query="honest")
            world.run_until(lambda: b"last" in subscriber.payloads("spots/park"), within_s=30.0)
            broker.restart()
            world.settle()


def _row(random: Random) -> HandedRow:
    lat, lon = random.choice(((None, None), (53.3, -6.2), (91.0, 0.0), (float("nan"), 1.0)))
    subject = random.choice(("spots/park", "a//b", "#", "$SYS/x", "$node/a/position", *_TEXTS))
    time = random.choice((1.5, 0.0, -1e300, 1e300, float("inf"), float("nan")))
    headers = random.choice((b"", b"", b"\x26\0\1a\0\1b", b"\x02\0\0\0\1", random.randbytes(5)))
    payload = random.choice((b"x", b"", b'{"speed": 60}', b"[" * 1_200, b"\xff"))
    name = random.choice(("id-1", "id-2", *_TEXTS))
    qos = random.randrange(3)
    if random.random() < 0.5:
        valid_s = random.choice((None, None, 60.0, 0.0, -1.0, 1e300, float("inf"), float("nan")))
        target = random.choice(
            (None, "circle:53.3,-6.2,500", "circle:ann,5", "place:x", "bbox:1", "")
        )
        about = random.choice(((), ("ann",), ("", "é")))
        return EventRow(
            name, subject, payload, random.choice(("$pipeline", "ann", "")), time, lat, lon, qos,
            random.random() < 0.3, valid_s, random.choice((None, "o", "")), target, headers, about,
        )  # fmt: skip
    sessions = ("ann", "nobody", "", "é")
    recipients = tuple(
        RowRecipient(session, (f"{session}\0#",), random.choice((1, 5)), random.random() < 0.3)
        for session in random.sample(sessions, random.randint(0, 3))
    )
    expires = random.choice((None, 0.0, 1e300, float("inf"), float("nan")))
    return DeliveryRow(
        name, subject, payload, random.choice(("ann", "")), time, recipients, "", lat, lon,
        random.random() < 0.5, qos, random.random() < 0.3, expires, headers,
    )  # fmt: skip


# What cannot be written as MessagePack was not sent by anybody.
_TEXTS = tuple(text for text in HOSTILE_TEXTS if msgspec.msgpack.encode(text))


def _other(random: Random) -> Handed:
    topic = random.choice(
        (
            Tick().topic,
            Interest().topic,
            Abort("q", 0).topic,
            Release("q", 5).topic,
            Staged("é/#", 10**18 - 1, 0, "a", 0).topic,
            mutated_text(random, Staged("q", 0, 0, "a", 0).topic, ("/", "%", "9" * 30, "-1")),
        )
    )
    payload = random.choice(
        (b"", subjects_bytes(["a", "#", ""]), random.randbytes(20), b"\xdd\xff")
    )
    cleaned = "".join(c for c in topic if c not in "+#\0")[:1_000] or "x"
    return Handed(cleaned, payload, random.choice((0, 1, 2)))
