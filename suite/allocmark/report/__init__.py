"""From the store to tables and pictures for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocmark.report.build import FORMATS, render_markdown, write_pages, write_report

__all__ = ["FORMATS", "render_markdown", "write_pages", "write_report"]


def __getattr__(name: str) -> Any:
    """Return one of these names; pandas and the templates are loaded by who writes a report."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from allocmark.report import build

    return getattr(build, name)
