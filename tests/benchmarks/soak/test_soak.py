"""A short soak: the tool works, nothing acknowledged is lost, and what was opened is closed."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from nearcast.benchmarks.attacks.round_trips import HonestFigures, RoundTripFigures
from nearcast.benchmarks.soak.benchmark import SoakResult
from nearcast.benchmarks.soak.ledger import LedgerFigures
from nearcast.benchmarks.soak.samples import Sample
from nearcast.benchmarks.soak.verdicts import SoakEvidence, quarter_medians, verdicts
from nearcast.cli.bench import app


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("soak")
    options = ["--minutes", "0.5", "--quick", "--out", str(directory)]
    chosen = "like-1x10,ping-1m,mass-disconnect,half-packets"
    ran = CliRunner().invoke(app, ["soak", *options, "--only", chosen])
    # 1: a verdict does not hold, which may be one on times.
    assert ran.exit_code in (0, 1), ran.output
    assert "| verdict |" in ran.output
    return directory


@pytest.fixture(scope="module")
def result(directory: Path) -> SoakResult:
    return msgspec.json.decode((directory / "soak.json").read_bytes(), type=SoakResult)


def test_nothing_acknowledged_is_lost(result: SoakResult) -> None:
    assert result.ledger.acknowledged > 0
    assert result.ledger.lost == 0
    assert result.ledger.reconnections > 0


def test_descriptors_and_threads_return_to_what_they_were(result: SoakResult) -> None:
    held = {each.name: each.holds for each in result.verdicts}
    assert held["descriptors returned"]
    assert held["threads returned"]
    assert held["errors"]


def test_clients_were_killed_and_attacks_made_beside_an_honest_client(result: SoakResult) -> None:
    assert result.kills > 0
    assert {turn.failed for turn in result.attacks} == {None}
    assert len(result.attacks) > 2
    assert result.overall.plain.lost == 0
    assert result.overall.plain.sent >= sum(each.plain.sent for each in result.minutes) > 0
    assert len(result.samples) > 10


def test_the_report_tells_all_of_it(directory: Path) -> None:
    report = (directory / "soak.md").read_text()
    for words in ("descriptors returned", "| all |", "What the broker held", "| ping-1m |"):
        assert words in report


def sampled(number: int, resident: int) -> Sample:
    return Sample(5.0 * number, resident, 30, 10, 200, 1.0)


def judged(resident: list[int], lost: int = 0, max_ms: float = 20.0) -> dict[str, bool]:
    samples = [sampled(number, size) for number, size in enumerate(resident)]
    honest = HonestFigures(RoundTripFigures(100, 0, 0.5, 2.0, max_ms), None)
    ledger = LedgerFigures(100, lost, 0, 1)
    evidence = SoakEvidence(samples, samples[0], samples[-1], [honest], ledger, 0, 1.0)
    return {each.name: each.holds for each in verdicts(evidence)}


def test_memory_is_flat_if_the_last_quarter_is_at_most_a_fifth_above_the_second() -> None:
    warming, flat = [10] * 10 + [100] * 30, [100] * 30 + [120] * 10
    assert judged(warming)["memory (MB) flat"]
    assert judged(flat)["memory (MB) flat"]
    assert not judged([100] * 30 + [121] * 10)["memory (MB) flat"]
    assert quarter_medians(list(range(40))) == (14.5, 34.5)


def test_a_short_soak_says_nothing_of_growth() -> None:
    assert not any("flat" in name for name in judged([1, 2, 3]))


def test_a_loss_or_a_long_wait_fails() -> None:
    assert all(judged([100] * 40).values())
    assert not judged([100] * 40, lost=1)["acknowledged"]
    assert not judged([100] * 40, max_ms=501.0)["honest client"]
