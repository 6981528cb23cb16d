"""Payloads read as columns say what each says when it is read alone, whatever they are."""

import json
import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model import flat_json
from nearcast.core.model.event_batch import AttributeColumns, event_by_event
from nearcast.core.model.flat_json import MOST_MEMBERS, carried_by, read_flat
from nearcast.core.model.payload import LARGEST_JSON_PAYLOAD, attributes_of
from tests.core.model.attribute_columns import told

Column = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]

NUMBERS = (
    "0", "-0", "-0.0", "1", "-17", "3.25", "0.1", "1e5", "1E-7", "2.5e+3", "12.34e-20", "1e22",
    "1e23", "9007199254740992", "9007199254740993", "123456789012345678", "0.3e-22", "1e400",
    "-1e400", "1e999999999999", "5e-324", "0.1234567890123456789", "00", "01", "-", "1.", ".5",
    "1e", "1e+", "+1", "0x1", "1_0", "NaN", "Infinity", "-a",
)  # fmt: skip
OTHERS = ("true", "false", "null", "tru", "nul", "truee", "[]", "[1]", '{"a":1}', "", "'a'")
WORDS = ("", "a", "speed", "b.c", "é", "\\n", "\\u0041", "\\", '\\"', "\t", "\x7f", "x" * 40)
SPACES = ("", "", "", " ", "\n", "\t \r", "\x0b")


def column(payloads: list[bytes]) -> Column:
    """Payloads one behind the other, with something before and behind them."""
    ends = np.cumsum([3, *map(len, payloads)]).astype(np.int32)
    return np.frombuffer(b"xyz" + b"".join(payloads) + b"{}", np.uint8).copy(), ends


def check(payloads: list[bytes]) -> AttributeColumns:
    found = carried_by(*column(payloads))
    wanted = event_by_event([attributes_of(each) for each in payloads])
    for i, payload in enumerate(payloads):
        assert told(found, i) == told(wanted, i), payload
    return found


def are_hard(payloads: list[bytes]) -> list[bool]:
    """Which of some payloads are not read by the kernel."""
    data, ends = column(payloads)
    hard = np.zeros(len(payloads), np.bool_)
    room = len(data)
    read_flat(
        data, ends, np.zeros((2, 4096), np.int32), np.empty((2, room, 2), np.int32),
        np.zeros(len(payloads) + 1, np.int32), hard, np.empty(room, np.int32),
        np.empty(room, np.uint8), np.empty(room),
    )  # fmt: skip
    found: list[bool] = hard.tolist()
    return found


def drawn(draw: random.Random) -> bytes:
    """Something like an object of JSON, mostly."""
    members = []
    for _ in range(draw.choice((0, 1, 2, 3, 5))):
        name, word = draw.choice(WORDS), draw.choice(WORDS)
        value = draw.choice((draw.choice(NUMBERS), draw.choice(OTHERS), f'"{word}"', "7", "true"))
        members.append(draw.choice(SPACES).join(("", f'"{name}"', ":", value, "")))
    text = draw.choice(SPACES).join(("", "{", ",".join(members), "}", ""))
    if draw.random() < 0.2 and text:
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(("", ",", '"', "}", "{", "0", "\x00")) + text[at + 1 :]
    return text.encode()


@pytest.mark.parametrize("seed", range(60))
def test_columns_say_what_each_payload_says(seed: int) -> None:
    draw = random.Random(seed)
    odd = draw.choice((0.1, 0.5, 1.0))
    plain = b'{"speed": 1.5, "kind": "car", "x": true, "y": null}'
    check([drawn(draw) if draw.random() < odd else plain for _ in range(draw.randrange(1, 60))])


@pytest.mark.parametrize("value", [*NUMBERS, *OTHERS, *(f'"{word}"' for word in WORDS)])
def test_each_kind_of_value(value: str) -> None:
    plain = [b'{"a":1}'] * 3
    check([*plain, f'{{"a":{value}}}'.encode(), f'{{"a":0,"b":{value},"c":1}}'.encode()])
    check([*plain, value.encode()])


@given(st.lists(st.floats() | st.integers() | st.text() | st.booleans(), max_size=4))
def test_whatever_json_is_written(values: list[object]) -> None:
    payload = json.dumps({f"n{i}": value for i, value in enumerate(values)}).encode()
    check([b"{}", payload, b'{"n0": 1}', b'{"n1": "one"}'])


@given(st.lists(st.binary(max_size=30), min_size=1))
def test_any_bytes(payloads: list[bytes]) -> None:
    check([*payloads, *[b'{"a":1}'] * len(payloads)])


def test_plain_objects_are_read_by_the_kernel() -> None:
    plain = [b'{"speed": -12.5, "kind": "car"}', b' {"a" :true ,"b":null}\n', b"{}", b"", b"{ }"]
    assert are_hard(plain) == [False] * len(plain)
    odd = [b"1", b'{"a":[1]}', b'{"a":{"b":1}}', '{"a":"é"}'.encode(), b'{"a":1,"a":2}', b"{"]
    assert are_hard(odd) == [True] * len(odd)


def test_a_name_twice_is_the_last_one() -> None:
    found = check([b'{"a":1,"b":2,"a":3}', b'{"a":1}', b'{"a":1}'])
    assert told(found, 0) == {"a": (1, 3.0), "b": (1, 2.0)}


def test_large_payloads() -> None:
    many = json.dumps({f"n{i}": i for i in range(MOST_MEMBERS + 1)}).encode()
    at_most = b'{"a":"' + b"x" * (LARGEST_JSON_PAYLOAD - 8) + b'"}'
    check([many, at_most, b" " + at_most, b'{"a":1}', b'{"b":1}', b'{"b":1}'])


def test_more_payloads_than_tables_are_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_json, "MOST_BYTES", 20)
    check([b'{"a":"one"}', b'{"a":"two"}', b"x" * (LARGEST_JSON_PAYLOAD + 1)])
    check([b'{"a":1}', b"{}", b"x" * (LARGEST_JSON_PAYLOAD + 1)])


def test_words_that_get_in_each_others_way_are_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # With so little room many words are in the way of others.
    payloads = [f'{{"word":"w{i}"}}'.encode() for i in range(4096 + 200)]
    assert any(are_hard(payloads))
    assert not all(are_hard(payloads))
    check(payloads)
    monkeypatch.setattr(flat_json, "SHORTEST_WORD", 1)
    check(payloads[:500])


def test_there_is_room_for_words_of_payloads_that_are_cut_off() -> None:
    names = [f'{{"{a}{b}"'.encode() for a in "abcdefghijklmnop" for b in "abcdefghijklmnop"]
    check([*names, *[b"{}"] * 257])
    strings = [each.replace(b"{", b'{"":') for each in names]
    check([*strings, *[b"{}"] * 257])


def test_no_payloads() -> None:
    assert carried_by(*column([]))["first"].tolist() == [0]
