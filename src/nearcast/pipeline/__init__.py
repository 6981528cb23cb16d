"""The data pipeline on Spark: what all brokers recorded, as tables and as events for people."""
