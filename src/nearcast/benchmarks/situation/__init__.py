"""A city of movers beside a broker with a grid of topics."""
