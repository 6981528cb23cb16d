"""Who floods the broker waits for its turn, and nobody else does: bounds in units of cost."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import settings as checked
from hypothesis import strategies as st

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.engine_driver import FEW_LIVE, MOST_INPUTS
from nearcast.broker.scheduling.cost_account import DELIVERY, INPUT, PACKET
from nearcast.broker.scheduling.input_scheduler import MOST_PACKETS, PIECE_COST, TICK_BUDGET
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Input, Moved
from nearcast.wire.mqtt import Disconnect, Properties, Publish, encode
from tests.broker.hub_world import HubClient, HubWorld

FLOOD = [b"%d" % number for number in range(30_000)]


def flooded(world: HubWorld, address: str = "198.51.100.1") -> HubClient:
    attacker = world.client("attacker", address)
    attacker.publish("flood", FLOOD)
    assert attacker.waits
    return attacker


def test_a_message_of_another_is_decided_in_the_next_tick_whatever_waits() -> None:
    world = HubWorld()
    reader = world.client("reader")
    reader.subscribe("honest")
    writer = world.client("writer")
    attacker = flooded(world)
    world.tick()
    assert attacker.waits
    writer.publish("honest", [b"one"])
    assert reader.messages == []
    world.tick()
    assert reader.messages == [b"one"]
    assert attacker.waits


def test_no_tick_costs_more_than_its_budget_and_one_piece_of_work() -> None:
    world = HubWorld()
    readers = [world.client(f"reader {number}") for number in range(20)]
    for number, reader in enumerate(readers):
        reader.subscribe("flood", where="value >= 0")
        reader.subscribe(f"own/{number}")
    attacker = flooded(world)
    world.settle()
    piece = PIECE_COST + PACKET * MOST_PACKETS + MOST_INPUTS * (INPUT + 20 * DELIVERY)
    assert max(world.spent) <= TICK_BUDGET + piece
    assert all(reader.messages == FLOOD for reader in readers)
    assert not attacker.waits


def test_users_get_equal_shares_however_many_connections_they_have() -> None:
    world = HubWorld()
    one = world.client("one", "198.51.100.1")
    many = [world.client(f"many {number}", "198.51.100.2") for number in range(20)]
    one.publish("a", FLOOD)
    for client in many:
        client.publish("b", FLOOD[:10_000])
    for _ in range(3):
        world.tick()
    assert one.waits
    assert any(client.waits for client in many)
    costs = [one.cost, sum(each.cost for each in many)]
    # The first piece of each was processed on arrival, before anyone competed.
    assert abs(costs[0] - costs[1]) <= 22 * 2 * PIECE_COST


def test_connections_of_a_user_get_equal_shares() -> None:
    world = HubWorld()
    # Turns are short, so that a run of this length has many of each.
    world.hub.scheduler.piece_cost = 100.0
    clients = [world.client(f"client {number}") for number in range(100)]
    attacker = flooded(world, "192.0.2.1")
    for client in clients:
        client.publish("a", FLOOD[:3_000])
    for _ in range(15):
        world.tick()
    assert attacker.waits
    assert all(client.waits for client in clients)
    shares = [processed(client) for client in clients]
    assert jain(shares) >= 0.99
    assert processed(attacker) <= 2 * max(shares) + MOST_PACKETS


def test_an_expensive_publisher_gets_fewer_turns_than_a_cheap_one() -> None:
    world = HubWorld()
    for number in range(200):
        world.client(f"reader {number}").subscribe("dear")
    dear, cheap = world.client("dear", "198.51.100.1"), world.client("cheap", "198.51.100.2")
    dear.publish("dear", FLOOD)
    cheap.publish("cheap", FLOOD)
    for _ in range(4):
        world.tick()
    assert dear.waits
    assert cheap.waits
    assert processed(cheap) > 5 * processed(dear) > 0
    assert 0.5 < cheap.cost / dear.cost < 2.0


def test_who_waits_for_its_turn_is_not_late_with_its_keep_alive() -> None:
    world = HubWorld()
    attacker = world.client("attacker", keep_alive=10)
    attacker.publish("flood", FLOOD)
    world.tick()
    assert attacker.waits
    world.now += 100.0
    assert world.hub.silent(world.now) == []
    world.settle()
    assert world.hub.silent(world.now) == []
    world.now += 16.0
    assert world.hub.silent(world.now) == [attacker.connection]


def test_who_exceeds_the_limit_of_its_rate_is_heard_later_and_loses_nothing() -> None:
    world = HubWorld(Settings(limits=Limits(messages_per_s=10.0)))
    reader = world.client("reader")
    reader.subscribe("a")
    quick = world.client("quick", keep_alive=1)
    quick.publish("a", FLOOD[:15])
    quick.publish("a", FLOOD[15:25])
    world.settle()
    assert quick.waits
    assert len(reader.messages) == 15
    while (due := world.hub.next_timer(world.now)) is not None:
        world.now = max(due, world.now)
        assert world.hub.silent(world.now) == []
        world.tick()
    assert reader.messages == FLOOD[:25]
    assert not world.hub.statistics()["paced_links"]


def test_what_waits_is_processed_although_its_client_has_gone() -> None:
    world = HubWorld()
    reader = world.client("reader")
    reader.subscribe("flood")
    attacker = flooded(world)
    world.hub.lost(attacker.connection)
    world.settle()
    assert reader.messages == FLOOD
    assert "attacker" not in world.hub.sessions


def test_what_waits_after_a_disconnect_is_not_processed() -> None:
    world = HubWorld()
    reader = world.client("reader")
    reader.subscribe("a")
    writer = world.client("writer")
    flood = b"".join(encode(Publish("a", payload), 5) for payload in FLOOD)
    writer.send_bytes(flood + encode(Disconnect(), 5) + encode(Publish("a", b"late"), 5))
    world.settle()
    assert reader.messages == FLOOD
    assert writer.is_closed


def test_good_packets_before_broken_ones_count_though_they_wait() -> None:
    world = HubWorld()
    reader = world.client("reader")
    reader.subscribe("a")
    writer = world.client("writer")
    flood = b"".join(encode(Publish("a", payload), 5) for payload in FLOOD)
    writer.send_bytes(flood + b"\x36\x00")
    assert not writer.is_closed
    world.settle()
    assert reader.messages == FLOOD
    assert writer.is_closed


def test_everything_after_an_undecided_connect_waits() -> None:
    world = HubWorld()
    reader = world.client("reader")
    reader.subscribe("a")
    eager = HubClient(world, "eager", "198.51.100.1")
    eager.publish("a", [b"1", b"2"])
    assert reader.messages == []
    world.settle()
    assert reader.messages == [b"1", b"2"]


@checked(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 12)), max_size=40),
    st.sampled_from((1.0, 5.0, 40.0)),
    st.sampled_from((1.0, 5.0)),
)
def test_with_any_budget_everyone_gets_everything_in_order(
    sent: list[tuple[int, int]], budget: float, piece: float
) -> None:
    world = HubWorld()
    reader = world.client("reader")
    reader.subscribe("#")
    writers = [world.client(f"writer {number}", f"198.51.100.{number}") for number in range(4)]
    world.hub.scheduler.budget, world.hub.scheduler.piece_cost = budget, piece
    expected: dict[int, list[bytes]] = {number: [] for number in range(4)}
    for number, count in sent:
        payloads = [b"%d %d" % (number, len(expected[number]) + i) for i in range(count)]
        expected[number] += payloads
        writers[number].publish(f"from/{number}", payloads)
    world.settle()
    for number, payloads in expected.items():
        assert [each for each in reader.messages if each[:1] == b"%d" % number] == payloads


def processed(client: HubClient) -> int:
    """How many of a client's packets were processed, or at least decoded."""
    session = client.connection.session
    assert session is not None
    return session.account.packets


def jain(shares: list[int]) -> float:
    """Jain's index of fairness: 1 if all shares are equal."""
    return float(sum(shares) ** 2 / (len(shares) * sum(each * each for each in shares)))


def test_a_move_that_takes_many_live_events_along_ends_its_step() -> None:
    world = HubWorld()
    carrier = world.client("carrier")
    target = Properties(user_properties=(("nc-to", "circle:me,1000"), ("nc-valid", "3600")))
    live = [Publish(f"live/{n}", b"1").with_(target) for n in range(FEW_LIVE + 1)]
    carrier.send(Publish("$me/position", b"48.2,16.37"), *live)
    world.settle()
    engine = world.hub.engine
    step, moves = engine.step, []

    def noted(inputs: Sequence[Input], now: float) -> Outcome:
        moves.append(sum(isinstance(each, Moved) for each in inputs))
        return step(inputs, now)

    engine.step = noted  # type: ignore[method-assign]
    carrier.publish("$me/position", [b"48.2,16.38", b"48.2,16.39", b"48.2,16.40"])
    world.settle()
    assert [count for count in moves if count] == [1, 1, 1]
