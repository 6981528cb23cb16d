"""What a command says of an event, a subscription or a node, read as the broker will read it.

What cannot be meant ends the command with exit code 2 before anything is sent; what a broker does
not permit is its own answer, and exit code 1.
"""

import typer

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position, parse_position
from nearcast.wire.mqtt.properties import PropertyPairs


def check_event(pairs: PropertyPairs) -> None:
    """Refuse properties that no event can have."""
    if not pairs:
        return
    # Only where they are needed: they take longer to load than a plain message to send.
    from nearcast.broker.ingest.refusal import RefusedError
    from nearcast.broker.situation.nc_properties import event_options

    try:
        event_options(pairs)
    except RefusedError as error:
        raise typer.BadParameter(error.why) from None


def check_subscription(pairs: PropertyPairs) -> None:
    """Refuse properties that no subscription can have."""
    if not pairs:
        return
    from nearcast.broker.ingest.refusal import RefusedError
    from nearcast.broker.situation.nc_properties import subscription_options

    try:
        subscription_options(pairs)
    except RefusedError as error:
        raise typer.BadParameter(error.why) from None


def position_of(text: str, option: str) -> Position:
    """Return the position that an option says."""
    try:
        return parse_position(text)
    except ModelError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
