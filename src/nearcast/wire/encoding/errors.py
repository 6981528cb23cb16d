"""The error of encoded payloads."""

from nearcast.errors import NearcastError


class DecodingError(NearcastError, ValueError):
    """An encoded payload that cannot be decoded, or would become too large."""
