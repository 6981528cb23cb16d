"""Timestamps are read as RFC 3339 has them, and nothing else is."""

import calendar
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.core.language.evaluation.instants import read_timestamp

DIGITS = "0123456789"


class Plain:
    """The grammar of RFC 3339, section 5.6, rule by rule, one character after the other."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def one_of(self, wanted: str) -> str:
        found = self.text[self.at : self.at + 1]
        if not found or found not in wanted:
            raise ValueError
        self.at += 1
        return found

    def number(self, digits: int, least: int, most: int) -> int:
        found = int("".join(self.one_of(DIGITS) for _ in range(digits)))
        if not least <= found <= most:
            raise ValueError
        return found

    def fraction(self) -> str:
        if self.text[self.at : self.at + 1] != ".":
            return ""
        self.one_of(".")
        found = self.one_of(DIGITS)
        while self.text[self.at : self.at + 1] in tuple(DIGITS):
            found += self.one_of(DIGITS)
        return found

    def offset_minutes(self) -> int:
        sign = self.one_of("Zz+-")
        if sign in "Zz":
            return 0
        hours = self.number(2, 0, 23)
        self.one_of(":")
        return (hours * 60 + self.number(2, 0, 59)) * (-1 if sign == "-" else 1)

    def microseconds(self) -> int:
        """Microseconds since 1970; a leap second counts as the one after it."""
        year = self.number(4, 1, 9999)  # The calendar here has no year 0.
        self.one_of("-")
        month = self.number(2, 1, 12)
        self.one_of("-")
        day = self.number(2, 1, calendar.monthrange(year, month)[1])
        self.one_of("Tt")
        hour = self.number(2, 0, 23)
        self.one_of(":")
        minute = self.number(2, 0, 59)
        self.one_of(":")
        second = self.number(2, 0, 60)
        micros = int(self.fraction().ljust(6, "0")[:6])
        minutes = hour * 60 + minute - self.offset_minutes()
        if self.at != len(self.text) or (second == 60 and minutes % 1440 != 1439):
            raise ValueError
        days = datetime(year, month, day).toordinal() - datetime(1970, 1, 1).toordinal()
        seconds = (days * 1440 + minutes) * 60 + second
        if not -62_135_596_800 <= seconds < 253_402_300_800:
            raise ValueError
        return seconds * 1_000_000 + micros


def two(most: int) -> st.SearchStrategy[str]:
    return st.integers(0, most).map("{:02}".format) | st.sampled_from([f"{most:02}", "00", "59"])


timestamps = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.integers(0, 9999).map("{:04}".format) | st.sampled_from(["0001", "9999", "2026"]),
    two(13), two(32), st.sampled_from("TTTt _"), two(24), two(60), two(61),
    st.sampled_from(["", ".5", ".123456", ".1234567891234", ".", ",5"]),
    st.sampled_from(["Z", "z", "", "+00:00", "-00:00", "+0530", "+05", "+23:59", "+24:00",
                     "-12:00", "+05:30:00", "+00:60"]),
)  # fmt: skip
edited = st.builds(
    lambda text, at, cut, new: text[:at] + new + text[at + cut :],
    timestamps, st.integers(0, 30), st.integers(0, 2), st.text("0159TZ:-+.W٣ ", max_size=2),
)  # fmt: skip


@given(timestamps | edited)
@example("2016-12-31T23:59:60Z")
@example("2016-12-31T15:59:60.25-08:00")
@example("9999-12-31T23:59:60Z")
@example("2026-01-01t10:00:00z")
@example("2026-01-01T10:00:00+0530")
@example("2026-01-01T24:00:00Z")
def test_what_the_grammar_reads_is_read_and_nothing_else(text: str) -> None:
    try:
        expected = Plain(text).microseconds()
    except ValueError:
        with pytest.raises(ValueError, match=r"\w"):
            read_timestamp(text)
        return
    found = read_timestamp(text) - datetime(1970, 1, 1, tzinfo=UTC)
    assert (found.days * 86_400 + found.seconds) * 1_000_000 + found.microseconds == expected


@pytest.mark.parametrize(
    "text",
    ["2026-01-01", "20260101T100000Z", "2026-W01-1T10:00:00Z", "2026-01-01T10:00Z",
     "2026-01-01T10Z", "2026-01-01 10:00:00Z", "2026-01-01T10:00:00", "1767261600", "",
     "2026-01-01T10:00:00+0530", "2026-01-01T10:00:60Z", " 2026-01-01T10:00:00Z"],
)  # fmt: skip
def test_other_forms_of_iso_8601_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_timestamp(text)


def test_a_leap_second_is_the_second_after_it() -> None:
    assert read_timestamp("2016-12-31T23:59:60.5Z") == datetime(2017, 1, 1, 0, 0, 0, 500_000, UTC)
