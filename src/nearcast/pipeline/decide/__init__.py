"""Recipients of events, decided in Spark by the broker's own engine."""
