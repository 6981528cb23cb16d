"""How often a fast mover misses a proximity: by beacon period, speed and size (5.1.2).

The text names these as what decides, and leaves it open. A mover drives straight through a circle,
off its middle by chance; it missed the proximity if it never knew it while inside.
"""

import math
from collections.abc import Sequence
from random import Random

from nearcast.core.model.geometry.area import circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.proximity_node import ProximityNode
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.core.proximity.step import ProximityStep
from nearcast.experiments.experiment_result import ExperimentRow
from nearcast.experiments.steam.crowds import CENTRE, RANGE_M, position

KIND = event_type("warning")
STEP_S = 0.05


def miss_rows(
    radii_m: Sequence[float], speeds_mps: Sequence[float], periods_s: Sequence[float], passes: int,
    seed: int,
) -> list[ExperimentRow]:  # fmt: skip
    """Return the share of passes that missed, as the text discovers and as this does."""
    rows = []
    for radius_m in radii_m:
        for speed_mps in speeds_mps:
            for period_s in periods_s:
                for overhears in (False, True):
                    random = Random(f"{seed}/{radius_m}/{speed_mps}/{period_s}")
                    missed = sum(
                        _misses(random, radius_m, speed_mps, period_s, overhears=overhears)
                        for _ in range(passes)
                    )
                    how = "overheard beacons count" if overhears else "beacons count inside only"
                    rows.append(
                        ExperimentRow(
                            "Missed proximities",
                            f"{radius_m:g} m, {speed_mps:g} m/s, a beacon every {period_s:g} s, "
                            f"{how}",
                            None, 100.0 * missed / passes, "%",
                        )
                    )  # fmt: skip
    return rows


def _misses(
    random: Random, radius_m: float, speed_mps: float, period_s: float, *, overhears: bool
) -> bool:
    settings = ProximitySettings(
        beacon_least_s=period_s, beacon_most_s=period_s, overhears=overhears
    )
    producer, mover = ProximityNode("producer", settings), ProximityNode("mover", settings)
    off_m = random.uniform(-radius_m, radius_m)
    producer.move(CENTRE, 0.0)
    area = circle((CENTRE.lat, CENTRE.lon), radius_m)
    mover.subscribe("warning", "warning", 0.0)
    on_air = producer.announce(KIND, area, 0.0)
    begun = random.uniform(0.0, period_s)
    half_m = math.sqrt(RANGE_M**2 - off_m**2) + 1.0
    fix_at, now = begun, 0.0
    while now - begun < 2.0 * half_m / speed_mps:
        along = -half_m + speed_mps * (now - begun)
        if now >= fix_at:
            mover.move(position((along, off_m)), now)
            fix_at += 1.0 if speed_mps < 20.0 else 0.2
        if now >= begun and math.hypot(along, off_m) <= RANGE_M:
            for send in on_air.sends:
                mover.receive(send.message, now)
        if mover.discovered and math.hypot(along, off_m) <= radius_m:
            return False
        now += STEP_S
        on_air = producer.elapse(now) if producer.wake_at <= now else ProximityStep()
    return True
