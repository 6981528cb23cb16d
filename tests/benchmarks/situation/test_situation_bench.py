import io
import math
import random
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.situation.benchmark import (
    Line,
    SituationBenchSettings,
    SituationResult,
    run,
)
from nearcast.benchmarks.situation.cells import Cells, arrivals
from nearcast.benchmarks.situation.city import Journey, Scenario, draw_journey
from nearcast.benchmarks.situation.clients import mqtt_payloads, publish_frame, text_field
from nearcast.benchmarks.situation.load import play
from nearcast.benchmarks.situation.orders import GRID, NEARCAST, Order, SituationPlayed
from nearcast.benchmarks.situation.redis import channel_payloads
from nearcast.benchmarks.situation.report import show
from nearcast.benchmarks.situation.sides import KINDS_TOO, MOSQUITTO, OURS, RECORDED, REDIS, SIDES
from nearcast.benchmarks.situation.truth import compare
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.wire.mqtt import Publish, SubAck, encode

SMALL = Scenario(movers=40, side_m=4_000.0, rounds=3)


@pytest.fixture(scope="module")
def journey() -> Journey:
    return draw_journey(SMALL)


@pytest.mark.parametrize("filtered", [False, True])
def test_the_truth_is_who_is_near_and_wants_it(filtered: bool) -> None:
    journey = draw_journey(Scenario(movers=40, side_m=4_000.0, rounds=3, filtered=filtered))
    wishes = journey.wishes
    assert journey.useful
    for one, codes in zip(journey.rounds, journey.truth, strict=True):
        expected = [
            event * 40 + other
            for event, (mover, kind, speed) in enumerate(
                zip(one.publishers, one.kinds, one.speeds, strict=True), one.first
            )
            for other in range(40)
            if other != mover
            and distance_m(one.lat[mover], one.lon[mover], one.lat[other], one.lon[other]) <= 1_000
            and (
                not filtered or (kind == wishes.kinds[other] and speed > wishes.least_speeds[other])
            )
        ]
        assert codes.tolist() == expected


def test_a_journey_is_the_same_for_the_same_seed(journey: Journey) -> None:
    again = draw_journey(SMALL)
    assert again.rounds == journey.rounds
    assert draw_journey(Scenario(movers=40, seed=2, rounds=1)).rounds != journey.rounds[:2]


def test_nobody_is_faster_than_allowed(journey: Journey) -> None:
    for one, following in zip(journey.rounds, journey.rounds[1:], strict=False):
        for mover in range(SMALL.movers):
            moved_m = distance_m(
                one.lat[mover], one.lon[mover], following.lat[mover], following.lon[mover]
            )
            assert moved_m < 41.0


@pytest.mark.parametrize("cell_m", [250.0, 500.0, 1_000.0, 3_000.0])
def test_the_cells_around_somebody_hold_everything_within_the_radius(cell_m: float) -> None:
    cells = Cells(cell_m, 1_000.0)
    dice = random.Random(int(cell_m))
    for _ in range(500):
        lat, lon = dice.uniform(53.15, 53.3), dice.uniform(-6.6, -6.3)
        turn, away_m = dice.uniform(0.0, 2.0 * math.pi), dice.uniform(0.0, 995.0)
        other_lat = lat + math.sin(turn) * away_m / 111_300.0
        other_lon = lon + math.cos(turn) * away_m / (111_320.0 * math.cos(math.radians(lat)))
        assert cells.cell(other_lat, other_lon) in cells.around(cells.box(lat, lon))


def test_smaller_cells_bring_less_in_vain(journey: Journey) -> None:
    arrived = [
        sum(arrivals(Cells(cell_m, 1_000.0), one, None) for one in journey.rounds[1:])
        for cell_m in (1_000.0, 500.0, 250.0)
    ]
    assert arrived[0] > arrived[1] > arrived[2] >= journey.useful


def test_the_truth_itself_is_accepted_and_anything_else_is_named(journey: Journey) -> None:
    kept: list[list[int]] = [[] for _ in range(SMALL.movers)]
    for code in np.concatenate(journey.truth[1:]).tolist():
        event, receiver = divmod(code, SMALL.movers)
        kept[receiver].append(event)
    compare(journey, kept, exact=True)
    receiver = next(number for number, own in enumerate(kept) if own)
    event = kept[receiver].pop()
    for exact in (True, False):
        with pytest.raises(BenchmarkError, match=rf"mover {receiver} got event {event} not at all"):
            compare(journey, kept, exact=exact)
    kept[receiver] += [event, event]
    with pytest.raises(BenchmarkError, match="more than once"):
        compare(journey, kept, exact=True)


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 10_000])
def test_payloads_are_found_however_packets_are_cut(cut: int) -> None:
    sent = [b"{}", b"x" * 100, b"y" * 5_000]
    frames = [publish_frame(text_field("bench/event"), payload) for payload in sent]
    assert frames == [encode(Publish("bench/event", payload)) for payload in sent]
    stream = encode(SubAck(1, ())) + b"".join(frames)
    found: list[bytes] = []
    rest, others = b"", 0
    for start in range(0, len(stream), cut):
        rest += stream[start : start + cut]
        used, more = mqtt_payloads(rest, found)
        rest, others = rest[used:], others + more
    assert (found, others, rest) == (sent, 1, b"")


