import io
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from nearcast.benchmarks.broker.benchmark import BrokerResult
from nearcast.benchmarks.broker.peers import BROKERS, FLOOR, MOSQUITTO, OURS, RECORDED, Running
from nearcast.benchmarks.broker.report import show
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load import mqtt_frames
from nearcast.benchmarks.load.orders import Failed, FanOut, Target
from nearcast.benchmarks.load.process import LoadProcess
from nearcast.cli.bench import app
from nearcast.wire.mqtt import MQTT_5, Decoder, Publish

LACKING = BROKERS[MOSQUITTO].missing()
ROWS = {
    "ingest-qos0",
    "ingest-qos1",
    "pipelined-1",
    "pipelined-10",
    "pipelined-100",
    "single-1",
    "single-100",
    "pairs",
    "sparse",
}


@pytest.fixture(scope="module")
def result() -> BrokerResult:
    if LACKING is not None:
        pytest.skip(f"not installed: {LACKING}")
    command = [sys.executable, "-m", "nearcast", "bench", "broker", "--quick", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return msgspec.json.decode(ran.stdout, type=BrokerResult)


def test_everyone_is_measured_under_every_load(result: BrokerResult) -> None:
    assert result.benchmark == "broker"
    assert result.skipped == {}
    assert result.failures == []
    assert {"python", OURS, RECORDED, MOSQUITTO} == result.versions.keys()
    assert {row.name for row in result.rows} == ROWS
    brokers = {OURS, RECORDED, MOSQUITTO}
    assert all(row.brokers.keys() == brokers for row in result.rows)
    for row in result.latency:
        assert row.brokers.keys() == (brokers | {FLOOR} if "qos1" in row.name else brokers)
    assert result.promises.keys() == result.memory.keys() == brokers


def test_all_messages_arrive_in_every_row(result: BrokerResult) -> None:
    for row in result.rows:
        for figures in row.brokers.values():
            assert figures.best is not None
            assert figures.best.arrived == figures.best.expected > 0
            receivers = 100 if row.name == "single-100" else max(1, row.receivers)
            assert figures.best.expected == figures.best.sent * receivers


def test_rates_and_ratios_follow_from_what_was_measured(result: BrokerResult) -> None:
    for row in result.rows:
        rates = {}
        for name, figures in row.brokers.items():
            best = figures.best
            assert best is not None
            assert best.load_cpu_s > 0.0
            assert best.wall_s > 0.0
            rates[name] = best.arrived / best.broker_cpu_s
            assert figures.messages_per_cpu_s == pytest.approx(rates[name])
            assert max(figures.runs) == pytest.approx(rates[name])
        assert row.ratios == {
            name: pytest.approx(rates[name] / rates[MOSQUITTO]) for name in (OURS, RECORDED)
        }


def test_latency_and_memory_are_measured(result: BrokerResult) -> None:
    assert len(result.latency) == 4
    for row in result.latency:
        for late in row.brokers.values():
            assert late.p50_us is not None
            assert late.p99_us is not None
            assert 0.0 < late.p50_us <= late.p99_us
    for each in result.memory.values():
        assert each.connections == result.settings.connections
        assert each.runs == [each.bytes_each]
        assert each.bytes_each_subscribed is not None


def test_tables_show_rates_load_growth_latency_memory_and_promises(result: BrokerResult) -> None:
    screen = Console(file=io.StringIO(), width=80)
    with screen.capture() as captured:
        show(result, screen)
    shown = captured.get()
    for words in (
        "1→100, one at a time",
        "load generator",
        "Growth",
        "p99",
        "The floor",
        "idle connections",
    ):
        assert words in shown
    assert "mosquitto: in memory" in shown
    assert "…" not in shown


@pytest.mark.parametrize("topic", ["a", "bench/fan/0", "bench/sparse/009999"])
@pytest.mark.parametrize("qos", [0, 1])
def test_every_message_is_of_one_length_and_carries_its_time(topic: str, qos: int) -> None:
    frame = mqtt_frames.message(topic, qos, 7 * qos)
    from_end = mqtt_frames.time_from_end(frame)
    stamped = mqtt_frames.stamped(frame, from_end, 123_456_789)
    (packet,) = Decoder(version=MQTT_5).feed(stamped)
    assert len(frame) == len(stamped) == mqtt_frames.FRAME_BYTES
    assert isinstance(packet, Publish)
    assert packet.topic == topic
    assert packet.properties.user_properties == mqtt_frames.USER_PROPERTIES
    assert msgspec.json.decode(packet.payload)["sent"] == "0000000000123456789"
    assert mqtt_frames.sent_ns(stamped, from_end) == 123_456_789


def test_a_broker_that_closes_connections_is_no_figure_but_a_reason() -> None:
    def close_one() -> None:
        server.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as server, LoadProcess() as load:
        closing = threading.Thread(target=close_one)
        closing.start()
        target = Target(server.getsockname()[1], os.getpid(), 0.0)
        outcome = load.carry_out(FanOut(target, 1, 1, 1, 1, 1))
        closing.join()
    assert isinstance(outcome, Failed)
    assert "BenchmarkError" in outcome.reason or "Reset" in outcome.reason


def test_a_broker_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such setting'); raise SystemExit(3)"]
    with pytest.raises(BenchmarkError, match=r"code 3; it said: no such setting"):
        Running(command, tmp_path, None)


def test_a_row_that_does_not_exist_is_explained() -> None:
    ran = CliRunner().invoke(app, ["broker", "--rows", "pairs,trios"])
    assert ran.exit_code == 2
    assert "'trios' is no row" in " ".join(ran.output.replace("│", " ").split())
