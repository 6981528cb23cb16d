"""Attackers are measured beside an honest client; nothing here depends on how long it waits."""

import io
import socket

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from nearcast.benchmarks.attacks.benchmark import AttackResult, row_names
from nearcast.benchmarks.attacks.catalogue.all_attacks import ATTACKS
from nearcast.benchmarks.attacks.fairness import FAIRNESS, jain_index
from nearcast.benchmarks.attacks.raw_connection import RawConnection, drive
from nearcast.benchmarks.attacks.report import show
from nearcast.benchmarks.attacks.round_trips import PLAIN, SITUATED, Phase, part_ms
from nearcast.benchmarks.attacks.summary import markdown
from nearcast.benchmarks.broker.peers import BROKERS, MOSQUITTO, OURS
from nearcast.cli.bench import app
from nearcast.wire.mqtt import ConnAck, encode

LACKING = BROKERS[MOSQUITTO].missing()
CHOSEN = ("like-10x3", "ping-1m", "will-storm", FAIRNESS)


@pytest.fixture(scope="module")
def result() -> AttackResult:
    if LACKING is not None:
        pytest.skip(f"not installed: {LACKING}")
    options = ["--quick", "--json", "--repeats", "2", "--only", ",".join(CHOSEN)]
    ran = CliRunner().invoke(app, ["attacks", *options])
    assert ran.exit_code == 0, ran.output
    return msgspec.json.decode(ran.stdout, type=AttackResult)


def test_every_attack_is_made_where_it_can_be(result: AttackResult) -> None:
    assert result.failures == []
    assert [row.name for row in result.rows] == [name for name in CHOSEN if name != FAIRNESS]
    for row in result.rows:
        alike = ATTACKS[row.name].on_mosquitto
        assert list(row.brokers) == ([OURS, MOSQUITTO] if alike else [OURS])
        for figures in row.brokers.values():
            assert figures.work is not None
            assert figures.work.done == figures.work.wanted > 0
            assert figures.work.closed == 0


def test_the_honest_client_loses_nothing_quiet_attacked_and_again(result: AttackResult) -> None:
    for row in result.rows:
        for name, figures in row.brokers.items():
            for phase in (figures.quiet, figures.attacked, figures.repeated):
                assert phase is not None
                assert (phase.situated is None) == (name == MOSQUITTO)
                for trips in (phase.plain, phase.situated):
                    if trips is not None:
                        assert trips.sent > 0
                        assert trips.lost == 0
                        assert 0.0 < trips.p50_ms <= trips.p99_ms <= trips.max_ms


def test_memory_cpu_and_stopping_are_measured(result: AttackResult) -> None:
    for row in result.rows:
        for figures in row.brokers.values():
            assert figures.cpu_s > 0.0
            assert min(figures.memory_before, figures.memory_after, figures.memory_repeated) > 0
            assert figures.stopped_s is not None


def test_shares_of_honest_publishers_are_compared(result: AttackResult) -> None:
    assert list(result.fairness) == [OURS, MOSQUITTO]
    for figures in result.fairness.values():
        assert len(figures.alone) == len(figures.attacked) == result.settings.publishers
        assert min(figures.alone) > 0
        assert figures.attacker_messages_per_s > 0.0


def test_tables_show_waits_work_costs_and_shares(result: AttackResult) -> None:
    screen = Console(file=io.StringIO(), width=80)
    with screen.capture() as captured:
        show(result, screen)
    shown = captured.get()
    for words in ("p50 / p99 / max", "pings answered", "stop s", "after 2", "Jain's index"):
        assert words in shown
    assert "…" not in shown


def test_markdown_has_both_brokers_in_a_row(result: AttackResult) -> None:
    shown = markdown(result)
    (row,) = (line for line in shown.splitlines() if line.startswith("| ping-1m |"))
    assert row.count("50,000 of 50,000") == 2
    assert "honest publishers" in shown


def test_attacks_have_names_and_sizes() -> None:
    assert len(row_names()) == len(set(row_names())) == len(ATTACKS) + 1
    for name, attack in ATTACKS.items():
        assert attack.name == name
        assert 0 < attack.quick <= attack.full


def test_an_attack_that_does_not_exist_is_explained() -> None:
    for verb in ("attacks", "soak"):
        ran = CliRunner().invoke(app, [verb, "--only", "ping-1m,magic"])
        assert ran.exit_code == 2
        assert "'magic' is no attack" in " ".join(ran.output.replace("│", " ").split())


def test_equal_shares_have_index_1_and_a_monopoly_one_over_n() -> None:
    assert jain_index([7, 7, 7, 7]) == pytest.approx(1.0)
    assert jain_index([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain_index([0, 0]) == 0.0


def test_percentiles_are_values_that_were_measured() -> None:
    took = [number * 1_000_000 for number in range(1, 201)]
    assert [part_ms(took, part) for part in (0.5, 0.99, 1.0)] == [100.0, 198.0, 200.0]
    assert part_ms([5_000_000], 0.5) == 5.0


def test_a_message_that_never_comes_counts_as_lost_and_as_late() -> None:
    phase = Phase()
    phase.waiting[PLAIN, 1] = 0
    phase.waiting[PLAIN, 2] = 0
    for key in ((PLAIN, 1), (PLAIN, 1), (SITUATED, 1)):
        phase.arrived(key)
    figures = phase.figures()
    assert (figures.plain.sent, figures.plain.lost) == (2, 1)
    assert figures.situated is None


def test_a_connection_that_a_broker_closes_is_a_result() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = RawConnection(server.getsockname()[1], "127.0.0.2")
        peer = server.accept()[0]
        peer.sendall(encode(ConnAck()))
        assert drive([connection], lambda: connection.counts[ConnAck] == 1)
        peer.close()
    connection.send(bytes(1 << 20))
    assert not drive([connection], lambda: False)
    assert connection.lost
    assert not connection.has_unsent
