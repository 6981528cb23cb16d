"""Pending engine inputs of the current tick, in order, and the answers they need."""

from msgspec import Struct

from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Input, NodeExpired, Published
from nearcast.store import Change

DECIDED = -1
"""Used as input index if the answer is already known."""


class Answer(Struct, frozen=True, gc=False):
    """The connection and message that an acknowledgement is for."""

    connection: Connection
    qos: int
    packet_id: int
    topic: str = ""
    keep: tuple[Change, ...] = ()
    """Changes to store if the message is accepted."""


class PendingInputs:
    """Inputs that the engine has not decided yet."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.answers: list[tuple[int, Answer, RefusedError | None]] = []
        """Input index, answer, and the refusal if already known; in order of arrival."""
        self._has_controls = False
        self._subjects: set[str] = set()
        self._expiring: set[str] = set()
        """Nodes whose expiry is pending."""
        self._events: set[tuple[str, str]] = set()
        """Publishers and ids of the pending events."""

    def __bool__(self) -> bool:
        return bool(self.inputs)

    @property
    def has_events(self) -> bool:
        """Whether events are pending."""
        return bool(self._subjects)

    def ask(self, value: Input) -> None:
        """Add an input that affects decisions on later events."""
        self.inputs.append(value)
        self._has_controls = True
        if type(value) is NodeExpired:
            self._expiring.add(value.node)

    def publish(self, event: Event) -> None:
        """Add an event."""
        self._subjects.add(event.subject)
        self._events.add((event.publisher, event.id))
        self.inputs.append(Published(event))

    def answer_next(self, answer: Answer) -> None:
        """Answer a client when the next input is decided."""
        self.answers.append((len(self.inputs), answer, None))
        answer.connection.waits = True

    def answer_in_turn(self, answer: Answer, refusal: RefusedError | None) -> None:
        """Queue an answer that is already known, after the pending ones."""
        self.answers.append((DECIDED, answer, refusal))

    def has_event(self, publisher: str, name: str) -> bool:
        """Whether an event with this id is pending."""
        return (publisher, name) in self._events

    def is_expiring(self, node: str) -> bool:
        """Whether the state of a node is about to be dropped."""
        return node in self._expiring

    def concerns(self, node: str) -> bool:
        """Whether an input of a node is pending."""
        return any(getattr(each, "node", None) == node for each in self.inputs)

    def must_precede(self, connection: Connection, subject: str, qos: int) -> bool:
        """Whether a message delivered now would overtake a pending input."""
        return bool(self.inputs) and (
            self._has_controls or subject in self._subjects or (qos > 0 and connection.waits)
        )

    def take(self) -> tuple[list[Input], list[tuple[int, Answer, RefusedError | None]]]:
        """Return the inputs and the answers, and reset."""
        inputs, answers = self.inputs, self.answers
        self.inputs, self.answers, self._has_controls = [], [], False
        self._subjects.clear()
        self._events.clear()
        self._expiring.clear()
        return inputs, answers
