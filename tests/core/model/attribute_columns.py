"""What attribute columns say of an event."""

from nearcast.core.model import event_batch


def told(of: event_batch.AttributeColumns, i: int) -> dict[str, tuple[int, float | str]]:
    """What an event has, by name; what is MISSING it does not have."""
    found: dict[str, tuple[int, float | str]] = {}
    for j in range(of["first"][i], of["first"][i + 1]):
        kind, value = int(of["kinds"][j]), float(of["values"][j])
        text = of["strings"][int(value)] if kind == event_batch.STRING else value
        found[of["names"][of["name_of"][j]]] = kind, text
    return {name: value for name, value in found.items() if value[0] != event_batch.MISSING}
