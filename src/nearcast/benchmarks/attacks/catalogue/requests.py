"""Attacks by HTTP."""

import http.client
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from nearcast.benchmarks.attacks.catalogue.attack import Attack, message
from nearcast.wire.mqtt import encode

LOGGED_EVENTS = 100_000
ROLLED_S = 2.0
"""Until all events are in a segment of the log."""
IDLE_SOCKETS = 1_000
ASKED = 10


class Explanations(Attack):
    """Many explanations at once, each of which plays the log again."""

    name = "explain-12"
    describe = "12 GET /api/explain over 100,000 rows"
    unit = "requests answered"
    full, quick = 12, 2

    def prepare(self) -> None:
        """Fill the log."""
        (publisher,) = self.open("attacker")
        self.require(self.acknowledged(publisher, [message("attack/log", id="first")]) == 1)
        for number in range(self.site.size(LOGGED_EVENTS, 1_000)):
            event = message("attack/log", b'{"number":%d}' % number, at="48.2,16.37")
            publisher.send(encode(event))
        self.require(self.settle([publisher]))
        self.require(self.acknowledged(publisher, [message("attack/log", id="last")]) == 1)
        time.sleep(ROLLED_S)

    def attack(self, turn: int) -> int:
        """Ask all at once."""
        with ThreadPoolExecutor(self.wanted) as pool:
            answers = Counter(pool.map(self._ask, range(self.wanted)))
        self.note = statuses(answers)
        return sum(count for status, count in answers.items() if status)

    def _ask(self, number: int) -> int:
        """Return the status of an answer; 0 for none."""
        return requested(self.site.http_port, "/api/explain/last/attacker", self.site.source,
                         self.site.within_s)[0]  # fmt: skip


class IdleSockets(Attack):
    """Sockets on the HTTP port that never finish a request, and then somebody asks for health."""

    name = "slowloris"
    describe = "1,000 idle sockets on the HTTP port, then 10 GET /healthz"
    unit = "health answered"
    full, quick = ASKED, ASKED

    def attack(self, turn: int) -> int:
        """Open the sockets, and ask from another address."""
        idle: list[socket.socket] = []
        try:
            for _ in range(self.site.size(IDLE_SOCKETS, 50)):
                to = ("127.0.0.1", self.site.http_port)
                idle.append(socket.create_connection(to, 1.0, (self.site.source, 0)))
                idle[-1].sendall(b"GET /api HTTP/1.1\r\nHost: localhost\r\n")
        except OSError as error:
            self.note = f"{len(idle)} sockets, then {error}; "
        else:
            self.note = ""
        asked = [requested(self.site.http_port, "/healthz", "127.0.0.1", 5.0) for _ in range(ASKED)]
        slowest_ms = 1e3 * max(took for _, took in asked)
        answers = Counter(status for status, _ in asked)
        self.note += f"{statuses(answers)}, slowest {slowest_ms:,.0f} ms"
        for each in idle:
            each.close()
        return sum(status == http.client.OK for status, _ in asked)


def statuses(answers: Counter[int]) -> str:
    """How many answers of each status there were; 0 is none."""
    return ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))


def requested(port: int, path: str, source: str, within_s: float) -> tuple[int, float]:
    """GET a path; return the status, or 0 if there was no answer in time, and the seconds."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, within_s, (source, 0))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        status = answer.status
    except (OSError, http.client.HTTPException):
        status = 0
    finally:
        connection.close()
    return status, time.monotonic() - began