@pytest.mark.parametrize("cut", [1, 5, 10_000])
def test_messages_on_a_channel_are_found_however_they_are_cut(cut: int) -> None:
    sent = [b"{}", b"a\r\nb", b""]
    stream = b"".join(
        b"*3\r\n$7\r\nmessage\r\n$2\r\n17\r\n$%d\r\n%s\r\n" % (len(each), each) for each in sent
    )
    found: list[bytes] = []
    rest = b""
    for start in range(0, len(stream), cut):
        rest += stream[start : start + cut]
        rest = rest[channel_payloads(rest, found)[0] :]
    assert found == sent


@pytest.mark.parametrize("filtered", [False, True])
def test_nearcast_delivers_the_truth_and_nothing_else(filtered: bool, tmp_path: Path) -> None:
    scenario = Scenario(movers=40, side_m=4_000.0, rounds=3, filtered=filtered)
    server = SIDES[OURS].start(tmp_path)
    try:
        played = play(Order(NEARCAST, server.port, server.pid, scenario))
    finally:
        server.close()
    assert isinstance(played, SituationPlayed)
    assert played.arrived == played.useful == draw_journey(scenario).useful > 0
    assert played.move_messages == played.moves == 3 * 40


def test_a_grid_brings_the_truth_and_more(tmp_path: Path) -> None:
    lacking = SIDES[MOSQUITTO].missing()
    if lacking is not None:
        pytest.skip(f"not installed: {lacking}")
    server = SIDES[MOSQUITTO].start(tmp_path)
    try:
        played = play(Order(GRID, server.port, server.pid, SMALL, cell_m=500.0))
    finally:
        server.close()
    assert isinstance(played, SituationPlayed)
    assert played.arrived > played.useful == draw_journey(SMALL).useful


@pytest.fixture(scope="module")
def result() -> SituationResult:
    for name, side in SIDES.items():
        if (lacking := side.missing()) is not None:
            pytest.skip(f"{name} is not installed: {lacking}")
    return run(
        SituationBenchSettings(SMALL, (500.0,), (20,), paced_rounds=1, runs=1), lambda what: None
    )


@pytest.mark.slow
def test_everyone_plays_every_scenario(result: SituationResult) -> None:
    assert result.failures == []
    assert result.skipped == {}
    plain = [line.side for line in result.comparison if not line.scenario.filtered]
    filtered = [line.side for line in result.comparison if line.scenario.filtered]
    assert plain == [OURS, RECORDED, MOSQUITTO, REDIS]
    assert filtered == [OURS, RECORDED, MOSQUITTO, KINDS_TOO, REDIS]
    assert [line.side for line in result.denser] == [OURS, MOSQUITTO]
    assert [line.side for line in result.wider] == [OURS, MOSQUITTO]


@pytest.mark.slow
def test_figures_follow_from_what_was_measured(result: SituationResult) -> None:
    for line in result.comparison:
        played = line.played
        assert played is not None
        cpu_s = played.server_cpu_s + played.client_cpu_s
        assert line.useful_per_cpu_s == pytest.approx(played.useful / cpu_s)
        assert line.bytes_per_useful == pytest.approx(played.bytes_moved / played.useful)
        assert played.arrived >= played.useful
    assert all(_messages(line) == 1.0 for line in result.comparison if line.side == OURS)


@pytest.mark.slow
def test_latency_is_measured_at_the_pace_of_life(result: SituationResult) -> None:
    for line in result.paced:
        assert line.played is not None
        assert line.played.p50_us is not None
        assert line.played.p99_us is not None
        assert 0.0 < line.played.p50_us <= line.played.p99_us


@pytest.mark.slow
def test_tables_show_everything_in_eighty_columns(result: SituationResult) -> None:
    screen = Console(file=io.StringIO(), width=80)
    with screen.capture() as captured:
        show(result, screen)
    shown = captured.get()
    for words in ("mosquitto+kinds", "p99", "aim", "More movers in a larger city", "500 m"):
        assert words in shown
    assert "…" not in shown


def _messages(line: Line) -> float | None:
    return line.messages_per_move
