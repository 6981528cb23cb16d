"""Settings of a broker, and the origin of each value."""
