"""Memory by address in few cells: gaps left out, each cell by what it holds most of."""

from __future__ import annotations

import numpy as np

from allocmark.experiments.shared.address_map import CACHED, CELLS, LIVE, NOTHING, SPLIT, cells

MIB = 1 << 20


def rows(*found: tuple[int, int, int]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(found, np.int64).reshape(-1, 3)


def test_addresses_that_were_never_reserved_take_no_room() -> None:
    first = rows((0, MIB, LIVE), (MIB, MIB, SPLIT))
    second = rows((0, 2 * MIB, CACHED), (1 << 40, 2 * MIB, LIVE))
    drawn = cells([first, second, rows()])
    quarter = CELLS // 4
    assert drawn[0].tolist() == [LIVE] * quarter + [SPLIT] * quarter + [NOTHING] * 2 * quarter
    assert drawn[1].tolist() == [CACHED] * 2 * quarter + [LIVE] * 2 * quarter
    assert drawn[2].tolist() == [NOTHING] * CELLS


def test_nothing_at_all() -> None:
    assert cells([]).shape == (0, CELLS)
    assert cells([rows()]).tolist() == [[NOTHING] * CELLS]
