"""The process that Spark's Python workers are forked from, with their imports already done.

Spark forks a worker for each concurrent task, and each would import the same modules again; that is
most of the cost of the first small batches. Spark runs this in place of its own `pyspark.daemon`.
"""

import importlib
import sys

from pyspark import daemon

USED_BY_TASKS = (
    "pandas",
    "pyarrow.parquet",
    "pyspark.worker",
    "nearcast.pipeline.decide.decisions",
    "nearcast.pipeline.gather.aggregates",
    "nearcast.pipeline.movement.movement_query",
    "nearcast.pipeline.sink.data_sink",
)


def main() -> None:
    """Import the modules that tasks use, and fork workers on request."""
    # Other workers only plan; they are few and need little.
    if sys.argv[1:] in ([], ["pyspark.worker"]):
        for name in USED_BY_TASKS:
            importlib.import_module(name)
    daemon.manager()


if __name__ == "__main__":
    main()
