"""The recordings that ship: complete, and a replay of each reaches what was counted on the GPU."""

from __future__ import annotations

import json

import pytest

from allocmark.workloads import catalog, programs
from tests.support.emulation import needs_torch, run_on_h200

RECORDED = [name for name in catalog.names() if name.startswith(catalog.RECORDED_PREFIX)]
REPLAY = """
import json, sys
from allocmark.allocators import registry
from allocmark.experiments.shared.event_replay import replay
from allocmark.workloads import catalog
allocator = registry()["torch-native"]
allocator.open(0)
found = {}
for name in sys.argv[1:]:
    allocator.restart()
    assert replay(catalog.load(name), allocator).completed
    stats = allocator.stats()
    found[name] = [stats.peak_reserved_bytes, stats.peak_allocated_bytes, stats.driver_allocs]
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_tells_where_it_comes_from(name: str) -> None:
    trace = catalog.load(name)
    origin = dict(trace.origin)
    assert origin["program"] in programs.NAMES
    assert origin["setting"] == "torch-native"
    assert {"gpu", "driver", "cuda", "cudnn", "torch", "python", "recorded", "steps"} <= set(origin)
    assert "Emulated" not in str(origin["gpu"])
    assert trace.peak_requested_bytes == origin["peak_requested_bytes"]
    assert len(trace) <= 100_000


@needs_torch
def test_replays_reach_what_was_counted_on_the_gpu() -> None:
    if not RECORDED:
        pytest.skip("no recordings are installed")
    done = run_on_h200("-c", REPLAY, *RECORDED)
    assert done.returncode == 0, done.stderr
    counters = ("peak_reserved_bytes", "peak_allocated_bytes", "driver_allocs")
    assert json.loads(done.stdout) == {
        name: [catalog.load(name).origin[counter] for counter in counters] for name in RECORDED
    }
