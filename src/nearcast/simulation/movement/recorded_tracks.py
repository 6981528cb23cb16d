"""Recorded tracks: real movement from a Parquet file of `entity_id, ts, lat, lon`."""

from pathlib import Path

from nearcast.core.model.geometry.position import Position
from nearcast.simulation.movement.population import MovingNode, RecordedCourse


def recorded_nodes(file: Path, nodes: int) -> list[MovingNode]:
    """Return the first nodes by name; time 0 is the first fix of the file."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=["entity_id", "ts", "lat", "lon"]).sort_by("ts")
    names = sorted(pc.unique(table["entity_id"]).to_pylist())[:nodes]
    first = pc.min(table["ts"]).as_py()
    table = table.filter(pc.is_in(table["entity_id"], pa.array(names, pa.string())))
    times: dict[str, list[float]] = {name: [] for name in names}
    positions: dict[str, list[Position]] = {name: [] for name in names}
    for row in table.to_pylist():
        times[row["entity_id"]].append((row["ts"] - first).total_seconds())
        positions[row["entity_id"]].append(Position(row["lat"], row["lon"]))
    return [MovingNode(name, RecordedCourse(times[name], positions[name])) for name in names]
