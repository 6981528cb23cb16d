"""Columns of integers: packed, as differences, or as places in a list of the distinct ones.

The form with the fewest bits by a quick estimate is taken. Differences suit times and sorted
numbers, distinct ones suit small counts, which zstd then makes smaller than whole bits.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from math import ceil, log2

from nearcast.wire.encoding.budget import Budget
from nearcast.wire.encoding.byte_streams import ByteReader, ByteWriter
from nearcast.wire.encoding.errors import DecodingError

SMALLEST, LARGEST = -(1 << 62), (1 << 62) - 1
"""Integers that a column may hold; differences of them fit into 64 bits."""
_PACKED, _DIFFERENCES, _PLACES = range(3)
_MOST_DISTINCT = 256
_WIDEST = 64


def write_integers(out: ByteWriter, values: Sequence[int]) -> None:
    """Write integers; their number is known to the reader."""
    if not values:
        return
    lowest = min(values)
    width = (max(values) - lowest).bit_length()
    steps = [right - left for left, right in itertools.pairwise(values)]
    least = min(steps, default=0)
    step_width = (max(steps, default=0) - least).bit_length()
    packed, differences = width * len(values), step_width * len(steps) + 16
    counts = Counter(values)
    if len(counts) <= _MOST_DISTINCT and _places_bits(counts, width) < min(packed, differences):
        distinct = sorted(counts)
        places = {value: place for place, value in enumerate(distinct)}
        out.byte(_PLACES)
        out.number(len(distinct))
        write_integers(out, distinct)
        out.raw(bytes([places[value] for value in values]))
    elif differences < packed:
        out.byte(_DIFFERENCES)
        out.signed(values[0])
        out.signed(least)
        out.byte(step_width)
        out.packed([step - least for step in steps], step_width)
    else:
        out.byte(_PACKED)
        out.signed(lowest)
        out.byte(width)
        out.packed([value - lowest for value in values], width)


def read_integers(reader: ByteReader, count: int, budget: Budget) -> list[int]:
    """Read integers."""
    if not count:
        return []
    budget.spend(count, 1)
    form = reader.byte()
    if form == _PACKED:
        lowest = reader.signed()
        return [lowest + each for each in reader.packed(count, _width(reader))]
    if form == _DIFFERENCES:
        values = [reader.signed()]
        least = reader.signed()
        for each in reader.packed(count - 1, _width(reader)):
            values.append(values[-1] + least + each)
        return values
    if form == _PLACES:
        distinct = read_integers(reader, min(reader.number(), _MOST_DISTINCT), budget)
        places = reader.raw(count)
        if max(places) >= len(distinct):
            raise DecodingError("a place is beyond the distinct values")
        return [distinct[place] for place in places]
    raise DecodingError(f"{form} is no form of integers")


def _places_bits(counts: Counter[int], width: int) -> int:
    """Estimate the bits of places after entropy coding, with the list of distinct values."""
    total = sum(counts.values())
    entropy = sum(count * log2(total / count) for count in counts.values())
    return ceil(entropy) + len(counts) * max(width, 1) + 40


def _width(reader: ByteReader) -> int:
    width = reader.byte()
    if width > _WIDEST:
        raise DecodingError(f"{width} bits are too many for an integer")
    return width
