"""Mutations: valid input made wrong in small ways, and values that readers tend to get wrong."""

from collections.abc import Sequence
from random import Random

HOSTILE_NUMBERS = (
    "0", "-0", "1e999", "-1e999", "1e308", "1e-400", "NaN", "Infinity", "-Infinity", "nan",
    "90.0000000001", "180.0000000001", "-180.0000000001", "91", "181", "1_000", "0x10", "1e",
    "9" * 400, "0." + "0" * 400 + "1", "9223372036854775808", "18446744073709551616",
    "4294967296", "١٢", "½", "+5", ".5", "5.", "00012",
)  # fmt: skip
"""Numbers at the edges of what formats and machines can hold, as text."""

HOSTILE_TEXTS = (
    "", " ", "\0", "\x7f", "\u0085", "\u2028", "\ufeff", "\ufffd", "\uffff", "\U0010ffff", "é",
    "e\u0301", "İ", "ß", "ﬃ", "'", '"', "''", "\\", "%", "%zz", "%00", "%2F", "%C3%28", "/", "//",
    "#", "+", "$", "~", "me", "here", "null", "true", "__class__", "a" * 300, "🙂" * 80,
    "\n", "\r\n", "\t",
)  # fmt: skip
"""Texts that end a field, fold to something else, or take more bytes than characters."""

_BYTES = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\xed\xa0\x80",
)


def mutated_text(random: Random, text: str, words: Sequence[str]) -> str:
    """Return a text with one to four changes; `words` are put in beside hostile texts."""
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(text))
        end = min(len(text), at + random.choice((1, 1, 1, 2, 5, 20)))
        match random.randrange(7):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + text[at:end] * random.choice((2, 3, 50)) + text[end:]
            case 2:
                text = text[:at] + random.choice(words) + text[end:]
            case 3:
                text = text[:at] + random.choice(words) + text[at:]
            case 4:
                text = text[:at] + random.choice(HOSTILE_TEXTS) + text[end:]
            case 5:
                text = text[:at] + random.choice(HOSTILE_NUMBERS) + text[end:]
            case _:
                text = text[:at]
    return text


def mutated_bytes(random: Random, data: bytes) -> bytes:
    """Return bytes with one to four changes: flipped bits, parts lost, repeated or moved."""
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(data))
        end = min(len(data), at + random.choice((1, 1, 2, 4, 30)))
        match random.randrange(6):
            case 0 if at < len(data):
                data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[end:]
            case 2:
                data = data[:at] + data[at:end] * 2 + data[end:]
            case 3:
                data = data[:at] + random.choice(_BYTES) + data[end:]
            case 4:
                data = data[:at] + data[end:] + data[at:end]
            case _:
                data = data[:at] + random.randbytes(random.randint(1, 8)) + data[at:]
    return data
