"""Snapshots of torch 2.1 to 2.14: events to the byte, and every uncertainty stated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from allocmark.recording.importers import reader
from allocmark.recording.importers.recording import Recording
from allocmark.recording.importers.snapshot_columns import convert
from allocmark.system.errors import AllocmarkError
from tests.support.snapshots import (
    BASE,
    MIB,
    SEGMENT,
    block,
    entry,
    frame,
    segment,
    snapshot,
    write,
)

A, B, C = BASE, BASE + 4 * MIB, BASE + 8 * MIB


def events(recording: Recording) -> list[tuple[int, int, int, int]]:
    trace = recording.trace
    columns = (trace.op, trace.block, trace.size, trace.stream)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def usual() -> dict[str, Any]:
    entries = [
        entry("segment_alloc", BASE, SEGMENT, frames=[frame(1)]),
        entry("alloc", A, 3 * MIB, frames=[frame(2), frame(9, "main")]),
        entry("alloc", B, 2 * MIB, stream=99, frames=[frame(3)]),
        entry("free_requested", A, 3 * MIB, frames=[]),
        entry("free_completed", A, 3 * MIB, frames=[]),
    ]
    rest = SEGMENT - 6 * MIB
    blocks = [
        block(A, 4 * MIB, "inactive"),
        block(B, 2 * MIB, frames=[frame(3)]),
        block(BASE + 6 * MIB, rest, "inactive"),
    ]
    return snapshot(entries, [segment(BASE, SEGMENT, blocks)])


def test_events_stacks_and_what_was_counted(tmp_path: Path) -> None:
    found = reader.read(write(tmp_path / "s.pickle", usual()))
    assert events(found) == [(0, 0, 3 * MIB, 0), (0, 1, 2 * MIB, 1), (1, 0, 0, 0)]
    assert found.stack(0) == ["model.py:2 train", "model.py:9 main"]
    assert found.counted == {
        "reserved_bytes": SEGMENT,
        "peak_reserved_bytes": SEGMENT,
        "segments": 1,
        "peak_segments": 1,
    }
    assert found.setting == ""
    assert found.doubts == []


def older(data: dict[str, Any]) -> dict[str, Any]:
    """As torch 2.1 wrote it: without times, and with another word for what waits."""
    for told in data["device_traces"][0]:
        del told["time_us"]
    del data["allocator_settings"]
    return data


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_the_format_of_torch_2_1_in_any_protocol(tmp_path: Path, protocol: int) -> None:
    data = older(usual())
    del data["device_traces"][0][-1]  # The free is asked for, and waits.
    data["segments"][0]["blocks"][0] |= {"state": "active_pending_free", "requested_size": 3 * MIB}
    found = reader.read(write(tmp_path / "s.pickle", data, protocol))
    assert [row[:3] for row in events(found)][-1] == (1, 0, 0)
    assert found.setting is None
    assert found.end_map is not None
    assert found.end_map.blocks[:, 3].tolist() == [2, 1, 0]


def test_the_format_before_2_1_has_blocks_without_addresses_and_sizes(tmp_path: Path) -> None:
    blocks = [
        {"size": 4 * MIB, "state": "active_allocated", "history": [{"frames": [frame(5)]}]},
        {"size": SEGMENT - 4 * MIB, "state": "inactive"},
    ]
    held = {"device": 0, "address": BASE, "total_size": SEGMENT, "stream": 0, "blocks": blocks}
    found = reader.read(write(tmp_path / "s.pickle", [held]))
    assert events(found) == [(0, 0, 4 * MIB, 0)]
    assert found.stack(0) == ["model.py:5 train"]
    assert not found.has_history
    assert "no history" in found.doubts[0]


def test_what_was_alive_before_the_history_comes_first_by_address(tmp_path: Path) -> None:
    data = usual()
    data["device_traces"][0] = [
        entry("free_requested", C, MIB + 5),
        entry("free_completed", C, MIB + 5),
        entry("alloc", A, 3 * MIB),
    ]
    data["segments"][0]["blocks"] = [
        block(A, 4 * MIB, requested=3 * MIB),
        block(B, 2 * MIB, requested=2 * MIB - 7),
        block(BASE + 6 * MIB, SEGMENT - 6 * MIB, "inactive"),
    ]
    found = reader.read(write(tmp_path / "s.pickle", data))
    assert events(found) == [
        (0, 0, 2 * MIB - 7, 0),
        (0, 1, MIB + 5, 0),
        (1, 1, 0, 0),
        (0, 2, 3 * MIB, 0),
    ]
    assert "alive before the history begins" in found.doubts[0]
    assert "2 blocks (3.0 MiB), allocated first" in found.doubts[0]


def test_a_full_ring_is_told_from_a_late_start(tmp_path: Path) -> None:
    data = usual() | {"allocmark": {"max_entries": 2}}
    data["device_traces"][0] = data["device_traces"][0][3:]
    found = reader.read(write(tmp_path / "s.pickle", data))
    assert "its ring of 2 entries was full" in found.doubts[0]
    # What the final map holds is taken back from its end: nothing came or went since.
    assert found.counted["peak_reserved_bytes"] == SEGMENT


def test_a_request_that_failed_is_replayed_and_the_retry_before_it_is_no_trim(
    tmp_path: Path,
) -> None:
    data = usual()
    short = [frame(4)]
    data["device_traces"][0] += [
        entry("segment_free", BASE + SEGMENT, SEGMENT, frames=short),
        entry("oom", 77 * MIB, 900 * MIB, frames=short),
    ]
    found = reader.read(write(tmp_path / "s.pickle", data))
    assert events(found)[-2:] == [(0, 2, 900 * MIB, 0), (1, 2, 0, 0)]
    assert [(f.event, f.size_bytes, f.device_free_bytes) for f in found.failed] == [
        (3, 900 * MIB, 77 * MIB)
    ]
    assert found.counted["ooms"] == 1
    assert found.counted["peak_reserved_bytes"] == 2 * SEGMENT
    assert any("what the program would have allocated after it" in d for d in found.doubts)


@pytest.mark.parametrize(
    ("frames", "doubted"), [([frame(3), frame(8, "empty_cache", "memory.py")], False), (None, True)]
)
def test_empty_cache_is_replayed_once_for_all_its_segments(
    tmp_path: Path, frames: Any, doubted: bool
) -> None:
    data = usual()
    more = {} if frames is None else {"frames": frames}
    data["device_traces"][0] += [
        entry("segment_free", BASE + n * SEGMENT, SEGMENT, **more) for n in (1, 2)
    ]
    found = reader.read(write(tmp_path / "s.pickle", data))
    assert events(found)[-1] == (4, -1, 0, 0)
    assert [row[0] for row in events(found)].count(4) == 1
    assert any("empty_cache is assumed" in d for d in found.doubts) == doubted


def test_what_a_thread_without_python_gives_back_is_torchs_own(tmp_path: Path) -> None:
    """Autograd's threads have no Python frames: a retry there is no empty_cache."""
    data = usual()
    data["device_traces"][0].append(entry("segment_free", BASE + SEGMENT, SEGMENT, frames=[]))
    found = reader.read(write(tmp_path / "s.pickle", data))
    assert [row[0] for row in events(found)].count(4) == 0
    assert not any("empty_cache" in doubt for doubt in found.doubts)


