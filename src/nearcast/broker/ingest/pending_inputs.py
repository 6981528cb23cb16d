"""What the running tick asks of the engine, in order, and whom to answer when it is decided."""

from msgspec import Struct

from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Input, Published
from nearcast.store import Change

DECIDED = -1
"""Stands for the index of an input where there is none: the answer is known already."""


class Answer(Struct, frozen=True, gc=False):
    """Whom to tell what became of a message."""

    connection: Connection
    qos: int
    packet_id: int
    topic: str = ""
    keep: tuple[Change, ...] = ()
    """What is to be kept if it is accepted."""


class PendingInputs:
    """Inputs that the engine has not decided yet."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.answers: list[tuple[int, Answer, RefusedError | None]] = []
        """The input, whom to tell of it, and the refusal if that is known; in order of arrival."""
        self._has_controls = False
        self._subjects: set[str] = set()
        self._events: set[tuple[str, str]] = set()
        """Publishers and ids of the events."""
        self._live_keys: set[str] = set()
        """Keys under which events among them will be live."""

    def __bool__(self) -> bool:
        return bool(self.inputs)

    @property
    def has_events(self) -> bool:
        """Whether some of them are events."""
        return bool(self._subjects)

    def ask(self, value: Input) -> None:
        """Add an input on which decisions about later events depend."""
        self.inputs.append(value)
        self._has_controls = True

    def publish(self, event: Event) -> None:
        """Add an event."""
        self._subjects.add(event.subject)
        self._events.add((event.publisher, event.id))
        self.inputs.append(Published(event))

    def answer_next(self, answer: Answer) -> None:
        """Let a client be told what becomes of the next input."""
        self.answers.append((len(self.inputs), answer, None))
        answer.connection.waits = True

    def answer_in_turn(self, answer: Answer, refusal: RefusedError | None) -> None:
        """Let a client be told what is known already, after what it still waits for."""
        self.answers.append((DECIDED, answer, refusal))

    def has_event(self, publisher: str, name: str) -> bool:
        """Whether an event with this id is among them."""
        return (publisher, name) in self._events

    def must_precede(self, connection: Connection, subject: str, qos: int) -> bool:
        """Whether a message that is delivered now would overtake one of them."""
        return bool(self.inputs) and (
            self._has_controls or subject in self._subjects or (qos > 0 and connection.waits)
        )

    def reserve(self, key: str, live: int, most: int) -> bool:
        """Let an event be live under a new key; False if there would be more than `most`."""
        if key not in self._live_keys:
            if live + len(self._live_keys) >= most:
                return False
            self._live_keys.add(key)
        return True

    def take(self) -> tuple[list[Input], list[tuple[int, Answer, RefusedError | None]]]:
        """Return the inputs and the answers, and begin anew."""
        inputs, answers = self.inputs, self.answers
        self.inputs, self.answers, self._has_controls = [], [], False
        self._subjects.clear()
        self._events.clear()
        self._live_keys.clear()
        return inputs, answers
