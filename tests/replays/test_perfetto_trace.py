"""Memory over the events as counter tracks: exact bytes by stream and pool; Perfetto reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocmark.allocators.base import PoolKind
from allocmark.recording.importers.recording import Recording
from allocmark.replays import perfetto_trace
from allocmark.replays.answer import ReplayAnswer
from allocmark.replays.run import ReplayOptions, replay
from allocmark.system.units import GIB, MIB
from allocmark.workloads.event_trace import Op, Trace
from tests.support.emulation import needs_torch

pytestmark = needs_torch
COMMON, OTHER = "stream 0, common pool", "stream 1, common pool"
PRIVATE = "stream 0, private pool 1"
EVENTS = (  # op, block, size, stream
    (Op.ALLOC, 0, 3 * MIB, 0),  # cut from a segment of 20 MiB
    (Op.ALLOC, 1, 512, 1),  # from a small segment, of 2 MiB
    (Op.POOL_BEGIN, 0, 1, 0),
    (Op.ALLOC, 2, 12 * MIB, 0),  # from 10 MiB on a segment of its own size
    (Op.POOL_END, 0, 0, 0),
    (Op.FREE, 0, 0, 0),
    (Op.TRIM, 0, 0, 0),
)
SETTINGS = ("torch-native", "torch-async")


@pytest.fixture(scope="module")
def answer() -> ReplayAnswer:
    op, block, size, stream = (np.array(column) for column in zip(*EVENTS, strict=True))
    trace = Trace(
        "t",
        op.astype(np.uint8),
        block.astype(np.int64),
        size.astype(np.int64),
        stream.astype(np.uint8),
        pools=(PoolKind.MEMPOOL,),
    )
    options = ReplayOptions(
        SETTINGS, capacity_bytes=GIB, outside_bytes=0, emulated=True, search=False, draw_all=True
    )
    return replay(Recording("s", 0, trace, setting=""), options)


@pytest.fixture(scope="module")
def written(answer: ReplayAnswer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    perfetto_trace.write(path, "it fits", {"": answer})
    return path


def counted(path: Path) -> Mapping[str, Mapping[str, Mapping[int, Mapping[str, int]]]]:
    """Return bytes by setting, track and event."""
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    found: dict[str, Any] = defaultdict(lambda: defaultdict(dict))
    for event in events:
        if event["ph"] == "C":
            found[names[event["pid"]]][event["name"]][event["ts"]] = event["args"]
    return found


def held(allocated: int, reserved: int, inactive_split: int) -> dict[str, int]:
    return {"allocated": allocated, "reserved": reserved, "inactive split": inactive_split}


def test_bytes_by_stream_and_pool_are_exact(written: Path) -> None:
    tracks = counted(written)["torch-native (recorded)"]
    assert tracks[COMMON][0] == held(3 * MIB, 20 * MIB, 17 * MIB)
    assert tracks[OTHER][2] == held(512, 2 * MIB, 2 * MIB - 512)
    assert tracks[PRIVATE][4] == held(12 * MIB, 12 * MIB, 0)
    assert tracks[COMMON][4] == held(3 * MIB, 20 * MIB, 17 * MIB)
    assert tracks[COMMON][6] == held(0, 0, 0)  # What empty_cache took is at zero, not left out.
    assert tracks[PRIVATE][6] == held(12 * MIB, 12 * MIB, 0)


def test_the_tracks_are_parts_of_the_whole(written: Path) -> None:
    tracks = counted(written)["torch-native (recorded)"]
    parts = [name for name in tracks if name != "all"]
    assert set(parts) == {COMMON, OTHER, PRIVATE}
    events = sorted(tracks[COMMON])
    assert events[-1] == len(EVENTS) - 1
    for event in events:
        reserved = sum(tracks[part].get(event, held(0, 0, 0))["reserved"] for part in parts)
        assert reserved == tracks["all"][event]["reserved"]


def test_without_a_map_of_blocks_there_are_totals(written: Path) -> None:
    tracks = counted(written)["torch-async"]
    assert set(tracks) == {"all"}
    assert tracks["all"][4]["requested"] == 15 * MIB + 512


def test_where_it_failed_is_marked(answer: ReplayAnswer, tmp_path: Path) -> None:
    options = ReplayOptions(
        ("torch-native",), capacity_bytes=24 * MIB, outside_bytes=0, emulated=True, draw_all=True
    )
    perfetto_trace.write(tmp_path / "t.json", "", {"": replay(answer.recording, options)})
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    (failed,) = (event for event in events if event["ph"] == "i")
    assert (failed["name"], failed["ts"]) == ("request failed", 3)


def test_of_a_job_each_rank_has_processes_of_its_own(
    answer: ReplayAnswer, written: Path, tmp_path: Path
) -> None:
    perfetto_trace.write(tmp_path / "t.json", "", {"rank 0": answer, "rank 7": answer})
    alone, job = counted(written), counted(tmp_path / "t.json")
    assert set(job) == {f"{rank}: {name}" for rank in ("rank 0", "rank 7") for name in alone}
    assert job["rank 7: torch-native (recorded)"] == alone["torch-native (recorded)"]


_BINARY = """
from perfetto.prebuilts.manifests.trace_processor_shell import TRACE_PROCESSOR_SHELL_MANIFEST
from perfetto.prebuilts.perfetto_prebuilts import get_perfetto_prebuilt
print(get_perfetto_prebuilt(TRACE_PROCESSOR_SHELL_MANIFEST))
"""


@pytest.fixture(scope="module")
def trace_processor() -> Path:
    """Return Perfetto's own reader: the package fetches its binary at the first use."""
    pytest.importorskip("perfetto", reason="perfetto is not installed (extra test)")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _BINARY], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        pytest.skip("perfetto fetches its trace processor at the first use: it cannot be had here")
    return Path(done.stdout.splitlines()[-1])


@pytest.mark.filterwarnings("default")  # They are that package's own.
def test_perfetto_reads_it(written: Path, trace_processor: Path) -> None:
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    config = TraceProcessorConfig(bin_path=str(trace_processor))
    with TraceProcessor(trace=str(written), config=config) as processor:
        rows = processor.query(
            "select process.name as setting, track.name as name, counter.ts as ts, value "
            "from counter join process_counter_track as track on track.id = counter.track_id "
            "join process using (upid) order by ts"
        )
        found = {(row.setting, row.name, row.ts // 1000): row.value for row in rows}
        errors = list(processor.query("select name from stats where severity = 'error' and value"))
    assert not errors
    expected = {
        (setting, f"{track} {what}", event): value
        for setting, tracks in counted(written).items()
        for track, points in tracks.items()
        for event, values in points.items()
        for what, value in values.items()
    }
    assert found == expected
