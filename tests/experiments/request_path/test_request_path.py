"""The way of a request: the block map by hand, and torch itself on the emulated driver."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from allocmark.experiments.catalog import experiment
from allocmark.experiments.request_path import experiment as request_path
from allocmark.experiments.request_path.branches import BlockMap
from allocmark.schema.metrics import request_path as metrics
from allocmark.system.errors import NotMeasurableError
from tests.support.emulation import emulated, needs_torch

MIB = 1 << 20
SEGMENT = 20 * MIB
PROGRAM = """
import io, json, sys
from allocmark.allocators import registry
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import Request
from allocmark.experiments.request_path.experiment import EXPERIMENT
out = io.StringIO()
request = Request("request_path", "torch-native", 60.0, {"workloads": ["uniform", "training"]})
EXPERIMENT.prepare(request)(Recorder(out))
print(json.dumps([json.loads(line) for line in out.getvalue().splitlines()]))
"""


def _entry(action: str, address: int, size: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size}


def test_each_request_is_counted_on_its_branch() -> None:
    blocks = BlockMap()
    second = 3 * MIB
    counts = blocks.follow(
        [
            _entry("segment_alloc", 0, SEGMENT),
            _entry("alloc", 0, second - 5),  # rounded to 3 MiB: a new segment, cut
            _entry("alloc", second, 16 * MIB),  # what is left is 1 MiB: it is not cut off
            _entry("free_requested", 0, second - 5),
            _entry("free_completed", 0, second - 5),
            _entry("alloc", 0, second),
            _entry("free_requested", second, 16 * MIB),  # waits for a stream
            _entry("oom", 0, 1 << 40),
            _entry("free_completed", second, 16 * MIB),
            _entry("segment_alloc", 1 << 30, 32 * MIB),
            _entry("alloc", 1 << 30, 32 * MIB),
        ]
    )
    assert counts == {
        metrics.REQUESTS: 5,
        metrics.NEW_CUT: 1,
        metrics.WHOLE: 2,
        metrics.NEW: 1,
        metrics.OOM: 1,
        metrics.PENDING: 1,
    }
    assert blocks.free == {second: 17 * MIB}


def test_neighbours_merge_within_their_segment_only() -> None:
    blocks = BlockMap()
    blocks.follow(
        [
            _entry("segment_alloc", 0, 2 * MIB),
            _entry("segment_alloc", 2 * MIB, 2 * MIB),
            *(_entry("alloc", at, 512) for at in (0, 512, 2 * MIB)),
            *(_entry("free_completed", at, 512) for at in (512, 0, 2 * MIB)),
        ]
    )
    assert blocks.free == {0: 2 * MIB, 2 * MIB: 2 * MIB}


def test_a_block_where_nothing_was_free_is_no_figure() -> None:
    with pytest.raises(NotMeasurableError, match="none was free"):
        BlockMap().follow([_entry("alloc", 512, 512)])


def test_it_is_an_experiment_of_every_run() -> None:
    assert experiment(metrics.EXPERIMENT) is request_path.EXPERIMENT


@cache
def _lines() -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = emulated("8GiB", PROGRAM)
    return lines


def _figures(metric: str, *names: str) -> dict[Any, float]:
    found = [line["data"] for line in _lines() if line["kind"] == "figure"]
    return {
        tuple(one["axes"][name] for name in names): one["value"]
        for one in found
        if one["metric"] == metric
    }


@needs_torch
def test_torch_shows_every_branch() -> None:
    assert [line["data"] for line in _lines() if line["kind"] == "failure"] == []
    calls = _figures("crafted_calls", "branch", "counter")
    shown = {
        branch: tuple(calls[branch, counter] for counter in metrics.COUNTERS)
        for branch in metrics.CRAFTED
    }
    assert shown == {
        metrics.WHOLE: (0, 0, 0, 0),
        metrics.CUT: (0, 0, 0, 0),
        metrics.NEW: (1, 0, 0, 0),
        metrics.NO_FRACTION: (1, 0, 0, 0),
        metrics.RETRY: (1, 1, 1, 0),
        metrics.COLLECTED: (1, 3, 0, 0),
        metrics.UNCOLLECTED: (1, 0, 0, 0),
        metrics.AVAILABLE: (1, 1, 0, 0),
        metrics.OOM: (0, 1, 1, 1),
    }
    assert _figures("step_seen", "step") == {(step,): 1 for step in metrics.STEPS}
    assert _figures("taken_bytes", "bytes") == {(1,): 512, (513,): 1024, (2 * MIB + 1,): 2097664}


@needs_torch
def test_branches_add_up_and_only_short_memory_retries() -> None:
    counts = _figures("branch_requests", "workload", "memory", "branch")
    served = (metrics.WHOLE, metrics.CUT, metrics.NEW, metrics.NEW_CUT, metrics.OOM)
    for workload in ("uniform", "training"):
        for memory in metrics.MEMORIES:
            parts = [counts[workload, memory, branch] for branch in served]
            assert sum(parts) == counts[workload, memory, metrics.REQUESTS] > 0
        assert counts[workload, metrics.UNLIMITED, metrics.RETRY] == 0
    retried = [counts[one, metrics.SHORT, metrics.RETRY] for one in ("uniform", "training")]
    assert max(retried) > 0
