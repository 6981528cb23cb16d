"""What the broker says: one line each, which nobody can forge and nobody can flood."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.config.settings import LoggingSection
from nearcast.broker.operations.log_handler import LogHandler, RepeatFilter, set_up
from nearcast.logs import LogMessage, log_event

LOGGER = logging.Logger("nearcast.broker")


class Spoken:
    """A logger of its own and what it wrote."""

    def __init__(self, form: Literal["text", "json"]) -> None:
        self.stream = io.StringIO()
        self.handler = LogHandler(LoggingSection(form=form), self.stream)
        self.logger = logging.Logger("nearcast.broker")
        self.logger.addHandler(self.handler)

    def lines(self) -> list[str]:
        return self.stream.getvalue().split("\n")[:-1]

    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines()]


@pytest.fixture
def text() -> Spoken:
    return Spoken("text")


@pytest.fixture
def as_json() -> Spoken:
    return Spoken("json")


def record(event: str, created: float, client: str = "", level: int = logging.INFO) -> object:
    fields = {"client": client} if client else {}
    made = LOGGER.makeRecord("n", level, "", 0, event, (), None)
    made.msg = LogMessage(event, fields)
    made.created = created
    return made


def test_text_has_the_time_the_level_the_event_and_fields(text: Spoken) -> None:
    log_event(text.logger, logging.WARNING, "client refused", client="car-7", tries=3, late=None)
    (line,) = text.lines()
    time, rest = line.split(" ", 1)
    assert rest == "WARNING client refused client=car-7 tries=3 late=null"
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert time.endswith("Z")


def test_json_is_one_object_a_line_with_typed_fields(as_json: Spoken) -> None:
    log_event(
        as_json.logger, logging.INFO, "100% done", client="é", share=0.5, ok=True, worst=1e999
    )
    (line,) = as_json.objects()
    datetime.fromisoformat(str(line.pop("time")))
    assert line == {
        "level": "info",
        "logger": "nearcast.broker",
        "event": "100% done",
        "client": "é",
        "share": 0.5,
        "ok": True,
        "worst": "inf",
    }


def test_a_field_cannot_stand_for_what_is_ours(as_json: Spoken) -> None:
    log_event(as_json.logger, logging.INFO, "seen", event="forged", level="forged", logger="forged")
    (line,) = as_json.objects()
    assert (line["event"], line["level"], line["event_"]) == ("seen", "info", "forged")


def test_text_of_clients_is_escaped_in_quotes(text: Spoken) -> None:
    log_event(
        text.logger, logging.INFO, "seen", a="x y", b='q"\\', c="", d="k=v", e=b"\xff", f="\x1b[2J"
    )
    assert text.lines()[0].endswith(r'seen a="x y" b="q\"\\" c="" d="k=v" e="\\xff" f="\u001b[2J"')


@given(value=st.text(st.characters()), form=st.sampled_from(("text", "json")))
def test_no_value_event_or_argument_makes_a_second_line(
    value: str, form: Literal["text", "json"]
) -> None:
    spoken = Spoken(form)
    log_event(spoken.logger, logging.INFO, "seen", client=value)
    log_event(spoken.logger, logging.INFO, value)
    spoken.logger.info("%s came", value)
    written = spoken.stream.getvalue()
    assert written.count("\n") == 3
    assert len(written.splitlines()) == 3
    assert written.replace("\n", "").isprintable()


def test_long_values_and_events_are_cut(as_json: Spoken) -> None:
    log_event(
        as_json.logger,
        logging.INFO,
        "e" * 5_000,
        text="x" * 201,
        bytes=b"y" * 5_000,
        fits="z" * 200,
    )
    (line,) = as_json.objects()
    assert line["text"] == "x" * 200 + "…"
    assert line["bytes"] == "y" * 200 + "…"
    assert line["fits"] == "z" * 200
    assert len(str(line["event"])) == 1_001


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_cannot_forge_a_line_either(form: Literal["text", "json"]) -> None:
    spoken = Spoken(form)
    try:
        raise ValueError("bad\n2026-01-01T00:00:00.000Z INFO all is well\r\x1b")
    except ValueError:
        spoken.logger.exception("it failed")
    first, *others = spoken.lines()
    assert "it failed" in first
    assert all(line.startswith("    ") for line in others)
    assert "all is well" in spoken.stream.getvalue()
    assert spoken.stream.getvalue().replace("\n", "").isprintable()


def test_a_message_that_does_not_fit_its_arguments_hurts_nobody(
    text: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    text.logger.info("%d clients", "many")
    text.logger.info("next")
    assert len(text.lines()) == 1


def sift(repeats: RepeatFilter, *records: object) -> Iterator[list[tuple[str, object]]]:
    for one in records:
        assert isinstance(one, logging.LogRecord)
        yield [
            (message.event, message.fields.get("lines"))
            for line in repeats.sift(one)
            if isinstance(message := line.msg, LogMessage)
        ]


def test_what_repeats_itself_is_left_out_and_then_counted() -> None:
    repeats = RepeatFilter(most=2, window_s=10)
    said = [record("refused", at, "a") for at in (0, 1, 2, 3, 9.9, 10)]
    assert list(sift(repeats, *said)) == [
        [("refused", None)],
        [("refused", None)],
        [],
        [],
        [],
        [("left out", 3), ("refused", None)],
    ]


def test_any_later_line_brings_what_was_left_out() -> None:
    repeats = RepeatFilter(most=1, window_s=10)
    said = [record("refused", 0, "a"), record("refused", 1, "a"), record("started", 11)]
    assert list(sift(repeats, *said))[-1] == [("left out", 1), ("started", None)]


def test_others_are_not_left_out_with_it() -> None:
    repeats = RepeatFilter(most=1)
    said = [record("refused", 0, "a"), record("refused", 0, "b"), record("left", 0, "a")]
    assert [len(lines) for lines in sift(repeats, *said)] == [1, 1, 1]


def test_debugging_is_never_left_out() -> None:
    repeats = RepeatFilter(most=1)
    said = [record("read", 0, "a", logging.DEBUG) for _ in range(5)]
    assert [len(lines) for lines in sift(repeats, *said)] == [1] * 5


def test_a_clock_that_is_set_back_does_not_silence_anybody() -> None:
    repeats = RepeatFilter(most=1, window_s=10)
    said = [record("refused", at, "a") for at in (1_000, 1_001, 5)]
    assert list(sift(repeats, *said))[-1] == [("left out", 1), ("refused", None)]


def test_few_are_remembered_however_many_there_are() -> None:
    repeats = RepeatFilter(most=1, remembered=10)
    for number in range(1_000):
        assert list(sift(repeats, record("refused", 0, f"client-{number}")))
        assert repeats.statistics()["remembered"] <= 10
    list(sift(repeats, record("refused", 0, "client-999")))
    assert [line.getMessage() for line in repeats.rest()] == [
        "left out of='refused' client='client-999' lines=1"
    ]


def test_closing_tells_what_was_left_out(as_json: Spoken) -> None:
    for _ in range(12):
        log_event(as_json.logger, logging.WARNING, "client refused", client="car-7")
    as_json.handler.close()
    last = as_json.objects()[-1]
    assert len(as_json.objects()) == 6
    assert (last["event"], last["of"], last["client"], last["lines"], last["level"]) == (
        "left out", "client refused", "car-7", 7, "warning",
    )  # fmt: skip


def test_setting_up_catches_every_logger_from_its_level_on_and_replaces_itself() -> None:
    root = logging.getLogger()
    level = root.level
    first, second = io.StringIO(), io.StringIO()
    try:
        set_up(LoggingSection(level="debug"), first)
        handler = set_up(LoggingSection(level="warning", form="json"), second)
        log_event(logging.getLogger("nearcast.test"), logging.INFO, "quiet")
        logging.getLogger("somebody.else").warning("loud")
        root.removeHandler(handler)
        handler.close()
    finally:
        root.setLevel(level)
    assert first.getvalue() == ""
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["loud"]
