"""Trained dictionaries by subject pattern, and encoders for the codings that clients accept."""

from collections.abc import Iterable

from msgspec import Struct

from nearcast.broker.delivery.payload_encoder import PayloadEncoder
from nearcast.core.model.subject import subject_matches
from nearcast.wire.encoding.content_codings import Coding, Dictionary

_MOST_TOPICS = 10_000


class PatternDictionary(Struct, frozen=True):
    """A dictionary, and the subjects that it was trained on."""

    pattern: str
    dictionary: Dictionary


class DictionaryBook:
    """The dictionaries of now; the first pattern that matches a topic decides."""

    def __init__(self) -> None:
        self._dictionaries: tuple[PatternDictionary, ...] = ()
        self._by_topic: dict[str, PatternDictionary | None] = {}
        self._encoders: dict[Coding, PayloadEncoder] = {}

    def replace(self, dictionaries: Iterable[tuple[str, Dictionary]]) -> None:
        """Use these dictionaries from now on, each for the topics that match its pattern."""
        self._dictionaries = tuple(PatternDictionary(*each) for each in dictionaries)
        self._by_topic.clear()

    def for_topic(self, topic: str) -> PatternDictionary | None:
        """Return the dictionary for a topic."""
        if not self._dictionaries:
            return None
        if topic not in self._by_topic:
            if len(self._by_topic) >= _MOST_TOPICS:
                self._by_topic.clear()
            matching = (each for each in self._dictionaries if subject_matches(each.pattern, topic))
            self._by_topic[topic] = next(matching, None)
        return self._by_topic[topic]

    def encoder(self, accepted: Coding) -> PayloadEncoder | None:
        """Return the encoder of all connections that accept these codings; None for none."""
        if not accepted:
            return None
        encoder = self._encoders.get(accepted)
        if encoder is None:
            encoder = self._encoders[accepted] = PayloadEncoder(accepted, self)
        return encoder
