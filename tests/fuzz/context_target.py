"""Contexts: merge patches and OwnTracks messages, compared with RFC 7396 done the plain way."""

import json
from random import Random

import msgspec

from nearcast.broker.hub import Hub
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.situation.nc_properties import json_object
from nearcast.broker.situation.own_tracks import Ignored, fix_of
from nearcast.core.model import ModelError, NodeState, patched
from nearcast.core.model.context import DEEPEST_ATTRIBUTES, LARGEST_ATTRIBUTES_BYTES
from nearcast.wire.mqtt import Connect
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import HOSTILE_NUMBERS, HOSTILE_TEXTS, mutated_text

PATCH, PHONE = "patch", "phone"
LONGEST_ERROR = 2_000
_WORDS = (
    "{", "}", "[", "]", ":", ",", '"', "null", "true", '"position"', '"lat"', '"lon"', '"_type"',
    '"location"', "[1,2]", "\\ud800", "\\u0000", "[" * 40, "1e400", '"a":', '"a":1,"a":2',
)  # fmt: skip
Step = tuple[str, str]
_DEEP = '{"_type": "location", "deep": ' + "[" * 700 + "1e400" + "]" * 700 + "}"
EXAMPLES = {"a reason with the path to a problem far inside": ((PATCH, _DEEP), (PHONE, _DEEP))}


class ContextTarget(FuzzTarget[tuple[Step, ...]]):
    """A node whose context is patched again and again; a step is its kind and its JSON text."""

    name = "contexts"
    suite_cases = 3_000
    examples = EXAMPLES

    def __init__(self) -> None:
        hub, connection = Hub(), Connection()
        hub.receive(connection, [Connect("phone")], 1.0)
        hub.tick(1.0)
        self._session = hub.sessions["phone"]

    def generate(self, random: Random) -> tuple[Step, ...]:
        return tuple(_step(random) for _ in range(random.randint(1, 6)))

    def check(self, case: tuple[Step, ...]) -> None:
        state = NodeState("phone")
        for number, (kind, text) in enumerate(case, 1):
            payload = text.encode("utf-8", "surrogatepass")
            if kind == PATCH:
                state = check_patch(state, payload, float(number))
            else:
                self._check_phone(payload)

    def _check_phone(self, payload: bytes) -> None:
        """Assert that what a phone says is ignored, or can be put in force."""
        found = fix_of(self._session, "owntracks/phone/x", payload, False, ("rank",))
        if isinstance(found, Ignored):
            check_reason(found.why)
            return
        assert "rank" not in found.patch
        after = patched(NodeState("phone"), found.patch, 1.0)
        check_state(after)
        assert after.position is not None


def check_patch(state: NodeState, payload: bytes, at: float) -> NodeState:
    """Return the state after a patch, which is that of RFC 7396; refused ones change nothing."""
    try:
        patch = json_object(payload)
        after = patched(state, patch, at)
    except (RefusedError, ModelError) as error:
        check_reason(str(error))
        return state
    check_state(after)
    expected = plain_merge(state.attributes, {n: v for n, v in patch.items() if n != "position"})
    assert as_doubles(after.attributes) == as_doubles(expected)
    if "position" not in patch:
        assert (after.position, after.previous) == (state.position, state.previous)
    elif patch["position"] is None:
        assert after.position is after.previous is None
    else:
        assert after.previous == state.position
        assert [after.position.lon, after.position.lat] == patch["position"]  # type: ignore[union-attr]
    return after


def check_reason(text: str) -> None:
    """Assert that a reason can be sent."""
    assert len(text) <= LONGEST_ERROR
    text.encode()


def check_state(state: NodeState) -> None:
    """Assert that a state is within the bounds, and can be written and read."""
    written = msgspec.json.encode(state.attributes)
    assert len(written) <= LARGEST_ATTRIBUTES_BYTES
    assert depth_of(state.attributes) <= DEEPEST_ATTRIBUTES
    assert msgspec.json.decode(written) == state.attributes
    if state.position is not None:
        assert abs(state.position.lat) <= 90.0
        assert abs(state.position.lon) <= 180.0


def plain_merge(target: object, patch: object) -> object:
    """Return a JSON merge patch as RFC 7396 has it in pseudocode."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = plain_merge(merged.get(name), value)
    return merged


def as_doubles(value: object) -> object:
    """Return a JSON value with large integers as the doubles that they are kept as."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        return float(value)
    if isinstance(value, list):
        return [as_doubles(item) for item in value]
    if isinstance(value, dict):
        return {name: as_doubles(item) for name, item in value.items()}
    return value


def depth_of(value: object) -> int:
    """Return how deep a JSON value is nested."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth_of, items), default=0)
    return 1


def _step(random: Random) -> Step:
    members = {_name(random): _value(random, 3) for _ in range(random.randint(0, 4))}
    if random.random() < 0.4:
        members["position"] = random.choice(([-6.2, 53.3], None, [181, 0], [1, 2, 3], "x", [[]]))
    kind = PATCH
    if random.random() < 0.4:
        kind = PHONE
        members |= {"_type": "location", "lat": random.uniform(-95, 95), "lon": 6, "tst": 1}
    text = json.dumps(members, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.1:
        text = text.replace("1", random.choice(HOSTILE_NUMBERS))
    if random.random() < 0.03:
        depth = random.choice((28, 29, 30, 31, 32, 33, random.randint(800, 1_000)))
        nested = random.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth))
        text = text.removesuffix("}") + (", " if members else "") + f'"deep": {nested}}}'
    if random.random() < 0.02:
        text = json.dumps({"long": "x" * random.choice((30_000, 65_500, 65_600, 70_000))})
    return kind, mutated_text(random, text, _WORDS) if random.random() < 0.3 else text


def _name(random: Random) -> str:
    names = ("role", "task", "battery", "friends", "rank", "a", "b")
    return random.choice(HOSTILE_TEXTS) if random.random() < 0.1 else random.choice(names)


def _value(random: Random, depth: int) -> object:
    if depth and random.random() < 0.4:
        if random.random() < 0.5:
            return [_value(random, depth - 1) for _ in range(random.randint(0, 3))]
        return {_name(random): _value(random, depth - 1) for _ in range(random.randint(0, 3))}
    return random.choice(
        (None, True, 0, -1, 1.5, 1e300, 1 << 63, -(1 << 63), 10**30, random.choice(HOSTILE_TEXTS))
    )
