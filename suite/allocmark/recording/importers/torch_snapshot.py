"""A torch snapshot as a recording: which device, which setting, what is in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allocmark.recording.importers import snapshot_file, torch_settings
from allocmark.recording.importers.recording import (
    OF_ONE_DEVICE,
    BlockMap,
    Recording,
    imported_trace,
)
from allocmark.recording.importers.snapshot_columns import ACTIONS
from allocmark.recording.importers.snapshot_file import SnapshotFile
from allocmark.recording.importers.torch_history import Events, events_of, reserved_over_entries
from allocmark.recording.importers.torch_pools import Pools
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import format_bytes, format_count
from allocmark.workloads.event_trace import Op


def read(path: Path, device: int | None = None) -> Recording:
    """Return the recording in a snapshot, of the device with most memory unless one is named.

    Raises `AllocmarkError` for a file that cannot be used, and where no GPU's memory is in it.
    """
    file = snapshot_file.read(path)
    chosen = _device(file, device, path.name)
    events = events_of(file, chosen, _stats(file, chosen).get("retries"))
    if not events.rows:
        raise AllocmarkError(
            f"{path.name} holds no allocation on device {chosen}: was the program run on the CPU, "
            "or recorded before it allocated anything?"
        )
    changed = torch_settings.doubts(file, chosen)
    trace = imported_trace(path.name, events.rows, tuple(events.pools.kinds))
    return Recording(
        source=f"torch snapshot {path.name}",
        device=chosen,
        trace=trace,
        setting=torch_settings.recorded(file.header),
        counted=_counted(file, chosen, events),
        stacks=file.header["stacks"],
        stack_of_block=np.array(events.stacks, np.int32),
        failed=events.failed,
        end_map=_end_map(file, chosen, events),
        has_history=events.has_history,
        begins_late=events.has_history and events.before_blocks > 0,
        is_floor=_is_floor(file, chosen, events, trace.peak_requested_bytes),
        environment=_environment(file, chosen),
        doubts=[*_doubts(file, chosen, events), *changed],
        causes=_causes(file, chosen, events, changed),
    )


def _environment(file: SnapshotFile, device: int) -> dict[str, Any]:
    """Return what ``allocmark record`` wrote down; meters are of one device only."""
    facts = dict(file.header["allocmark"])
    if facts.get("device", device) != device:
        for name in OF_ONE_DEVICE:
            facts.pop(name, None)
    failing = [int(other) for other in file.header["devices"] if _has_failed(file, int(other))]
    if facts.get("why") == "oom" and failing and device not in failing:
        facts["why"] = f"oom of device {failing[-1]}"
    return facts


def _has_failed(file: SnapshotFile, device: int) -> bool:
    return bool((file.column(device, "entries", "action") == ACTIONS.index("oom")).any())


def _was_used(file: SnapshotFile, device: int) -> bool:
    """Say whether a device's history is of more than the snapshots, which stand in every one's."""
    actions = file.column(device, "entries", "action")
    return bool((actions != ACTIONS.index("snapshot")).any())


def _device(file: SnapshotFile, requested: int | None, name: str) -> int:
    held = {
        int(device): int(file.column(int(device), "segments", "size").sum()) + entries
        for device, entries in file.header["devices"].items()
    }
    held = {device: count for device, count in held.items() if count}
    if not held and "cudaMallocAsync" in str(file.header):
        raise AllocmarkError(
            f"{name} was recorded under backend:cudaMallocAsync, of which torch keeps no history: "
            "record the program without that setting"
        )
    if not held:
        raise AllocmarkError(
            f"{name} holds no memory of a GPU: was the program run on the CPU, "
            "or was the snapshot made before its first tensor?"
        )
    if requested is not None and requested not in held:
        known = ", ".join(map(str, sorted(held)))
        raise AllocmarkError(f"{name} holds nothing of device {requested}: choose from {known}")
    return max(held, key=lambda device: held[device]) if requested is None else requested


def _counted(file: SnapshotFile, device: int, events: Events) -> dict[str, int]:
    """Return what is known of the recorded run: from the history, or better from its counters."""
    reserved, most_segments, segments = reserved_over_entries(file, device)
    held = int(file.column(device, "segments", "size").sum())
    most = max(held, int(reserved.max(initial=0)))
    counted = {"reserved_bytes": held, "peak_reserved_bytes": most}
    if not file.column(device, "segments", "expandable").any():  # torch counts those as none.
        counted |= {"segments": segments, "peak_segments": most_segments}
    if events.given_back and not _collects_garbage(file):
        counted["given_back"] = events.given_back
    if events.failed:
        counted["ooms"] = len(events.failed)
    if events.before_blocks:
        return counted  # torch's counters are of what came before, too.
    known = _stats(file, device)
    if not known.get("peak_segments", 1):
        del known["peak_segments"]  # All of them expandable.
    return counted | known


def _stats(file: SnapshotFile, device: int) -> dict[str, int]:
    """Return torch's counters as ``allocmark record`` wrote them down, empty without."""
    all_stats = file.header["allocmark"].get("counters")
    stats = all_stats.get(str(device)) if isinstance(all_stats, dict) else None
    values = stats.items() if isinstance(stats, dict) else ()
    return {name: int(value) for name, value in values if isinstance(value, int)}


