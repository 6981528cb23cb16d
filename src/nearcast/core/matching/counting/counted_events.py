"""Counted events: for each question that filters ask by `count`, the recent events that answer it.

A question is a subject pattern and a filter that looks at the event alone. Each event is judged
once for each question, however many subscribers ask it and however often; what depends on who
asks (rights, targets, distance) is left to the asking. Questions that nobody has asked for long go
when too many events are remembered for them.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from nearcast.core.language import Filter
from nearcast.core.matching.counting.counted_columns import RecentColumns
from nearcast.core.matching.live.live_events import Bound, LiveEvents
from nearcast.core.matching.tables import I64, enough, resized
from nearcast.core.model.event import Event
from nearcast.core.model.subject import subject_matches

MOST_REMEMBERED = 2_000_000
"""Events that are remembered for all questions together, an event once for each: 8 bytes each."""
FIRST_ROOM = 64
MANY = 1_024
"""A question with more events is answered by the cells near an area."""

Judge = Callable[[Event, Filter], bool]
"""Says whether a filter that looks at the event alone holds for an event."""


class Question:
    """The events that match one subject pattern and filter, oldest first."""

    def __init__(self, subject: str, where: Filter | None) -> None:
        self.subject = subject
        self.where = where
        self.judged = 0
        """The number of the next event to be judged."""
        self._start = self._end = 0
        self._numbers = np.zeros(FIRST_ROOM, np.int64)
        self._readable: dict[str, bool] = {}
        self._special: deque[int] = deque()
        self._special_numbers: I64 | None = None

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def numbers(self) -> I64:
        """The numbers of the events."""
        return self._numbers[self._start : self._end]

    @property
    def special(self) -> I64:
        """The numbers of those with a target or about nodes, which do not reach everyone."""
        if self._special_numbers is None:
            self._special_numbers = np.array(self._special, np.int64)
        return self._special_numbers

    def matches_subject(self, subject: str) -> bool:
        """Whether the pattern selects a subject; remembered for each."""
        found = self._readable.get(subject)
        if found is None:
            found = self._readable[subject] = subject_matches(self.subject, subject)
        return found

    def add(self, number: int, event: Event) -> None:
        """Add an event that matches."""
        if self._end == len(self._numbers):
            self._make_room()
        self._numbers[self._end] = number
        self._end += 1
        if event.to is not None or event.about:
            self._special.append(number)
            self._special_numbers = None

    def drop_before(self, number: int) -> int:
        """Drop the events before a number; return how many there were."""
        gone = int(self.numbers.searchsorted(number))
        self._start += gone
        while self._special and self._special[0] < number:
            self._special.popleft()
            self._special_numbers = None
        return gone

    def among(self, numbers: I64) -> I64:
        """Return those of some numbers, in order, that are among its own."""
        return numbers[_is_in(self.numbers, numbers)]

    def count_usual(self, without: I64) -> int:
        """Return how many are not special, without some numbers."""
        own, special = self.among(without), self.special
        return len(self) - len(special) - len(own) + int(_is_in(special, own).sum())

    def _make_room(self) -> None:
        count = len(self)
        numbers = np.zeros(max(FIRST_ROOM, 2 * count), np.int64)
        numbers[:count] = self.numbers
        self._numbers, self._start, self._end = numbers, 0, count
        # Subjects come and go.
        self._readable.clear()


class CountedEvents(LiveEvents):
    """Recent events, and the questions that are asked about them."""

    def __init__(self, bound_of_target: Callable[[Event], Bound | None], judge: Judge) -> None:
        super().__init__(bound_of_target)
        self._judge = judge
        self._arrived: deque[tuple[str, Event]] = deque()
        self._first = 0
        """The number of the oldest; those that arrived later are numbered on."""
        self.columns = RecentColumns()
        self._number_of_row = np.zeros(FIRST_ROOM, np.int64)
        self._numbers: dict[tuple[str, str], list[int]] = {}
        """Numbers by publisher and id."""
        self._questions: OrderedDict[tuple[str, Filter | None], Question] = OrderedDict()
        self._remembered = 0

    def put(self, key: str, event: Event) -> None:
        """Store an event under a new key."""
        super().put(key, event)
        number = self._first + len(self._arrived)
        self._arrived.append((key, event))
        self._number(key, number, event)

    def remove(self, key: str) -> bool:
        """Remove the event under a key; return whether there was one."""
        if not super().remove(key):
            return False
        if self._arrived[0][0] != key:
            self._number_anew([each for each in self._arrived if each[0] != key])
            return True
        _, event = self._arrived.popleft()
        self.columns.drop_first()
        numbers = self._numbers[event.publisher, event.id]
        numbers.remove(self._first)
        if not numbers:
            del self._numbers[event.publisher, event.id]
        self._first += 1
        return True

    def clear(self) -> None:
        """Remove all events, and forget the questions."""
        super().clear()
        self._number_anew([])

    def event(self, number: int) -> Event:
        """Return an event by its number."""
        return self._arrived[number - self._first][1]

    def numbers_of(self, event: Event) -> I64:
        """Return the numbers of an event, if it is among them."""
        return np.array(self._numbers.get((event.publisher, event.id), ()), np.int64)

    def numbers_near(self, question: Question, bound: Bound) -> I64:
        """Return the numbers of the events of a question that may be within a circle."""
        if len(question) <= MANY:
            return question.numbers
        rows = self.rows_near(bound)
        if len(rows) >= len(question):
            return question.numbers
        return question.among(np.sort(self._number_of_row[rows]))

    def answer(self, subject: str, where: Filter | None) -> Question:
        """Return a question with all events that match it now."""
        question = self._questions.get((subject, where))
        if question is None:
            question = self._questions[subject, where] = Question(subject, where)
        self._questions.move_to_end((subject, where))
        self._remembered -= question.drop_before(self._first)
        for number, event in self._since(max(question.judged, self._first)):
            if question.matches_subject(event.subject) and (
                where is None or self._judge(event, where)
            ):
                question.add(number, event)
                self._remembered += 1
        question.judged = self._first + len(self._arrived)
        while self._remembered > MOST_REMEMBERED and len(self._questions) > 1:
            _, oldest = self._questions.popitem(last=False)
            self._remembered -= len(oldest)
        return question

    def _since(self, number: int) -> Iterator[tuple[int, Event]]:
        # From the newest: a deque is reached from its ends.
        count = self._first + len(self._arrived) - number
        found = [self._arrived[-1 - back][1] for back in range(count)]
        return zip(range(number, number + count), reversed(found), strict=True)

    def _number(self, key: str, number: int, event: Event) -> None:
        row = self._rows[key]
        if row >= len(self._number_of_row):
            self._number_of_row = resized(self._number_of_row, enough(row, row + 1))
        self._number_of_row[row] = number
        self.columns.append(event)
        self._numbers.setdefault((event.publisher, event.id), []).append(number)

    def _number_anew(self, arrived: list[tuple[str, Event]]) -> None:
        self._first += len(self._arrived) + 1
        self._arrived = deque(arrived)
        self._questions.clear()
        self._remembered = 0
        self._numbers = {}
        self.columns = RecentColumns(self._first)
        for number, (key, event) in enumerate(arrived, self._first):
            self._number(key, number, event)


def _is_in(known: I64, numbers: I64) -> npt.NDArray[np.bool_]:
    """Return which numbers are among known ones, which are in order."""
    if not len(known):
        return np.zeros(len(numbers), np.bool_)
    found: npt.NDArray[np.bool_] = known.take(known.searchsorted(numbers), mode="clip") == numbers
    return found
