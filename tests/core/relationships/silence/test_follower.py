"""A node that follows: what it reports beside the messages of its pairs."""

from nearcast.core.model.geometry.position import Position
from nearcast.core.relationships.silence.follow_messages import FollowOrders, WatchedPair
from nearcast.core.relationships.silence.follower import Follower
from nearcast.core.relationships.silence.pair_member import PairMember, PairSettings
from nearcast.core.relationships.silence.pair_message import Ack
from nearcast.core.relationships.silence.regions.region import position_limit, position_point
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES


def place(metres: float) -> Position:
    return Position(53.0 + metres / 111_290.0, 0.0)


class Meeting:
    """A follower, and its peer at the broker."""

    def __init__(self, accuracy_m: float | None) -> None:
        self.a = Follower("a", accuracy_m)
        self.p = PairMember("p", PairSettings(position_limit(100.0), STRATEGIES["ring"]))
        self.now = 0.0
        self.a.obey(FollowOrders(1, pairs=(WatchedPair(1, "p", 100.0, "ring", 1),)), self.now)
        self.a.fix(place(0), self.now)
        self.reported: Position | None = None
        self.acks = 0
        self.listen()

    def listen(self) -> None:
        """Pass on what both say, until they say nothing."""
        while (report := self.a.take_report()) is not None:
            if report.position is not None:
                self.reported = Position(report.position[1], report.position[0])
            for _, message in report.messages:
                self.acks += isinstance(message, Ack) and message.adopted
                step = self.p.receive(message, self.now)
                self.tell(step.messages)

    def tell(self, messages: tuple[object, ...]) -> None:
        told = tuple((1, message) for message in messages)
        self.a.obey(FollowOrders(1, messages=told), self.now)  # type: ignore[arg-type]

    def a_is_at(self, metres: float) -> None:
        self.now += 1.0
        self.a.fix(place(metres), self.now)
        self.listen()

    def p_is_at(self, metres: float) -> None:
        self.now += 1.0
        self.tell(self.p.fix(position_point(place(metres)), self.now).messages)
        self.listen()


def test_who_adopts_regions_says_where_it_is_if_its_last_report_does_not_fit_them() -> None:
    meeting = Meeting(accuracy_m=50.0)
    meeting.p_is_at(400.0)
    meeting.a_is_at(-51.0)
    assert meeting.reported == place(-51.0), "a report for the sake of others alone"
    meeting.a_is_at(-4.0)
    assert meeting.reported == place(-51.0)
    acks = meeting.acks
    # It computes from what a said in this pair: that it is at 0.
    meeting.p_is_at(90.0)
    assert meeting.acks == acks + 1
    assert meeting.p.near
    assert meeting.reported == place(-4.0)


def test_who_adopts_regions_that_its_last_report_fits_says_no_more() -> None:
    meeting = Meeting(accuracy_m=None)
    meeting.p_is_at(400.0)
    meeting.a_is_at(-51.0)
    meeting.a_is_at(-4.0)
    meeting.p_is_at(90.0)
    assert meeting.p.near
    assert meeting.reported == place(0.0)
