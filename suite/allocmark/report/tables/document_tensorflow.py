"""Section 3.3 of the source document, row by row, with the figures to show."""

from __future__ import annotations

from allocmark.report.document_table import (
    STATEMENT,
    ClaimCell,
    DocumentRow,
    DocumentTable,
    statements,
)
from allocmark.system.message import Message

TITLE = Message("3.3 TensorFlow's strategy")
ORDER = 50
OF_DOCUMENT = True

_MODES = statements(
    (Message("greedy (default)"), Message("takes nearly all memory"), "tf-greedy", "share"),
    (Message("greedy: when"), Message("as soon as it starts"), "tf-greedy-when", "created"),
    (Message("greedy: GPUs"), Message("on all visible GPUs"), "tf-greedy-gpus", "least"),
    (Message("BFC"), Message("finds the best fit and merges neighbours"), "tf-bfc", "best_fit"),
    (Message("BFC: when"), Message("merges when nothing fits"), "tf-bfc-when", "merges"),
    (Message("growth"), Message("takes memory as needed"), "tf-growth", "beyond"),
    (Message("memory_limit=4096"), Message("limits it to 4 GB"), "tf-limit", "held"),
    (Message("its code"), Message("growth, then a limit: both"), "tf-both", "taken"),
    (Message("which to use"), Message("growth"), "growth-best", "worse"),
    (Message("two models, greedy"), Message("the other one gets nothing"), "two-models", "got"),
    (
        Message("two models, growth"),
        Message("both get what they need"),
        "two-models-growth",
        "second_live",
    ),
)
_COMPARISON: list[DocumentRow] = [
    (
        Message("default behaviour"),
        [
            ClaimCell(Message("on demand, reuses its cache"), "cmp-default-pt", "over"),
            ClaimCell(Message("takes all, greedy"), "cmp-default-tf", "share"),
        ],
    ),
    (
        Message("fragmentation"),
        [
            ClaimCell(Message("relies on its cache, more"), "cmp-frag", "torch"),
            ClaimCell(Message("BFC merges, less"), "cmp-frag", "tf"),
        ],
    ),
    (
        Message("several processes"),
        [
            ClaimCell(Message("an allocator for each"), "cmp-process-pt", "shared"),
            ClaimCell(Message("shares between them"), "cmp-process-tf", "shared"),
        ],
    ),
    (
        Message("giving memory back"),
        [
            ClaimCell(Message("late, by hand"), "cmp-reclaim-pt", "hand"),
            ClaimCell(Message("by itself, slowly"), "cmp-reclaim-tf", "later"),
        ],
    ),
]
TABLES = (
    DocumentTable("modes", Message("TensorFlow's modes"), (Message("mode"), STATEMENT), _MODES),
    DocumentTable(
        "comparison",
        Message("TensorFlow against PyTorch"),
        (Message("item"), "PyTorch", "TensorFlow"),
        _COMPARISON,
    ),
)
