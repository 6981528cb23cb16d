"""Training: one dictionary for the small messages of a subject pattern, from a broker's log."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import zstandard

from nearcast.core.model.subject import check_pattern, subject_matches
from nearcast.pipeline.dictionaries.shared_texts import SharedTexts, publishers_of
from nearcast.pipeline.errors import PipelineInputError
from nearcast.store import LogReader
from nearcast.store.dictionaries import StoredDictionary
from nearcast.wire.encoding.content_codings import LARGEST_DICTIONARY

MOST_SAMPLES = 20_000
"""The newest messages that a dictionary is trained from."""
LEAST_SAMPLES = 100
LARGEST_SAMPLE = 4_096
LEAST_PUBLISHERS = 10
FEWEST_PUBLISHERS = 2
LARGEST = 4_096
_SMALLEST = 256


def train_dictionary(
    log: Path,
    pattern: str,
    now: float,
    least_publishers: int = LEAST_PUBLISHERS,
    largest: int = LARGEST,
) -> StoredDictionary:
    """Return a dictionary for the messages of a pattern; raise `PipelineInputError` if it has few.

    Only texts of at least `least_publishers` are in it. The same log gives the same dictionary.
    """
    check_pattern(pattern)
    _check("publishers", least_publishers, FEWEST_PUBLISHERS, 10_000)
    _check("bytes", largest, _SMALLEST, LARGEST_DICTIONARY)
    samples = list(_samples(log, pattern))
    if len(samples) < LEAST_SAMPLES:
        raise PipelineInputError(
            f"the log has {len(samples)} small messages of {pattern}; a dictionary needs "
            f"{LEAST_SAMPLES}"
        )
    if (count := publishers_of(samples)) < least_publishers:
        raise PipelineInputError(
            f"the messages of {pattern} are of {count} publishers; every text in a dictionary is "
            f"of at least {least_publishers}"
        )
    shared, chance = SharedTexts(samples, least_publishers), Random(pattern)
    anonymous = [shared.anonymous(payload, chance).encode() for _, payload in samples]
    try:
        trained = zstandard.train_dictionary(largest, [*anonymous]).as_bytes()
    except zstandard.ZstdError as error:
        raise PipelineInputError(
            f"the messages of {pattern} have too little in common: {error}"
        ) from None
    return StoredDictionary(pattern, least_publishers, largest, 0, trained, now, len(samples))


def _samples(log: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield publishers and payloads of small texts, the newest first."""
    count = 0
    for batch in LogReader(log).read_backwards():
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        for kind, subject, publisher, payload, data in zip(*map(reversed, columns), strict=True):
            if kind != "event" or not payload or len(payload) > LARGEST_SAMPLE:
                continue
            if '"people":' in data:
                # Nobody sees an event with a smallest people by itself.
                continue
            if not publisher or not subject_matches(pattern, subject):
                continue
            try:
                text = payload.decode()
            except UnicodeDecodeError:
                continue
            yield publisher, text
            count += 1
            if count == MOST_SAMPLES:
                return


_COLUMNS = ("kind", "subject", "publisher", "payload", "data")


def _check(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise PipelineInputError(f"{value} {what} are out of range: {least} to {most}")
