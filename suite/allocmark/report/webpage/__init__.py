"""The page as one HTML file that needs no network: its writer, words, templates and script."""

from allocmark.report.webpage.writer import place, render

__all__ = ["place", "render"]
