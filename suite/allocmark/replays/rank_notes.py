"""What a recording of one rank of a job leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allocmark.recording.importers.recording import Recording

_MOST = 3
NCCL_UNKNOWN = (
    "what NCCL takes for itself (communicators, channels, buffers) is not known: it lies outside "
    "the allocator and is in no figure here; measure it on a GPU and give it with --outside"
)


def job(recording: Recording) -> Mapping[str, Any]:
    """Return what ``allocmark record`` wrote down of the job, nothing where there was none."""
    found = recording.environment.get("job")
    return found if isinstance(found, Mapping) else {}


def doubts(recording: Recording) -> list[str]:
    """Say what a rank that was run alone cannot tell."""
    facts = job(recording)
    groups = [str(group) for group in facts.get("groups", ())]
    if not groups:
        return []
    found = [
        f"run alone, as one rank of {facts.get('world_size')}: collectives brought no values, and "
        "what the program decides by them may differ"
    ]
    if any("nccl" in group.partition(" ")[0] for group in groups):
        found.append(NCCL_UNKNOWN)
    if facts.get("computed_values_read"):
        found.append(
            "the program read values that a GPU would have computed, and found zeros: what it "
            "allocates by them (tokens of an expert, sizes by counts) is not in the figures"
        )
    missing = facts.get("missing", {})
    found += [f"no other rank answered {place}" for place in list(missing)[:_MOST]]
    if len(missing) > _MOST:
        found.append(f"nor {len(missing) - _MOST} more places")
    return found
