"""A short run on a thin link: the tool works, and nothing is lost or doubled."""

import io

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from nearcast.benchmarks.thin_link.benchmark import ADAPTED, PLAIN, ThinLinkResult
from nearcast.benchmarks.thin_link.report import show
from nearcast.cli.bench import app


@pytest.fixture(scope="module")
def result() -> ThinLinkResult:
    ran = CliRunner().invoke(app, ["thin-link", "--quick", "--json"])
    assert ran.exit_code == 0, ran.output
    return msgspec.json.decode(ran.stdout, type=ThinLinkResult)


def test_everything_arrives_once_when_the_link_recovers(result: ThinLinkResult) -> None:
    assert result.clients.keys() == {ADAPTED, PLAIN}
    for figures in result.clients.values():
        assert figures.urgent > 0
        assert figures.others > 0
        assert (figures.lost, figures.doubled) == (0, 0)


def test_the_link_was_thin_and_its_buffers_were_small(result: ThinLinkResult) -> None:
    assert result.buffers.held_bytes <= 8_192
    assert result.classified_s is not None
    for figures in result.clients.values():
        assert figures.arrived_thin < figures.others


def test_the_report_has_both_and_their_ratio(result: ThinLinkResult) -> None:
    screen = Console(file=io.StringIO(), width=100)
    with screen.capture() as captured:
        show(result, screen)
    shown = captured.get()
    for words in ("with relevance", "without", "times as long", "SO_RCVBUF", "p99 ms"):
        assert words in shown
