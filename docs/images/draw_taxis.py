"""Draw where the taxis of San Francisco drive and meet, and tell the figures of the how-to.

    python docs/images/draw_taxis.py TAXIS.parquet docs/images/taxis.svg

The file has a row for each fix: `entity_id`, `ts`, `lat`, `lon`, and `suspect`, its own mark.
"""

import math
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.jobs.spark_session import SparkSettings, session, stop
from nearcast.pipeline.movement.encounters import encounters, episodes
from nearcast.pipeline.movement.motion import tracks
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.pipeline.movement.traffic import traffic
from nearcast.pipeline.source.track_import import import_tracks

SOUTH, NORTH, WEST, EAST = 37.705, 37.812, -122.515, -122.375
WIDE, HIGH = 900, 870
COLOURS = ("#67001f", "#b2182b", "#d6604d", "#f4a582", "#d1e5f0", "#92c5de", "#4393c3", "#2166ac")
FASTEST_MPS = 16.0
FEWEST_FIXES = 30


def main(file: Path, picture: Path) -> None:
    """Import the fixes, look at their movement, and write the picture."""
    settings = MovementSettings()
    with tempfile.TemporaryDirectory() as directory:
        with timed("import"):
            tell(str(import_tracks(file, Path(directory), "taxis")))
        spark = session(SparkSettings(master="local[2]", name="taxis"))
        log = spark.read.format("nearcast").option("path", directory).load()
        with timed("motion"):
            followed = tracks(log, settings).cache()
            fixes = followed.count()
        with timed("encounters"):
            met = encounters(followed, settings).cache()
            transitions = met.count()
        with timed("episodes"):
            lasted = episodes(met).cache()
            tell(f"{fixes} fixes, {transitions} transitions, {lasted.count()} episodes")
        with timed("traffic"):
            passed = traffic(followed, settings).cache()
            tell(f"{passed.count()} windows of cells")
        figures(followed, met, lasted, spark.read.parquet(str(file)))
        picture.write_text(drawn(passed, met))
        stop(spark)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Tell how long something took."""
    start = time.monotonic()
    yield
    tell(f"{what}: {time.monotonic() - start:.1f} s")


def tell(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def figures(followed: DataFrame, met: DataFrame, lasted: DataFrame, file: DataFrame) -> None:
    """Tell what was found."""
    tell(f"states: {dict(met.groupBy('state').count().collect())}")
    length = F.col("until") - F.col("since")
    shape = lasted.select(
        F.percentile_approx(length, [0.5, 0.9]), F.count_distinct("a", "b")
    ).first()
    assert shape is not None
    tell(f"episodes last {shape[0]} s (half, nine tenths); {shape[1]} pairs")
    marked = file.select(
        F.col("entity_id").alias("node"),
        F.col("ts").cast("double").alias("time"),
        F.col("suspect").alias("marked"),
    )
    agreement = (
        followed.join(marked, ["node", "time"])
        .groupBy("marked", F.col("suspect").alias("reason"))
        .count()
        .collect()
    )
    tell(f"the file's mark against ours: {[tuple(row) for row in agreement]}")


def drawn(passed: DataFrame, met: DataFrame) -> str:
    """Return the picture: cells by speed, circles where taxis come near each other."""
    inside = f"lat BETWEEN {SOUTH} AND {NORTH} AND lon BETWEEN {WEST} AND {EAST}"
    cells = (
        passed.where(inside)
        .groupBy("cell", "lat", "lon")
        .agg(
            F.sum("fixes").alias("fixes"),
            (F.sum(F.col("median_mps") * F.col("fixes")) / F.sum("fixes")).alias("speed"),
        )
        .where(f"fixes >= {FEWEST_FIXES} AND speed IS NOT NULL")
        .orderBy("cell")
        .collect()
    )
    rough = [F.round(F.col(name) * 250).alias(name) for name in ("lat", "lon")]
    spots = (
        met.where(f"state = 'near' AND {inside}")
        .groupBy(*rough)
        .agg(F.count("*").alias("count"))
        .orderBy(F.desc("count"), "lat", "lon")
        .collect()
    )
    size = WIDE * 256.0 / (111_195.0 * math.cos(math.radians(NORTH)) * (EAST - WEST))
    paths: list[list[str]] = [[] for _ in COLOURS]
    for row in cells:
        x, y = at(row.lat, row.lon)
        colour = min(int(row.speed / FASTEST_MPS * len(COLOURS)), len(COLOURS) - 1)
        paths[colour].append(
            f"M{x - size / 2:.0f} {y - size / 2:.0f}h{size:.0f}v{size:.0f}h-{size:.0f}z"
        )
    most = max(row["count"] for row in spots)
    circles = []
    for row in spots:
        radius = 24.0 * math.sqrt(row["count"] / most)
        if radius >= 1.5:
            x, y = at(row.lat / 250.0, row.lon / 250.0)
            circles.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{radius:.1f}"/>')
    legend = "".join(
        f'<rect x="{20 + 34 * i}" y="{HIGH + 14}" width="34" height="12" fill="{colour}"/>'
        for i, colour in enumerate(COLOURS)
    )
    words = (
        f'<text x="20" y="{HIGH + 44}">median speed of a cell, 0 to {FASTEST_MPS:g} m/s</text>'
        f'<text x="340" y="{HIGH + 26}">circles: where taxis came within 100 m of each other; '
        f"the largest is {most} times</text>"
    )
    layers = "".join(
        f'<path fill="{colour}" d="{"".join(path)}"/>'
        for colour, path in zip(COLOURS, paths, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH + 60}" '
        'font-family="sans-serif" font-size="15" fill="#222">'
        f'<rect width="{WIDE}" height="{HIGH + 60}" fill="#fff"/>{layers}'
        '<g fill="#111" fill-opacity="0.28" stroke="#111" stroke-width="0.7">'
        f"{''.join(circles)}</g>"
        f"{legend}{words}</svg>\n"
    )


def at(lat: float, lon: float) -> tuple[float, float]:
    """Return where a position is on the picture."""
    return (lon - WEST) / (EAST - WEST) * WIDE, (NORTH - lat) / (NORTH - SOUTH) * HIGH


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
