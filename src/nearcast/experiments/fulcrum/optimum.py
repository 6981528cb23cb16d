"""The fewest messages that a pair needs if the future were known (the clairvoyant optimum).

Regions are fixed and convex: far, two half-planes a distance apart; near, one disc whose diameter
is the distance. Each run of instants for which one such choice holds costs one message but the
first; taking the longest run each time is optimal. Directions are tried in steps of half a degree,
so the optimum is very slightly too large for pairs that pass closely.
"""

import math

import numpy as np

from nearcast.core.compiled import compiled
from nearcast.experiments.fulcrum.tracks import F64, PairTrack

DIRECTIONS = 720


def fewest_messages(track: PairTrack, within: float) -> int:
    """Return the messages of the optimum."""
    origin = np.nanmean(np.concatenate([track.first, track.second]), axis=0)
    up = origin / np.linalg.norm(origin)
    east = np.cross((0.0, 0.0, 1.0), up)
    # Points of a plane, as of a course, lie under the pole.
    east = np.array((1.0, 0.0, 0.0)) if np.linalg.norm(east) < 1e-6 else east / np.linalg.norm(east)
    north = np.cross(up, east)
    axes = np.stack([east, north], axis=1)
    angles = np.arange(DIRECTIONS) * (2.0 * math.pi / DIRECTIONS)
    return int(
        count_runs(
            np.ascontiguousarray((track.first - origin) @ axes),
            np.ascontiguousarray((track.second - origin) @ axes),
            track.first, track.second, within, np.cos(angles), np.sin(angles),
        )
        - 1
    )  # fmt: skip


@compiled
def count_runs(
    a: F64, b: F64, a_points: F64, b_points: F64, within: float, cosines: F64, sines: F64
) -> int:
    """Return the number of longest runs."""
    at_a = np.full(2, np.nan)
    at_b = np.full(2, np.nan)
    in_a = np.full(3, np.nan)
    in_b = np.full(3, np.nan)
    most = np.empty(len(cosines))
    least = np.empty(len(cosines))
    disc = np.empty((2 * len(a) + 2, 2))
    held = 0
    runs = 0
    state = -1
    for k in range(len(a)):
        if not math.isnan(a[k, 0]):
            at_a[:] = a[k]
            in_a[:] = a_points[k]
        if not math.isnan(b[k, 0]):
            at_b[:] = b[k]
            in_b[:] = b_points[k]
        if math.isnan(at_a[0]) or math.isnan(at_b[0]):
            continue
        apart = 0.0
        for axis in range(3):
            apart += (in_a[axis] - in_b[axis]) ** 2
        near = 1 if math.sqrt(apart) <= within else 0
        ends = near != state
        if not ends and near == 0:
            widest = -math.inf
            for d in range(len(cosines)):
                most[d] = max(most[d], cosines[d] * at_a[0] + sines[d] * at_a[1])
                least[d] = min(least[d], cosines[d] * at_b[0] + sines[d] * at_b[1])
                widest = max(widest, least[d] - most[d])
            ends = widest <= within
        elif not ends:
            disc[held] = at_a
            disc[held + 1] = at_b
            held += 2
            ends = enclosing_radius(disc, held) > within / 2.0
        if ends:
            runs += 1
            state = near
            for d in range(len(cosines)):
                most[d] = cosines[d] * at_a[0] + sines[d] * at_a[1]
                least[d] = cosines[d] * at_b[0] + sines[d] * at_b[1]
            disc[0] = at_a
            disc[1] = at_b
            held = 2
    return max(runs, 1)


@compiled
def enclosing_radius(points: F64, count: int) -> float:
    """Return the radius of the smallest disc that holds the first points."""
    x, y, radius = points[0, 0], points[0, 1], 0.0
    for i in range(1, count):
        px, py = points[i, 0], points[i, 1]
        if math.hypot(px - x, py - y) <= radius + 1e-9:
            continue
        x, y, radius = px, py, 0.0
        for j in range(i):
            qx, qy = points[j, 0], points[j, 1]
            if math.hypot(qx - x, qy - y) <= radius + 1e-9:
                continue
            x, y = (px + qx) / 2.0, (py + qy) / 2.0
            radius = math.hypot(px - x, py - y)
            for k in range(j):
                rx, ry = points[k, 0], points[k, 1]
                if math.hypot(rx - x, ry - y) <= radius + 1e-9:
                    continue
                ux, uy, vx, vy = qx - px, qy - py, rx - px, ry - py
                twice = 2.0 * (ux * vy - uy * vx)
                if abs(twice) < 1e-12:
                    continue
                u, v = ux * ux + uy * uy, vx * vx + vy * vy
                dx, dy = (vy * u - uy * v) / twice, (ux * v - vx * u) / twice
                x, y, radius = px + dx, py + dy, math.hypot(dx, dy)
    return radius
