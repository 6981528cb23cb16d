"""Errors of nodes without a broker."""

from nearcast.errors import NearcastError


class AdhocError(NearcastError):
    """Something that a node without a broker could not do."""


class MulticastError(AdhocError):
    """No multicast on this machine, interface or account; the message says what to do."""


class AdhocOptionsError(AdhocError, ValueError):
    """Invalid options of a node without a broker."""