def _end_map(file: SnapshotFile, device: int, events: Events) -> BlockMap | None:
    segments = [
        file.column(device, "segments", name) for name in ("address", "size", "stream", "pool")
    ]
    if not len(segments[0]):
        return None
    wanted = ("address", "size", "requested", "state")
    blocks = [file.column(device, "blocks", name) for name in wanted]
    known = [events.block_at.get(address, -1) for address in blocks[0].tolist()]
    last = len(events.rows) - 1
    if events.failed and not any(op == Op.ALLOC for op, *_ in events.rows[_after(events) :]):
        last = events.failed[-1].event  # The map shows what was there when it was refused.
    return BlockMap(last, np.stack(segments, 1), np.stack([*blocks, np.array(known)], 1))


def _collects_garbage(file: SnapshotFile) -> bool:
    """Say whether torch may give segments back without being short of memory."""
    return "garbage_collection_threshold" in (torch_settings.recorded(file.header) or "")


def _is_floor(file: SnapshotFile, device: int, events: Events, seen_bytes: int) -> bool:
    """Say whether the program's peak may lie before the first entry: torch's counters tell."""
    if not events.has_history or not events.before_blocks:
        return False
    peak = _stats(file, device).get("peak_requested_bytes")
    return peak is None or seen_bytes < peak


def _causes(file: SnapshotFile, device: int, events: Events, changed: Sequence[str]) -> list[str]:
    """Return what may set a replay apart from the recorded run."""
    causes = list(changed)
    common, private = _unused_cache(file, device, events)
    if common:
        causes.append(
            f"{format_bytes(common)} were cached in whole segments and torch neither used nor "
            "released them: the request came from a private pool (graph capture, MemPool)"
        )
    if private:
        causes.append(
            f"{format_bytes(private)} were cached in private pools (CUDA graphs, MemPool), which "
            "keep them"
        )
    if events.before_blocks:
        causes.append(
            "what was cached before the history begins, and how it was split, is not known"
        )
    causes += _pool_doubts(events.pools)
    if events.waited:
        waited = format_count(events.waited, "free")
        causes.append(
            f"{waited} waited for another stream and came back when that GPU had finished"
        )
    if events.trims_without_stack:
        causes.append("releases without a stack are taken for calls of empty_cache")
    return causes


def _after(events: Events) -> int:
    """Return the first event after the last request that failed."""
    return events.failed[-1].event + 1


def _unused_cache(file: SnapshotFile, device: int, events: Events) -> tuple[int, int]:
    """Return what was cached in whole segments as a request failed: common, of private pools.

    0 where it would not have served the request, or the snapshot was not made as it failed.
    """
    actions = file.column(device, "entries", "action").tolist()
    while actions and ACTIONS[actions[-1]] == "snapshot":
        actions.pop()
    if not events.failed or not actions or ACTIONS[actions[-1]] != "oom":
        return 0, 0
    starts = file.column(device, "segments", "address")
    order = starts.argsort()
    places = order[
        starts[order].searchsorted(file.column(device, "blocks", "address"), "right") - 1
    ]
    used = np.zeros(len(starts), bool)
    used[places[file.column(device, "blocks", "state") > 0]] = True
    sizes, pool = (file.column(device, "segments", name) for name in ("size", "pool"))
    last = events.failed[-1]
    free = [int(sizes[~used & of_kind].sum()) for of_kind in (pool == 0, pool != 0)]
    common, private = (0 if last.returned_bytes or n < last.size_bytes else n for n in free)
    return common, private


