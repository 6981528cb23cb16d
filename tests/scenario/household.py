"""A run of some seconds: clients of all kinds talk, things go wrong, and in the end all is well.

Who takes part, what they say and wish, and what goes wrong follow from the seed of the world.
"""

from nearcast.broker.config.settings import Limits, RecordSection, Settings
from nearcast.testing import (
    ALL_KINDS,
    ClientOptions,
    DiskQuality,
    FaultKind,
    LinkQuality,
    VirtualBroker,
    VirtualClient,
    World,
    plan_faults,
)
from nearcast.wire.mqtt import NO_PROPERTIES, Properties, Will
from tests.scenario.truth import Said, Truth, Wish, event_payloads

TROUBLE_S = 12.0
"""So long things go wrong; then everyone may come back."""
GROUP = "$share/team/jobs/#"
FILTERS = ("news/#", "news/a", "+/b", "#", "state/#", "jobs/a")
TOPICS = ("news/a", "news/b", "jobs/a", "jobs/b")
KINDS = {
    **ALL_KINDS,
    FaultKind.CLIENT_AMNESIA: 0.5,
    FaultKind.BROKER_CRASH: 2.5,
    FaultKind.POWER_CUT: 2.5,
}


class Household:
    """The people of one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.clock.chance("household")
        self.truth = Truth()
        self.broker = self._start_broker()
        self.people: dict[str, VirtualClient] = {}
        self.state_qos: dict[str, int] = {}
        self.ghost: VirtualClient | None = None
        self.count = 0

    # Before

    def _start_broker(self) -> VirtualBroker:
        chance = self.chance
        limits = Limits(
            unsent_bytes=chance.choice((400, 1 << 20)),
            in_flight=chance.choice((1, 3, 1_000)),
            receive_maximum=chance.choice((1, 2, 1_000)),
            stalled_s=4.0,
            connect_within_s=3.0,
            topic_aliases=chance.choice((0, 2, 64)),
        )
        self.world.network.set_usual(
            LinkQuality(
                most_delay_s=chance.choice((0.002, 0.02, 0.3)),
                pieces=chance.choice((0.0, 0.3, 0.8)),
                held_bytes=chance.choice((200, 64 << 10)),
            )
        )
        disk = DiskQuality(most_commit_s=chance.choice((0.002, 0.03, 0.3)), roll_s=4.0)
        if chance.random() < 0.2:
            self.truth.unrecorded.add("jobs/a")
        record = RecordSection(exclude=tuple(self.truth.unrecorded))
        return self.world.broker(disk=disk, settings=Settings(limits=limits, record=record))

    def gather(self) -> None:
        """Let people come in, and wish for something."""
        chance = self.chance
        self._join("ann", lasting=True)
        self._join("bob", lasting=chance.random() < 0.7)
        if chance.random() < 0.5:
            self._join("cat", lasting=False)
        for name in ("ann", "bob", "cat"):
            if name in self.people:
                for topic_filter in chance.sample(FILTERS, chance.randint(1, 2)):
                    self.wish(name, topic_filter, chance.randint(0, 2))
        if chance.random() < 0.5:
            qos = chance.randint(1, 2)
            for name in ("dan", "eve"):
                self._join(name, lasting=True)
                self.wish(name, GROUP, qos)
        if chance.random() < 0.4:
            self.wish("ann", "will/#", chance.randint(1, 2))
            will = Will("will/fay", b"fay is gone", chance.randint(1, 2))
            self.truth.wills[will.payload] = will.topic
            self.ghost = self._join("fay", lasting=chance.random() < 0.5, will=will)

    def _join(self, name: str, *, lasting: bool, will: Will | None = None) -> VirtualClient:
        chance = self.chance
        version = chance.choice((4, 5))
        options = ClientOptions(
            version=version,
            clean_start=not lasting if version == 4 else False,
            session_expiry_s=3_600 if lasting and version == 5 else 0,
            keep_alive_s=chance.choice((3, 5)),
            answer_within_s=2.0,
            will=will,
            receive_maximum=chance.choice((1, 3, 1_000)),
            topic_alias_maximum=chance.choice((0, 1, 64)),
        )
        if lasting:
            self.truth.lasting.add(name)
        self.state_qos[name] = chance.randint(1, 2)
        self.people[name] = self.world.client(name, options)
        return self.people[name]

    def wish(self, name: str, topic_filter: str, qos: int) -> Wish:
        receipt = self.people[name].subscribe(topic_filter, qos=qos)
        wish = Wish(name, topic_filter, qos, receipt)
        self.truth.wishes.append(wish)
        return wish

    # Meanwhile

    def plan(self) -> None:
        """Decide what everyone will say and when, and what will go wrong."""
        chance, clock = self.chance, self.world.clock
        for name in self.people:
            for number in range(chance.randint(3, 9)):
                at_s = chance.uniform(0.2, TROUBLE_S)
                clock.after(at_s, lambda name=name: self._say(name))  # type: ignore[misc]
                if number == 0 and chance.random() < 0.3:
                    clock.after(at_s, lambda name=name: self._change_mind(name))  # type: ignore[misc]
        faults = plan_faults(
            self.world.seed,
            list(self.people),
            from_s=0.5,
            until_s=TROUBLE_S,
            count=chance.randint(2, 7),
            kinds=KINDS,
        )
        self.world.inflict(faults)
        self.truth.forgetful |= {f.host for f in faults if f.kind is FaultKind.CLIENT_AMNESIA}
        if self.ghost is not None:
            clock.after(chance.uniform(4.0, TROUBLE_S), self.ghost.vanish)

    def _say(self, name: str) -> None:
        """Say one thing, or a few at once."""
        client, chance = self.people[name], self.chance
        if not client.is_wanted:
            return
        for _ in range(chance.choice((1, 1, 1, 4))):
            self.count += 1
            number = self.count
            retain = chance.random() < 0.2
            topic = f"state/{name}" if retain else chance.choice(TOPICS)
            qos = self.state_qos[name] if retain else chance.randint(0, 2)
            payload = f"{name}-{number}-".encode() + bytes(chance.choice((0, 0, 100)))
            if retain and chance.random() < 0.2:
                payload = b""
            properties = NO_PROPERTIES
            if client.options.version == 5 and chance.random() < 0.3:
                properties = chance.choice(
                    (
                        Properties(message_expiry_interval=3_600),
                        Properties(user_properties=(("a", "1"), ("a", "2"))),
                    )
                )
            now = self.world.clock.now()
            receipt = client.publish(topic, payload, qos=qos, retain=retain, properties=properties)
            self.truth.say(Said(name, number, topic, payload, qos, retain, now, receipt))

    def _change_mind(self, name: str) -> None:
        """Stop wishing for something, and wish for something else."""
        client, chance = self.people[name], self.chance
        mine = [w for w in self.truth.wishes if w.client == name and not w.shared]
        if not client.is_wanted or not mine or name == "ann":
            return
        wish = chance.choice(mine)
        wish.ends_at = min(wish.ends_at, self.world.clock.now())
        client.unsubscribe(wish.filter)
        other = chance.choice([each for each in FILTERS if each != wish.filter])
        if all(each.filter != other for each in mine):
            self.wish(name, other, chance.randint(0, 2))

    # After

    def finish(self) -> None:
        """Wait until all is quiet, let somebody come late, and compare with the truth."""
        world = self.world
        world.run(TROUBLE_S + 1.0)
        world.settle()
        late = world.client("zoe", ClientOptions(clean_start=True))
        wanted = late.subscribe("state/#", qos=1)
        world.run_until(lambda: wanted.done)
        world.settle()
        world.run(1.0)
        self.check(late)
        if self.chance.random() < 0.25:
            self._check_nothing_comes_twice()

    def check(self, late: VirtualClient) -> None:
        disk = self.broker.disk
        disk.flush()
        rows = event_payloads(disk.store.log.read(), disk.store.seq)
        self.truth.check_log(rows, self.people)
        self.truth.check_deliveries(self.people, rows)
        self.truth.check_retained(late)
        self._check_will()

    def _check_will(self) -> None:
        if self.ghost is None or not self.ghost.connected_at:
            return
        heard = next(w for w in self.truth.wishes if w.filter == "will/#").receipt.answered_at
        if heard is not None and heard < self.ghost.connected_at[-1]:
            assert b"fay is gone" in self.people["ann"].payloads(), "nobody was told of the end"

    def _check_nothing_comes_twice(self) -> None:
        """What was acknowledged is not sent again by a broker that begins anew."""
        before = {name: len(client.messages) for name, client in self.people.items()}
        self.broker.restart()
        self.world.run(1.0)
        self.world.settle()
        for name, client in self.people.items():
            later = client.messages[before[name] :]
            again = [m for m in later if not m.retain and m.payload not in self.truth.wills]
            assert not again, f"{name} got {again} again"


def household(world: World) -> None:
    """Run it."""
    people = Household(world)
    people.gather()
    people.plan()
    people.finish()
