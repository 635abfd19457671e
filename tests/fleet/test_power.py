"""What a search finds and what it imagines, over many simulated fleets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from allocmark.fleet.searching import judged
from tests.support.fleets import Fleets, record

FLEETS = 100
MACHINES, RUNS = 8, 3
DOCUMENTS = (
    *("context.", "fragmentation.torch-native"),
    *("latency.torch-native", "latency.cuda-malloc.", "latency.cupy-pool", "latency.rmm-pool"),
)


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Fleets:
    return Fleets(record(DOCUMENTS, tmp_path_factory.mktemp("record")), seed=13)


def test_of_a_healthy_fleet_nobody_is_named(fleets: Fleets) -> None:
    named = [bool(judged(fleets.draw(MACHINES, RUNS)).named) for _ in range(FLEETS)]
    assert sum(named) <= 1


@pytest.mark.parametrize(("group", "factor"), [("hits", 1.15), ("context creation", 1.25)])
def test_a_slow_machine_is_named_alone(fleets: Fleets, group: str, factor: float) -> None:
    right = 0
    for number in range(FLEETS):
        odd = number % MACHINES
        found = judged(fleets.step(fleets.draw(MACHINES, RUNS), odd, group, factor))
        named = [machine.name for machine in found.named]
        right += named == [f"node{odd:03}"]
        if named:
            assert found.machines[0].odd[0].verdict == "worse"
    assert right >= 95


def test_one_count_off_is_named(fleets: Fleets) -> None:
    right = 0
    generator = np.random.default_rng(1)
    for number in range(FLEETS):
        odd = number % MACHINES
        kind = fleets.draw(MACHINES, RUNS)
        counted = np.flatnonzero(kind.exact & np.asarray([u == "count" for u in kind.units]))
        values = kind.values.copy()
        cell = generator.choice(counted)
        values[kind.machine == odd, cell] += 1
        found = judged(replace(kind, values=values))
        right += [machine.name for machine in found.named] == [f"node{odd:03}"]
        (first, *_) = found.machines[0].odd
        assert (first.scope, first.name) == ("exact", kind.cells[cell])
    assert right >= 95
