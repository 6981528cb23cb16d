"""The logs of all brokers as rows in Spark."""
