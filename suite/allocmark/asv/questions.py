"""The benchmark classes as asv sees them: found, described, and answered in this process."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

from asv.console import log
from asv.runner import BenchmarkResult
from asv_runner.discovery import disc_benchmarks, update_sys_path

from allocmark.asv.cells import Cell, Question

_KEPT = (str, int, float, list, dict, bool)
"""What asv keeps of a benchmark's attributes."""


def discover(folder: Path) -> dict[str, Any]:
    """Return the benchmarks below a folder by name, as `asv_runner` makes them."""
    update_sys_path(str(folder.absolute()))
    found = {}
    for benchmark in disc_benchmarks(str(folder)):
        if isinstance(question_of(benchmark), Question):
            found[benchmark.name] = benchmark
        else:
            log.warning(f"{benchmark.name} is left out: it is no method of a Question")
    return found


def question_of(benchmark: Any) -> Any:
    """Return the object whose method a benchmark is, None for a function."""
    return getattr(benchmark.func, "__self__", None)


def describe(benchmark: Any) -> dict[str, Any]:
    """Return what asv keeps of a benchmark in ``benchmarks.json``.

    What measured it is its experiment, which stands where asv looks for the durations.
    """
    kept = {
        name: value
        for name, value in vars(benchmark).items()
        if isinstance(value, _KEPT) and not name.startswith("_")
    }
    kept["setup_cache_key"] = question_of(benchmark).experiment
    described: dict[str, Any] = json.loads(json.dumps(kept, skipkeys=True))
    return described


def evaluate(benchmark: Any, selected: Collection[int] | None) -> Any:
    """Return asv's result of a benchmark: the cells of the combinations that are `selected`."""
    cells: list[Cell] = []
    for number in range(math.prod(len(axis) for axis in benchmark.params)):
        if selected is None or number in selected:
            benchmark.set_param_idx(number)
            cells.append(benchmark.do_run())
        else:
            cells.append(math.nan)
    sampled = [cell if isinstance(cell, dict) else None for cell in cells]
    return BenchmarkResult(
        # asv computes what has samples.
        result=[True if isinstance(cell, dict) else cell for cell in cells],
        samples=[cell and cell["samples"] for cell in sampled],
        number=[cell and cell["number"] for cell in sampled],
        errcode=0,
        stderr="",
        profile=None,
    )
