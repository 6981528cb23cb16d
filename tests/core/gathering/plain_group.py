"""Groups as one would write them in a hurry: lists, and everything looked at again each time."""

from collections.abc import Iterable

from nearcast.core.gathering import Part, Threshold


def released(parts: Iterable[Part], threshold: Threshold) -> list[list[str]]:
    """Return the ids of the parts of each aggregate, in order."""
    waiting: list[Part] = []
    gone: list[Part] = []
    newest = float("-inf")
    found: list[list[str]] = []

    def let_out() -> None:
        nonlocal waiting, gone
        found.append([part.id for part in waiting])
        keys = {part.key for part in waiting}
        gone = [part for part in gone if part.key not in keys] + waiting
        gone = gone[-threshold.at_most :]
        waiting = []

    for part in parts:
        if has_waited(waiting, threshold, part.ingested):
            let_out()
        newest = max(newest, part.time)
        horizon = newest - threshold.within_s
        if part.time < horizon:
            continue
        waiting = [each for each in waiting if each.time >= horizon]
        remembered = [each for each in gone if each.time >= horizon]
        if part.key in {each.key for each in waiting + remembered}:
            continue
        if threshold.kind == "people" and len(waiting) >= threshold.at_most:
            people = [each.publisher for each in waiting]
            repeated = [each for each in waiting if people.count(each.publisher) > 1]
            waiting.remove((repeated or waiting)[0])
        waiting.append(part)
        if is_enough(waiting, threshold):
            let_out()
    return found


def has_waited(waiting: list[Part], threshold: Threshold, now: float) -> bool:
    if not waiting or threshold.wait_s is None or threshold.kind == "people":
        return False
    return now >= waiting[0].ingested + threshold.wait_s


def is_enough(waiting: list[Part], threshold: Threshold) -> bool:
    times = [part.time for part in waiting]
    if threshold.kind == "people":
        return len({part.publisher for part in waiting}) >= threshold.value
    if threshold.kind == "volume" and len(waiting) >= threshold.value:
        return True
    if threshold.kind == "time" and max(times) - min(times) >= threshold.value:
        return True
    return len(waiting) >= threshold.at_most
