"""What was said, wished and promised in a run, and whether everyone got what they should."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa
from msgspec import Struct

from nearcast.core.model.subject import subject_matches
from nearcast.testing import Receipt, VirtualClient
from nearcast.wire.mqtt import Publish, parse_filter


class Said(Struct, eq=False):
    """A message that a client was asked to publish."""

    publisher: str
    number: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    at: float
    receipt: Receipt

    @property
    def promised(self) -> bool:
        return self.qos > 0 and self.receipt.done

    def __str__(self) -> str:
        return f"{self.payload[:12]!r} to {self.topic} (QoS {self.qos})"


class Wish(Struct, eq=False):
    """A subscription from when it was asked for."""

    client: str
    filter: str
    qos: int
    receipt: Receipt
    ends_at: float = float("inf")

    @property
    def pattern(self) -> str:
        return parse_filter(self.filter).pattern

    @property
    def shared(self) -> bool:
        return parse_filter(self.filter).group is not None

    def wants(self, said: Said) -> bool:
        return subject_matches(self.pattern, said.topic)

    def holds_for(self, said: Said) -> bool:
        """Whether it was in force from before a message was said until after its promise."""
        since, until = self.receipt.answered_at, said.receipt.answered_at
        return (
            self.receipt.done
            and since is not None
            and until is not None
            and since <= said.at
            and until < self.ends_at
            and self.wants(said)
        )


class Truth:
    """The ledger of a run."""

    def __init__(self) -> None:
        self.said: dict[bytes, Said] = {}
        self.wishes: list[Wish] = []
        self.lasting: set[str] = set()
        """Clients whose sessions outlive their connections."""
        self.forgetful: set[str] = set()
        """Clients that lost their own state at some time."""
        self.wills: dict[bytes, str] = {}
        """What was left as a will, and its topic."""
        self.cleared: set[str] = set()
        """Topics whose retained message somebody took away; that says nothing to tell it by."""
        self.unrecorded: set[str] = set()
        """Topics that are kept out of the log."""
        self.retained: dict[str, list[Said]] = defaultdict(list)

    def say(self, said: Said) -> None:
        """Note a message that somebody publishes."""
        if said.payload:
            self.said[said.payload] = said
        else:
            self.cleared.add(said.topic)
        if said.retain:
            self.retained[said.topic].append(said)

    # What must be

    def check_deliveries(self, clients: dict[str, VirtualClient], rows: Counter[bytes]) -> None:
        for name, client in clients.items():
            came = [each for each in client.messages if not each.retain]
            self._check_known(name, client.messages)
            self._check_complete(name, came)
            self._check_once(name, came)
            self._check_order(name, came, rows)
        self._check_groups(clients)

    def check_received(self, clients: dict[str, VirtualClient]) -> None:
        """What must be also if the log has lost rows."""
        for name, client in clients.items():
            came = [each for each in client.messages if not each.retain]
            self._check_complete(name, came)
            self._check_once(name, came)

    def check_known(self, clients: dict[str, VirtualClient]) -> None:
        """Nothing comes that nobody said, whatever was lost."""
        for name, client in clients.items():
            self._check_known(name, client.messages)

    def _check_known(self, name: str, messages: Iterable[Publish]) -> None:
        """Nothing comes that nobody said or that was not wished for."""
        wishes = [wish for wish in self.wishes if wish.client == name]
        for message in messages:
            topic = self.wills.get(message.payload)
            if topic is not None:
                assert message.topic == topic
                continue
            if not message.payload and message.topic in self.cleared:
                continue
            said = self.said.get(message.payload)
            assert said is not None, f"{name} got {message}, which nobody said"
            granted = [wish.qos for wish in wishes if wish.wants(said)]
            assert message.topic == said.topic, f"{name} got {said} on {message.topic}"
            assert granted, f"{name} got {said} and did not wish for it"
            assert message.qos <= min(said.qos, max(granted)), f"{name} got {said} as {message}"
            assert said.retain or not message.retain, f"{name} got {said} as retained"

    def _check_complete(self, name: str, came: list[Publish]) -> None:
        """A lasting session gets all that was promised while it was subscribed."""
        if name not in self.lasting:
            return
        got = {each.payload for each in came}
        for said in self.said.values():
            if self._owed(name, said):
                assert said.payload in got, f"{name} never got {said}"

    def _check_once(self, name: str, came: list[Publish]) -> None:
        counts = Counter(each.payload for each in came)
        at_two = {each.payload for each in came if each.qos == 2}
        for payload, count in counts.items():
            said = self.said.get(payload)
            if said is None or count == 1:
                continue
            assert said.qos, f"{name} got {said} {count} times"
            exact = payload in at_two and self._exact(said) and name not in self.forgetful
            assert not exact, f"{name} got {said} {count} times"

    def _check_order(self, name: str, came: list[Publish], rows: Counter[bytes]) -> None:
        """First deliveries are in the order in which they were said."""
        last: dict[tuple[str, str, int, int], Said] = {}
        for payload, message in _firsts(came):
            said = self.said.get(payload)
            if said is None:
                continue
            # One that was said again to the broker may come late to one who came late.
            if not self._owed(name, said) and self._was_repeated(said, rows):
                continue
            key = (said.publisher, said.topic, said.qos, message.qos)
            before = last.get(key)
            assert before is None or before.number < said.number, (
                f"{name} got {said} after {before}"
            )
            last[key] = said

    def _check_groups(self, clients: dict[str, VirtualClient]) -> None:
        """Of a group somebody gets each message, and of QoS 2 only one."""
        groups: dict[str, list[Wish]] = defaultdict(list)
        for wish in self.wishes:
            if wish.shared:
                groups[wish.filter].append(wish)
        for members in groups.values():
            names = {wish.client for wish in members}
            counts = Counter(
                each.payload for name in names for each in clients[name].messages if not each.retain
            )
            for said in self.said.values():
                if not said.promised or not any(wish.holds_for(said) for wish in members):
                    continue
                assert counts[said.payload], f"none of {sorted(names)} got {said}"
                exact = self._exact(said) and not names & self.forgetful
                if said.qos == 2 and exact and all(wish.qos == 2 for wish in members):
                    assert counts[said.payload] == 1, f"{sorted(names)} got {said} more than once"

    def check_log(self, rows: Counter[bytes], clients: dict[str, VirtualClient]) -> None:
        """The log has all that was promised, as often as it was sent at most."""
        for said in self.said.values():
            count = rows[said.payload]
            if said.topic in self.unrecorded:
                assert not count, f"{said} is in the log"
            elif said.promised:
                assert count, f"{said} is not in the log"
            if said.qos == 0 or (said.qos == 2 and self._exact(said)):
                assert count <= 1, f"{said} is {count} times in the log"
            elif said.promised and said.receipt.answered_at is not None:
                times = clients[said.publisher].connected_at
                again = sum(said.at <= at <= said.receipt.answered_at for at in times)
                assert count <= 1 + again, f"{said} is {count} times in the log"

    def check_retained(self, late: VirtualClient) -> None:
        """Who comes late gets the last one that was promised, or one said after it."""
        got: dict[str, bytes] = {}
        for message in late.messages:
            if message.topic.startswith("state/"):
                assert message.retain
                assert message.topic not in got, f"{message.topic} came twice"
                got[message.topic] = message.payload
        assert got.keys() <= self.retained.keys()
        for topic, history in self.retained.items():
            promised = [index for index, said in enumerate(history) if said.promised]
            allowed = {said.payload for said in history[promised[-1] if promised else 0 :]}
            if not promised:
                allowed.add(b"")
            found = got.get(topic, b"")
            assert found in allowed, f"{topic} is {found[:12]!r}, not one of {allowed}"

    # What follows from it

    def _exact(self, said: Said) -> bool:
        """Whether a message of QoS 2 reaches the broker once: its publisher remembers."""
        return said.publisher in self.lasting and said.publisher not in self.forgetful

    def _was_repeated(self, said: Said, rows: Counter[bytes]) -> bool:
        return rows[said.payload] > 1 or (said.qos > 0 and said.topic in self.unrecorded)

    def _owed(self, name: str, said: Said) -> bool:
        return (
            said.promised
            and name in self.lasting
            and any(
                wish.qos and wish.holds_for(said)
                for wish in self.wishes
                if wish.client == name and not wish.shared
            )
        )


def _firsts(came: Iterable[Publish]) -> Iterator[tuple[bytes, Publish]]:
    seen: set[bytes] = set()
    for message in came:
        if message.payload not in seen:
            seen.add(message.payload)
            yield message.payload, message


def event_payloads(batches: Iterable[object], last_seq: int) -> Counter[bytes]:
    """Count the payloads of a log, whose numbers must be whole."""
    expected = 1
    counts: Counter[bytes] = Counter()
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch), f"something is missing: {batch}"
        for seq, kind, payload in zip(
            *(batch.column(name).to_pylist() for name in ("seq", "kind", "payload")), strict=True
        ):
            assert seq == expected
            expected += 1
            if kind == "event":
                counts[payload or b""] += 1
    assert expected == last_seq + 1
    return counts
