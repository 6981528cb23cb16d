"""Attacks by scripts."""

import msgspec

from nearcast.benchmarks.attacks.catalogue.attack import Attack, message
from nearcast.wire.mqtt import encode

ENDLESS = """
def on_event(event, state):
    for i in range(1000000000):
        pass
"""
EVENTS = 3
"""After so many failures a script is stopped."""


class EndlessScripts(Attack):
    """Scripts that compute without end, all called at once."""

    name = "endless-scripts"
    describe = "1,000 scripts that never end, called three times"
    unit = "scripts placed"
    full, quick = 1_000, 20

    def attack(self, turn: int) -> int:
        """Place the scripts, call them, and remove them."""
        (attacker,) = self.open("attacker")
        add = {"action": "add", "source": ENDLESS, "events": ["attack/scripts"]}
        payload = msgspec.json.encode(add)
        topics = [f"$node/attacker/scripts/{number}" for number in range(self.wanted)]
        placed = self.acknowledged(attacker, [message(topic, payload) for topic in topics])
        for _ in range(EVENTS):
            attacker.send(encode(message("attack/scripts")))
        self.settle([attacker])
        self.acknowledged(attacker, [message(topic, b"") for topic in topics])
        return placed
