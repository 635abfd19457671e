"""Where allocations lie, against the addresses that a real H200 gave to recorded programs.

The rule was fitted to these three recordings. What no rule can know is what libraries inside the
program (cuBLAS, cuDNN, loaded modules) took from the driver meanwhile, and holes that other
mappings of the process left: a few allocations differ for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

import allocmark.workloads
from allocmark.workloads import placement_file
from tests.support.emulated_child import emulated

RECORDED = Path(allocmark.workloads.__file__).parent / "recorded"
CHUNK = 32 << 20
PLACE = "report([malloc(size)[1] for size in json.loads(sys.argv[1])])"


def neighbours(addresses: Sequence[int], sizes: Sequence[int]) -> list[int | None]:
    """Return for each allocation the earlier one it begins at the end of.

    None for one that opens a chunk, -1 for one beside memory that is not in the list.
    """
    ends = {
        address + size: i for i, (address, size) in enumerate(zip(addresses, sizes, strict=True))
    }
    found: list[int | None] = []
    for i, address in enumerate(addresses):
        before = ends.get(address, -1)
        found.append(None if address % CHUNK == 0 else before if before < i else -1)
    return found


@pytest.mark.parametrize(
    ("name", "unlike", "misordered"), [("convnet", 4, 2), ("serving", 2, 4), ("transformer", 1, 75)]
)
def test_recorded_programs(name: str, unlike: int, misordered: int) -> None:
    path = RECORDED / f"{name}.placement.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the recordings")
    recorded = placement_file.read(path)
    sizes = [int(size) for size in recorded.size]
    real = [int(address) for address in recorded.address]
    ours = emulated(PLACE, memory="128GiB", arguments=[str(sizes)])
    pairs = zip(neighbours(real, sizes), neighbours(ours, sizes), strict=True)
    assert sum(theirs != own for theirs, own in pairs) <= unlike
    equal = [(i, j) for i, j in combinations(range(len(sizes)), 2) if sizes[i] == sizes[j]]
    wrong = [(real[i] < real[j]) != (ours[i] < ours[j]) for i, j in equal]
    assert sum(wrong) <= misordered


def test_the_rule_step_by_step() -> None:
    code = """
def at(size):
    return malloc(size * MIB)[1]
small = [at(2), at(2)]
first = at(20)
rest = [(at(size) - first) // MIB for size in (24, 10, 2, 40, 24, 8)]
report([[address % (32 * MIB) // MIB for address in small], first % (32 * MIB), rest])
"""
    # The context's newer chunk has 2 MiB left, at 30; its older one 24, at 8, of which 22 remain:
    # 20 fit. 24 do not and open a chunk below both, 10 fit nowhere else and open the next; 2 go
    # beside them; 40 take 64 MiB, which 24 fill up; 8 go beside 10 and 2.
    small, first, rest = emulated(code)
    assert small == [30, 8]
    assert first == 10 << 20
    opened = rest[0]
    assert opened == -10 - 64
    assert [address - opened for address in rest] == [0, -32, -22, -96, -56, -20]


def test_a_freed_run_is_filled_again() -> None:
    code = """
a, b, c = (malloc(size * MIB)[1] for size in (64, 64, 64))
free(b)
again = malloc(64 * MIB)[1]
free(a); free(again); free(c)
report([again == b, malloc(192 * MIB)[1] == c])
"""
    assert emulated(code) == [True, True]
