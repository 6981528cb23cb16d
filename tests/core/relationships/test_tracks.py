"""Tracks believe what is possible, and come back from what is not."""

import math

import pytest

from nearcast.core.model.errors import ModelError
from nearcast.core.relationships.tracks import Fix, Track, TrackSettings, TrackStep

SETTINGS = TrackSettings()
DUBLIN, GALWAY = (53.35, -6.26), (53.27, -9.05)


def steps(*fixes: tuple[float, tuple[float | None, float | None]]) -> list[TrackStep]:
    track = Track()
    found = []
    for time, place in fixes:
        track = Track.from_bytes(track.to_bytes())
        found.append(track.follow(time, *place, SETTINGS))
    return found


def north(metres: float) -> tuple[float, float]:
    return DUBLIN[0] + metres / 111_300.0, DUBLIN[1]


def test_each_fix_knows_the_one_before_and_its_speed() -> None:
    first, second = steps((0.0, DUBLIN), (10.0, north(100.0)))
    assert first == TrackStep()
    assert second.previous == Fix(0.0, *DUBLIN)
    assert second.speed_mps == pytest.approx(10.0, rel=0.01)
    assert second.suspect is None


def test_one_wild_fix_does_no_harm() -> None:
    _, wild, back = steps((0.0, DUBLIN), (60.0, GALWAY), (120.0, north(100.0)))
    assert wild.suspect == "jump"
    assert wild.speed_mps is not None
    assert wild.speed_mps > 3000.0
    assert back.suspect is None
    assert back.previous == Fix(0.0, *DUBLIN)


def test_a_node_that_really_jumped_is_believed_at_the_second_fix_there() -> None:
    _, wild, there, on = steps((0.0, DUBLIN), (60.0, GALWAY), (120.0, GALWAY), (180.0, GALWAY))
    assert (wild.suspect, there.suspect, on.suspect) == ("jump", None, None)
    # What others knew of it was the place it left.
    assert there.previous == Fix(0.0, *DUBLIN)
    assert there.speed_mps == 0.0
    assert on.previous == Fix(120.0, *GALWAY)


def test_two_vehicles_under_one_name_are_one_and_jumps() -> None:
    every = steps(*((30.0 * i, (DUBLIN, GALWAY)[i % 2]) for i in range(8)))
    assert [step.suspect for step in every] == [None, "jump"] * 4


def test_fixes_of_one_moment_a_few_metres_apart_are_no_jump() -> None:
    assert steps((0.0, DUBLIN), (0.0, north(50.0)))[1].suspect is None
    assert steps((0.0, DUBLIN), (0.0, north(80.0)))[1].suspect == "jump"


def test_what_is_older_than_the_last_fix_is_late_and_changes_nothing() -> None:
    _, late, next_ = steps((10.0, DUBLIN), (5.0, north(10.0)), (20.0, north(100.0)))
    assert late.suspect == "late"
    assert next_.previous == Fix(10.0, *DUBLIN)


@pytest.mark.parametrize("place", [(math.nan, 0.0), (91.0, 0.0), (0.0, 180.5), (math.inf, 0.0)])
def test_no_place_on_earth_is_suspect(place: tuple[float, float]) -> None:
    _, nowhere, next_ = steps((0.0, DUBLIN), (1.0, place), (2.0, DUBLIN))
    assert nowhere.suspect == "no such place"
    assert next_.previous == Fix(0.0, *DUBLIN)


def test_a_node_that_takes_its_position_back_is_as_new_afterwards() -> None:
    _, gone, again = steps((0.0, DUBLIN), (1.0, (None, None)), (2.0, GALWAY))
    assert gone == TrackStep(Fix(0.0, *DUBLIN), left=Fix(0.0, *DUBLIN))
    assert again == TrackStep()


def test_after_a_long_silence_a_node_is_as_new() -> None:
    assert steps((0.0, DUBLIN), (3600.0, DUBLIN))[1].previous is not None
    # But where it was must be told that it left.
    assert steps((0.0, DUBLIN), (3600.5, GALWAY))[1] == TrackStep(left=Fix(0.0, *DUBLIN))


def test_a_track_of_a_later_release_is_refused() -> None:
    with pytest.raises(ModelError, match="form 9"):
        Track.from_bytes(Track(9).to_bytes())