def _doubts(file: SnapshotFile, device: int, events: Events) -> list[str]:
    """Say what the file does not tell, and what was assumed instead."""
    doubts = []
    entries = len(file.column(device, "entries", "action"))
    others = sum(_was_used(file, int(n)) for n in file.header["devices"] if int(n) != device)
    if not events.has_history:
        kept = f" (its history is {format_count(entries, 'entry', 'entries')})" if entries else ""
        doubts.append(
            f"the snapshot has no history{kept}: only what was alive at its end is replayed, in "
            "the order of addresses; the peak before it, the frees and their order are not known"
        )
    elif events.before_blocks:
        why = _why_late(file, device, entries, events)
        doubts.append(
            f"alive before the history begins ({why}): "
            f"{format_count(events.before_blocks, 'block')} ({format_bytes(events.before_bytes)}), "
            "allocated first, in the order of addresses; what was cached then is not known"
        )
    if others > 0:
        other = format_count(others, "other device")
        doubts.append(f"the snapshot holds {other} beside: --device names one")
    if events.waited:
        doubts.append(
            f"frees that waited for another stream: {events.waited}; each block returns at the "
            "event at which it did in the recorded run, which depended on the pace of that GPU"
        )
    if events.waited is None and events.has_history:
        doubts.append(
            "requests to free were left out of the history: whether a free waited for another "
            "stream is not known"
        )
    if events.reallocated:
        doubts.append(
            "given out again without a recorded free: "
            f"{format_count(events.reallocated, 'block')}, freed just before"
        )
    if events.trims_without_stack:
        doubts.append(
            f"segments were given back {format_count(events.trims_without_stack, 'time')} and no "
            "stack says whether by empty_cache or by torch itself, short of memory: empty_cache is "
            "assumed"
        )
    doubts += _pool_doubts(events.pools)
    if file.header["other_actions"]:
        names = ", ".join(sorted(file.header["other_actions"])[:5])
        doubts.append(f"entries of kinds not known here were passed over: {names}")
    if events.failed:
        doubts.append(_after_failure(events))
    states = file.column(device, "blocks", "state")
    live = set(file.column(device, "blocks", "address")[states > 0].tolist())
    if missing := len(events.block_at.keys() - live):
        doubts.append(
            f"alive by the history and not in the final map: {format_count(missing, 'block')}; the "
            "history was stopped before the snapshot, or left out frees"
        )
    return doubts


def _pool_doubts(pools: Pools) -> list[str]:
    """Say what is inferred of private pools, where the entries do not tell."""
    doubts = []
    if pools.segments_not_told and any(pools.of_entry):
        doubts.append(
            "returned before the end, and torch before 2.12 does not tell from which pool: "
            f"{format_count(pools.segments_not_told, 'segment')}; the common one is assumed"
        )
    if pools.failed_in_empty:
        doubts.append(
            "the request that failed left segments cached in the common pool, which torch returns "
            "before it fails, except while allocations go to a private pool (use_mem_pool, a "
            "graph's capture): it is replayed in a private pool of its own"
        )
    elif pools.failed_assumed:
        doubts.append(
            "the request that failed is replayed in the private pool of the allocation before it: "
            "torch before 2.12 does not tell its pool"
        )
    return doubts


def _why_late(file: SnapshotFile, device: int, entries: int, events: Events) -> str:
    full = torch_settings.ring_was_full(file.header, device)
    if full is None and entries == file.header["allocmark"].get("max_entries"):
        full = True
    if full:
        return f"its ring of {entries} entries was full and forgot the oldest"
    if full is False:
        return "it was started late: its ring was not full"
    if events.before_with_stack:
        return "its ring was full: some of them carry stacks that it had recorded"
    return "it was started late, or its ring was full"


def _after_failure(events: Events) -> str:
    last = events.failed[-1]
    later = sum(op == Op.ALLOC for op, *_ in events.rows[_after(events) :])
    after = "what the program would have allocated after it is not known, so more may be needed"
    if later:
        after = f"the program went on with {format_count(later, 'more allocation')}"
    return (
        f"the request of {format_bytes(last.size_bytes)} that failed is replayed as if it had been "
        f"served; {after}"
    )
