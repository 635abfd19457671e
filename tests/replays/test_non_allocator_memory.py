"""What lies outside the allocator and what a card holds: each figure with its source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allocmark.emulator import driver_profile
from allocmark.replays import driver_time, non_allocator_memory
from allocmark.system.units import GIB, MIB

TEXT = (
    "CUDA out of memory. Tried to allocate 30.00 GiB. GPU 0 has a total capacity of 24.00 GiB of "
    "which 22.34 GiB is free. Including non-PyTorch memory, this process has 2.00 GiB memory in "
    "use. Of the allocated memory 1.25 GiB is allocated by PyTorch, and 256.00 MiB is reserved by "
    "PyTorch but unallocated."
)


def test_what_was_asked_for_comes_first() -> None:
    assert non_allocator_memory.outside_bytes(5, {"oom_text": TEXT}) == non_allocator_memory.Term(
        5, "--outside"
    )
    card = non_allocator_memory.card_bytes(7, {"total_bytes": 9})
    assert card is not None and (card.value_bytes, card.source[:10]) == (7, "--capacity")


def test_the_oom_text_tells_both_terms() -> None:
    found = non_allocator_memory.outside_bytes(None, {"oom_text": TEXT})
    assert (found.value_bytes, found.assumed) == (512 * MIB, False)
    assert "OOM text" in found.source
    card = non_allocator_memory.card_bytes(None, {"oom_text": TEXT})
    assert card is not None and card.value_bytes == 24 * GIB


@pytest.mark.parametrize("size", ["1.2.3 GiB", "9" * 4000 + " GiB", ". MiB", "-1 GiB"])
def test_a_size_that_is_none_is_passed_over(size: str) -> None:
    assert (
        non_allocator_memory.card_bytes(None, {"oom_text": f"has a total capacity of {size}"})
        is None
    )


def test_the_meter_tells_what_the_driver_misses_beyond_reserved() -> None:
    facts = {"total_bytes": 24 * GIB, "free_bytes": 10 * GIB, "reserved_bytes": 13 * GIB}
    found = non_allocator_memory.outside_bytes(None, facts | {"gpu": "NVIDIA H200"})
    assert (found.value_bytes, found.assumed) == (GIB, False)
    assert "other processes" in found.source
    # Ten MiB that NVML lists for nobody are the driver's own: the card must hold them too.
    found = non_allocator_memory.outside_bytes(None, facts | {"process_bytes": 14 * GIB - 10 * MIB})
    assert (found.value_bytes, found.source) == (GIB, "recorded cudaMemGetInfo less reserved")
    shared = facts | {"process_bytes": 13 * GIB + MIB}
    assert non_allocator_memory.others_bytes(shared) == GIB - MIB
    found = non_allocator_memory.outside_bytes(None, shared)
    assert (found.value_bytes, found.source[:13]) == (MIB, "recorded NVML")


def test_what_was_given_back_before_the_end_counts() -> None:
    facts = {"total_bytes": 24 * GIB, "free_bytes": 10 * GIB, "reserved_bytes": 13 * GIB}
    alone = facts | {"process_bytes": 14 * GIB - 10 * MIB}
    # Most of it was there at the end too: the card's own figure is the larger one.
    found = non_allocator_memory.outside_bytes(None, alone | {"peak_outside_bytes": GIB - 10 * MIB})
    assert (found.value_bytes, found.source) == (GIB, "recorded cudaMemGetInfo less reserved")
    found = non_allocator_memory.outside_bytes(None, alone | {"peak_outside_bytes": 2 * GIB})
    assert found.value_bytes == 2 * GIB + 10 * MIB and found.source.endswith("at its most")
    shared = facts | {"process_bytes": 13 * GIB + MIB, "peak_outside_bytes": 2 * GIB}
    assert non_allocator_memory.outside_bytes(None, shared).value_bytes == 2 * GIB
    found = non_allocator_memory.outside_bytes(None, {"peak_outside_bytes": MIB})
    assert found.value_bytes == MIB


@pytest.mark.parametrize(
    ("gpu", "assumed", "words"),
    [
        ("NVIDIA H200", False, "committed NVIDIA H200 results"),
        ("NVIDIA A10", True, "nothing is committed for NVIDIA A10: give --outside"),
        ("", True, "does not name its GPU"),
    ],
)
def test_the_committed_figure_says_whose_it_is(gpu: str, assumed: bool, words: str) -> None:
    found = non_allocator_memory.outside_bytes(None, {"gpu": gpu})
    numbers = driver_profile.load("h200").numbers
    parts = ("context_bytes", "first_kernel_bytes", "first_blas_bytes")
    assert found.value_bytes == sum(numbers[part] for part in parts)
    assert found.assumed == assumed
    assert words in found.source
    assert non_allocator_memory.card_bytes(None, {"gpu": gpu}) is None


def table(call: str) -> dict[int, int]:
    return dict(driver_profile.load("h200").call_times_ns[call])


def columns(*rows: tuple[int, int, int]) -> dict[str, Any]:
    kinds, sizes, calls = zip(*rows, strict=True)
    return {"kind": kinds, "size": sizes, "calls": calls}


def test_calls_take_what_was_measured() -> None:
    found = driver_time.estimate(columns((0, 2 * MIB, 3), (1, 2 * MIB, 2)), "NVIDIA H200")
    expected = 3 * table("cudaMalloc")[2 * MIB] + 2 * table("cudaFree")[2 * MIB]
    assert found.seconds == pytest.approx(expected / 1e9)
    assert found.calls == 5
    assert "NVIDIA H200" in found.source


def test_expandable_segments_are_mapped_in_handles() -> None:
    found = driver_time.estimate(columns((2, 60 * MIB, 2), (3, 4 * MIB, 1)), "")
    create, release = table("cuMemCreate"), table("cuMemRelease")
    assert found.calls == 2 * 3 + 2
    assert found.seconds == pytest.approx((6 * create[20 * MIB] + 2 * release[2 * MIB]) / 1e9)


def test_between_two_sizes_the_line_is_straight_on_logarithmic_axes() -> None:
    known = table("cudaMalloc")
    low, high = 134217728, 536870912
    found = driver_time.estimate(columns((0, 268435456, 1)), "")
    assert found.seconds * 1e9 == pytest.approx((known[low] * known[high]) ** 0.5)


def test_terms_are_plain_data() -> None:
    json.dumps(non_allocator_memory.in_words(non_allocator_memory.outside_bytes(None, {})))
