"""The pipeline beside a join in Spark SQL."""
