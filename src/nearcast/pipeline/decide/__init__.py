"""Who gets which event, decided in Spark by the broker's own engine."""