def test_a_free_that_waited_for_a_stream_returns_where_it_did(tmp_path: Path) -> None:
    data = usual()
    rows = data["device_traces"][0]
    rows.insert(4, entry("alloc", C, MIB))
    data["segments"][0]["blocks"][2] = block(C, MIB)
    found = reader.read(write(tmp_path / "s.pickle", data))
    assert [row[:2] for row in events(found)] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert any("waited for another stream: 1;" in d for d in found.doubts)


def test_one_of_several_devices(tmp_path: Path) -> None:
    data = usual()
    data["device_traces"].append([entry("alloc", A, 512)])
    small = segment(BASE, 2 * MIB, [block(A, 512), block(A + 512, 2 * MIB - 512, "inactive")])
    data["segments"].append(small | {"device": 1})
    path = write(tmp_path / "s.pickle", data)
    assert reader.read(path).device == 0
    assert any("1 other device beside" in d for d in reader.read(path).doubts)
    assert events(reader.read(path, 1)) == [(0, 0, 512, 0)]
    with pytest.raises(AllocmarkError, match="nothing of device 3: choose from 0, 1"):
        reader.read(path, 3)


def test_unknown_entries_are_told(tmp_path: Path) -> None:
    data = usual()
    data["device_traces"][0].append(entry("teleport", A, 1))
    doubts = " ".join(reader.read(write(tmp_path / "s.pickle", data)).doubts)
    assert "not known here were passed over: teleport" in doubts


@pytest.mark.parametrize(
    ("settings", "conf"),
    [
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, "max_split_size_mb:64"),
        ({"expandable_segments": True}, "expandable_segments:True"),
        (
            {"max_split_size": 128 * MIB, "garbage_collection_threshold": 0.5},
            "max_split_size_mb:128,garbage_collection_threshold:0.5",
        ),
        (
            {"roundup_power2_divisions": {"1": 4, "2": 4}},
            "roundup_power2_divisions:4",
        ),
        (
            {"roundup_power2_divisions": {"256": 1, "512": 2}},
            "roundup_power2_divisions:[256:1,512:2]",
        ),
    ],
)
def test_the_setting_however_it_was_made(
    tmp_path: Path, settings: dict[str, Any], conf: str
) -> None:
    data = usual() | {"allocator_settings": settings}
    assert reader.read(write(tmp_path / "s.pickle", data)).setting == conf


