"""The whole site in one folder: docs, report, asv's site of the history, and all figures as CSV."""

from allocmark.publish.site import Sources, build

__all__ = ["Sources", "build"]
