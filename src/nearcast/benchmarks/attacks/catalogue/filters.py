"""Attacks by filters that cost much to evaluate."""

import msgspec

from nearcast.benchmarks.attacks.catalogue.attack import Attack, message
from nearcast.wire.mqtt import Publish, encode

PATTERNS = 70
TEXTS = 4
TEXT_BYTES = 16_000
"""All texts of an event are 64 KB: larger payloads have no attributes."""
COUNTS = 100


def pattern_filter() -> str:
    """A filter with 70 comparisons, none of which holds for the texts below."""
    return " OR ".join(
        f"CASEI(ACCENTI(text{number % TEXTS})) LIKE CASEI(ACCENTI('%é_{number}_ü%'))"
        for number in range(PATTERNS)
    )


class PatternAttack(Attack):
    """Subscriptions with many patterns, and long texts for them."""

    unit = "events acknowledged"
    subscriptions: int

    def attack(self, turn: int) -> int:
        """Subscribe, and publish."""
        (attacker,) = self.open("attacker")
        for number in range(self.subscriptions):
            self.subscribe([attacker], f"attack/{'+/' * number}#", where=pattern_filter())
        return self.acknowledged(
            attacker, [self._event(turn * self.wanted + number) for number in range(self.wanted)]
        )

    def _event(self, number: int) -> Publish:
        """An event whose texts no other has, so that nothing is known of them."""
        text = f"{number}" + "é" * (TEXT_BYTES // 2)
        texts = {f"text{part}": f"{part}{text}" for part in range(TEXTS)}
        return message("attack" + "/a" * self.subscriptions, msgspec.json.encode(texts))


class FewPatterns(PatternAttack):
    """One subscription."""

    name = "like-1x10"
    describe = "1 subscription of 70 × ACCENTI/CASEI LIKE, 10 events of 64 KB"
    full, quick, subscriptions = 10, 3, 1


class ManyPatterns(PatternAttack):
    """Ten subscriptions."""

    name = "like-10x3"
    describe = "10 subscriptions of 70 × ACCENTI/CASEI LIKE, 3 events of 64 KB"
    full, quick, subscriptions = 3, 1, 10


class CountAttack(Attack):
    """Subscriptions that count recent events, each by a filter of its own."""

    unit = "events acknowledged"

    def attack(self, turn: int) -> int:
        """Subscribe, and publish."""
        (attacker,) = self.open("attacker")
        # Who has no position has no events round it, and nothing to count.
        attacker.send(encode(message("$me/position", b"48.2,16.37")))
        for number in range(COUNTS):
            where = f"count('attack/#', 'level > {number}', 5000) > 1000000"
            subject = f"$me/subscriptions/s{number}"
            wanted = msgspec.json.encode({"subject": "attack/#", "where": where})
            attacker.send(encode(message(subject, wanted)))
        self.settle([attacker])
        return self.acknowledged(attacker, [self._event(n) for n in range(self.wanted)])

    def _event(self, number: int) -> Publish:
        return message("attack/count", b'{"level":%d}' % (number % 200), at="48.2,16.37")


class FewCounts(CountAttack):
    """Two hundred events."""

    name = "count-200"
    describe = "100 count() subscriptions, 200 events"
    full, quick = 200, 20


class ManyCounts(CountAttack):
    """Five thousand events."""

    name = "count-5000"
    describe = "100 count() subscriptions, 5,000 events"
    full, quick = 5_000, 50
