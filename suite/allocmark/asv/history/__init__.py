"""Results over time: a derived asv database whose commits are stacks."""

from allocmark.asv.history.database import build, publish

__all__ = ["build", "publish"]
