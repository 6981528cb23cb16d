"""Attacks by sheer numbers of packets."""

from nearcast.benchmarks.attacks.attack import PING, Attack

PING_ANSWER_BYTES = 2
PINGS_IN_PIECE = 1 << 15


class PingAttack(Attack):
    """PINGREQ packets without a pause."""

    unit = "pings answered"
    on_mosquitto = True
    clients: int

    def attack(self, turn: int) -> int:
        """Send all, and count the bytes of the answers."""
        attackers = self.open(*(f"attacker-{number}" for number in range(self.clients)))
        each = self.wanted // self.clients
        before = {attacker: attacker.received_bytes for attacker in attackers}
        for attacker in attackers:
            attacker.decodes = False
            whole, rest = divmod(each, PINGS_IN_PIECE)
            attacker.send(*[PING * PINGS_IN_PIECE] * whole, PING * rest)

        def answers() -> list[int]:
            return [(at.received_bytes - before[at]) // PING_ANSWER_BYTES for at in attackers]

        self.drive(attackers, lambda: min(answers()) >= each)
        return sum(answers())


class FewPings(PingAttack):
    """One client."""

    name = "ping-1m"
    describe = "1,000,000 PINGREQ from one client"
    full, quick, clients = 1_000_000, 50_000, 1


class ManyPings(PingAttack):
    """Four clients."""

    name = "ping-12m"
    describe = "12,000,000 PINGREQ from four clients"
    full, quick, clients = 12_000_000, 200_000, 4
