"""Checks of event, subscription and position options, as the broker will parse them.

Invalid options end the command with exit code 2 before anything is sent; a refusal by the broker
ends it with exit code 1.
"""

import typer

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position, parse_position
from nearcast.wire.mqtt.properties import PropertyPairs


def check_event(pairs: PropertyPairs) -> None:
    """Refuse invalid event properties."""
    if not pairs:
        return
    # Only if needed: the imports take longer than sending a plain message.
    from nearcast.broker.ingest.refusal import RefusedError
    from nearcast.broker.situation.nc_properties import event_options

    try:
        event_options(pairs)
    except RefusedError as error:
        raise typer.BadParameter(error.why) from None


def check_subscription(pairs: PropertyPairs) -> None:
    """Refuse invalid subscription properties."""
    if not pairs:
        return
    from nearcast.broker.ingest.refusal import RefusedError
    from nearcast.broker.situation.nc_properties import subscription_options

    try:
        subscription_options(pairs)
    except RefusedError as error:
        raise typer.BadParameter(error.why) from None


def position_of(text: str, option: str) -> Position:
    """Return the position in an option."""
    try:
        return parse_position(text)
    except ModelError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
