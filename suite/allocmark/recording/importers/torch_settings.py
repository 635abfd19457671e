"""The allocator setting that a snapshot tells: as ``PYTORCH_CUDA_ALLOC_CONF`` would say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from allocmark.recording.importers.snapshot_columns import ACTIONS
from allocmark.recording.importers.snapshot_file import SnapshotFile
from allocmark.system.units import MIB, format_count

_TEXTS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def recorded(header: Mapping[str, Any]) -> str | None:
    """Return the setting of a snapshot's header: empty for the defaults, None if not known."""
    settings = header.get("settings", {})
    if not settings:
        return None
    if text := next(filter(None, map(settings.get, _TEXTS)), None):
        return str(text)
    words = []
    if settings.get("expandable_segments"):
        words.append("expandable_segments:True")
    split = settings.get("max_split_size", -1)
    if isinstance(split, int) and 0 < split < 1 << 50:
        words.append(f"max_split_size_mb:{split // MIB}")
    threshold = settings.get("garbage_collection_threshold")
    if isinstance(threshold, float) and threshold > 0:
        words.append(f"garbage_collection_threshold:{threshold:g}")
    divisions = settings.get("roundup_power2_divisions")
    if isinstance(divisions, dict) and any(divisions.values()):
        different = set(map(str, divisions.values()))
        if len(different) == 1:
            words.append(f"roundup_power2_divisions:{different.pop()}")
        else:
            pairs = ",".join(f"{size}:{count}" for size, count in divisions.items())
            words.append(f"roundup_power2_divisions:[{pairs}]")
    return ",".join(words)


def ring_was_full(header: Mapping[str, Any], device: int) -> bool | None:
    """Return whether the history forgot entries; None where the release does not tell.

    ``trace_alloc_overflowed`` is told by newer releases, for all devices or in a list of them.
    """
    told = header.get("settings", {}).get("trace_alloc_overflowed")
    if isinstance(told, list):
        told = told[device] if device < len(told) else None
    return None if told is None else bool(told)


def doubts(file: SnapshotFile, device: int) -> list[str]:
    """Say where the recorded setting was not in force from the beginning to the end."""
    header, found = file.header, []
    now = header.get("settings", {}).get(_TEXTS[0])
    first = header["allocmark"].get("setting_at_start")
    if isinstance(now, str) and isinstance(first, str) and now != first:
        found.append(
            f"the allocator setting was changed while the program ran, from {first or 'none'!r} to "
            f"{now or 'none'!r}: the whole of it is replayed under the last one"
        )
    expandable = "expandable_segments:True" in (recorded(header) or "")
    segments = file.column(device, "segments", "expandable").astype(bool)
    private = file.column(device, "segments", "pool").astype(bool)
    others = int((segments[~private] != expandable).sum())
    grown = "segment_alloc" if expandable else "segment_map"
    actions = file.column(device, "entries", "action")
    calls = 0 if private.any() else int(np.sum(actions == ACTIONS.index(grown)))
    if header.get("settings") and max(others, calls):
        what = "not expandable" if expandable else "expandable"
        found.append(
            f"the recorded setting has expandable_segments:{expandable}, and "
            f"{format_count(max(others, calls), 'segment')} were {what}: it was changed while the "
            "program ran, or was not in force"
        )
    return found
