"""The log of the broker: one line for each event, as text or as JSON.

Lines cannot be forged, and one client cannot flood the log: unprintable characters are escaped,
long values are cut, and only a few lines about one event and one client are written in ten seconds;
then a line counts those left out. All times are those of the records.
"""

import json
import logging
import math
import sys
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

from msgspec import Struct

from nearcast.broker.config.settings import LoggingSection
from nearcast.logs import LogMessage

LONGEST_VALUE = 200
LONGEST_EVENT = 1_000
LONGEST_TRACEBACK = 20_000
REPEATS = 5
WINDOW_S = 10.0
REMEMBERED = 1_000

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_QUOTED = {'"': '\\"', "\\": "\\\\"}


def set_up(section: LoggingSection, stream: TextIO | None = None) -> logging.Handler:
    """Send all log records of this process to a stream, by default standard error.

    A second call replaces the first. Closing the handler logs the counts of lines left out.
    """
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, LogHandler):
            root.removeHandler(old)
            old.close()
    handler = LogHandler(section, sys.stderr if stream is None else stream)
    root.addHandler(handler)
    root.setLevel(section.level.upper())
    return handler


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes lines in the configured form, and limits repeated ones."""

    def __init__(self, section: LoggingSection, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(JsonFormatter() if section.form == "json" else TextFormatter())
        self.repeats = RepeatFilter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record unless it exceeds the limit; before it, counts of those left out."""
        try:
            lines = self.repeats.sift(record)
        except Exception:
            # A message that does not match its arguments must not raise in the calling code.
            self.handleError(record)
            return
        for line in lines:
            super().emit(line)

    def close(self) -> None:
        """Write the counts of lines left out."""
        self.acquire()
        try:
            for line in self.repeats.rest():
                super().emit(line)
        finally:
            self.release()
        super().close()


class TextFormatter(logging.Formatter):
    """Time, level, event, then `key=value`; a traceback follows on indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        parts = [_time(record.created), record.levelname, _escaped(_event(record), _SHORT)]
        parts += (f"{name}={_in_text(value)}" for name, value in _fields(record).items())
        lines = [" ".join(parts)]
        lines += (
            f"    {_escaped(line, _SHORT)}" for line in _traceback(record).split("\n") if line
        )
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _event(record),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in line else name] = value
        if traceback := _traceback(record):
            line["traceback"] = traceback
        return json.dumps(line, allow_nan=False)


class RepeatFilter:
    """Limits the lines about one event and one client in a window of time.

    At most `remembered` windows are kept: beyond that, the oldest is dropped.
    """

    def __init__(
        self, most: int = REPEATS, window_s: float = WINDOW_S, remembered: int = REMEMBERED
    ) -> None:
        self._most = most
        self._window_s = window_s
        self._remembered = remembered
        # In the order in which the windows began.
        self._windows: OrderedDict[tuple[str, str, str], _RepeatWindow] = OrderedDict()

    def sift(self, record: logging.LogRecord) -> list[logging.LogRecord]:
        """Return what to write now: counts of ended windows, then the record if allowed.

        Debug records are never left out.
        """
        lines = self._end(record.created)
        if record.levelno < logging.INFO:
            return [*lines, record]
        client = str(_fields(record).get("client", ""))
        key = (record.name, _event(record), client)
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= self._remembered:
                lines += self._forget(next(iter(self._windows)), record.created)
            window = self._windows[key] = _RepeatWindow(record.levelno, record.created)
        window.count += 1
        window.last = record.created
        return [*lines, record] if window.count <= self._most else lines

    def rest(self) -> list[logging.LogRecord]:
        """Return the counts of all windows, and drop the windows."""
        lines: list[logging.LogRecord] = []
        for key, window in list(self._windows.items()):
            lines += self._forget(key, window.last)
        return lines

    def statistics(self) -> dict[str, int]:
        """Return the number of windows."""
        return {"remembered": len(self._windows)}

    def _end(self, now: float) -> list[logging.LogRecord]:
        lines: list[logging.LogRecord] = []
        while self._windows:
            key, window = next(iter(self._windows.items()))
            # The clock may have been set back: a window that begins in the future is over too.
            if abs(now - window.since) < self._window_s:
                break
            lines += self._forget(key, now)
        return lines

    def _forget(self, key: tuple[str, str, str], now: float) -> list[logging.LogRecord]:
        window = self._windows.pop(key)
        left_out = window.count - self._most
        if left_out <= 0:
            return []
        logger, event, client = key
        of: dict[str, object] = {"of": event, "client": client} if client else {"of": event}
        level = logging.getLevelName(window.level)
        return [
            logging.makeLogRecord(
                {
                    "name": logger, "levelno": window.level, "levelname": level, "created": now,
                    "msg": LogMessage("left out", of | {"lines": left_out}),
                }
            )
        ]  # fmt: skip


class _RepeatWindow(Struct):
    level: int
    since: float
    count: int = 0
    last: float = 0.0


def _time(created: float) -> str:
    moment = datetime.fromtimestamp(created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z"


def _event(record: logging.LogRecord) -> str:
    logged = record.msg
    event = logged.event if isinstance(logged, LogMessage) else record.getMessage()
    return _cut(event, LONGEST_EVENT)


def _fields(record: logging.LogRecord) -> dict[str, str | int | float | None]:
    logged = record.msg
    fields = logged.fields if isinstance(logged, LogMessage) else {}
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: object) -> str | int | float | None:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, bytes):
        value = value[: LONGEST_VALUE + 1].decode(errors="backslashreplace")
    return _cut(str(value), LONGEST_VALUE)


def _in_text(value: str | int | float | None) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if value and value.isprintable() and not any(mark in value for mark in ' "=\\'):
        return value
    return f'"{_escaped(value, _SHORT | _QUOTED)}"'


def _escaped(text: str, short: Mapping[str, str]) -> str:
    return "".join(
        short.get(letter) or (letter if letter.isprintable() else _number(letter))
        for letter in text
    )


def _number(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x1_0000 else f"\\U{ord(letter):08x}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _traceback(record: logging.LogRecord) -> str:
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    parts = [part for part in (record.exc_text, record.stack_info) if part]
    return _cut("\n".join(parts), LONGEST_TRACEBACK)
