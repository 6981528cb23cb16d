"""How the recipients of one chain pass a message on: to one peer each, or along a tree.

Recipients are in the order of a heap: each passes the message to the next `degree` of them that
have it from nobody else. Degree 1 is a chain. The first come early and pass on most, the last pass
on nothing.
"""


def children(place: int, count: int, degree: int) -> range:
    """Return the places of those whom a recipient passes a message to."""
    first = degree * place + 1
    return range(min(first, count), min(first + degree, count))


def parent(place: int, degree: int) -> int | None:
    """Return the place of whoever passes a message to a recipient; None: the broker does."""
    return (place - 1) // degree if place else None


def depths(count: int, degree: int) -> list[int]:
    """Return how many times a message was sent when each recipient has it; the first is 1."""
    found = [1] * min(count, 1)
    for place in range(1, count):
        found.append(found[(place - 1) // degree] + 1)
    return found
