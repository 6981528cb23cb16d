"""Figures of links from samples, and measures of them."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from nearcast.broker.awareness.link_estimator import (
    LEAST_BOUND_BYTES,
    LinkEstimator,
    LinkFigures,
    LinkSample,
)
from nearcast.broker.awareness.measures import AHEAD_S, GROUP, Measures


class Link:
    """A link whose samples are taken every half second."""

    def __init__(self) -> None:
        self.estimator = LinkEstimator()
        self.at = self.blocked_s = 0.0
        self.taken = 0
        self.estimator.take(LinkSample(0.0, 0, 0.0))

    def passes(self, taken: int, blocked_share: float) -> float | None:
        self.at += 0.5
        self.taken += taken
        self.blocked_s += 0.5 * blocked_share
        return self.estimator.take(LinkSample(self.at, self.taken, self.blocked_s)).throughput_kbps


def test_throughput_counts_while_the_link_is_the_bottleneck() -> None:
    link = Link()
    assert link.passes(12_500, 1.0) == pytest.approx(200.0)
    assert link.passes(12_500, 0.8) == pytest.approx(200.0)
    # Less went through because less was offered.
    assert link.passes(100, 0.1) is None
    assert link.passes(0, 0.0) is None
    # It was slower for a while, which is smoothed.
    assert link.passes(6_250, 1.0) == pytest.approx(150.0)


def test_a_link_that_never_blocks_has_no_throughput() -> None:
    link = Link()
    assert [link.passes(size, 0.2) for size in (100, 10_000, 1_000_000)] == [None] * 3


def test_what_goes_through_without_blocking_can_only_raise_the_figure() -> None:
    link = Link()
    assert link.passes(12_500, 1.0) == pytest.approx(200.0)
    assert link.passes(LEAST_BOUND_BYTES - 1, 0.0) is None
    assert link.passes(625_000, 0.0) == pytest.approx(10_000.0)
    assert link.passes(LEAST_BOUND_BYTES, 0.0) is None


def test_round_trips_are_the_systems_or_those_of_acknowledgements() -> None:
    estimator = LinkEstimator()
    assert estimator.take(LinkSample(0.0, 0, 0.0)).rtt_ms is None
    estimator.acknowledged(0.1)
    found = estimator.take(LinkSample(1.0, 0, 0.0))
    assert found.rtt_ms == pytest.approx(100.0)
    assert found.rtt_variance_ms == pytest.approx(50.0)
    estimator.acknowledged(0.2)
    found = estimator.take(LinkSample(2.0, 0, 0.0))
    assert found.rtt_ms == pytest.approx(112.5)
    assert found.rtt_variance_ms == pytest.approx(62.5)
    found = estimator.take(LinkSample(3.0, 0, 0.0, 7.0, 2.0))
    assert (found.rtt_ms, found.rtt_variance_ms) == (7.0, 2.0)


def test_the_predictor_follows_a_trend_and_never_goes_below_nothing() -> None:
    def predicted(rates: Iterator[float]) -> float | None:
        history = tuple((0.5 * n, rate) for n, rate in enumerate(rates))
        figures = LinkFigures(throughput_kbps=history[-1][1], history=history)
        return Measures().value("predicted_throughput_kbps", figures)

    assert predicted(iter([500.0] * 10)) == pytest.approx(500.0)
    falling = predicted(1_000.0 - 20.0 * n for n in range(16))
    # 40 kb/s fewer each second.
    assert falling == pytest.approx(700.0 - 40.0 * AHEAD_S, abs=40.0)
    assert predicted(1_000.0 - 66.0 * n for n in range(16)) == 0.0
    assert Measures().value("predicted_throughput_kbps", LinkFigures()) is None


def double(figures: LinkFigures) -> float | None:
    """A measure of somebody else."""
    return None if figures.rtt_ms is None else 2.0 * figures.rtt_ms


def broken(figures: LinkFigures) -> float | None:
    raise ValueError("no good")


def test_measures_of_others_are_entry_points(caplog: pytest.LogCaptureFixture) -> None:
    def entry(name: str, value: str) -> EntryPoint:
        return EntryPoint(name, f"{__name__}:{value}", GROUP)

    found = {
        "double": entry("double", "double"),
        "broken": entry("broken", "broken"),
        "missing": entry("missing", "nowhere"),
        "constant": entry("constant", "GROUP"),
    }
    measures, figures = Measures(found), LinkFigures(rtt_ms=5.0)
    assert measures.value("double", figures) == 10.0
    assert measures.value("double", LinkFigures()) is None
    for name in ("broken", "missing", "constant", "typo"):
        caplog.clear()
        assert measures.value(name, figures) is None
        assert measures.value(name, figures) is None
        (record,) = caplog.records
        assert name in str(record.__dict__)
