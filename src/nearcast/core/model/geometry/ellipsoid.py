"""The Earth in numbers: the WGS84 ellipsoid, and lengths that follow from it."""

import math

EQUATORIAL_RADIUS_M = 6378137.0
FLATTENING = 1.0 / 298.257223563
POLAR_RADIUS_M = EQUATORIAL_RADIUS_M * (1.0 - FLATTENING)
ECCENTRICITY_SQUARED = FLATTENING * (2.0 - FLATTENING)

# Half-way between the smallest and the largest radius of curvature of the ellipsoid, so that
# the error of the arc over a chord is the same both ways: 2.6e-6 at SHORT_M, less below.
MEAN_RADIUS_M = 6367345.0
SHORT_M = 500_000.0
SHORT_CHORD_M = 2.0 * MEAN_RADIUS_M * math.sin(SHORT_M / (2.0 * MEAN_RADIUS_M))

# No two positions are farther apart than this.
HALF_EARTH_M = 20_040_000.0
