"""Why a benchmark gives no figures."""

from nearcast.errors import NearcastError


class BenchmarkError(NearcastError):
    """A server did not start, a broker did not do what it must, or two results differ."""
