"""From the store to tables and pictures for people."""

from allocmark.report.build import FORMATS, render_markdown, write_report

__all__ = ["FORMATS", "render_markdown", "write_report"]
