"""What the engine of a node without a broker keeps of those that it met."""

from msgspec.structs import replace

from nearcast.core.engine.proximity_engine import ProximityEngine
from nearcast.core.model import circle
from nearcast.core.model.event import Subscription
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.messages import Beacon
from nearcast.core.proximity.settings import ProximitySettings
from tests.support.radio_field import CENTRE

SIREN = event_type("siren", {"lane": int}, validity=10)
FEW = ProximitySettings(proximities_most=20)


def test_of_many_who_passed_by_no_more_are_known_than_proximities() -> None:
    source, node = ProximityEngine("p"), ProximityEngine("c", FEW)
    for each in (source, node):
        each.move(CENTRE, 0.0)
    node.subscribe(Subscription("s", "c", "#", None, None, no_local=True), 0.0)
    (send,) = source.announce(SIREN, circle("me", 100), 0.0).sends
    assert isinstance(send.message, Beacon)
    for number in range(300):
        name, now = f"x{number}", 0.01 * number
        node.receive(replace(send.message, producer=name, time=now), now)
        assert len(node.engine.nodes) <= 22
    assert len(node.proximities.discovered) == 20
    node.elapse(1_000.0)
    assert set(node.engine.nodes) <= {"c"}
