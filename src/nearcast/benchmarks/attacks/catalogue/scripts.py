"""Attacks by scripts."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from nearcast.benchmarks.attacks.catalogue.attack import Attack, message
from nearcast.wire.mqtt import encode

ENDLESS = """
def on_event(event, state):
    for i in range(1000000000):
        pass
"""
RECURSIVE = """
def again(n):
    return again(n + 1)

def on_event(event, state):
    again(0)
"""
MEMORY = """
def on_event(event, state):
    state["all"] = [str(i) * 1000 for i in range(1000000)]
"""
ONE_LARGE_VALUE = """
def on_event(event, state):
    state["all"] = [0] * 100000000
"""
NESTED = """
def on_event(event, state):
    value = []
    for i in range(100000):
        value = [value]
    state["all"] = value
"""
OUTPUT = """
def on_event(event, state):
    for i in range(100):
        publish("attack/output", "x" * 100000)
"""
FORBIDDEN = """
def on_event(event, state):
    publish("$me/position", "0,0")
"""
EVENTS = 3
"""After so many failures a script is stopped."""


class ScriptAttack(Attack):
    """Scripts that are placed, all called at once, and removed."""

    sources: ClassVar[Sequence[str]]
    unit = "scripts placed"
    full, quick = 1_000, 20

    def attack(self, turn: int) -> int:
        """Place the scripts, call them, and remove them."""
        (attacker,) = self.open("attacker")
        payloads = [
            msgspec.json.encode({"action": "add", "source": each, "events": ["attack/scripts"]})
            for each in self.sources
        ]
        topics = [f"$node/attacker/scripts/{number}" for number in range(self.wanted)]
        placed = self.acknowledged(
            attacker,
            [
                message(topic, payloads[number % len(payloads)])
                for number, topic in enumerate(topics)
            ],
        )
        for _ in range(EVENTS):
            attacker.send(encode(message("attack/scripts")))
        self.settle([attacker])
        self.acknowledged(attacker, [message(topic, b"") for topic in topics])
        return placed


class EndlessScripts(ScriptAttack):
    """Scripts that compute without end."""

    name = "endless-scripts"
    describe = "1,000 scripts that never end, called three times"
    sources = (ENDLESS,)


class HostileScripts(ScriptAttack):
    """Scripts that try all that must be stopped."""

    name = "hostile-scripts"
    describe = (
        "1,000 scripts, called three times: endless, recursive, bombs of memory, deep values, huge "
        "output, forbidden topics"
    )
    sources = (ENDLESS, RECURSIVE, MEMORY, ONE_LARGE_VALUE, NESTED, OUTPUT, FORBIDDEN)
