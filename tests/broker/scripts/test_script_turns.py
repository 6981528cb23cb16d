"""Who has a thousand scripts waits, and nobody else does: bounds in units of cost, and of ticks."""

import json
from itertools import pairwise

import pytest

from nearcast.broker.config.settings import RecordSection, Settings
from nearcast.broker.engine_driver import MOST_SCRIPT_COPIES
from nearcast.broker.quotas.quota_book import user_name
from nearcast.broker.scheduling.cost_account import DELIVERY, INPUT, PACKET
from nearcast.broker.scripts.script_turns import SCRIPT, SCRIPT_BUDGET, SCRIPT_CALL
from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.store import Enqueued, MessagePut
from nearcast.wire.mqtt import Properties, PubAck, Publish
from tests.broker.hub_world import HubClient, HubWorld
from tests.broker.scripts.inline_executor import InlineExecutor

QUIET = "def on_event(event, state):\n    pass\n"
ECHO = 'def on_event(event, state):\n    publish("echo", event["text"])\n'
MANY = 200
ATTACKER, OTHER = "198.51.100.1", "192.0.2.7"
COMMANDS = SCRIPT_BUDGET / SCRIPT + 1
"""Commands of one tick at most."""


class ScriptWorld(HubWorld):
    """A hub that runs scripts."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.executor = InlineExecutor()
        self.hub.scripts.start(self.executor, lambda: None)

    @property
    def scripts(self) -> int:
        return len(self.hub.scripts.book)

    def changes(self, most: int = 10_000) -> list[int]:
        """Make ticks until nothing waits; return by how many the scripts were more or fewer."""
        found = []
        for _ in range(most):
            before = self.scripts
            self.tick()
            found.append(abs(self.scripts - before))
            if self.hub.next_timer(self.now) != self.now:
                return found
        raise AssertionError("it never ends")


def placed(client: HubClient, *numbers: int, source: str = QUIET) -> None:
    # Without metadata the subject alone decides, so that events take a route, if they may.
    events = [{"subject": "to/scripts", "meta": False}]
    payload = json.dumps({"action": "add", "source": source, "events": events}).encode()
    client.send(*(command(client, number, payload) for number in numbers))
    client.world.settle()


def removed(client: HubClient, *numbers: int) -> None:
    client.send(*(command(client, number, b"") for number in numbers))


def command(client: HubClient, number: int, payload: bytes) -> Publish:
    topic = f"$node/{client.name}/scripts/{number}"
    return Publish(topic, payload, qos=1, packet_id=number + 1)


def answers(client: HubClient) -> list[int]:
    return [each.packet_id for each in client.got if isinstance(each, PubAck)]


def test_a_few_scripts_end_in_a_tick_and_another_client_is_served_in_the_next() -> None:
    world = ScriptWorld()
    attacker, reader = world.client("attacker", ATTACKER), world.client("reader", OTHER)
    reader.subscribe("honest")
    placed(attacker, *range(MANY))
    assert world.scripts == MANY
    removed(attacker, *range(MANY))
    world.tick()
    assert attacker.waits
    reader.publish("honest", [b"one"])
    world.tick()
    assert reader.messages == [b"one"]
    assert attacker.waits
    assert 1 <= max(world.changes()) <= COMMANDS
    assert world.scripts == 0
    assert answers(attacker) == [*range(1, MANY + 1)] * 2


def test_no_tick_costs_more_for_scripts_than_their_budget_and_one_command() -> None:
    world = ScriptWorld()
    attacker = world.client("attacker", ATTACKER)
    placed(attacker, *range(MANY))
    removed(attacker, *range(MANY))
    world.spent.clear()
    world.settle()
    packets = MANY * (PACKET + 1.0)
    assert max(world.spent) <= SCRIPT_BUDGET + SCRIPT + COMMANDS * INPUT + packets


def test_a_client_that_removes_scripts_goes_on_when_its_answers_are_written() -> None:
    world = ScriptWorld()
    attacker = world.client("attacker", ATTACKER)
    placed(attacker, *range(MANY))
    removed(attacker, *range(MANY))
    # Its first turn was on arrival; the disk is slow.
    batch = world.hub.tick(world.now)
    left = world.scripts
    assert MANY - COMMANDS <= left < MANY
    world.settle()
    assert world.scripts == left
    for write in batch.writes:
        world.hub.written(write)
    assert world.hub.next_timer(world.now) == world.now
    world.tick()
    assert world.scripts < left


def test_sources_of_many_clients_come_into_force_a_few_in_a_tick() -> None:
    world = ScriptWorld()
    clients = [world.client(f"client {number}", f"198.51.100.{number}") for number in range(40)]
    payload = json.dumps({"action": "add", "source": QUIET}).encode()
    for client in clients:
        client.send(command(client, 0, payload))
    changes = world.changes()
    assert sum(changes) == len(clients)
    assert max(changes) <= COMMANDS
    assert all(answers(client) == [1] for client in clients)


def test_calls_of_many_scripts_begin_a_few_in_a_tick_and_users_have_turns() -> None:
    world = ScriptWorld()
    attacker, other = world.client("attacker", ATTACKER), world.client("other", OTHER)
    placed(attacker, *range(MANY))
    placed(other, 0, 1)
    other.publish("to/scripts", [b"once"])
    begun = [0]
    while not begun[1:] or begun[-1] != begun[-2]:
        world.tick()
        begun.append(len(world.executor.batches))
    assert begun[-1] == MANY + 2
    steps = [after - before for before, after in pairwise(begun)]
    assert max(steps) <= SCRIPT_BUDGET / SCRIPT_CALL + 1
    first = [each.tenant for each in world.executor.batches][:4]
    owner = world.hub.sessions["other"].owner
    assert first.count(user_name(owner)) == 2


def test_results_are_applied_a_few_in_a_tick_in_the_order_of_the_events() -> None:
    world = ScriptWorld()
    reader, author = world.client("reader", OTHER), world.client("author", ATTACKER)
    reader.subscribe("echo")
    placed(author, 0, source=ECHO)
    texts = [b"text %d" % number for number in range(90)]
    author.publish("to/scripts", texts)
    world.settle()
    world.executor.run()
    came = []
    while world.hub.next_timer(world.now) == world.now:
        before = len(reader.messages)
        world.tick()
        came.append(len(reader.messages) - before)
    assert reader.messages == texts
    assert 1 <= max(came) <= SCRIPT_BUDGET / SCRIPT_CALL + 1


@pytest.mark.parametrize("deliveries", [True, False])
@pytest.mark.parametrize("topic", ["to/scripts", ""])
def test_events_for_many_scripts_are_decided_a_few_at_a_time(deliveries: bool, topic: str) -> None:
    world = ScriptWorld(Settings(record=RecordSection(deliveries=deliveries)))
    attacker, reader = world.client("attacker", ATTACKER), world.client("reader", OTHER)
    reader.subscribe("to/scripts")
    placed(attacker, *range(MANY))
    together = count_together(world)
    alias = Properties(topic_alias=1)
    attacker.send(Publish("to/scripts", b"first").with_(alias))
    attacker.send(*(Publish(topic, b"%d" % n).with_(alias) for n in range(300)))
    ticks = world.settle()
    assert reader.messages == [b"first", *(b"%d" % n for n in range(300))]
    # A run of messages that makes a step due is decided with it.
    most = 2 * MOST_SCRIPT_COPIES // MANY
    assert max(together) <= most
    assert sum(together) == 301
    assert ticks >= 301 // most or not deliveries


@pytest.mark.parametrize("deliveries", [True, False])
def test_a_script_is_called_without_waiting_for_other_input(deliveries: bool) -> None:
    world = ScriptWorld(Settings(record=RecordSection(deliveries=deliveries)))
    author = world.client("author")
    placed(author, 0)
    author.publish("to/scripts", [b"once"])
    world.settle()
    assert len(world.executor.batches) == 1


def count_together(world: HubWorld) -> list[int]:
    """Note how many events are dispatched at a time."""
    found: list[int] = []
    dispatcher = world.hub._dispatcher
    deliver = dispatcher.deliver

    def noted(deliveries: Deliveries) -> None:
        found.append(len(deliveries.events))
        deliver(deliveries)

    dispatcher.deliver = noted  # type: ignore[method-assign]
    return found


def test_the_sender_of_scripts_pays_for_their_calls() -> None:
    world = ScriptWorld()
    attacker, other = world.client("attacker", ATTACKER), world.client("other", OTHER)
    placed(attacker, *range(MANY))
    before = attacker.cost, other.cost
    other.publish("to/scripts", [b"once"])
    world.settle()
    world.executor.run()
    world.settle()
    assert attacker.cost - before[0] >= 2 * MANY * SCRIPT_CALL
    assert other.cost - before[1] <= 2 * (PACKET + INPUT) + MANY * DELIVERY


def test_an_event_for_many_scripts_is_stored_once() -> None:
    world = ScriptWorld()
    author = world.client("author", ATTACKER)
    placed(author, *range(20))
    journal = world.hub.state.journal
    journal.keeps = True
    author.send(Publish("to/scripts", b"{}", qos=1, packet_id=1))
    changes = world.hub.tick(world.now).entries.changes
    assert sum(isinstance(each, Enqueued) for each in changes) == 20
    assert sum(isinstance(each, MessagePut) for each in changes) == 1


def test_a_client_that_leaves_while_it_waits_has_its_commands_carried_out() -> None:
    world = ScriptWorld()
    attacker = world.client("attacker", ATTACKER)
    placed(attacker, *range(MANY))
    removed(attacker, *range(MANY))
    world.tick()
    world.hub.lost(attacker.connection)
    world.settle()
    assert world.scripts == 0
    assert "attacker" not in world.hub.sessions


def test_messages_behind_a_command_are_charged_to_who_sent_them() -> None:
    world = ScriptWorld(Settings(record=RecordSection(deliveries=False)))
    for number in range(20):
        world.client(f"reader {number}").subscribe("along/a/route")
    dear, cheap = world.client("dear", ATTACKER), world.client("cheap", OTHER)
    payload = json.dumps({"action": "add", "source": QUIET}).encode()
    dear.send(command(dear, 0, payload), *[Publish("along/a/route", b"1")] * 100)
    world.settle()
    cheap.publish("quiet", [b"1"])
    world.settle()
    assert cheap.cost < 100.0
    assert dear.cost >= SCRIPT + 100 * 20 * DELIVERY


def test_others_do_not_wait_for_the_commit_of_a_script_but_its_sender_does() -> None:
    world = ScriptWorld()
    world.hub.state.journal.keeps = True
    author = world.client("author", ATTACKER)
    payload = json.dumps({"action": "add", "source": QUIET}).encode()
    author.send(command(author, 0, payload))
    placing = world.hub.tick(world.now)
    assert placing.entries.must_sync
    assert not placing.entries.others_wait
    for write in placing.writes:
        world.hub.written(write)
    world.settle()
    author.send(Publish("of/qos/1", b"", qos=1, packet_id=7))
    author.send(command(author, 0, b""))
    together = world.hub.tick(world.now).entries
    assert together.must_sync
    assert together.others_wait
