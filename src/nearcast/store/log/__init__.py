"""The event log: rows in numbered Parquet segments."""
