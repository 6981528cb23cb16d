"""Portions for a link: sized to what it carries, one at a time."""

import pytest

from nearcast.core.propagation.link_pace import (
    FAST_KBPS,
    FAST_UNSENT_BYTES,
    LEAST_BYTES,
    MOST_BYTES,
    THIN_UNSENT_BYTES,
    UNKNOWN_BYTES,
    LinkPace,
)


def test_nothing_more_is_given_until_the_portion_before_is_written() -> None:
    pace = LinkPace()
    assert pace.allowance(None) == UNKNOWN_BYTES
    pace.is_writing = True
    assert pace.allowance(None) == pace.allowance(100) == 0
    pace.is_writing = False
    assert pace.allowance(100) == 100
    assert pace.allowance(10 * UNKNOWN_BYTES) == UNKNOWN_BYTES


@pytest.mark.parametrize(
    ("kbps", "portion"),
    [(0.0, LEAST_BYTES), (200.0, LEAST_BYTES), (4_000.0, 10_000), (1e9, MOST_BYTES)],
)
def test_a_portion_is_what_the_link_carries_in_20_ms(kbps: float, portion: int) -> None:
    pace = LinkPace()
    pace.measured(kbps)
    assert pace.portion_bytes == portion


def test_a_link_is_thin_once_it_was_measured_so() -> None:
    pace = LinkPace()
    assert (pace.is_thin, pace.unsent_bytes) == (False, FAST_UNSENT_BYTES)
    pace.measured(FAST_KBPS - 1.0)
    assert (pace.is_thin, pace.unsent_bytes) == (True, THIN_UNSENT_BYTES)
    pace.measured(FAST_KBPS)
    assert not pace.is_thin


def test_one_acknowledgement_is_timed_at_a_time() -> None:
    pace = LinkPace()
    pace.sent(7, 10.0)
    pace.sent(8, 11.0)
    assert pace.acknowledged(8, 12.0) is None
    assert pace.acknowledged(7, 12.5) == 2.5
    assert pace.acknowledged(7, 13.0) is None
    pace.sent(9, 14.0)
    assert pace.acknowledged(9, 14.25) == 0.25
