"""Section 3.2 of the source document, row by row, with the figures to show."""

from __future__ import annotations

from allocmark.report.document_table import (
    STATEMENT,
    ClaimCell,
    DocumentRow,
    DocumentTable,
    statements,
)
from allocmark.system.message import Message

TITLE = Message("3.2 PyTorch's strategy")
ORDER = 40
OF_DOCUMENT = True

_TRAITS: list[DocumentRow] = [
    (
        Message("preallocation"),
        [
            ClaimCell(
                Message("the first request takes a large block, from 2 MB"),
                "pt-big-block",
                "small_taken",
            ),
            ClaimCell(Message("fewer CUDA calls"), "pt-fewer-calls", "share"),
            ClaimCell(Message("may waste memory"), "pt-big-block-waste", "median"),
        ],
    ),
    (
        Message("pools by stream"),
        [
            ClaimCell(Message("each stream has its own cache pool"), "pt-stream-pools", "growth"),
            ClaimCell(Message("no lock contention"), "pt-no-lock", "speedup"),
        ],
    ),
    (
        Message("deferred release"),
        [
            ClaimCell(Message("freed memory stays in the cache"), "pt-cache", "reserved"),
            ClaimCell(Message("later requests are faster"), "pt-late-free", "times"),
            ClaimCell(Message("fragmentation gets worse"), "pt-late-free-frag", "worse"),
        ],
    ),
]
"""Feature, explanation, influence; an influence of two halves is two cells."""
_CALLS = statements(
    (Message("memory_summary()"), Message("cached, used, fragments"), "pt-summary", "pinned"),
    (
        Message("empty_cache()"),
        Message("back to PyTorch's own pool only"),
        "pt-empty-cache",
        "returned",
    ),
    (Message("memory_allocated()"), Message("what is used"), "pt-counters", "wrong"),
    (Message("memory_reserved()"), Message("what is cached"), "pt-counters-cached", "cached"),
    (
        Message("nvidia-smi"),
        Message("may not change after empty_cache()"),
        "pt-empty-cache-smi",
        "half",
    ),
)
TABLES = (
    DocumentTable(
        "traits",
        Message("Three traits of PyTorch's strategy"),
        (
            Message("feature"),
            Message("explanation"),
            Message("influence: gain"),
            Message("influence: cost"),
        ),
        _TRAITS,
    ),
    DocumentTable(
        "code",
        Message("What the code example's calls really show"),
        (Message("call"), STATEMENT),
        _CALLS,
        Message("The code divides by 1024² and prints MB: what it prints are MiB."),
    ),
)
