import msgspec
import pytest

from nearcast.core.model import Announcement, Delivery, Event, Subscription, circle


def test_an_event_needs_only_who_what_and_when() -> None:
    event = Event("e1", "traffic/jam", "car-1", 12.5)
    assert (event.position, event.to, event.valid_s, event.retain) == (None, None, None, False)
    assert event.attributes == {}


def test_values_cannot_be_changed() -> None:
    subscription = Subscription("s1", "car-1", "traffic/#")
    with pytest.raises(AttributeError):
        subscription.node = "car-2"  # type: ignore[misc]
    assert msgspec.structs.replace(subscription, qos=1).qos == 1


def test_announcements_are_keys_and_a_delivery_is_one_copy_for_all_that_fits() -> None:
    announced = Announcement("ambulance-7", "emergency/vehicle", circle("me", 500))
    assert len({announced, announced}) == 1
    delivery = Delivery(Event("e1", "a", "b", 0.0), "car-1", ("s1", "s2"), priority=2)
    assert delivery.subscriptions == ("s1", "s2")
