"""A filter is read from text or JSON, written as either, and refused with a pointer to the place.

Prints:

    speed < 20 OR jam
    {"op": "or", "args": [{"op": "<", "args": [{"property": "speed"}, 20]}, {"property": "jam"}]}
    and back: the same
    12 km/h: True
    60 km/h and no jam: False
    60 km/h: None
    Expected an operator such as =, AND or OR, or the end, but found kind.
    speed < 20 kind = 'car'
               ^
"""

import json

from nearcast.core.language import LanguageError, parse


def main() -> None:
    """Read, write, evaluate, and be refused."""
    slow = parse("speed < 20 OR jam")
    print(slow.to_text())
    as_json = json.dumps(slow.to_json())
    print(as_json)
    print("and back:", "the same" if parse(as_json) == slow else "another")
    print("12 km/h:", slow.evaluate({"speed": 12}))
    print("60 km/h and no jam:", slow.evaluate({"speed": 60, "jam": False}))
    # Neither true nor false, since nobody said whether there is a jam. Only what is true matches.
    print("60 km/h:", slow.evaluate({"speed": 60}))
    try:
        parse("speed < 20 kind = 'car'")
    except LanguageError as error:
        print(error)


if __name__ == "__main__":
    main()
