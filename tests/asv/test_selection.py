"""Which benchmarks are requested, and which have a part in a stack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from allocmark.allocators import registry
from allocmark.asv.selection import JUST_DISCOVER, refuse_unknown, without_part
from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine.frameworks import Share
from allocmark.measure.run import Plan
from allocmark.system.errors import AllocmarkError, UnknownNameError

BOTH = ("torch", "tensorflow")


def benchmark(experiment: str, *axes: Sequence[object]) -> dict[str, Any]:
    params = [[repr(value) for value in axis] for axis in axes]
    return {"setup_cache_key": experiment, "params": params}


BENCHMARKS = {
    "latency.A.hit": benchmark("latency", ["torch-native", "tf-growth"], [1, 2]),
    "latency.B.op": benchmark("latency", ["torch-native"], [1, 2]),
    "fragmentation.C.peak": benchmark("fragmentation", ["torch-native"], ["uniform"]),
    "fragmentation.D.capacity": benchmark("capacity", ["torch-native"], ["uniform"]),
    "context.E.stages": benchmark("context", ["torch", "driver"]),
    "latency.F.loop": benchmark("latency", [1.0, 1.5]),
}


def names(framework: str, among: tuple[str, ...] = BOTH, profile: str = "quick") -> set[str]:
    plan = Plan(Path("r"), PROFILES[profile], [], list(registry().values()))
    return without_part(plan, Share(framework, among), BENCHMARKS)


def test_the_first_stack_has_all_that_names_its_own() -> None:
    assert names("torch") == set()


def test_a_single_stack_has_everything() -> None:
    assert names("torch", ("torch",)) == set()
    assert names("tensorflow", ("tensorflow",)) == set()


@pytest.mark.parametrize("profile", PROFILES)
def test_another_stack_has_what_names_its_own_or_nobody(profile: str) -> None:
    assert set(BENCHMARKS) - names("tensorflow", profile=profile) == {
        "latency.A.hit",
        "latency.F.loop",
    }


PARAMS = {name: one["params"] for name, one in BENCHMARKS.items()}


@pytest.mark.parametrize(
    "pattern",
    ["latency", "B.op", r"^context\.E", r"hit\('torch-native', 2\)", "torch-native", JUST_DISCOVER],
)
def test_a_pattern_that_a_cell_answers_to_is_known(pattern: str) -> None:
    refuse_unknown([pattern], PARAMS)


@pytest.mark.parametrize("pattern", ["latancy", "^op", r"hit\('torch-native', 3\)"])
def test_a_pattern_that_names_nothing_is_refused_beside_one_that_does(pattern: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        refuse_unknown(["latency", pattern], PARAMS)
    assert str(refused.value).startswith(f"unknown benchmark {pattern!r}: choose from context.E")


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(AllocmarkError, match=r"^--bench \[ is no regular expression \("):
        refuse_unknown(["["], PARAMS)
