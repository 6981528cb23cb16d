"""User properties of a message as rows of the log have them."""

from nearcast.wire.mqtt import Publish, short_user_properties

Pairs = tuple[tuple[str, str], ...]


def user_properties_of(raw: bytes) -> tuple[Pairs, bytes | None]:
    """The user properties in checked properties, and all as bytes if there are others too."""
    pairs = short_user_properties(raw)
    if pairs is not None:
        return tuple(pairs), None
    return Publish("x", raw_properties=raw).properties.user_properties, raw
