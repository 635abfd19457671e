"""What the memory of a process consists of: one name and one meaning each, wherever it is shown.

`allocmark explain` (a running process) and `allocmark replay` (one event of a recording) take them
from here, for text, JSON and pages. The words are those of docs/glossary.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """One part of memory; `meaning` continues the name after a colon or in brackets."""

    name: str
    meaning: str


LIVE = MemoryKind("live", "allocated and not freed by the program, after rounding")
PENDING_FREE = MemoryKind("pending free", "freed by the program, waiting for another stream")
CACHED = MemoryKind("cached", "in segments without any live block: empty_cache() releases it")
INACTIVE_SPLIT = MemoryKind(
    "inactive split", "free beside live blocks in one segment: only reused by what fits"
)
PRIVATE_POOL = MemoryKind(
    "free in private pools", "for the owner of the pool only, kept while that lives"
)

CONTEXT = MemoryKind("context", "what CUDA keeps on a device for a process, before any allocation")
OTHER = MemoryKind(
    "other outside the allocator", "modules, workspaces and what libraries took past the framework"
)
