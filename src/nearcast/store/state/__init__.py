"""The durable state of a broker: one SQLite file."""
