"""Section 3.1 of the source document, row by row, with the figures to show."""

from __future__ import annotations

from allocmark.report.document_table import STATEMENT, DocumentTable, statements
from allocmark.system.message import Message

TITLE = Message("3.1 The context")
ORDER = 30
OF_DOCUMENT = True

_STATEMENTS = statements(
    (
        Message("creation"),
        Message("any CUDA use first creates a context, which takes memory"),
        "ctx-exists",
        "context",
    ),
    (Message("trigger"), Message("any CUDA call creates it"), "ctx-trigger", "creating"),
    (
        Message("contents"),
        Message("memory management, streams, modules"),
        "ctx-contents",
        "modules",
    ),
    (Message("size"), Message("large enough to matter"), "ctx-ignored", "bare"),
    (Message("cause"), Message("tables and metadata for allocations"), "ctx-cause", "bookkeeping"),
)
TABLES = (
    DocumentTable(
        "context",
        Message("Statements about the CUDA context"),
        (Message("context"), STATEMENT),
        _STATEMENTS,
    ),
)
