"""The pipeline benchmark: the matching stage in Spark and a join in Spark SQL."""
