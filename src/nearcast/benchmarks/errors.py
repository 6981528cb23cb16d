"""The error raised when a benchmark cannot produce figures."""

from nearcast.errors import NearcastError


class BenchmarkError(NearcastError):
    """A server did not start, a broker misbehaved, or two results differ."""
