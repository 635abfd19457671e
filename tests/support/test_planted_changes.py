"""Changes planted on the emulated driver: every changed count is found, nothing else is."""

from __future__ import annotations

import pytest

from allocmark.compare.model import Comparison
from tests.support.planted_changes import one_more_call, slower

COUNTS = {"driver_allocs", "driver_frees", "hit_share", "largest_free_bytes", "segments"}


@pytest.fixture(scope="module")
def one_more(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return one_more_call(tmp_path_factory.mktemp("planted"))


def test_one_more_driver_call_for_each_miss_is_found(one_more: Comparison) -> None:
    allocs = [row for row in one_more.rows if row.metric == "driver_allocs"]
    assert len(allocs) > 3
    assert {(row.verdict, row.ratio) for row in allocs} == {("worse", 2.0)}


def test_and_nothing_is_better_nor_are_bytes_worse(one_more: Comparison) -> None:
    assert not [row.figure_id for row in one_more.of("better") if row.exact]
    wrong = [
        row.figure_id for row in one_more.of("worse") if row.exact and row.metric not in COUNTS
    ]
    assert not wrong


def test_only_the_times_of_one_call_are_planted() -> None:
    config = "name=x\ntime_cudaMalloc=512:100 2048:200\ntime_cudaFree=512:100"
    expected = "name=x\ntime_cudaMalloc=512:110 2048:220\ntime_cudaFree=512:100"
    assert slower(config, "cudaMalloc", 1.1) == expected
