"""The allocator setting that a snapshot tells: as ``PYTORCH_CUDA_ALLOC_CONF`` would say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allocmark.system.units import MIB

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
