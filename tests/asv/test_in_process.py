"""Cells that asv asks for are read here; what measures still gets a process of its own."""

from __future__ import annotations

import json
import math
import pickle
import sys
from pathlib import Path

import pytest

from allocmark.asv import cells, in_process
from allocmark.schema.figure import Figure
from allocmark.workloads import catalog

SCRIPT = "benchmark.py"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAME = "fragmentation.Fragmentation.track_peak_reserved"


def _call(name: str, result: Path) -> list[str]:
    return [SCRIPT, "run", str(BENCHMARKS), name, "{}", "None", str(result)]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder as ``setup_cache`` leaves it."""
    folder = tmp_path / "cache"
    (folder / "cells").mkdir(parents=True)
    with (folder / "cache.pickle").open("wb") as stream:
        pickle.dump(str(folder / "cells"), stream)
    return folder


def test_only_what_was_measured_before_is_read_here(cache: Path, tmp_path: Path) -> None:
    call = _call(NAME, tmp_path / "out")
    assert in_process.is_reading(call, str(cache))
    assert in_process.is_reading(_call(f"{NAME}-17", tmp_path / "out"), str(cache))
    assert not in_process.is_reading(call, str(tmp_path))  # It has no cache.
    assert not in_process.is_reading(call, None)
    assert not in_process.is_reading(_call("fragmentation.Mine.time_it", tmp_path), str(cache))
    assert not in_process.is_reading([SCRIPT, "setup_cache", "b", NAME, "{}"], str(cache))
    assert not in_process.is_reading([SCRIPT, "discover", "b", "f"], str(cache))


def test_a_cell_is_what_asv_would_have_read(cache: Path, tmp_path: Path) -> None:
    axes = {"workload": catalog.names()[0]}
    figure = Figure("peak_reserved_bytes", "bytes", "exact", "m", axes, 25)
    name = cells._name("cuda-malloc", figure.metric, axes)  # The first of each axis.
    (cache / "cells" / name).write_text(json.dumps(cells.cell_of(figure)))
    told = []
    for index in (0, 1):
        result = tmp_path / f"out{index}"
        assert in_process.read(_call(f"{NAME}-{index}", result), str(cache)) == ("", "", 0)
        told.append(json.loads(result.read_text()))
    assert told[0] == 25 and math.isnan(told[1])


def test_a_benchmark_that_fails_says_why_and_leaves_no_trace(cache: Path, tmp_path: Path) -> None:
    before, importers = Path.cwd(), list(sys.meta_path)
    out, err, code = in_process.read(_call("nothing.Here.track_it", tmp_path / "o"), str(cache))
    assert code == 1 and "Could not find benchmark" in out and not err
    assert Path.cwd() == before and sys.meta_path == importers
