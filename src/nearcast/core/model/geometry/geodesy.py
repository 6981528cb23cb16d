"""Geodesy: distances between positions on the WGS84 ellipsoid, and whether one is within reach.

Positions become points in space (`ecef`), the chord between two points becomes a distance, and
`within` is the only place where a circle decides. The areas of seed D (proximities) and the
distances of seeds A, B and C rest on it. Promise: a relative error below 1e-5 against exact
geodesics anywhere on the globe (an absolute one of some nanometres for points that all but
coincide), the same answer in both directions, and bit-equal decisions from Python and from kernels.
"""

import math

from nearcast.core.compiled import compiled
from nearcast.core.model.geometry.ellipsoid import (
    ECCENTRICITY_SQUARED,
    EQUATORIAL_RADIUS_M,
    FLATTENING,
    MEAN_RADIUS_M,
    POLAR_RADIUS_M,
    SHORT_CHORD_M,
    SHORT_M,
)

# Vincenty's iteration is slow or wrong within about a degree of the antipode; we leave it earlier.
ANTIPODAL_COSINE = -0.9986
AZIMUTHS_TRIED = 16
GOLDEN_STEPS = 20
# No degree of latitude is shorter or longer, and no radius of curvature is larger than these.
SHORTEST_DEGREE_M = 110_570.0
LONGEST_DEGREE_M = 111_700.0
LONGEST_RADIUS_M = 6_400_000.0
ROUGHLY = 1e-4
"""More than the relative error of a distance."""


@compiled
def ecef(lat: float, lon: float) -> tuple[float, float, float]:
    """Return the point in space, in metres from the Earth's centre, of a position at height 0."""
    if abs(lat) == 90.0:
        # A pole is one point whatever its longitude, and the cosine of 90 degrees is not quite 0.
        return 0.0, 0.0, math.copysign(POLAR_RADIUS_M, lat)
    phi = math.radians(lat)
    # 180 and -180 are one meridian, but their sines differ in sign.
    lam = math.radians(180.0 if lon == -180.0 else lon)
    sine = math.sin(phi)
    normal = EQUATORIAL_RADIUS_M / math.sqrt(1.0 - ECCENTRICITY_SQUARED * sine * sine)
    across = normal * math.cos(phi)
    return (
        across * math.cos(lam),
        across * math.sin(lam),
        normal * (1.0 - ECCENTRICITY_SQUARED) * sine,
    )


@compiled
def chord_limit_m(radius_m: float) -> float:
    """Return the chord at which points are exactly `radius_m` apart; only up to `SHORT_M`."""
    return 2.0 * MEAN_RADIUS_M * math.sin(radius_m / (2.0 * MEAN_RADIUS_M))


@compiled
def within(
    lat1: float,
    lon1: float,
    x1: float,
    y1: float,
    z1: float,
    lat2: float,
    lon2: float,
    x2: float,
    y2: float,
    z2: float,
    radius_m: float,
) -> bool:
    """Return whether two positions, given with their points in space, are within `radius_m`."""
    if radius_m <= SHORT_M:
        if radius_m < 0.0:
            return False
        limit = chord_limit_m(radius_m)
        dx = x1 - x2
        dy = y1 - y2
        dz = z1 - z2
        return dx * dx + dy * dy + dz * dz <= limit * limit
    return distance_m(lat1, lon1, lat2, lon2) <= radius_m


