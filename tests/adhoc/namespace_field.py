"""Nodes in network namespaces on one bridge, moved by saying who hears whom.

Run as `unshare --user --map-root-user --net --mount python -m tests.adhoc.namespace_field`: it
prints one JSON object of what it saw, or what could not be made, and then exits with code 77.
"""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

HERE = Path(__file__).parent
RANGE_M, WITHIN_S = 200.0, 40.0
NAMES = "abcd"
CANNOT = 77


def command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stdout.write(json.dumps({"cannot": f"{' '.join(words)}: {done.stderr.strip()}"}))
        sys.exit(CANNOT)


def set_up() -> None:
    """Make a bridge, and a namespace for each node that is plugged into it."""
    command("mount", "-t", "tmpfs", "none", "/run")
    command("ip", "link", "add", "air", "type", "bridge", "mcast_snooping", "0")
    command("ip", "link", "set", "air", "up")
    for number, name in enumerate(NAMES, 1):
        command("ip", "netns", "add", name)
        command("ip", "link", "add", f"v{name}", "type", "veth", "peer", "wlan", "netns", name)
        command("ip", "link", "set", f"v{name}", "master", "air", "up")
        inside = ("ip", "-n", name)
        command(*inside, "addr", "add", f"10.77.0.{number}/24", "dev", "wlan")
        command(*inside, "link", "set", "wlan", "up")
        command(*inside, "link", "set", "lo", "up")
        command(*inside, "route", "add", "239.0.0.0/8", "dev", "wlan")


class NamespaceNode:
    """A process in a namespace."""

    def __init__(self, name: str) -> None:
        self.address = f"10.77.0.{NAMES.index(name) + 1}"
        self.said: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, str(HERE / "namespace_node.py"), name,
             "wlan"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    def tell(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def events(self) -> list[str]:
        return [each["event"] for each in self.said if "event" in each]

    def ask(self, *words: object) -> dict[str, Any]:
        known = len(self.said)
        self.tell(*words)
        until(lambda: any("event" not in each for each in self.said[known:]))
        return next(each for each in self.said[known:] if "event" not in each)


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError
        time.sleep(0.02)


class Field:
    """The nodes, where they are, and who hears whom."""

    def __init__(self) -> None:
        self.nodes = {name: NamespaceNode(name) for name in NAMES}
        self.at: dict[str, float] = {}
        until(lambda: all(node.said for node in self.nodes.values()))

    def move(self, **at_m: float) -> None:
        self.at |= at_m
        for name, node in self.nodes.items():
            heard = [
                other.address
                for each, other in self.nodes.items()
                if each != name and abs(self.at[each] - self.at[name]) <= RANGE_M
            ]
            node.tell("hears", *heard)
            degrees = self.at[name] / (111_195.0 * math.cos(math.radians(53.35)))
            node.tell("move", 53.35, -6.26 + degrees)

    def discovered(self, name: str) -> int:
        return int(self.nodes[name].ask("counts")["discovered"])

    def sent(self) -> int:
        return sum(int(node.ask("counts")["sent"]) for node in self.nodes.values())

    def beacon_cost(self, area: str) -> float:
        """Announce an area for a while, and return how many messages each beacon took."""
        before = self._beacons()
        self.nodes["a"].tell("announce", area)
        until(lambda: self.discovered("b") == 1)
        time.sleep(0.6)
        self.nodes["a"].tell("unannounce")
        until(lambda: self.discovered("b") == 0)
        time.sleep(0.6)
        after = self._beacons()
        assert after["a"] > before["a"]
        return (sum(after.values()) - sum(before.values())) / (after["a"] - before["a"])

    def _beacons(self) -> dict[str, int]:
        return {name: int(node.ask("counts")["beacons"]) for name, node in self.nodes.items()}

    def raise_at(self, name: str, lane: int) -> str:
        return str(self.nodes[name].ask("raise", lane)["raised"])


def run() -> dict[str, object]:
    """Let four nodes meet, part, meet again, die and be attacked; return what was seen."""
    seen: dict[str, object] = {}
    field = Field()
    nodes = field.nodes
    field.move(a=0, b=150, c=300, d=450)
    for name in "bcd":
        nodes[name].tell("subscribe")
    seen["beacon within range"] = field.beacon_cost("circle:me,200")
    seen["beacon beyond range"] = field.beacon_cost("circle:me,500")
    # Within range of the producer: one message, whoever hears it.
    nodes["a"].tell("announce", "circle:me,200")
    until(lambda: field.discovered("b") == 1)
    before = field.sent()
    near = field.raise_at("a", 1)
    until(lambda: near in nodes["b"].events())
    time.sleep(0.3)
    seen["cost within range"] = field.sent() - before
    seen["beyond the area"] = nodes["c"].events() + nodes["d"].events()
    # Beyond it: every member passes it on once.
    nodes["a"].tell("announce", "circle:me,500")
    until(lambda: all(field.discovered(name) == 1 for name in "bcd"))
    before = field.sent()
    far = field.raise_at("a", 2)
    until(lambda: all(far in nodes[name].events() for name in "bcd"))
    time.sleep(0.3)
    seen["cost beyond range"] = field.sent() - before
    # Out of reach of all: it forgets, and misses; when they meet again, it recovers.
    field.move(d=5_000)
    until(lambda: field.discovered("d") == 0)
    missed = field.raise_at("a", 3)
    until(lambda: all(missed in nodes[name].events() for name in "bc"))
    seen["missed while apart"] = missed not in nodes["d"].events()
    field.move(d=450)
    until(lambda: missed in nodes["d"].events())
    # The one in the middle dies, and its place is taken by somebody who attacks.
    nodes["b"].process.kill()
    nodes["b"].process.wait()
    lost = field.raise_at("a", 4)
    attacker = subprocess.Popen(
        ["ip", "netns", "exec", "b", sys.executable, str(HERE / "namespace_attacker.py"), "wlan",
         group_of(nodes), "6"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert attacker.stdout is not None
    attacker.stdout.readline()
    del nodes["b"]
    field.move(c=180, d=350)
    for node in nodes.values():
        node.tell("hears", *(f"10.77.0.{number}" for number in (1, 2, 3, 4)))
    after = field.raise_at("a", 5)
    until(lambda: all({lost, after} <= set(nodes[name].events()) for name in "cd"))
    attacker.wait()
    last = field.raise_at("a", 6)
    until(lambda: all(last in nodes[name].events() for name in "cd"))
    for count in ("unsealed", "forged"):
        seen[count] = min(int(nodes[name].ask("counts")[count]) for name in "cd")
    seen["events"] = {name: node.events() for name, node in nodes.items()}
    seen["lanes"] = sorted(
        {each["lane"] for node in nodes.values() for each in node.said if "event" in each}
    )
    seen["raised"] = [far, missed, lost, after, last]
    for node in nodes.values():
        node.process.kill()
    return seen


def group_of(nodes: dict[str, NamespaceNode]) -> str:
    """Return the group of the announcement, as any listener finds it out: what `c` joined."""
    joined = subprocess.run(
        ["ip", "-n", "c", "maddress", "show", "dev", "wlan"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (address,) = (
        word
        for line in joined.splitlines()
        for word in line.split()
        if word.startswith("239.") and word != "239.255.110.99"
    )
    return "".join(f"{int(part):02x}" for part in address.split(".")[1:])


if __name__ == "__main__":
    set_up()
    sys.stdout.write(json.dumps(run()))
