import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.matching.index.cells import (
    CELL,
    EMPTY,
    LENGTH,
    START,
    CellArrays,
    append,
    find,
    grown,
    is_loose,
    new_cells,
    packed,
    places_in,
    reserve,
    size_for,
    take_out,
    with_items,
)

Name = tuple[int, int, int]
names = st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from((0, 1, 5 << 32, 7)))
steps = st.lists(st.tuples(st.integers(0, 40), st.none() | names), max_size=120)


def contents(arrays: CellArrays, name: Name) -> set[tuple[int, float, int]]:
    cell = find(arrays, *name)
    if cell == EMPTY:
        return set()
    start, length = arrays.cells[cell, START], arrays.cells[cell, LENGTH]
    return {
        (int(arrays.items[i]), float(arrays.geo[i, 0]), int(arrays.bodies[i, 1]))
        for i in range(start, start + length)
    }


@given(steps, st.booleans())
def test_cells_hold_what_a_dictionary_of_sets_holds(
    moves: list[tuple[int, Name | None]], pack: bool
) -> None:
    arrays = with_items(new_cells(4, 2), 41)
    where: dict[int, Name] = {}
    for item, name in moves:
        if name is not None:
            while reserve(arrays, *name) == EMPTY:
                arrays = grown(arrays)
        if item in where:
            take_out(arrays, item)
            del where[item]
        if name is not None:
            place = append(arrays, reserve(arrays, *name), item)
            arrays.geo[place, 0], arrays.bodies[place, 1] = item * 0.5, item * 3
            where[item] = name
        if pack:
            arrays = packed(arrays)
        for each in set(where.values()) | ({name} if name else set()):
            expected = {(i, i * 0.5, i * 3) for i, lies in where.items() if lies == each}
            assert contents(arrays, each) == expected
    for item in list(where):
        take_out(arrays, item)
    assert (arrays.lies[:, CELL] == EMPTY).all()
    assert arrays.meta[2] == arrays.meta[4] == 0


def test_blocks_waste_at_most_a_third() -> None:
    for length in range(1, 2000):
        assert length <= places_in(size_for(length)) <= max(1, 1.5 * length)


def test_gaps_are_given_back() -> None:
    arrays = with_items(new_cells(4, 2), 20_000)
    for item in range(20_000):
        while (cell := reserve(arrays, 0, 0, item % 3)) == EMPTY:
            arrays = grown(arrays)
        append(arrays, cell, item)
    for item in range(19_990):
        take_out(arrays, item)
    assert is_loose(arrays)
    arrays = packed(arrays)
    assert len(arrays.items) < 200
    assert {int(i) for i in np.concatenate([_items(arrays, k) for k in range(3)])} == set(
        range(19_990, 20_000)
    )


def _items(arrays: CellArrays, code: int) -> np.ndarray:
    cell = find(arrays, 0, 0, code)
    start, length = arrays.cells[cell, START], arrays.cells[cell, LENGTH]
    return arrays.items[start : start + length]
