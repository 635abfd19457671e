"""Errors as a person is told them."""

from __future__ import annotations

from allocmark.system.errors import AllocmarkError, NoGpuError


def sentence(error: AllocmarkError) -> str:
    """Return what is written to standard error: one sentence, and who says it."""
    return f"allocmark: {reason(error)}"


def reason(error: AllocmarkError) -> str:
    """Return one sentence, with a way out where there is no GPU to measure."""
    if isinstance(error, NoGpuError):
        return f"{error} (allocmark emulate -- COMMAND)"
    return str(error)
