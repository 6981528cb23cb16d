"""How every part logs: an event in fixed words, and what belongs to it as fields.

Loggers are named after the room, as in `nearcast.broker` and `nearcast.client`. Any handler of
Python prints a record as `event name=value`; the broker's, in `broker/operations/log_handler.py`,
reads the fields.
"""

import logging
from collections.abc import Mapping


class LogMessage:
    """The message of a record."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: Mapping[str, object]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{name}={value!r}" for name, value in self.fields.items())])


def log_event(logger: logging.Logger, level: int, event: str, /, **fields: object) -> None:
    """Log an event; the field `client` names the client that it is about."""
    if logger.isEnabledFor(level):
        logger.log(level, LogMessage(event, fields), stacklevel=2)
