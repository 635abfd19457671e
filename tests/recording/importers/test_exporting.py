"""A recording written as a trace and read again: the same events and the same facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.recording.importers import exporting, reader
from allocmark.recording.importers.snapshot_columns import convert
from allocmark.recording.importers.snapshot_file import SnapshotFile
from allocmark.recording.importers.torch_history import events_of
from allocmark.system.errors import AllocmarkError
from allocmark.workloads.event_trace import Op, Trace
from tests.support.snapshots import BASE, MIB, SEGMENT, block, entry, segment, snapshot, write


def test_events_setting_and_counters_survive(tmp_path: Path) -> None:
    rows = [entry("segment_alloc", BASE, SEGMENT), entry("alloc", BASE, 3 * MIB)]
    held = [block(BASE, 3 * MIB), block(BASE + 3 * MIB, SEGMENT - 3 * MIB, "inactive")]
    facts = {"gpu": "G", "torch": "2.11", "total_bytes": 9 * MIB, "free_bytes": 5 * MIB}
    counters = {"counters": {"0": {"retries": 3, "driver_allocs": 1}}}
    data = snapshot(rows, [segment(BASE, SEGMENT, held)], allocmark=facts | counters)
    data["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64"
    first = reader.read(write(tmp_path / "s.pickle", data))
    exporting.write(tmp_path / "s.trace.gz", first)
    again = reader.read(tmp_path / "s.trace.gz")
    for column in ("op", "block", "size", "stream"):
        assert np.array_equal(getattr(again.trace, column), getattr(first.trace, column))
    assert again.setting == first.setting == "max_split_size_mb:64"
    assert again.counted["retries"] == 3
    assert again.counted["peak_reserved_bytes"] == SEGMENT
    assert again.environment["total_bytes"] == 9 * MIB
    assert again.environment["free_bytes"] == 5 * MIB
    # As it comes is a setting too, and told from one that is not known.
    exporting.write(tmp_path / "n.trace.gz", replace(first, setting=""))
    assert reader.read(tmp_path / "n.trace.gz").setting == ""
    exporting.write(tmp_path / "n.trace.gz", replace(first, setting=None))
    assert reader.read(tmp_path / "n.trace.gz").setting is None
    with pytest.raises(AllocmarkError, match="is no folder"):
        exporting.write(tmp_path / "none" / "x.trace.gz", first)
    with pytest.raises(AllocmarkError, match="one device"):
        reader.read(tmp_path / "s.trace.gz", 1)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(1, 1 << 30)), max_size=60),
    st.integers(0, 60),
)
def test_any_history_cut_anywhere_becomes_a_trace_that_holds(
    steps: list[tuple[bool, int, int]], cut: int
) -> None:
    """What is alive is told by the final map and the frees, however late the history begins."""
    alive: dict[int, int] = {}
    entries = []
    for is_alloc, place, size in steps:
        address = BASE + place * (1 << 30)
        if is_alloc and address not in alive:
            alive[address] = size
            entries.append(entry("alloc", address, size))
        elif not is_alloc and address in alive:
            freed = alive.pop(address)
            entries += [
                entry(f"free_{what}", address, freed) for what in ("requested", "completed")
            ]
    blocks = [block(address, 1 << 30, requested=size) for address, size in sorted(alive.items())]
    held = [segment(one["address"], 1 << 30, [one]) for one in blocks]
    header, columns = convert(snapshot(entries[cut:], held), 1 << 30)
    events = events_of(SnapshotFile(header, columns), 0)
    rows = np.array(events.rows, np.int64).reshape(-1, 4).T
    trace = Trace("t", rows[0].astype(np.uint8), rows[1], rows[2], rows[3].astype(np.uint8))
    trace.validate()
    left = int(trace.live_bytes[-1]) if len(trace) else 0
    assert left == sum(alive.values())
    assert sorted(events.block_at) == sorted(alive)
    assert (trace.op == Op.ALLOC).sum() == len(events.stacks)
