"""The console: HTTP for metrics, health and the API of a broker."""
