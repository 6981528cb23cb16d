"""The situation benchmark: moving clients with Nearcast, with a grid of topics and with Redis."""