@compiled
def distance_m(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Return the length in metres of the shortest path over the ellipsoid."""
    x1, y1, z1 = ecef(lat1, lon1)
    x2, y2, z2 = ecef(lat2, lon2)
    dx = x1 - x2
    dy = y1 - y2
    dz = z1 - z2
    squared = dx * dx + dy * dy + dz * dz
    if squared <= SHORT_CHORD_M * SHORT_CHORD_M:
        half_sine = math.sqrt(squared) / (2.0 * MEAN_RADIUS_M)
        return min(2.0 * MEAN_RADIUS_M * math.asin(half_sine), SHORT_M)
    # The two formulas agree within some parts in a million; what the chord calls long stays long.
    if lat1 < lat2 or (lat1 == lat2 and lon1 <= lon2):
        return max(_long_distance_m(lat1, lon1, lat2, lon2), SHORT_M)
    return max(_long_distance_m(lat2, lon2, lat1, lon1), SHORT_M)


@compiled
def distance_bounds_m(lat1: float, lon1: float, lat2: float, lon2: float) -> tuple[float, float]:
    """Return what `distance_m` is certainly not below and not above, without trigonometry.

    For points that are far apart the bounds are loose.
    """
    north = abs(lat1 - lat2)
    east = abs(lon1 - lon2)
    if east > 180.0:
        east = 360.0 - east
    turn = math.radians(east)
    phi = math.radians(max(abs(lat1), abs(lat2)))
    square = phi * phi
    # Partial sums of the series of the cosine and the sine are alternately above and below them.
    above = 1.0 - square / 2.0 * (1.0 - square / 12.0)
    below = above - square * square * square / 720.0
    half = turn / 2.0
    # A chord is not shorter than it is seen from a pole, where the nearer point is nearest.
    chord = 2.0 * EQUATORIAL_RADIUS_M * max(below, 0.0) * half * (1.0 - half * half / 6.0)
    low = max(SHORTEST_DEGREE_M * north, chord)
    # One way leads along a meridian and along the shorter of the two parallels.
    high = LONGEST_DEGREE_M * north + LONGEST_RADIUS_M * above * turn
    return low * (1.0 - ROUGHLY) - 0.001, high * (1.0 + ROUGHLY) + 0.001


@compiled
def local_metres(lat0: float, lon0: float, lat: float, lon: float) -> tuple[float, float]:
    """Return the offset of a position from an anchor, in metres east and north.

    The length is the distance, the direction that of the straight line between them seen from above
    the anchor. At the antipode every direction is right, and north is taken.
    """
    x0, y0, z0 = ecef(lat0, lon0)
    x, y, z = ecef(lat, lon)
    dx = x - x0
    dy = y - y0
    dz = z - z0
    if dx == 0.0 and dy == 0.0 and dz == 0.0:
        return 0.0, 0.0
    phi = math.radians(lat0)
    lam = math.radians(180.0 if lon0 == -180.0 else lon0)
    sin_lam = math.sin(lam)
    cos_lam = math.cos(lam)
    east = cos_lam * dy - sin_lam * dx
    north = math.cos(phi) * dz - math.sin(phi) * (cos_lam * dx + sin_lam * dy)
    length = distance_m(lat0, lon0, lat, lon)
    across = math.hypot(east, north)
    if across == 0.0:
        return 0.0, length
    return length * east / across, length * north / across


@compiled
def _long_distance_m(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    phi1 = math.radians(lat1)
    phi2 = math.radians(lat2)
    lam = math.radians(lon2 - lon1)
    cosine = math.sin(phi1) * math.sin(phi2) + math.cos(phi1) * math.cos(phi2) * math.cos(lam)
    if cosine > ANTIPODAL_COSINE:
        return _vincenty_m(phi1, phi2, lam)
    return _antipodal_m(phi1, phi2, lam)


@compiled
def _vincenty_m(phi1: float, phi2: float, lam: float) -> float:
    """Return the distance by Vincenty's inverse formula, for points that are not near antipodes."""
    reduced1 = math.atan2((1.0 - FLATTENING) * math.sin(phi1), math.cos(phi1))
    reduced2 = math.atan2((1.0 - FLATTENING) * math.sin(phi2), math.cos(phi2))
    sin1 = math.sin(reduced1)
    cos1 = math.cos(reduced1)
    sin2 = math.sin(reduced2)
    cos2 = math.cos(reduced2)
    auxiliary = lam
    sin_sigma = 0.0
    cos_sigma = 1.0
    sigma = 0.0
    cos2_alpha = 0.0
    cos_2mid = 0.0
    for _ in range(60):
        sin_aux = math.sin(auxiliary)
        cos_aux = math.cos(auxiliary)
        sin_sigma = math.hypot(cos2 * sin_aux, cos1 * sin2 - sin1 * cos2 * cos_aux)
        if sin_sigma == 0.0:
            return 0.0
        cos_sigma = sin1 * sin2 + cos1 * cos2 * cos_aux
        sigma = math.atan2(sin_sigma, cos_sigma)
        sin_alpha = cos1 * cos2 * sin_aux / sin_sigma
        cos2_alpha = 1.0 - sin_alpha * sin_alpha
        # A line along the equator has no highest point to measure from.
        cos_2mid = cos_sigma - 2.0 * sin1 * sin2 / cos2_alpha if cos2_alpha > 1e-15 else 0.0
        c = FLATTENING / 16.0 * cos2_alpha * (4.0 + FLATTENING * (4.0 - 3.0 * cos2_alpha))
        bracket = cos_2mid + c * cos_sigma * (2.0 * cos_2mid * cos_2mid - 1.0)
        longitude = sigma + c * sin_sigma * bracket
        following = lam + (1.0 - c) * FLATTENING * sin_alpha * longitude
        change = abs(following - auxiliary)
        auxiliary = following
        if change < 1e-12:
            break
    u2 = cos2_alpha * (EQUATORIAL_RADIUS_M**2 / POLAR_RADIUS_M**2 - 1.0)
    a = 1.0 + u2 / 16384.0 * (4096.0 + u2 * (-768.0 + u2 * (320.0 - 175.0 * u2)))
    b = u2 / 1024.0 * (256.0 + u2 * (-128.0 + u2 * (74.0 - 47.0 * u2)))
    square = 2.0 * cos_2mid * cos_2mid - 1.0
    third = cos_2mid * (4.0 * sin_sigma * sin_sigma - 3.0) * (4.0 * cos_2mid * cos_2mid - 3.0)
    correction = b * sin_sigma * (cos_2mid + b / 4.0 * (cos_sigma * square - b / 6.0 * third))
    return POLAR_RADIUS_M * a * (sigma - correction)


@compiled
def _antipodal_m(phi1: float, phi2: float, lam: float) -> float:
    """Return the distance of near antipodes: the least detour over the circle half-way between.

    Every path from one to the other crosses that circle, and both halves are well conditioned.
    """
    step = 2.0 * math.pi / AZIMUTHS_TRIED
    best = 0.0
    least = math.inf
    for i in range(AZIMUTHS_TRIED):
        length = _detour_m(phi1, phi2, lam, i * step)
        if length < least:
            least = length
            best = i * step
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    low = best - step
    high = best + step
    left = high - golden * (high - low)
    right = low + golden * (high - low)
    at_left = _detour_m(phi1, phi2, lam, left)
    at_right = _detour_m(phi1, phi2, lam, right)
    for _ in range(GOLDEN_STEPS):
        if at_left < at_right:
            high = right
            right = left
            at_right = at_left
            left = high - golden * (high - low)
            at_left = _detour_m(phi1, phi2, lam, left)
        else:
            low = left
            left = right
            at_left = at_right
            right = low + golden * (high - low)
            at_right = _detour_m(phi1, phi2, lam, right)
    return min(least, min(at_left, at_right))


@compiled
def _detour_m(phi1: float, phi2: float, lam: float, azimuth: float) -> float:
    """Return the length of the path via the point 90 degrees along `azimuth` from the first."""
    middle_phi = math.asin(math.cos(phi1) * math.cos(azimuth))
    middle_lam = math.atan2(math.sin(azimuth), -math.sin(phi1) * math.cos(azimuth))
    return _vincenty_m(phi1, middle_phi, middle_lam) + _vincenty_m(
        middle_phi, phi2, lam - middle_lam
    )