@pytest.mark.parametrize("counters", ["none", {"0": 7}, {"0": {"retries": "x"}}, None])
def test_counters_of_another_kind_are_passed_over(tmp_path: Path, counters: Any) -> None:
    data = usual() | {"allocmark": {"counters": counters}}
    assert "retries" not in reader.read(write(tmp_path / "s.pickle", data)).counted


def test_a_run_on_the_cpu_has_nothing_to_replay(tmp_path: Path) -> None:
    path = write(tmp_path / "s.pickle", {"segments": [], "device_traces": [[], []]})
    with pytest.raises(AllocmarkError, match="no memory of a GPU: was the program run on the CPU"):
        reader.read(path)


def test_the_drivers_pool_keeps_no_history(tmp_path: Path) -> None:
    data = {"segments": [], "device_traces": [], "allocmark": {"backend": "cudaMallocAsync"}}
    with pytest.raises(AllocmarkError, match="of which torch keeps no history"):
        reader.read(write(tmp_path / "s.pickle", data))


def test_the_programs_own_line_is_kept_below_a_deep_part_of_torch() -> None:
    torchs = [
        {"filename": "/v/site-packages/torch/a.py", "line": line, "name": "f"} for line in range(30)
    ]
    own = {"filename": "/project/train.py", "line": 7, "name": "step"}
    header, _ = convert(snapshot([entry("alloc", BASE, 512, frames=[*torchs, own, own])]), 100_000)
    (stack,) = header["stacks"]
    assert (len(stack), stack[-1]) == (12, "/project/train.py:7 step")


def test_the_map_at_a_refused_request_bears_its_number(tmp_path: Path) -> None:
    rows = [
        entry("segment_alloc", BASE, SEGMENT),
        entry("alloc", A, 3 * MIB),
        {**entry("oom", 0, 9 * MIB), "device_free": 5},
    ]
    held = [block(A, 3 * MIB), block(A + 3 * MIB, SEGMENT - 3 * MIB, "inactive")]
    found = reader.read(
        write(tmp_path / "s.pickle", snapshot(rows, [segment(BASE, SEGMENT, held)]))
    )
    assert found.end_map is not None
    assert found.end_map.event == found.failed[-1].event == 1


@pytest.mark.parametrize("overflowed", [True, False, [True], [False], []])
def test_newer_releases_tell_whether_the_ring_was_full(tmp_path: Path, overflowed: Any) -> None:
    data = usual()
    data["device_traces"][0] = data["device_traces"][0][3:]
    del data["segments"][0]["blocks"][1]["frames"]
    data["allocator_settings"] |= {"trace_alloc_overflowed": overflowed}
    (doubt, *_) = reader.read(write(tmp_path / "s.pickle", data)).doubts
    told = overflowed[0] if isinstance(overflowed, list) and overflowed else overflowed
    if told == []:
        assert "it was started late, or its ring was full" in doubt
    else:
        assert ("its ring of 2 entries was full" in doubt) is told
        assert ("it was started late: its ring was not full" in doubt) is not told


@pytest.mark.parametrize("expandable", [True, False])
@pytest.mark.parametrize("by_text", [True, False])
def test_a_setting_that_contradicts_the_segments_is_a_doubt(
    tmp_path: Path, expandable: bool, by_text: bool
) -> None:
    data = usual()
    text = f"expandable_segments:{expandable}" if by_text else ""
    settings = {"PYTORCH_CUDA_ALLOC_CONF": text, "expandable_segments": expandable}
    data["allocator_settings"] = settings
    data["segments"][0]["is_expandable"] = not expandable
    data["device_traces"][0][0]["action"] = "segment_alloc" if expandable else "segment_map"
    found = reader.read(write(tmp_path / "s.pickle", data))
    assert any("1 segment were" in d or "1 segment was" in d for d in found.doubts), found.doubts
    data["segments"][0]["is_expandable"] = expandable
    data["device_traces"][0][0]["action"] = "segment_map" if expandable else "segment_alloc"
    assert not reader.read(write(tmp_path / "s.pickle", data)).doubts


def test_what_was_metered_of_one_device_is_not_said_of_another(tmp_path: Path) -> None:
    data = usual()
    data["device_traces"].append([entry("alloc", A, 512)])
    small = segment(BASE, 2 * MIB, [block(A, 512), block(A + 512, 2 * MIB - 512, "inactive")])
    data["segments"].append(small | {"device": 1})
    metered = {"free_bytes": 1, "reserved_bytes": 2, "process_bytes": 3, "memory_fraction": 0.5}
    data["allocmark"] = {"device": 0, "gpu": "G", "total_bytes": 9, **metered}
    data["device_traces"][1].append(entry("oom", 7, 900 * MIB))
    data["allocmark"]["why"] = "oom"
    path = write(tmp_path / "s.pickle", data)
    assert reader.read(path, 0).environment["why"] == "oom of device 1"
    assert metered.items() <= reader.read(path, 0).environment.items()
    assert reader.read(path, 1).environment == {
        "device": 0,
        "gpu": "G",
        "total_bytes": 9,
        "why": "oom",
    }
