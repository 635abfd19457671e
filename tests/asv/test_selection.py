"""Which benchmarks a stack runs: its own, and one of each experiment that it has to measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from allocmark.asv.selection import JUST_DISCOVER, refuse_unknown, skipped
from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine.frameworks import Share
from allocmark.system.errors import AllocmarkError, UnknownNameError

BOTH = ("torch", "tensorflow")


def benchmark(key: str, *axes: Sequence[object]) -> dict[str, Any]:
    return {"setup_cache_key": key, "params": [[repr(value) for value in axis] for axis in axes]}


BENCHMARKS = {
    "latency.A.hit": benchmark("latency", ["torch-native", "tf-growth"], [1, 2]),
    "latency.B.op": benchmark("latency", ["torch-native"], [1, 2]),
    "fragmentation.C.waste": benchmark("fragmentation", ["torch-native"], ["uniform"]),
    "fragmentation.D.peak": benchmark("fragmentation", ["torch-native"], ["uniform"]),
    "context.E.stages": benchmark("context", ["torch", "driver"]),
    "latency.F.loop": benchmark("latency", [1.0, 1.5]),
    "mine.G.other": benchmark("mine", ["torch-native"]),
}


def names(framework: str, among: tuple[str, ...] = BOTH) -> list[str]:
    return skipped(Share(framework, among), BENCHMARKS, PROFILES["quick"])


def test_the_first_stack_runs_what_names_its_own() -> None:
    assert names("torch") == []


def test_one_stack_runs_everything() -> None:
    assert names("torch", ("torch",)) == []
    assert names("tensorflow", ("tensorflow",)) == []


def test_another_stack_leaves_out_what_names_none_of_its_own_and_measures_all_the_same() -> None:
    left_out = names("tensorflow")
    assert "latency.B.op" in left_out
    assert "context.E.stages" in left_out  # In quick no subject of it needs TensorFlow.
    # One of the two is kept: without it nothing would measure the experiment.
    assert len({"fragmentation.C.waste", "fragmentation.D.peak"} & set(left_out)) == 1
    assert not {"latency.A.hit", "mine.G.other", "latency.F.loop"} & set(left_out)


@pytest.mark.parametrize(
    "pattern",
    ["latency", "B.op", r"^context\.E", r"hit\('torch-native', 2\)", "torch-native", JUST_DISCOVER],
)
def test_a_pattern_that_a_cell_answers_to_is_known(pattern: str) -> None:
    refuse_unknown([pattern], BENCHMARKS)


@pytest.mark.parametrize("pattern", ["latancy", "^op", r"hit\('torch-native', 3\)"])
def test_a_pattern_that_names_nothing_is_refused_beside_one_that_does(pattern: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        refuse_unknown(["latency", pattern], BENCHMARKS)
    assert str(refused.value).startswith(f"unknown benchmark {pattern!r}: choose from context.E")


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(AllocmarkError, match=r"^--bench \[ is no regular expression \("):
        refuse_unknown(["["], BENCHMARKS)
