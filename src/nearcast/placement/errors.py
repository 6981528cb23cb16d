"""Errors of scripts."""

from nearcast.errors import NearcastError


class ScriptError(NearcastError, ValueError):
    """A script that cannot be placed, or a call that failed; the message says where and why."""
